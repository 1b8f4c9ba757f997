package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// These tests start real clusters, take minutes and need root, so they run only with this
// environment variable.
const enabled = "CLUSTER_TEST"

// tool is the program under test, built once.
var tool string

func TestMain(m *testing.M) {
	if os.Getenv(enabled) == "" {
		fmt.Println("tests with real clusters skipped; set " + enabled + "=1 to run them")
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "cluster-test-")
	if err != nil {
		panic(err)
	}
	tool = filepath.Join(dir, "cluster")
	code := 1
	if err := compile(tool, "."); err != nil {
		fmt.Println(err)
	} else {
		code = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

func compile(output, path string) error {
	command := exec.Command("go", "build", "-o", output, path)
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", path, err, output)
	}
	return nil
}

// testCluster is a cluster that is removed after its test.
type testCluster struct {
	*testing.T
	name string
	// before is the state of the host before the test.
	before trace
}

func newCluster(t *testing.T, name string) *testCluster {
	t.Helper()
	if os.Getenv(enabled) == "" {
		t.Skip(enabled + " is not set")
	}
	name = "test-" + name
	c := &testCluster{t, name, traces(t, name)}
	t.Cleanup(func() { _ = c.command("down").Run() })
	return c
}

func (c *testCluster) command(args ...string) *exec.Cmd {
	return exec.Command(tool, append([]string{"--name", c.name}, args...)...)
}

// run runs a command that must succeed, and returns its output.
func (c *testCluster) run(args ...string) string {
	c.Helper()
	command := c.command(args...)
	output, err := command.CombinedOutput()
	if err != nil {
		c.Fatalf("cluster %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return string(output)
}

func (c *testCluster) status() (found struct {
	Running, Ready        bool
	Node, State           string
	Supervisor, Processes int
	Components, Nodes     map[string]int
}) {
	c.Helper()
	output, _ := c.command("status", "-o", "json").Output()
	if err := json.Unmarshal(output, &found); err != nil {
		c.Fatalf("status: %v: %s", err, output)
	}
	return found
}

// patience is longer than a kubelet needs to detect a connection that a partition cut: client-go sends a
// PING after 30 s of silence, and waits for 15 s.
const patience = 2 * time.Minute

// eventually waits until a condition holds.
func (c *testCluster) eventually(what string, holds func() bool) {
	c.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.Fatal("timeout: " + what)
		}
	}
}

// trace is the traces of a cluster on the host, and the directories that clusters may leave there.
type trace struct {
	processes, mounts, cgroups, directories []string
}

// builtIn are directories that components create on a host by default.
var builtIn = []string{"/var/lib/kubelet", "/var/lib/cni", "/run/netns", "/run/containerd", "/etc/cni", "/usr/libexec/kubernetes"}

func traces(t *testing.T, name string) trace {
	t.Helper()
	var found trace
	state := "rouse-cluster/" + name + "/"
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range processes {
		line, _ := os.ReadFile(filepath.Join(process, "cmdline"))
		// A process of the cluster has mounts of the cluster's files, such as the root of a
		// container.
		mounts, _ := os.ReadFile(filepath.Join(process, "mountinfo"))
		command := strings.ReplaceAll(string(line), "\x00", " ")
		if strings.Contains(command, state) || strings.Contains(command, "--name "+name+" ") || bytes.Contains(mounts, []byte(state)) {
			found.processes = append(found.processes, process+" "+command)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, state) {
			found.mounts = append(found.mounts, line)
		}
	}
	for _, pattern := range []string{"/sys/fs/cgroup/rouse-cluster-", "/sys/fs/cgroup/*/rouse-cluster-"} {
		groups, _ := filepath.Glob(pattern + name)
		found.cgroups = append(found.cgroups, groups...)
	}
	for _, directory := range append([]string{"/var/lib/" + state}, builtIn...) {
		if _, err := os.Stat(directory); err == nil {
			found.directories = append(found.directories, directory)
		}
	}
	return found
}

// leavesNothing fails if the cluster left traces on the host.
func (c *testCluster) leavesNothing() {
	c.Helper()
	after := traces(c.T, c.name)
	for what, lists := range map[string][2][]string{
		"processes":   {c.before.processes, after.processes},
		"mounts":      {c.before.mounts, after.mounts},
		"cgroups":     {c.before.cgroups, after.cgroups},
		"directories": {c.before.directories, after.directories},
	} {
		for _, now := range lists[1] {
			if !slices.Contains(lists[0], now) {
				c.Errorf("left of %s: %s", what, now)
			}
		}
	}
	if found := c.status(); found.Running || found.Supervisor != 0 {
		c.Errorf("still running: %+v", found)
	}
}

func TestPodsServicesDNSAndStreams(t *testing.T) {
	c := newCluster(t, "pods")
	output := c.run("up", "--hpa-sync-period=2s")
	if !strings.Contains(output, "node Ready in ") {
		t.Errorf("up printed %s", output)
	}
	binary, tarball := filepath.Join(t.TempDir(), "hello"), filepath.Join(t.TempDir(), "hello.tar")
	if err := compile(binary, "./testdata/hello"); err != nil {
		t.Fatal(err)
	}
	c.run("image", "--output", tarball, "--name", "rouse-cluster-test/hello:v1", binary)
	if output := c.run("load", tarball); !strings.HasPrefix(output, "loaded") {
		t.Errorf("first load: %s", output)
	}
	if output := c.run("load", tarball); !strings.HasPrefix(output, "already loaded") {
		t.Errorf("second load: %s", output)
	}

	// An open watch receives later changes.
	watch := c.command("kubectl", "get", "pods", "--watch", "--output=name")
	var seen bytes.Buffer
	watch.Stdout = &seen
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	c.run("kubectl", "apply", "-f", "testdata/hello.yaml")
	c.run("kubectl", "rollout", "status", "deployment/hello", "--timeout=30s")
	_ = watch.Process.Kill()
	_ = watch.Wait()
	if !strings.Contains(seen.String(), "pod/hello-") {
		t.Errorf("the watch saw %q", seen.String())
	}

	ip := strings.TrimSpace(c.run("kubectl", "get", "service", "hello", "--output=jsonpath={.spec.clusterIP}"))
	c.eventually("a response from the Service", func() bool {
		response, _ := c.command("exec", binary, "http://"+ip).Output()
		return string(response) == "hello\n"
	})
	if log := c.run("kubectl", "logs", "deployment/hello"); !strings.Contains(log, "serving") {
		t.Errorf("log %q", log)
	}
	c.run("kubectl", "rollout", "status", "--namespace=kube-system", "deployment/coredns", "--timeout=30s")
	c.eventually("a response to a pod through the name of its own Service", func() bool {
		response, _ := c.command("kubectl", "exec", "deployment/hello", "--", "/hello", "http://hello.default.svc.cluster.local").Output()
		return string(response) == "hello\n"
	})
	if resources := c.run("kubectl", "get", "--raw=/apis/admissionregistration.k8s.io/v1"); !strings.Contains(resources, `"MutatingAdmissionPolicy"`) {
		t.Error("mutating admission policies are not served")
	}

	scheduler := c.status().Components["kube-scheduler"]
	if err := syscall.Kill(scheduler, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	c.eventually("a new scheduler", func() bool {
		pid := c.status().Components["kube-scheduler"]
		return pid != 0 && pid != scheduler
	})

	// Seven components, pid 1 and the supervisor, and two pods of a shim, a pause and a program.
	if running := traces(t, c.name); len(running.processes) != 15 || len(running.mounts) != 0 || len(running.cgroups) == 0 {
		t.Errorf("unexpected traces of a running cluster: %+v", running)
	}
	c.run("down")
	c.leavesNothing()
	c.run("down") // without a cluster, down succeeds
}

func TestKilledSupervisorEndsItsCluster(t *testing.T) {
	c := newCluster(t, "orphan")
	c.run("up")
	pid1 := c.status().Components["kubelet"]
	if err := syscall.Kill(c.status().Supervisor, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	c.eventually("the kubelet's end", func() bool { return errors.Is(syscall.Kill(pid1, 0), syscall.ESRCH) })
	if err := c.command("status").Run(); err == nil {
		t.Error("status reports a running cluster")
	}
	c.run("up") // removes the remaining files
	c.run("down")
	c.leavesNothing()
}

// A start can be removed at any stage.
func TestInterruptedStartIsRemovable(t *testing.T) {
	for _, test := range []struct {
		name   string
		signal syscall.Signal
		after  time.Duration
	}{
		{"killed-early", syscall.SIGKILL, 20 * time.Millisecond},
		{"killed-late", syscall.SIGKILL, 2 * time.Second},
		{"interrupted", syscall.SIGINT, 1500 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t, test.name)
			up := c.command("up")
			if err := up.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(test.after)
			_ = up.Process.Signal(test.signal)
			_ = up.Wait()
			if test.signal == syscall.SIGKILL {
				c.run("down")
			} else if code := up.ProcessState.ExitCode(); code != 130 {
				t.Errorf("exit code %d", code)
			}
			c.leavesNothing()
		})
	}
}

func TestFailedStartShowsTheReason(t *testing.T) {
	c := newCluster(t, "failing")
	output, err := c.command("up", "--component-arg", "kube-apiserver=--no-such-flag").CombinedOutput()
	if err == nil || !strings.Contains(string(output), "unknown flag: --no-such-flag") {
		t.Errorf("%v\n%s", err, output)
	}
	found := c.status()
	if found.Running || found.Supervisor != 0 {
		t.Errorf("still running: %+v", found)
	}
	if log, err := os.ReadFile(filepath.Join(found.State, "log", "kube-apiserver.log")); err != nil || len(log) == 0 {
		t.Errorf("no log is kept: %v", err)
	}
	c.run("down")
	c.leavesNothing()
}

func TestTwoClustersRunInParallel(t *testing.T) {
	a, b := newCluster(t, "left"), newCluster(t, "right")
	a.run("up")
	b.run("up")
	a.run("kubectl", "create", "configmap", "mark")
	if err := b.command("kubectl", "get", "configmap", "mark").Run(); err == nil {
		t.Error("both names refer to one cluster")
	}
	a.run("down")
	if found := b.status(); found.Node != "Ready" {
		t.Errorf("the other cluster ended too: %+v", found)
	}
	b.run("down")
	b.leavesNothing()
}

func TestControlPlaneOnly(t *testing.T) {
	c := newCluster(t, "control-plane")
	c.run("up", "--control-plane-only", "--feature-gates=AllAlpha=false", "--component-arg", "kube-apiserver=--event-ttl=5m")
	if found := c.status(); len(found.Components) != 3 || found.Node != "none" {
		t.Errorf("%+v", found)
	}
	// The controllers run: a Deployment gets its pod, which is not scheduled.
	c.run("kubectl", "apply", "-f", "testdata/hello.yaml")
	c.eventually("a pod", func() bool {
		pods, _ := c.command("kubectl", "get", "pods", "--output=name").Output()
		return strings.HasPrefix(string(pods), "pod/hello-")
	})
	c.run("down")
	c.leavesNothing()
}

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

// isolatedHello denies all connections to these pods.
const isolatedHello = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: hello}
spec:
  podSelector: {matchLabels: {app: hello}}
  policyTypes: [Ingress]
