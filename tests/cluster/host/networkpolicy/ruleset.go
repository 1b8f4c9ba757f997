package networkpolicy

import (
	"fmt"
	"slices"
	"strings"
)

// Table is the nftables table with the rules.
const Table = "network-policies"

// APIServerGroup is the group of the API server's process. By this group the rules recognize
// connections of the API server among the node's.
const APIServerGroup = 6443

// Cluster has the objects from which the rules follow, in any order that equal clusters share.
type Cluster struct {
	Policies   []Policy
	Pods       []Pod
	Namespaces []Namespace
}

// direction is one of the two directions of connections, with the nftables fields of the pod's own
// address and of its peer's.
type direction struct {
	name, policyType, own, peer string
}

var (
	ingress = direction{"ingress", "Ingress", "ip daddr", "ip saddr"}
	egress  = direction{"egress", "Egress", "ip saddr", "ip daddr"}
)

// chain has the rules of one pod in one direction. A packet that matches a rule returns to the
// calling chain; any other is dropped.
type chain struct {
	name    string
	address string
	rules   []string
	// owner is the pod, for display.
	owner string
}

// Ruleset returns the rules as input of nft, which replaces the previous rules in one transaction.
// Equal clusters have equal rule sets.
//
// The chains have the hooks of packets that the node forwards, and of packets to the node itself. A
// packet between two pods passes the first one behind the rules of kube-proxy, so its destination
// is a pod and not a Service. Of the packets from the node only those of the API server are
// checked, as if it ran on another node; the kubelet's probes pass.
func (c Cluster) Ruleset() string {
	in, out := c.chains(ingress), c.chains(egress)
	var text strings.Builder
	// The table of before must exist for its deletion.
	fmt.Fprintf(&text, "table ip %s\ndelete table ip %s\ntable ip %s {\n", Table, Table, Table)
	for _, chain := range append(slices.Clone(out), in...) {
		chain.write(&text)
	}
	writeHook(&text, "forward", dispatch("", egress, out), dispatch("", ingress, in))
	writeHook(&text, "input", dispatch("", egress, out))
	writeHook(&text, "output", dispatch(fmt.Sprintf("meta skgid %d", APIServerGroup), ingress, in))
	text.WriteString("}\n")
	return text.String()
}

func (c chain) write(text *strings.Builder) {
	fmt.Fprintf(text, "  chain %s {\n", c.name)
	for _, rule := range c.rules {
		fmt.Fprintf(text, "    %s\n", join(rule, "return"))
	}
	fmt.Fprintf(text, "    counter drop comment %q\n  }\n", c.owner)
}

func writeHook(text *strings.Builder, hook string, rules ...string) {
	fmt.Fprintf(text, "  chain %s {\n    type filter hook %s priority filter; policy accept;\n", hook, hook)
	text.WriteString("    ct state established,related accept\n")
	for _, rule := range rules {
		text.WriteString(rule)
	}
	text.WriteString("  }\n")
}

// dispatch returns the rule that leads packets of isolated pods to their chains, by one lookup; the
// condition restricts it.
func dispatch(condition string, d direction, chains []chain) string {
	if len(chains) == 0 {
		return ""
	}
	var elements []string
	for _, chain := range chains {
		elements = append(elements, chain.address+" : jump "+chain.name)
	}
	return fmt.Sprintf("    %s vmap { %s }\n", join(condition, d.own), strings.Join(elements, ", "))
}

// chains returns the chains of all pods that are isolated in this direction: those that a policy
// selects.
func (c Cluster) chains(d direction) []chain {
	var chains []chain
	for _, pod := range c.Pods {
		address := ipv4(pod.address())
		policies := c.selecting(pod, d)
		if address == "" || len(policies) == 0 {
			continue
		}
		// A pod cannot be cut off from itself.
		rules := []string{d.peer + " " + address}
		for _, policy := range policies {
			for _, rule := range d.rulesOf(policy) {
				rules = append(rules, c.matches(rule, d, policy.Metadata.Namespace, pod)...)
			}
		}
		// A comment has at most 128 bytes.
		owner := pod.Metadata.Key()
		owner = owner[:min(len(owner), 120)]
		chains = append(chains, chain{d.name + "-" + address, address, unique(rules), owner})
	}
	slices.SortStableFunc(chains, func(a, b chain) int { return strings.Compare(a.name, b.name) })
	// Two pods have one address while the kubelet has not yet reported the end of the first one.
	return slices.CompactFunc(chains, func(a, b chain) bool { return a.name == b.name })
}

// selecting returns the policies that isolate a pod in a direction.
func (c Cluster) selecting(pod Pod, d direction) []Policy {
	var selecting []Policy
	for _, policy := range c.Policies {
		if policy.Metadata.Namespace == pod.Metadata.Namespace && d.appliesTo(policy) && policy.Spec.PodSelector.matches(pod.Metadata.Labels) {
			selecting = append(selecting, policy)
		}
	}
	return selecting
}

// appliesTo reports whether a policy isolates in this direction. The API server fills in the types
// that a policy leaves out.
func (d direction) appliesTo(policy Policy) bool {
	return slices.Contains(policy.Spec.PolicyTypes, d.policyType)
}

func (d direction) rulesOf(policy Policy) []Rule {
	if d == ingress {
		return policy.Spec.Ingress
	}
	return policy.Spec.Egress
}

func (d direction) peersOf(rule Rule) []Peer {
	if d == ingress {
		return rule.From
	}
	return rule.To
}

// unique removes equal rules and keeps the order.
func unique(rules []string) []string {
	var kept []string
	for _, rule := range rules {
		if !slices.Contains(kept, rule) {
			kept = append(kept, rule)
		}
	}
	return kept
}
