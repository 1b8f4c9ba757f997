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

// These tests start real clusters. They take minutes, need root and a machine that may be used so, and therefore run only
// when they are asked for.
const asked = "CLUSTER_TEST"

// tool is the program under test, built once.
var tool string

func TestMain(m *testing.M) {
	if os.Getenv(asked) == "" {
		fmt.Println("no clusters are started: set " + asked + "=1 to test with real ones")
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
	if said, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", path, err, said)
	}
	return nil
}

// testCluster is a cluster that does not outlive its test.
type testCluster struct {
	*testing.T
	name string
	// before is what the host had before the test.
	before trace
}

func newCluster(t *testing.T, name string) *testCluster {
	t.Helper()
	if os.Getenv(asked) == "" {
		t.Skip(asked + " is not set")
	}
	name = "test-" + name
	c := &testCluster{t, name, look(t, name)}
	t.Cleanup(func() { _ = c.command("down").Run() })
	return c
}

func (c *testCluster) command(args ...string) *exec.Cmd {
	return exec.Command(tool, append([]string{"--name", c.name}, args...)...)
}

// run returns what a command said; it has to end well.
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
	Components            map[string]int
}) {
	c.Helper()
	output, _ := c.command("status", "-o", "json").Output()
	if err := json.Unmarshal(output, &found); err != nil {
		c.Fatalf("status: %v: %s", err, output)
	}
	return found
}

// eventually waits for what takes a moment.
func (c *testCluster) eventually(what string, holds func() bool) {
	c.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.Fatal("in vain waited for: " + what)
		}
	}
}

// trace is what there is on the host of a cluster, or what a cluster may have left there without its name.
type trace struct {
	processes, mounts, cgroups, directories []string
}

// builtIn are directories that components make where nobody keeps them from it.
var builtIn = []string{"/var/lib/kubelet", "/var/lib/cni", "/run/netns", "/run/containerd", "/etc/cni", "/usr/libexec/kubernetes"}

func look(t *testing.T, name string) trace {
	t.Helper()
	var found trace
	state := "rouse-cluster/" + name + "/"
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range processes {
		line, _ := os.ReadFile(filepath.Join(process, "cmdline"))
		// A process of the cluster sees the cluster's files mounted; a container's own root is one of them.
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

// leavesNothing fails unless the host is as it was before the test.
func (c *testCluster) leavesNothing() {
	c.Helper()
	after := look(c.T, c.name)
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

func TestPodsServicesNamesAndStreams(t *testing.T) {
	c := newCluster(t, "pods")
	said := c.run("up", "--hpa-sync-period=2s")
	if !strings.Contains(said, "node Ready in ") {
		t.Errorf("up said %s", said)
	}
	binary, tarball := filepath.Join(t.TempDir(), "hello"), filepath.Join(t.TempDir(), "hello.tar")
	if err := compile(binary, "./testdata/hello"); err != nil {
		t.Fatal(err)
	}
	c.run("image", "--output", tarball, "--name", "rouse-cluster-test/hello:v1", binary)
	if said := c.run("load", tarball); !strings.HasPrefix(said, "loaded") {
		t.Errorf("first load: %s", said)
	}
	if said := c.run("load", tarball); !strings.HasPrefix(said, "there already") {
		t.Errorf("second load: %s", said)
	}

	// A stream that is open before anything happens sees what happens.
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
	c.eventually("an answer from the Service", func() bool {
		answer, _ := c.command("exec", binary, "http://"+ip).Output()
		return string(answer) == "hello\n"
	})
	if log := c.run("kubectl", "logs", "deployment/hello"); !strings.Contains(log, "serving") {
		t.Errorf("log %q", log)
	}
	c.run("kubectl", "rollout", "status", "--namespace=kube-system", "deployment/coredns", "--timeout=30s")
	c.eventually("an answer under the Service's name, from inside of a pod, by its own Service", func() bool {
		answer, _ := c.command("kubectl", "exec", "deployment/hello", "--", "/hello", "http://hello.default.svc.cluster.local").Output()
		return string(answer) == "hello\n"
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
	if running := look(t, c.name); len(running.processes) != 15 || len(running.mounts) != 0 || len(running.cgroups) == 0 {
		t.Errorf("unlike what a running cluster is expected to be: %+v", running)
	}
	c.run("down")
	c.leavesNothing()
	c.run("down") // nothing to do, and that is no error
}

func TestAKilledSupervisorTakesItsClusterAlong(t *testing.T) {
	c := newCluster(t, "orphan")
	c.run("up")
	pid1 := c.status().Components["kubelet"]
	if err := syscall.Kill(c.status().Supervisor, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	c.eventually("the kubelet's end", func() bool { return errors.Is(syscall.Kill(pid1, 0), syscall.ESRCH) })
	if err := c.command("status").Run(); err == nil {
		t.Error("status says that it runs")
	}
	c.run("up") // over the remains
	c.run("down")
	c.leavesNothing()
}

// However far a start has come, what is there can be removed.
func TestAStartThatWasCutOff(t *testing.T) {
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

func TestAStartThatFailsShowsWhy(t *testing.T) {
	c := newCluster(t, "failing")
	said, err := c.command("up", "--component-arg", "kube-apiserver=--no-such-flag").CombinedOutput()
	if err == nil || !strings.Contains(string(said), "unknown flag: --no-such-flag") {
		t.Errorf("%v\n%s", err, said)
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

func TestTwoSideBySide(t *testing.T) {
	a, b := newCluster(t, "left"), newCluster(t, "right")
	a.run("up")
	b.run("up")
	a.run("kubectl", "create", "configmap", "mark")
	if err := b.command("kubectl", "get", "configmap", "mark").Run(); err == nil {
		t.Error("both names lead to one cluster")
	}
	a.run("down")
	if found := b.status(); found.Node != "Ready" {
		t.Errorf("the other is gone too: %+v", found)
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
	// The controllers work: a Deployment gets its pod, which nobody schedules.
	c.run("kubectl", "apply", "-f", "testdata/hello.yaml")
	c.eventually("a pod", func() bool {
		pods, _ := c.command("kubectl", "get", "pods", "--output=name").Output()
		return strings.HasPrefix(string(pods), "pod/hello-")
	})
	c.run("down")
	c.leavesNothing()
}
