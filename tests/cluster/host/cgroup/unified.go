package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// needed are the controllers that the kubelet and the container runtime require.
var needed = []string{"cpu", "cpuset", "memory", "pids"}

// wanted are the controllers that they use if the kernel has them.
var wanted = []string{"io", "hugetlb"}

// createUnified creates the cluster's group in the hierarchy of version 2 and enables the
// controllers for it. A group has only the controllers that its parent enables for its children.
func (t Tree) createUnified() error {
	group := filepath.Join(t.mount, t.name)
	if err := os.MkdirAll(group, 0o755); err != nil {
		return fmt.Errorf("make the cluster's cgroup: %w", err)
	}
	parent := t.mount
	for _, child := range append(strings.Split(t.name, "/"), "") {
		if err := delegate(parent); err != nil {
			return err
		}
		parent = filepath.Join(parent, child)
	}
	if err := os.MkdirAll(filepath.Join(group, leaf), 0o755); err != nil {
		return fmt.Errorf("make the components' cgroup: %w", err)
	}
	return nil
}

// delegate enables the missing controllers for the children of a group.
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
			return fmt.Errorf("cgroup %s lacks the %s controller: boot a kernel that has it, or delegate it to this machine", group, controller)
		}
	}
	for _, controller := range append(append([]string(nil), needed...), wanted...) {
		if enabled[controller] || !available[controller] {
			continue
		}
		err := write(filepath.Join(group, "cgroup.subtree_control"), "+"+controller)
		if errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("cgroup %s has processes of its own and cannot enable controllers for children; in a container, use the host's cgroup namespace: %w", group, err)
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
