package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// needed are the controllers without which the kubelet or the runtime refuses to work.
var needed = []string{"cpu", "cpuset", "memory", "pids"}

// wanted are those they use where the kernel has them.
var wanted = []string{"io", "hugetlb"}

// createUnified makes the cluster's group in the one hierarchy of version 2 and hands every controller down to it: a
// group has only those that its parent enables for its children.
func (t Tree) createUnified() error {
	group := filepath.Join(t.mount, t.name)
	if err := os.MkdirAll(group, 0o755); err != nil {
		return fmt.Errorf("make the cluster's cgroup: %w", err)
	}
	for _, parent := range []string{t.mount, group} {
		if err := delegate(parent); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(group, leaf), 0o755); err != nil {
		return fmt.Errorf("make the components' cgroup: %w", err)
	}
	return nil
}

// delegate enables controllers for the children of a group, those that are not enabled yet.
func delegate(group string) error {
	available, err := controllers(group, "cgroup.controllers")
	if err != nil {
		return err
	}
	enabled, err := controllers(group, "cgroup.subtree_control")
	if err != nil {
		return err
	}
	for _, controller := range needed {
		if !available[controller] {
			return fmt.Errorf("cgroup %s lacks the %s controller: boot a kernel that has it, or have it delegated to this machine", group, controller)
		}
	}
	for _, controller := range append(append([]string(nil), needed...), wanted...) {
		if enabled[controller] || !available[controller] {
			continue
		}
		err := write(filepath.Join(group, "cgroup.subtree_control"), "+"+controller)
		if errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("cgroup %s holds processes itself and cannot pass controllers on: inside a container, give it the host's cgroup namespace: %w", group, err)
		}
		if err != nil {
			return fmt.Errorf("enable the %s controller below %s: %w", controller, group, err)
		}
	}
	return nil
}

func controllers(group, file string) (map[string]bool, error) {
	content, err := os.ReadFile(filepath.Join(group, file))
	if err != nil {
		return nil, fmt.Errorf("read controllers: %w", err)
	}
	set := map[string]bool{}
	for _, name := range strings.Fields(string(content)) {
		set[name] = true
	}
	return set, nil
}