`

func (c *testCluster) apply(manifest string) {
	c.Helper()
	apply := c.command("kubectl", "apply", "--filename=-")
	apply.Stdin = strings.NewReader(manifest)
	if output, err := apply.CombinedOutput(); err != nil {
		c.Fatalf("%v: %s", err, output)
	}
}

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
	// Node loss is detected sooner than by default, but not between two renewals of a Lease, which are 10 s apart.
	output := c.run("up", "--nodes=2", "--zones=a,b", "--network-policies", "--component-arg=kube-controller-manager=--node-monitor-grace-period=20s")
	t.Logf("two nodes Ready after %s", time.Since(start).Round(time.Millisecond))
	if !strings.Contains(output, "2 nodes Ready in ") {
		t.Errorf("up printed %s", output)
	}
	zones := c.run("kubectl", "get", "nodes", `--output=jsonpath={range .items[*]}{.metadata.labels.topology\.kubernetes\.io/zone}{end}`)
	if zones != "ab" {
		t.Errorf("zones %q", zones)
	}
	c.loadHello()
	c.apply(onEachNode)
	c.run("kubectl", "rollout", "status", "daemonset/hello", "--timeout=60s")
	pods := c.helloPods()
	if len(pods) != 2 || pods[0].node == pods[1].node {
		t.Fatalf("pods %+v", pods)
	}
	service := strings.TrimSpace(c.run("kubectl", "get", "service", "hello", "--output=jsonpath={.spec.clusterIP}"))
	c.run("kubectl", "wait", "--for=create", "--namespace=kube-system", "deployment/coredns", "--timeout=60s")
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

	between := func() bool { return c.says(pods[0], "http://"+pods[1].ip+":8080") }
	back := func() bool { return c.says(pods[1], "http://"+pods[0].ip+":8080") }
	c.apply(isolatedHello)
	c.eventually("a policy isolates the pods from each other", func() bool { return !between() && !back() })
	c.apply(isolatedHello + "  ingress: [{from: [{podSelector: {matchLabels: {app: hello}}}]}]\n")
	c.eventually("a policy admits the pods of the other node", func() bool { return between() && back() })

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
