package networkpolicy

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// pods are the pods of all tests: NAMESPACE/NAME, labels as JSON, address.
var pods = []struct{ namespace, name, labels, address string }{
	{"shop", "web", `{"app": "web"}`, "10.244.0.2"},
	{"shop", "db", `{"app": "db", "tier": "data"}`, "10.244.0.3"},
	{"monitoring", "prometheus", `{"app": "prometheus"}`, "10.244.0.4"},
	{"monitoring", "web", `{"app": "web"}`, "10.244.0.5"},
}

const ports = `[{"name": "http", "containerPort": 8080}, {"name": "dns", "protocol": "UDP", "containerPort": 1053}]`

func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var decoded T
	if err := json.Unmarshal([]byte(text), &decoded); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return decoded
}

// cluster returns the pods, two namespaces with labels, and these policies of the namespace shop.
func cluster(t *testing.T, specs ...string) Cluster {
	t.Helper()
	var c Cluster
	for _, pod := range pods {
		c.Pods = append(c.Pods, decode[Pod](t, `{
			"metadata": {"namespace": "`+pod.namespace+`", "name": "`+pod.name+`", "labels": `+pod.labels+`},
			"spec": {"containers": [{"ports": `+ports+`}]},
			"status": {"phase": "Running", "podIP": "`+pod.address+`"}}`))
	}
	for _, name := range []string{"shop", "monitoring"} {
		c.Namespaces = append(c.Namespaces, decode[Namespace](t, `{"metadata": {"name": "`+name+`", "labels": {"name": "`+name+`"}}}`))
	}
	for _, spec := range specs {
		c.Policies = append(c.Policies, decode[Policy](t, `{"metadata": {"namespace": "shop", "name": "policy"}, "spec": `+spec+`}`))
	}
	return c
}

// rulesOf returns the rules of a chain without those that every chain has, or nil without the chain.
func rulesOf(t *testing.T, c Cluster, name string) []string {
	t.Helper()
	_, after, found := strings.Cut(c.Ruleset(), "  chain "+name+" {\n")
	if !found {
		return nil
	}
	body, _, _ := strings.Cut(after, "  }\n")
	lines := strings.Split(strings.TrimSpace(body), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	if own := lines[0]; !strings.HasSuffix(own, " "+name[strings.Index(name, "-")+1:]+" return") {
		t.Errorf("the first rule of %s is not for the pod itself: %s", name, own)
	}
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "counter drop comment ") {
		t.Errorf("the last rule of %s is %s", name, last)
	}
	return lines[1 : len(lines)-1]
}

