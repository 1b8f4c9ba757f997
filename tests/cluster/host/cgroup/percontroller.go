package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// createPerController makes the cluster's group in every hierarchy of version 1, the named one of systemd included: the
// kubelet refuses a root that is missing in any of them.
func (t Tree) createPerController() error {
	for _, hierarchy := range t.hierarchies() {
		group := filepath.Join(hierarchy, t.name)
		if err := os.MkdirAll(group, 0o755); err != nil {
			return fmt.Errorf("make the cluster's cgroup: %w", err)
		}
		// A new cpuset is empty, and an empty one takes no process.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			value, err := os.ReadFile(filepath.Join(hierarchy, file))
			if os.IsNotExist(err) {
				continue
			}
			if err == nil {
				err = write(filepath.Join(group, file), strings.TrimSpace(string(value)))
			}
			if err != nil {
				return fmt.Errorf("copy %s into the cluster's cgroup: %w", file, err)
			}
		}
	}
	for _, path := range t.leaves() {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return fmt.Errorf("make the components' cgroup: %w", err)
		}
	}
	return nil
}

// hierarchies returns the mounted hierarchies of version 1. Distributions link controllers that share one (cpu and
// cpuacct) under both names; a version 2 hierarchy mounted beside them has no use for the kubelet.
func (t Tree) hierarchies() []string {
	entries, _ := os.ReadDir(t.mount)
	var hierarchies []string
	for _, entry := range entries {
		path := filepath.Join(t.mount, entry.Name())
		if entry.IsDir() && exists(filepath.Join(path, "cgroup.procs")) && !exists(filepath.Join(path, "cgroup.controllers")) {
			hierarchies = append(hierarchies, path)
		}
	}
	return hierarchies
}

// leaves returns the components' groups. Under version 1 one hierarchy is enough to find the processes again, and pids
// is the one that needs no settings: in the others the components stay where the caller was, under the caller's limits.
func (t Tree) leaves() []string {
	if t.unified {
		return []string{filepath.Join(t.mount, t.name, leaf)}
	}
	hierarchies := t.hierarchies()
	for _, hierarchy := range hierarchies {
		if filepath.Base(hierarchy) == "pids" {
			return []string{filepath.Join(hierarchy, t.name, leaf)}
		}
	}
	return []string{filepath.Join(hierarchies[0], t.name, leaf)}
}
