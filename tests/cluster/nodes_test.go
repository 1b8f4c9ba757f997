package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// onEachNode is a pod of each node behind one Service.
const onEachNode = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: hello}
spec:
  selector: {matchLabels: {app: hello}}
  template:
    metadata: {labels: {app: hello}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: hello
        image: rouse-cluster-test/hello:v1
        imagePullPolicy: Never
        ports: [{containerPort: 8080}]
        readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: hello}
spec: {selector: {app: hello}, ports: [{port: 80, targetPort: 8080}]}
`

// helloPod is a ready pod of the DaemonSet.
type helloPod struct{ name, node, ip string }

func (c *testCluster) helloPods() []helloPod {
	c.Helper()
	output := c.run("kubectl", "get", "pods", "--selector=app=hello",
		`--output=jsonpath={range .items[*]}{.metadata.name} {.spec.nodeName} {.status.podIP}{"\n"}{end}`)
	var pods []helloPod
	for line := range strings.Lines(output) {
		if fields := strings.Fields(line); len(fields) == 3 {
			pods = append(pods, helloPod{fields[0], fields[1], fields[2]})
		}
	}
	return pods
}

// says reports whether an address responds to a pod.
func (c *testCluster) says(from helloPod, url string) bool {
	response, _ := c.command("kubectl", "exec", from.name, "--", "/hello", url).Output()
	return string(response) == "hello\n"
}

func (c *testCluster) loadHello() {
	c.Helper()
	binary, tarball := filepath.Join(c.TempDir(), "hello"), filepath.Join(c.TempDir(), "hello.tar")
	if err := compile(binary, "./testdata/hello"); err != nil {
		c.Fatal(err)
	}
	c.run("image", "--output", tarball, "--name", "rouse-cluster-test/hello:v1", binary)
	c.run("load", tarball)
}

func (c *testCluster) nodeIsReady(name string) bool {
	output, _ := c.command("kubectl", "get", "node", name, `--output=jsonpath={.status.conditions[?(@.type=="Ready")].status}`).Output()
	return string(output) == "True"
}

func TestPodsOfTwoNodesReachEachOther(t *testing.T) {
	c := newCluster(t, "nodes")
	start := time.Now()
	// Node loss is detected sooner than by default.
	output := c.run("up", "--nodes=2", "--zones=a,b", "--component-arg=kube-controller-manager=--node-monitor-grace-period=6s")
	t.Logf("two nodes Ready after %s", time.Since(start).Round(time.Millisecond))
	if !strings.Contains(output, "2 nodes Ready in ") {
		t.Errorf("up printed %s", output)
	}
	zones := c.run("kubectl", "get", "nodes", `--output=jsonpath={range .items[*]}{.metadata.labels.topology\.kubernetes\.io/zone}{end}`)
	if zones != "ab" {
		t.Errorf("zones %q", zones)
	}
	c.loadHello()
	manifest := c.command("kubectl", "apply", "--filename=-")
	manifest.Stdin = strings.NewReader(onEachNode)
	if output, err := manifest.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	c.run("kubectl", "rollout", "status", "daemonset/hello", "--timeout=60s")
	pods := c.helloPods()
	if len(pods) != 2 || pods[0].node == pods[1].node {
		t.Fatalf("pods %+v", pods)
	}
	service := strings.TrimSpace(c.run("kubectl", "get", "service", "hello", "--output=jsonpath={.spec.clusterIP}"))
	c.run("kubectl", "rollout", "status", "--namespace=kube-system", "deployment/coredns", "--timeout=60s")
	for _, from := range pods {
		for _, to := range pods {
			c.eventually(from.node+" reaches the pod of "+to.node, func() bool { return c.says(from, "http://"+to.ip+":8080") })
		}
		// Both endpoints are hit.
		for range 8 {
			c.eventually(from.node+" reaches the Service", func() bool { return c.says(from, "http://"+service) })
		}
		c.eventually(from.node+" resolves the Service", func() bool { return c.says(from, "http://hello.default.svc.cluster.local") })
	}

	if err := c.command("node", "stop", "node1").Run(); err == nil {
		t.Error("the node of the control plane was stopped")
	}
	c.run("node", "partition", "node2")
	c.eventually("node2 not Ready after the partition", func() bool { return !c.nodeIsReady("node2") })
	c.run("node", "start", "node2")
	c.eventually("node2 Ready after the partition", func() bool { return c.nodeIsReady("node2") })
	c.run("node", "stop", "node2")
	if _, runs := c.status().Nodes["node2"]; runs {
		t.Errorf("node2 runs: %+v", c.status())
	}
	c.eventually("node2 not Ready after its stop", func() bool { return !c.nodeIsReady("node2") })
	c.run("node", "start", "node2")
	c.eventually("node2 Ready after its start", func() bool { return c.nodeIsReady("node2") })
	c.eventually("the pods reach each other again", func() bool {
		pods := c.helloPods()
		return len(pods) == 2 && c.says(pods[0], "http://"+pods[1].ip+":8080") && c.says(pods[1], "http://"+pods[0].ip+":8080")
	})
	c.run("down")
	c.leavesNothing()
}

// CoreDNS is imported in the background when `up` has returned.
func TestRemovalDuringImportOfCoreDNSLeavesNothing(t *testing.T) {
	c := newCluster(t, "at-once")
	c.run("up")
	c.run("down")
	c.leavesNothing()
}

func TestCommandsWithoutClusterPrintOnlyAnError(t *testing.T) {
	c := newCluster(t, "none")
	for _, args := range [][]string{{"kubectl-path"}, {"kubeconfig"}, {"kubectl", "get", "pods"}, {"load", "x.tar"}, {"node", "stop", "node2"}} {
		command := c.command(args...)
		var stderr strings.Builder
		command.Stderr = &stderr
		output, err := command.Output()
		if err == nil || len(output) != 0 || !strings.HasPrefix(stderr.String(), "cluster: cluster test-none is not running") {
			t.Errorf("%v: %v, stdout %q, stderr %q", args, err, output, stderr.String())
		}
	}
}
