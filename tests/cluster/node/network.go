package node

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
)

// connect assigns the node's address in the cluster's network namespace.
//
// The address is on one end of a veth pair whose other end is in the same namespace: the kernel
// needs an interface that is up, and not every kernel has dummy interfaces. The default route has
// no gateway. Without it the node could not reach Services, because an address is routed before
// kube-proxy's rules rewrite it.
func connect() error {
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find the loopback interface: %w", err)
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name = "node"
	pair := &netlink.Veth{LinkAttrs: attributes, PeerName: "node-peer"}
	if err := netlink.LinkAdd(pair); err != nil {
		return fmt.Errorf("add the node's interface: %w", err)
	}
	peer, err := netlink.LinkByName(pair.PeerName)
	if err != nil {
		return fmt.Errorf("find the peer of the node's interface: %w", err)
	}
	address, err := netlink.ParseAddr(nodeCIDR)
	if err != nil {
		return err
	}
	if err := netlink.AddrAdd(pair, address); err != nil {
		return fmt.Errorf("give the node its address: %w", err)
	}
	for _, link := range []netlink.Link{loopback, peer, pair} {
		if err := netlink.LinkSetUp(link); err != nil {
			return fmt.Errorf("bring %s up: %w", link.Attrs().Name, err)
		}
	}
	_, everything, _ := net.ParseCIDR("0.0.0.0/0")
	if err := netlink.RouteAdd(&netlink.Route{LinkIndex: pair.Attrs().Index, Dst: everything}); err != nil {
		return fmt.Errorf("add the node's default route: %w", err)
	}
	return nil
}

// allowForwarding enables forwarding of pods' packets in this network namespace, and kube-proxy's
// rules for packets between pods of one bridge.
func allowForwarding() error {
	for _, name := range []string{"ipv4/ip_forward", "bridge/bridge-nf-call-iptables", "bridge/bridge-nf-call-ip6tables"} {
		err := os.WriteFile(filepath.Join("/proc/sys/net", name), []byte("1"), 0)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the kernel has no net/%s; load the module br_netfilter", name)
		}
		if err != nil {
			return fmt.Errorf("set net/%s: %w", name, err)
		}
	}
	return nil
}
