package node

import (
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rouse.dev/cluster/host/networkpolicy"
	"rouse.dev/cluster/host/state"
)

func config(t *testing.T) Config {
	t.Helper()
	return Config{
		Dir:         state.Dir{Name: "test", Path: filepath.Join(t.TempDir(), "test")},
		Kubernetes:  "/cache/kubernetes",
		Pause:       Image{Name: "pause:v1", File: "/cache/pause.tar"},
		CNIPlugins:  "/plugins",
		Snapshotter: "overlayfs",
		Settings: Settings{
			HPASyncPeriod:          2 * time.Second,
			KubeProxyMinSyncPeriod: 20 * time.Millisecond,
			FeatureGates:           map[string]bool{"B": false, "A": true},
			Arguments:              map[string][]string{"kube-apiserver": {"--v=4", "--event-ttl=5m"}, "etcd": {"--max-txn-ops=9"}},
		},
	}
}

func TestUsersArgumentsComeLast(t *testing.T) {
	c := config(t)
	args := c.apiServer().args
	if got := args[len(args)-3:]; !slices.Equal(got, []string{"--feature-gates=A=true,B=false", "--v=4", "--event-ttl=5m"}) {
		t.Errorf("API server: %v", got)
	}
	if args := c.etcd().args; args[len(args)-1] != "--max-txn-ops=9" {
		t.Errorf("etcd: %v", args)
	}
	if args := c.kubelet().args; args[len(args)-1] != "--feature-gates=A=true,B=false" {
		t.Errorf("kubelet: %v", args)
	}
}

// Without root, processes cannot change their groups.
func TestAPIServerHasGroupOfItsOwnWithNetworkPolicies(t *testing.T) {
	c := config(t)
	if attributes := c.apiServer().command(nil).SysProcAttr; attributes != nil {
		t.Errorf("without: %v", attributes)
	}
	c.NetworkPolicies = true
	if attributes := c.apiServer().command(nil).SysProcAttr; attributes == nil || attributes.Credential.Gid != networkpolicy.APIServerGroup {
		t.Errorf("with: %v", attributes)
	}
}

func TestSettingsReachTheirComponents(t *testing.T) {
	c := config(t)
	if !slices.Contains(c.controllerManager().args, "--horizontal-pod-autoscaler-sync-period=2s") {
		t.Errorf("controller manager: %v", c.controllerManager().args)
	}
	if err := c.Write(); err != nil {
		t.Fatal(err)
	}
	for file, wants := range map[string][]string{
		"kube-proxy.yaml":   {"minSyncPeriod: 20ms", "mode: nftables", "  A: true\n  B: false"},
		"kubelet.yaml":      {"cgroupRoot: ", "clusterDNS: [10.96.0.10]", c.Dir.PKI("kubelet.crt")},
		"containerd.toml":   {`sandbox_image = "pause:v1"`, `bin_dir = "/plugins"`, `root = "` + c.Dir.Containerd() + `"`},
		"cni/pods.conflist": {`"type": "ptp"`, `"subnet": "10.244.0.0/24"`},
	} {
		content, err := os.ReadFile(c.Dir.Components(file))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(string(content), want) {
				t.Errorf("%s lacks %q:\n%s", file, want, content)
			}
		}
		if strings.Contains(string(content), "<no value>") {
			t.Errorf("%s has an empty template value:\n%s", file, content)
		}
		if filepath.Ext(file) == ".conflist" && !json.Valid(content) {
			t.Errorf("%s is not JSON:\n%s", file, content)
		}
	}
}

func TestConfigRoundTrips(t *testing.T) {
	c := config(t)
	if err := c.Write(); err != nil {
		t.Fatal(err)
	}
	read, err := Read(c.Dir)
	if err != nil {
		t.Fatal(err)
	}
	want, _ := json.Marshal(c)
	if got, _ := json.Marshal(read); string(got) != string(want) {
		t.Errorf("read %s\nwant %s", got, want)
	}
}

// exec and port-forward close one direction and continue with the other.
func TestForwardForwardsTheEndOfOneDirection(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		connection, err := server.Accept()
		if err != nil {
			return
		}
		defer connection.Close()
		request, _ := io.ReadAll(connection) // returns only after the client's end was forwarded
		_, _ = connection.Write(append([]byte("got "), request...))
	}()
	host, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	go func() { _ = forward(host, server.Addr().String()) }()
	client, err := net.Dial("tcp", host.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_ = client.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := client.Write([]byte("this")); err != nil {
		t.Fatal(err)
	}
	if err := client.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if response, err := io.ReadAll(client); err != nil || string(response) != "got this" {
		t.Errorf("%q %v", response, err)
	}
}

func TestFurtherNodesHaveNamesAddressesAndZonesOfTheirOwn(t *testing.T) {
	c := config(t)
	c.Nodes, c.Zones = 3, []string{"a", "b"}
	c = c.First()
	if names := c.NodeNames(); !slices.Equal(names, []string{"node1", "node2", "node3"}) {
		t.Errorf("names %v", names)
	}
	if err := c.Write(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct{ ip, pods, zone string }{
		{"10.80.0.1", "10.244.0.0/24", "a"}, {"10.80.0.2", "10.244.1.0/24", "b"}, {"10.80.0.3", "10.244.2.0/24", "a"},
	} {
		one := append([]Config{c}, c.further()...)[i]
		args := strings.Join(one.kubelet().args, " ")
		for _, argument := range []string{"--node-ip=" + want.ip, "--hostname-override=" + one.Node.Name(), "/zone=" + want.zone} {
			if !strings.Contains(args, argument) {
				t.Errorf("kubelet of %s lacks %s: %s", one.Node.Name(), argument, args)
			}
		}
		for file, part := range map[string]string{
			one.Dir.Components("cni/pods.conflist"): want.pods,
			one.Dir.Components("kubelet.yaml"):      "address: " + want.ip,
			one.Dir.Components("kube-proxy.yaml"):   "clusterCIDR: 10.244.0.0/16",
			one.Dir.PKI("kubelet.kubeconfig"):       "system:node:" + one.Node.Name(),
		} {
			if content, err := os.ReadFile(file); err != nil || !strings.Contains(string(content), part) {
				t.Errorf("%s lacks %q (%v):\n%s", file, part, err, content)
			}
		}
		if read, err := Read(one.Dir); err != nil || read.Node != one.Node {
			t.Errorf("read %+v, %v", read.Node, err)
		}
	}
	if _, err := os.Stat(c.further()[0].Dir.PKI("ca.key")); !os.IsNotExist(err) {
		t.Errorf("a further node has the CA's key: %v", err)
	}
}

func TestOneNodeHasNoZoneAndNoFurtherNodes(t *testing.T) {
	c := config(t).First()
	if further := c.further(); len(further) != 0 {
		t.Errorf("further nodes %+v", further)
	}
	if args := strings.Join(c.kubelet().args, " "); strings.Contains(args, "--node-labels") {
		t.Errorf("kubelet: %s", args)
	}
}
