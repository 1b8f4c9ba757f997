package networkpolicy

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	gateway = "10.244.0.1"
	// apiServer is a process of the node in the API server's group.
	apiServer = "api-server"
	// blockedAfter is long compared with a connection in this network, and short for a test.
	blockedAfter = 300 * time.Millisecond
)

// network is a pod network like the cluster's: a network namespace for each pod, and one for the
// node, which has a link and a route to each.
type network struct {
	*testing.T
	prefix string
}

func newNetwork(t *testing.T) network {
	t.Helper()
	if os.Getenv("CLUSTER_TEST") == "" {
		t.Skip("CLUSTER_TEST is not set")
	}
	n := network{t, fmt.Sprintf("network-policies-%d-", os.Getpid())}
	n.addNamespace(gateway)
	n.in(gateway, func() {
		if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
			n.Error(err)
		}
	})
	for _, pod := range pods {
		n.addPod(pod.address, n.prefix+gateway)
	}
	return n
}

func (n network) run(line string) {
	n.Helper()
	words := strings.Fields(line)
	if output, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		n.Fatalf("%s: %v\n%s", line, err, output)
	}
}

func (n network) addNamespace(address string) {
	n.run("ip netns add " + n.prefix + address)
	n.Cleanup(func() { _ = exec.Command("ip", "netns", "delete", n.prefix+address).Run() })
	n.run("ip -n " + n.prefix + address + " link set lo up")
}

func (n network) addPod(address, node string) {
	n.addNamespace(address)
	pod, link := n.prefix+address, "pod"+address[strings.LastIndex(address, ".")+1:]
	n.run("ip -n " + node + " link add " + link + " type veth peer name eth0 netns " + pod)
	n.run("ip -n " + node + " addr add " + gateway + "/32 dev " + link)
	n.run("ip -n " + node + " link set " + link + " up")
	n.run("ip -n " + node + " route add " + address + " dev " + link)
	n.run("ip -n " + pod + " addr add " + address + "/32 dev eth0")
	n.run("ip -n " + pod + " link set eth0 up")
	n.run("ip -n " + pod + " route add " + gateway + " dev eth0")
	n.run("ip -n " + pod + " route add default via " + gateway)
}

// in runs a function on a thread in the network namespace of an address. A socket stays in the
// namespace in which it was created.
func (n network) in(address string, then func()) {
	n.Helper()
	group := os.Getegid()
	if address == apiServer {
		address, group = gateway, APIServerGroup
	}
	entered := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		namespace, err := os.Open("/run/netns/" + n.prefix + address)
		if err == nil {
			defer namespace.Close()
			err = unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET)
		}
		if err == nil {
			err = unix.Setfsgid(group) // of this thread alone, unlike syscall.Setfsgid
		}
		entered <- err
		if err == nil {
			then()
		}
	}()
	<-done
	if err := <-entered; err != nil {
		n.Fatal(err)
	}
}

// serve echoes on a TCP port and on a UDP port of an address.
func (n network) serve(address string, tcp []string, udp ...string) {
	n.in(address, func() {
		for _, port := range tcp {
			listener, err := net.Listen("tcp4", address+":"+port)
			if err != nil {
				n.Error(err)
				return
			}
			n.Cleanup(func() { listener.Close() })
			go acceptAll(listener)
		}
		for _, port := range udp {
			socket, err := net.ListenPacket("udp4", address+":"+port)
			if err != nil {
				n.Error(err)
				return
			}
			n.Cleanup(func() { socket.Close() })
			go echoDatagrams(socket)
		}
	})
}

func acceptAll(listener net.Listener) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer connection.Close()
			_, _ = io.Copy(connection, connection)
		}()
	}
}

func echoDatagrams(socket net.PacketConn) {
	datagram := make([]byte, 16)
	for {
		length, from, err := socket.ReadFrom(datagram)
		if err != nil {
			return
		}
		_, _ = socket.WriteTo(datagram[:length], from)
	}
}

// dial connects from one address to another, or returns nil.
func (n network) dial(from, protocol, to string) (connection net.Conn) {
	n.in(from, func() {
		dialed, err := net.DialTimeout(protocol+"4", to, blockedAfter)
		if err == nil {
			connection = dialed
			n.Cleanup(func() { dialed.Close() })
		}
	})
	return connection
}

