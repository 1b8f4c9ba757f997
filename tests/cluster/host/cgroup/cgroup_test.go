package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// fake creates a tree of files in place of the cgroup file systems. Unlike the kernel, it creates
// no control files in a new group, so each file to be written must exist. That also verifies that
// nothing else is written.
func fake(t *testing.T, files map[string]string) string {
	t.Helper()
	mount := t.TempDir()
	for name, content := range files {
		path := filepath.Join(mount, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return mount
}

func content(t *testing.T, elements ...string) string {
	t.Helper()
	bytes, err := os.ReadFile(filepath.Join(elements...))
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes)
}

func TestPerController(t *testing.T) {
	mount := fake(t, map[string]string{
		"cpu,cpuacct/cgroup.procs":                     "",
		"memory/cgroup.procs":                          "",
		"pids/cgroup.procs":                            "",
		"systemd/cgroup.procs":                         "",
		"cpuset/cgroup.procs":                          "",
		"cpuset/cpuset.cpus":                           "0-1\n",
		"cpuset/cpuset.mems":                           "0\n",
		"unified/cgroup.procs":                         "",
		"unified/cgroup.controllers":                   "",
		"cpuset/rouse-cluster-a/cpuset.cpus":           "",
		"cpuset/rouse-cluster-a/cpuset.mems":           "",
		"pids/rouse-cluster-a/components/cgroup.procs": "",
	})
	if err := os.Symlink("cpu,cpuacct", filepath.Join(mount, "cpu")); err != nil {
		t.Fatal(err)
	}
	tree, err := Of(mount, "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.Create(); err != nil {
		t.Fatal(err)
	}
	for _, hierarchy := range []string{"cpu,cpuacct", "memory", "pids", "systemd", "cpuset"} {
		if !exists(filepath.Join(mount, hierarchy, tree.Path())) {
			t.Errorf("no group in %s", hierarchy)
		}
	}
	if exists(filepath.Join(mount, "unified", tree.Path())) {
		t.Error("a group in the version 2 hierarchy beside version 1")
	}
	if got := content(t, mount, "cpuset", tree.Path(), "cpuset.cpus"); got != "0-1" {
		t.Errorf("cpus %q", got)
	}
	if err := tree.Join(); err != nil {
		t.Fatal(err)
	}
	if got := content(t, mount, "pids", tree.Path(), leaf, "cgroup.procs"); got != "0" {
		t.Errorf("joined with %q", got)
	}
}

func TestUnified(t *testing.T) {
	all := "cpuset cpu io memory hugetlb pids rdma misc\n"
	mount := fake(t, map[string]string{
		"cgroup.controllers":                     all,
		"cgroup.subtree_control":                 "cpu memory pids\n",
		"rouse-cluster-a/cgroup.controllers":     "cpuset cpu memory pids\n", // without io and hugetlb
		"rouse-cluster-a/cgroup.subtree_control": "",
	})
	tree, err := Of(mount, "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.Create(); err != nil {
		t.Fatal(err)
	}
	// Each write to the fake starts at the beginning of the file, so it has the last controller of
	// each list.
	if got := content(t, mount, "cgroup.subtree_control"); !strings.HasPrefix(got, "+hugetlb") {
		t.Errorf("at the root: %q", got)
	}
	if got := content(t, mount, tree.Path(), "cgroup.subtree_control"); !strings.HasPrefix(got, "+pids") {
		t.Errorf("in the group: %q", got)
	}
	if !exists(filepath.Join(mount, tree.Path(), leaf)) {
		t.Error("no leaf for the components")
	}
}

func TestUnifiedWithoutAController(t *testing.T) {
	mount := fake(t, map[string]string{"cgroup.controllers": "cpu memory pids\n", "cgroup.subtree_control": ""})
	tree, err := Of(mount, "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.Create(); err == nil || !strings.Contains(err.Error(), "cpuset") {
		t.Errorf("got %v, want one that names cpuset", err)
	}
}

func TestNoCgroups(t *testing.T) {
	if _, err := Of(t.TempDir(), "a"); err == nil {
		t.Error("found cgroups in an empty folder")
	}
}

func TestRemoveRemovesAllGroupsOfOneClusterOnly(t *testing.T) {
	mount := fake(t, map[string]string{"pids/cgroup.procs": "", "memory/cgroup.procs": ""})
	for _, group := range []string{
		"pids/rouse-cluster-a/components", "pids/rouse-cluster-a/kubepods/besteffort/pod1", "memory/rouse-cluster-a/kubepods",
		"unified/rouse-cluster-a/kubepods", "pids/rouse-cluster-ab/components", "pids/other",
	} {
		if err := os.MkdirAll(filepath.Join(mount, group), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if got := Clusters(mount); !slices.Equal(got, []string{"a", "ab"}) {
		t.Errorf("clusters %v", got)
	}
	tree, err := Of(mount, "a")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time there is nothing to remove
		if err := tree.Remove(time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if got := Clusters(mount); !slices.Equal(got, []string{"ab"}) || !exists(filepath.Join(mount, "pids/other")) {
		t.Errorf("left %v", got)
	}
}

// A group that cannot be removed must not block forever.
func TestRemoveTimesOut(t *testing.T) {
	mount := fake(t, map[string]string{"pids/cgroup.procs": "", "pids/rouse-cluster-a/stuck": ""})
	tree, err := Of(mount, "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.Remove(30 * time.Millisecond); err == nil {
		t.Error("removed a group that is not empty")
	}
}