func TestRulesOfIngressAndEgress(t *testing.T) {
	const web = "10.244.0.2"
	for _, test := range []struct {
		name string
		// rule is a rule of the policy that selects the pod `web` of the namespace shop.
		rule string
		// ingress and egress are the rules for `web` with the rule's PEERS as `from` or `to`.
		ingress, egress []string
	}{
		{"all", `{}`, []string{"return"}, []string{"return"}},
		{"pods of the namespace", `{"PEERS": [{"podSelector": {"matchLabels": {"tier": "data"}}}]}`,
			[]string{"ip saddr { 10.244.0.3 } return"}, []string{"ip daddr { 10.244.0.3 } return"}},
		{"all pods of the namespace", `{"PEERS": [{"podSelector": {}}]}`,
			[]string{"ip saddr { 10.244.0.2, 10.244.0.3 } return"}, []string{"ip daddr { 10.244.0.2, 10.244.0.3 } return"}},
		{"a namespace", `{"PEERS": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]}`,
			[]string{"ip saddr { 10.244.0.4, 10.244.0.5 } return"}, []string{"ip daddr { 10.244.0.4, 10.244.0.5 } return"}},
		{"all namespaces", `{"PEERS": [{"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "web"}}}]}`,
			[]string{"ip saddr { 10.244.0.2, 10.244.0.5 } return"}, []string{"ip daddr { 10.244.0.2, 10.244.0.5 } return"}},
		{"pods of a namespace", `{"PEERS": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}, "podSelector": {"matchLabels": {"app": "web"}}}]}`,
			[]string{"ip saddr { 10.244.0.5 } return"}, []string{"ip daddr { 10.244.0.5 } return"}},
		{"either of two peers", `{"PEERS": [{"podSelector": {"matchLabels": {"app": "db"}}}, {"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]}`,
			[]string{"ip saddr { 10.244.0.3, 10.244.0.4, 10.244.0.5 } return"}, []string{"ip daddr { 10.244.0.3, 10.244.0.4, 10.244.0.5 } return"}},
		{"no pod is selected", `{"PEERS": [{"podSelector": {"matchLabels": {"app": "none"}}}]}`, []string{}, []string{}},
		{"a block", `{"PEERS": [{"ipBlock": {"cidr": "10.80.0.1/16", "except": ["10.80.3.0/24", "10.80.4.0/24"]}}]}`,
			[]string{"ip saddr 10.80.0.0/16 ip saddr != 10.80.3.0/24 ip saddr != 10.80.4.0/24 return"},
			[]string{"ip daddr 10.80.0.0/16 ip daddr != 10.80.3.0/24 ip daddr != 10.80.4.0/24 return"}},
		{"a block of IPv6", `{"PEERS": [{"ipBlock": {"cidr": "fd00::/8"}}]}`, []string{}, []string{}},
		{"ports", `{"ports": [{"protocol": "TCP", "port": 80}, {"protocol": "UDP", "port": 53}, {"port": 443}]}`,
			[]string{"tcp dport 80 return", "udp dport 53 return", "tcp dport 443 return"},
			[]string{"tcp dport 80 return", "udp dport 53 return", "tcp dport 443 return"}},
		{"a range", `{"ports": [{"port": 20000, "endPort": 29999}]}`,
			[]string{"tcp dport 20000-29999 return"}, []string{"tcp dport 20000-29999 return"}},
		{"a protocol", `{"ports": [{"protocol": "SCTP"}]}`, []string{"meta l4proto sctp return"}, []string{"meta l4proto sctp return"}},
		{"peers and ports", `{"PEERS": [{"podSelector": {"matchLabels": {"app": "db"}}}, {"ipBlock": {"cidr": "0.0.0.0/0"}}], "ports": [{"port": 1}, {"port": 2}]}`,
			[]string{"ip saddr 0.0.0.0/0 tcp dport 1 return", "ip saddr 0.0.0.0/0 tcp dport 2 return", "ip saddr { 10.244.0.3 } tcp dport 1 return", "ip saddr { 10.244.0.3 } tcp dport 2 return"},
			[]string{"ip daddr 0.0.0.0/0 tcp dport 1 return", "ip daddr 0.0.0.0/0 tcp dport 2 return", "ip daddr { 10.244.0.3 } tcp dport 1 return", "ip daddr { 10.244.0.3 } tcp dport 2 return"}},
		// A name is one of the destination: of `web` itself, or in egress of each peer.
		{"named ports", `{"PEERS": [{"podSelector": {"matchLabels": {"app": "db"}}}], "ports": [{"port": "http"}, {"port": "dns", "protocol": "UDP"}, {"port": "other"}]}`,
			[]string{"ip saddr { 10.244.0.3 } tcp dport 8080 return", "ip saddr { 10.244.0.3 } udp dport 1053 return"},
			[]string{"ip daddr 10.244.0.3 tcp dport 8080 return", "ip daddr 10.244.0.3 udp dport 1053 return"}},
		{"a named port in a block", `{"PEERS": [{"ipBlock": {"cidr": "10.244.0.0/29", "except": ["10.244.0.4/31"]}}], "ports": [{"port": "http"}]}`,
			[]string{"ip saddr 10.244.0.0/29 ip saddr != 10.244.0.4/31 tcp dport 8080 return"},
			[]string{"ip daddr 10.244.0.2 tcp dport 8080 return", "ip daddr 10.244.0.3 tcp dport 8080 return"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			in, out := strings.ReplaceAll(test.rule, "PEERS", "from"), strings.ReplaceAll(test.rule, "PEERS", "to")
			c := cluster(t, `{"podSelector": {"matchLabels": {"app": "web"}}, "policyTypes": ["Ingress", "Egress"], "ingress": [`+in+`], "egress": [`+out+`]}`)
			if got := rulesOf(t, c, "ingress-"+web); !slices.Equal(got, test.ingress) {
				t.Errorf("ingress:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.ingress, "\n"))
			}
			if got := rulesOf(t, c, "egress-"+web); !slices.Equal(got, test.egress) {
				t.Errorf("egress:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.egress, "\n"))
			}
		})
	}
}

// A policy isolates the pods that it selects in its own namespace, in the directions of its types.
func TestIsolatedPods(t *testing.T) {
	chains := func(c Cluster) []string {
		var names []string
		for _, name := range []string{"ingress", "egress"} {
			for _, pod := range pods {
				if rulesOf(t, c, name+"-"+pod.address) != nil {
					names = append(names, name+" "+pod.namespace+"/"+pod.name)
				}
			}
		}
		return names
	}
	for _, test := range []struct {
		name, spec string
		want       []string
	}{
		{"all pods", `{"podSelector": {}, "policyTypes": ["Ingress"]}`, []string{"ingress shop/web", "ingress shop/db"}},
		{"egress alone", `{"podSelector": {}, "policyTypes": ["Egress"], "ingress": [{}]}`, []string{"egress shop/web", "egress shop/db"}},
		{"by an expression", `{"podSelector": {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}, "policyTypes": ["Ingress", "Egress"]}`,
			[]string{"ingress shop/db", "egress shop/db"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := chains(cluster(t, test.spec)); !slices.Equal(got, test.want) {
				t.Errorf("%v, want %v", got, test.want)
			}
		})
	}
	if got := chains(cluster(t)); len(got) != 0 {
		t.Errorf("without a policy: %v", got)
	}
}

func TestRulesOfTwoPoliciesAddUp(t *testing.T) {
	c := cluster(t,
		`{"podSelector": {}, "policyTypes": ["Ingress"]}`,
		`{"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"ports": [{"port": 80}]}]}`,
		`{"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"ports": [{"port": 80}, {"port": 81}]}]}`,
	)
	if got := rulesOf(t, c, "ingress-10.244.0.3"); !slices.Equal(got, []string{"tcp dport 80 return", "tcp dport 81 return"}) {
		t.Errorf("%v", got)
	}
}

// Pods without an address of their own are neither isolated nor peers.
func TestPodsWithoutOwnAddress(t *testing.T) {
	for name, change := range map[string]func(*Pod){
		"host network": func(p *Pod) { p.Spec.HostNetwork = true },
		"ended":        func(p *Pod) { p.Status.Phase = "Succeeded" },
		"failed":       func(p *Pod) { p.Status.Phase = "Failed" },
		"no address":   func(p *Pod) { p.Status.PodIP = "" },
		"IPv6":         func(p *Pod) { p.Status.PodIP = "fd00::1" },
	} {
		t.Run(name, func(t *testing.T) {
			c := cluster(t, `{"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": [{"podSelector": {}}]}]}`)
			change(&c.Pods[0])
			if got := rulesOf(t, c, "ingress-10.244.0.2"); got != nil {
				t.Errorf("isolated: %v", got)
			}
			if got := rulesOf(t, c, "ingress-10.244.0.3"); !slices.Equal(got, []string{"ip saddr { 10.244.0.3 } return"}) {
				t.Errorf("peers: %v", got)
			}
		})
	}
}

// A sidecar is an init container that stays; its ports count, and the ports of other init
// containers do not.
func TestNamedPortOfSidecar(t *testing.T) {
	sidecar := decode[Pod](t, `{"spec": {"containers": [{}], "initContainers": [
		{"ports": [{"name": "http", "containerPort": 1}]},
		{"restartPolicy": "Always", "ports": [{"name": "http", "containerPort": 8012}]}]}}`)
	if got := sidecar.port("http", "tcp"); got != 8012 {
		t.Errorf("port %d", got)
	}
}

func TestRulesetHasOneLookupPerDirection(t *testing.T) {
	text := cluster(t, `{"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}`).Ruleset()
	for _, want := range []string{
		"  chain forward {\n    type filter hook forward priority filter; policy accept;\n    ct state established,related accept\n" +
			"    ip saddr vmap { 10.244.0.2 : jump egress-10.244.0.2, 10.244.0.3 : jump egress-10.244.0.3 }\n" +
			"    ip daddr vmap { 10.244.0.2 : jump ingress-10.244.0.2, 10.244.0.3 : jump ingress-10.244.0.3 }\n",
		"  chain input {\n    type filter hook input priority filter; policy accept;\n    ct state established,related accept\n" +
			"    ip saddr vmap { 10.244.0.2 : jump egress-10.244.0.2, 10.244.0.3 : jump egress-10.244.0.3 }\n  }\n",
		"  chain output {\n    type filter hook output priority filter; policy accept;\n    ct state established,related accept\n" +
			"    meta skgid 6443 ip daddr vmap { 10.244.0.2 : jump ingress-10.244.0.2, 10.244.0.3 : jump ingress-10.244.0.3 }\n  }\n",
		`counter drop comment "shop/web"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks\n%s\nin\n%s", want, text)
		}
	}
	if again := cluster(t, `{"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}`).Ruleset(); again != text {
		t.Errorf("a second time:\n%s", again)
	}
}

func TestSelectorOperators(t *testing.T) {
	labels := map[string]string{"app": "web"}
	for _, test := range []struct {
		requirement string
		want        bool
	}{
		{`{"key": "app", "operator": "In", "values": ["db", "web"]}`, true},
		{`{"key": "app", "operator": "In", "values": ["db"]}`, false},
		{`{"key": "tier", "operator": "In", "values": ["db"]}`, false},
		{`{"key": "app", "operator": "NotIn", "values": ["web"]}`, false},
		{`{"key": "tier", "operator": "NotIn", "values": ["web"]}`, true},
		{`{"key": "app", "operator": "Exists"}`, true},
		{`{"key": "app", "operator": "DoesNotExist"}`, false},
		{`{"key": "tier", "operator": "DoesNotExist"}`, true},
		{`{"key": "app", "operator": "Unknown"}`, false},
	} {
		if got := decode[Requirement](t, test.requirement).matches(labels); got != test.want {
			t.Errorf("%s: %t", test.requirement, got)
		}
	}
}
