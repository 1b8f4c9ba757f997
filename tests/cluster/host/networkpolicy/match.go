package networkpolicy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// matches returns the nftables expressions of the packets that a rule allows. `pod` is the pod that
// the rule's policy selects, and `namespace` the policy's namespace.
func (c Cluster) matches(rule Rule, d direction, namespace string, pod Pod) []string {
	var matches []string
	for _, peer := range c.peers(d.peersOf(rule), namespace) {
		for _, port := range c.ports(rule.Ports, d, peer, pod) {
			matches = append(matches, join(peer.expression(d.peer, port.of), port.expression))
		}
	}
	return matches
}

// join joins the parts of an expression. The empty expression matches every packet.
func join(parts ...string) string {
	return strings.TrimSpace(strings.Join(parts, " "))
}

// peers is one set of addresses: pods, a block, or with neither all addresses.
type peers struct {
	pods  []Pod
	block *block
}

// block is an IPBlock of IPv4.
type block struct {
	cidr   netip.Prefix
	except []netip.Prefix
}

// peers returns the sets of a rule's peers. Selectors without a matching pod, and blocks of IPv6,
// yield none.
func (c Cluster) peers(of []Peer, namespace string) []peers {
	if len(of) == 0 {
		return []peers{{}}
	}
	var all []peers
	var selected []Pod
	for _, peer := range of {
		if peer.IPBlock == nil {
			selected = append(selected, c.selected(peer, namespace)...)
		} else if block := parse(*peer.IPBlock); block != nil {
			all = append(all, peers{block: block})
		}
	}
	if len(selected) > 0 {
		all = append(all, peers{pods: selected})
	}
	return all
}

// selected returns the pods with an address that a peer selects.
func (c Cluster) selected(peer Peer, namespace string) []Pod {
	within := map[string]bool{namespace: true}
	if peer.NamespaceSelector != nil {
		clear(within)
		for _, other := range c.Namespaces {
			within[other.Metadata.Name] = peer.NamespaceSelector.matches(other.Metadata.Labels)
		}
	}
	var selected []Pod
	for _, pod := range c.Pods {
		matches := peer.PodSelector == nil || peer.PodSelector.matches(pod.Metadata.Labels)
		if matches && within[pod.Metadata.Namespace] && ipv4(pod.address()) != "" {
			selected = append(selected, pod)
		}
	}
	return selected
}

func parse(of IPBlock) *block {
	cidr, err := netip.ParsePrefix(of.CIDR)
	if err != nil || !cidr.Addr().Is4() {
		return nil
	}
	parsed := &block{cidr: cidr.Masked()}
	for _, except := range of.Except {
		if prefix, err := netip.ParsePrefix(except); err == nil && prefix.Addr().Is4() {
			parsed.except = append(parsed.except, prefix.Masked())
		}
	}
	return parsed
}

func (b block) contains(address netip.Addr) bool {
	within := func(prefix netip.Prefix) bool { return prefix.Contains(address) }
	return b.cidr.Contains(address) && !slices.ContainsFunc(b.except, within)
}

// expression matches the addresses by a field; `only` restricts them to one.
func (p peers) expression(field, only string) string {
	if only != "" {
		return field + " " + only
	}
	if p.block != nil {
		parts := []string{field + " " + p.block.cidr.String()}
		for _, except := range p.block.except {
			parts = append(parts, field+" != "+except.String())
		}
		return strings.Join(parts, " ")
	}
	if len(p.pods) == 0 {
		return ""
	}
	var addresses []string
	for _, pod := range p.pods {
		addresses = append(addresses, ipv4(pod.address()))
	}
	slices.Sort(addresses)
	return field + " { " + strings.Join(slices.Compact(addresses), ", ") + " }"
}

// port matches ports of the destination; `of` is the only destination that has it, if not empty.
type port struct {
	expression, of string
}

// ports returns the expressions of a rule's ports. A name stands for a port of the destination: of the
// selected pod, or in egress of each peer.
func (c Cluster) ports(of []Port, d direction, to peers, pod Pod) []port {
	if len(of) == 0 {
		return []port{{}}
	}
	var ports []port
	for _, wanted := range of {
		protocol := protocolOf(wanted.Protocol)
		switch {
		case wanted.Port == nil:
			ports = append(ports, port{expression: "meta l4proto " + protocol})
		case wanted.Port.Name == "":
			ports = append(ports, port{expression: numbers(protocol, wanted.Port.Number, wanted.EndPort)})
		case d == ingress:
			if number := pod.port(wanted.Port.Name, protocol); number != 0 {
				ports = append(ports, port{expression: numbers(protocol, number, 0)})
			}
		default:
			ports = append(ports, c.named(wanted.Port.Name, protocol, to)...)
		}
	}
	return ports
}

// named returns a named port of each peer that has it.
func (c Cluster) named(name, protocol string, to peers) []port {
	pods := to.pods
	if pods == nil {
		pods = c.Pods
	}
	var ports []port
	for _, pod := range pods {
		address, err := netip.ParseAddr(ipv4(pod.address()))
		number := pod.port(name, protocol)
		if err != nil || number == 0 || to.block != nil && !to.block.contains(address) {
			continue
		}
		ports = append(ports, port{expression: numbers(protocol, number, 0), of: address.String()})
	}
	return ports
}

func numbers(protocol string, first, last int) string {
	if last > first {
		return fmt.Sprintf("%s dport %d-%d", protocol, first, last)
	}
	return fmt.Sprintf("%s dport %d", protocol, first)
}

// protocolOf returns the protocol as nft spells it.
func protocolOf(protocol string) string {
	if protocol == "" {
		return "tcp"
	}
	return strings.ToLower(protocol)
}

// ipv4 returns an address if it is one of IPv4, which is all that the cluster's network has.
func ipv4(address string) string {
	parsed, err := netip.ParseAddr(address)
	if err != nil || !parsed.Is4() {
		return ""
	}
	return parsed.String()
}
