// Package cgroup creates and removes the cgroups of a cluster: one group under the root, with the
// pods' groups of the kubelet and a leaf for the components.
//
// The groups also identify the processes of a cluster after its supervisor was killed, because
// membership does not depend on parents, sessions or names.
package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Mount is the mount point of the cgroup file systems in every distribution.
const Mount = "/sys/fs/cgroup"

// leaf is the group of the components. In version 2, a group with controllers for its children must
// not have processes of its own.
const leaf = "components"

// Tree is the cgroups of one cluster.
type Tree struct {
	mount string
	name  string
	// unified is set for version 2, where one hierarchy has all controllers.
	unified bool
}

// Of returns the cgroups of the named cluster below a mount point, whether or not they exist.
func Of(mount, cluster string) (Tree, error) {
	tree := Tree{mount: mount, name: prefix + cluster}
	if exists(filepath.Join(mount, "cgroup.controllers")) {
		tree.unified = true
		return tree, nil
	}
	if len(tree.hierarchies()) == 0 {
		return tree, fmt.Errorf("no cgroup file system in %s: mount version 2 there, or each controller of version 1 in a folder of its own", mount)
	}
	return tree, nil
}

// Below returns the cgroups of one node, below the cgroups of its cluster.
func (t Tree) Below(node string) Tree {
	t.name = filepath.Join(t.name, node)
	return t
}

// prefix distinguishes the groups of this program from other groups.
const prefix = "rouse-cluster-"

// Clusters returns the names of the clusters that have a group below the mount point.
func Clusters(mount string) []string {
	seen := map[string]bool{}
	for _, pattern := range []string{prefix + "*", filepath.Join("*", prefix+"*")} {
		paths, _ := filepath.Glob(filepath.Join(mount, pattern))
		for _, path := range paths {
			seen[strings.TrimPrefix(filepath.Base(path), prefix)] = true
		}
	}
	var clusters []string
	for cluster := range seen {
		clusters = append(clusters, cluster)
	}
	sort.Strings(clusters)
	return clusters
}

// Path is the group's path from the root of each hierarchy, as the kubelet expects its cgroupRoot.
func (t Tree) Path() string { return "/" + t.name }

// Create creates the cluster's groups.
func (t Tree) Create() error {
	if t.unified {
		return t.createUnified()
	}
	return t.createPerController()
}

// Join moves the calling process into the components' group; later children inherit it.
func (t Tree) Join() error {
	for _, path := range t.leaves() {
		if err := write(filepath.Join(path, "cgroup.procs"), "0"); err != nil {
			return fmt.Errorf("join the components' cgroup: %w", err)
		}
	}
	return nil
}

// Processes returns the processes in the cluster's groups, in the caller's pid namespace.
func (t Tree) Processes() []int {
	seen := map[int]bool{}
	for _, group := range t.groups() {
		content, _ := os.ReadFile(filepath.Join(group, "cgroup.procs"))
		for _, field := range strings.Fields(string(content)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
				seen[pid] = true
			}
		}
	}
	var pids []int
	for pid := range seen {
		pids = append(pids, pid)
	}
	sort.Ints(pids)
	return pids
}

// Remove kills the processes in the cluster's groups and removes the groups, innermost first. A
// group stays busy for some milliseconds after its last process has died, so Remove retries until
// the timeout.
func (t Tree) Remove(timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	for {
		groups := t.groups()
		if len(groups) == 0 {
			return nil
		}
		for _, pid := range t.Processes() {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("kill process %d of %s: %w", pid, t.name, err)
			}
		}
		var failure error
		for _, group := range groups {
			if err := os.Remove(group); err != nil && !errors.Is(err, os.ErrNotExist) {
				failure = err
			}
		}
		if failure != nil && time.Now().After(deadline) {
			return fmt.Errorf("remove the cgroups of %s: %w", t.name, failure)
		}
		if failure != nil {
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// groups returns every group of the cluster in every hierarchy, children before their parents.
func (t Tree) groups() []string {
	roots := []string{filepath.Join(t.mount, t.name)}
	if !t.unified {
		// The container runtime also creates groups in a version 2 hierarchy, which some systems
		// mount beside version 1.
		roots, _ = filepath.Glob(filepath.Join(t.mount, "*", t.name))
	}
	var groups []string
	for _, root := range roots {
		_ = filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				groups = append(groups, path)
			}
			return nil // the group may have been removed meanwhile
		})
	}
	sort.Slice(groups, func(i, j int) bool { return len(groups[i]) > len(groups[j]) })
	return groups
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// write writes a value to a control file, in one write and without truncation, as the kernel
// requires.
func write(path, value string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.WriteString(value)
	return err
}