// passes reports whether an echo comes back.
func passes(connection net.Conn) bool {
	if connection == nil {
		return false
	}
	_ = connection.SetDeadline(time.Now().Add(blockedAfter))
	if _, err := connection.Write([]byte("x")); err != nil {
		return false
	}
	_, err := connection.Read(make([]byte, 1))
	return err == nil
}

func (n network) load(c Cluster) {
	n.Helper()
	var err error
	n.in(gateway, func() { err = Load(context.Background(), c.Ruleset()) })
	if err != nil {
		n.Fatal(err)
	}
}

// check compares which of these connections pass with what is wanted.
func (n network) check(wanted map[string]bool) {
	n.Helper()
	for line, want := range wanted {
		words := strings.Fields(line) // FROM PROTOCOL TO
		if got := passes(n.dial(words[0], words[1], words[2])); got != want {
			n.Errorf("%s: passes %t, want %t", line, got, want)
		}
	}
}

func TestPacketsFollowThePolicies(t *testing.T) {
	n := newNetwork(t)
	const web, db, prometheus, other = "10.244.0.2", "10.244.0.3", "10.244.0.4", "10.244.0.5"
	for _, pod := range pods {
		n.serve(pod.address, []string{"80", "81", "8080"}, "53", "1053")
	}
	n.serve(gateway, []string{"6443"})
	all := map[string]bool{}
	for _, from := range []string{web, db, prometheus, other, apiServer} {
		for _, to := range []string{"tcp " + web + ":80", "tcp " + db + ":81", "udp " + db + ":53", "tcp " + gateway + ":6443"} {
			all[from+" "+to] = true
		}
	}
	n.load(cluster(t))
	n.check(all)

	early := n.dial(prometheus, "tcp", db+":81")
	if !passes(early) {
		t.Error("no connection before the policies")
	}
	n.load(cluster(t,
		`{"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}`,
		`{"podSelector": {"matchLabels": {"app": "db"}}, "policyTypes": ["Ingress"], "ingress": [
			{"from": [{"podSelector": {"matchLabels": {"app": "web"}}}], "ports": [{"port": 80}, {"port": "http"}, {"port": "dns", "protocol": "UDP"}]},
			{"from": [{"ipBlock": {"cidr": "10.244.0.4/31", "except": ["10.244.0.5/32"]}}], "ports": [{"port": 80, "endPort": 81}]},
			{"from": [{"ipBlock": {"cidr": "10.244.0.1/32"}}], "ports": [{"port": 81}]}]}`,
		`{"podSelector": {"matchLabels": {"app": "web"}}, "policyTypes": ["Egress"], "egress": [
			{"to": [{"podSelector": {"matchLabels": {"app": "db"}}}]},
			{"to": [{"ipBlock": {"cidr": "10.244.0.1/32"}}], "ports": [{"port": 6443}]}]}`,
	))
	n.check(map[string]bool{
		web + " tcp " + db + ":80":               true,
		web + " tcp " + db + ":8080":             true,
		web + " udp " + db + ":1053":             true,
		web + " tcp " + db + ":81":               false, // no port of its rule
		web + " udp " + db + ":53":               false,
		web + " tcp " + gateway + ":6443":        true,
		db + " tcp " + gateway + ":6443":         false, // no egress
		db + " tcp " + prometheus + ":80":        false,
		prometheus + " tcp " + db + ":81":        true, // a range in a block
		other + " tcp " + db + ":81":             false,
		prometheus + " tcp " + web + ":80":       false, // no ingress
		prometheus + " tcp " + other + ":80":     true,  // not isolated
		gateway + " tcp " + db + ":8080":         true,  // a probe of the node
		gateway + " tcp " + web + ":80":          true,
		apiServer + " tcp " + web + ":80":        false, // no probe, and no ingress
		apiServer + " tcp " + db + ":80":         false,
		apiServer + " tcp " + db + ":81":         true,
		apiServer + " tcp " + prometheus + ":80": true,
		db + " tcp " + db + ":81":                true, // a pod itself
		prometheus + " tcp " + gateway + ":6443": true,
	})

	n.load(cluster(t, `{"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}`))
	if !passes(early) {
		t.Error("a policy ended an established connection")
	}
	n.check(map[string]bool{prometheus + " tcp " + db + ":81": false, web + " tcp " + db + ":80": false})
	n.load(cluster(t))
	n.check(all)
}
