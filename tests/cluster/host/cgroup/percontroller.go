package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// createPerController creates the cluster's group in every hierarchy of version 1, including the
// named one of systemd: the kubelet rejects a root that is missing in any of them.
func (t Tree) createPerController() error {
	for _, hierarchy := range t.hierarchies() {
		group := filepath.Join(hierarchy, t.name)
		if err := os.MkdirAll(group, 0o755); err != nil {
			return fmt.Errorf("make the cluster's cgroup: %w", err)
		}
		// A new cpuset is empty, and an empty cpuset rejects processes.
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

// hierarchies returns the mounted hierarchies of version 1. Symbolic links for controllers that
// share a hierarchy (cpu and cpuacct) are skipped, and so is a version 2 hierarchy, which the
// kubelet does not use here.
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

// leaves returns the components' groups. In version 1, one hierarchy is enough to identify the
// processes, and pids needs no settings. In the other hierarchies the components stay in the
// caller's group, with the caller's limits.
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
