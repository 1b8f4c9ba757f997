package node

import (
	"os"
	"slices"
	"strings"
	"testing"
)

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
			one.Dir.Components("cni/bridge.conflist"): want.pods,
			one.Dir.Components("kubelet.yaml"):        "address: " + want.ip,
			one.Dir.Components("kube-proxy.yaml"):     "clusterCIDR: 10.244.0.0/16",
			one.Dir.PKI("kubelet.kubeconfig"):         "system:node:" + one.Node.Name(),
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
