package node

import (
	"fmt"
	"net"
	"os"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const (
	// uplink is the interface with the node's address.
	uplink = "node"
	// switchName is the bridge between the nodes.
	switchName = "switch"
	// switchFile keeps the network namespace of the bridge. The namespace is its own, so that packets
	// between two nodes pass no rules of a third.
	switchFile = "/run/switch"
)

// switchOfFurther opens the switch before the mounts of a further node cover its file; nil for the
// first node.
func (c Config) switchOfFurther() (*os.File, error) {
	if !c.Node.isFurther() {
		return nil, nil
	}
	network, err := os.Open(switchFile)
	if err != nil {
		return nil, fmt.Errorf("open the network between the nodes: %w", err)
	}
	return network, nil
}

// makeSwitch creates the bridge between the nodes in a network namespace of its own.
func makeSwitch() (*os.File, error) {
	made := make(chan error, 1)
	go func() {
		// Never unlocked: the thread, which is in the new namespace, ends with the goroutine.
		runtime.LockOSThread()
		made <- makeSwitchInThread()
	}()
	if err := <-made; err != nil {
		return nil, fmt.Errorf("make the network between the nodes: %w", err)
	}
	return os.Open(switchFile)
}

func makeSwitchInThread() error {
	if err := os.WriteFile(switchFile, nil, 0o600); err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	if err := unix.Mount("/proc/thread-self/ns/net", switchFile, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name = switchName
	bridge := &netlink.Bridge{LinkAttrs: attributes}
	if err := netlink.LinkAdd(bridge); err != nil {
		return err
	}
	return netlink.LinkSetUp(bridge)
}

// connect assigns the node's address in its network namespace.
//
// The address is on one end of a veth pair: the kernel needs an interface that is up, and not every
// kernel has dummy interfaces. The other end is in the same namespace, or with several nodes at the
// switch. The default route has no gateway. Without it the node could not reach Services, because an
// address is routed before kube-proxy's rules rewrite it.
func (c Config) connect(network *os.File) error {
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find the loopback interface: %w", err)
	}
	if err := netlink.LinkSetUp(loopback); err != nil {
		return fmt.Errorf("bring lo up: %w", err)
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name = uplink
	pair := &netlink.Veth{LinkAttrs: attributes, PeerName: c.Node.Name()}
	if network != nil {
		defer network.Close()
		pair.PeerNamespace = netlink.NsFd(network.Fd())
	}
	ports, err := portsOf(network)
	if err != nil {
		return err
	}
	defer ports.Close()
	if err := plug(ports, pair, network != nil); err != nil {
		return err
	}
	address, err := netlink.ParseAddr(c.Node.IP() + "/24")
	if err != nil {
		return err
	}
	if err := netlink.AddrAdd(pair, address); err != nil {
		return fmt.Errorf("give the node its address: %w", err)
	}
	if err := netlink.LinkSetUp(pair); err != nil {
		return fmt.Errorf("bring %s up: %w", uplink, err)
	}
	return c.addRoutes(pair.Attrs().Index)
}

// portsOf returns access to the namespace of the other end.
func portsOf(network *os.File) (*netlink.Handle, error) {
	at := netns.None()
	if network != nil {
		at = netns.NsHandle(network.Fd())
	}
	ports, err := netlink.NewHandleAt(at)
	if err != nil {
		return nil, fmt.Errorf("enter the network between the nodes: %w", err)
	}
	return ports, nil
}

// plug adds the pair, and brings its other end up.
func plug(ports *netlink.Handle, pair *netlink.Veth, isSwitched bool) error {
	// That of a node that was stopped stays until the kernel has removed its namespace.
	if left, err := ports.LinkByName(pair.PeerName); err == nil {
		_ = ports.LinkDel(left)
	}
	if err := netlink.LinkAdd(pair); err != nil {
		return fmt.Errorf("add the node's interface: %w", err)
	}
	peer, err := ports.LinkByName(pair.PeerName)
	if err != nil {
		return fmt.Errorf("find the peer of the node's interface: %w", err)
	}
	if isSwitched {
		bridge, err := ports.LinkByName(switchName)
		if err == nil {
			err = ports.LinkSetMaster(peer, bridge)
		}
		if err != nil {
			return fmt.Errorf("plug %s into the switch: %w", pair.PeerName, err)
		}
	}
	if err := ports.LinkSetUp(peer); err != nil {
		return fmt.Errorf("bring %s up: %w", pair.PeerName, err)
	}
	return nil
}

// addRoutes adds the default route, and one to the pods of each other node.
func (c Config) addRoutes(link int) error {
	_, everything, _ := net.ParseCIDR("0.0.0.0/0")
	if err := netlink.RouteAdd(&netlink.Route{LinkIndex: link, Dst: everything}); err != nil {
		return fmt.Errorf("add the node's default route: %w", err)
	}
	for _, other := range c.identities() {
		if other.number() == c.Node.number() {
			continue
		}
		_, pods, err := net.ParseCIDR(other.PodCIDR())
		if err != nil {
			return err
		}
		if err := netlink.RouteAdd(&netlink.Route{LinkIndex: link, Dst: pods, Gw: net.ParseIP(other.IP())}); err != nil {
			return fmt.Errorf("add the route to %s: %w", other.Name(), err)
		}
	}
	return nil
}

// allowForwarding enables forwarding of pods' packets in this network namespace.
func allowForwarding() error {
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return fmt.Errorf("set net/ipv4/ip_forward: %w", err)
	}
	return nil
}
