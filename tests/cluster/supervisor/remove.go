package supervisor

import (
	"errors"
	"fmt"
	"os"
	"time"

	"rouse.dev/cluster/host/cgroup"
	"rouse.dev/cluster/host/state"
)

// stopTimeout is the timeout for the end of a killed process and its cgroups.
const stopTimeout = 10 * time.Second

// Stop kills all processes of a cluster and removes its cgroups. It keeps the files, so that logs
// can be read. The cluster may be running, partly started, crashed, or absent.
func Stop(dir state.Dir) error {
	// No process needs a graceful end. Retried until the lock is free, because a concurrent start
	// may have passed the lock to another process.
	for deadline := time.Now().Add(stopTimeout); ; {
		pid := dir.Supervisor()
		if pid == 0 {
			break
		}
		if err := killWithChildren(pid); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s stays locked by a process other than %d, which it names", dir.Lock(), pid)
		}
	}
	record := dir.ReadRecord()
	// pid 1 is killed with its parent, and all other processes with pid 1. Only then does the
	// kernel release the mounts.
	if err := record.Init.Kill(stopTimeout); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return nil
	}
	cgroups, err := cgroup.Of(cgroup.Mount, dir.Name)
	if err != nil {
		return nil // no cgroup file system, so no cgroups
	}
	return cgroups.Remove(stopTimeout)
}

// killWithChildren kills a supervisor and the programs that it runs on the host, such as an import of
// an image. Their death signal comes with the supervisor's end, and they may outlive it for a moment.
func killWithChildren(pid int) error {
	supervisor, err := state.Identify(pid)
	if err != nil {
		return nil // it has ended
	}
	var children []state.Process
	for _, child := range state.Children(pid) {
		if identity, err := state.Identify(child); err == nil {
			children = append(children, identity)
		}
	}
	if err := supervisor.Kill(stopTimeout); err != nil {
		return err
	}
	for _, child := range children {
		if err := child.Kill(stopTimeout); err != nil {
			return err
		}
	}
	return nil
}

// Remove stops a cluster and removes its files.
func Remove(dir state.Dir) error {
	if err := Stop(dir); err != nil {
		return err
	}
	// A snapshot can be busy for a moment after its last process has died.
	deadline := time.Now().Add(stopTimeout)
	for {
		err := os.RemoveAll(dir.Path)
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("remove the cluster's files: %w", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}

// All returns every cluster that has files or cgroups.
func All() ([]state.Dir, error) {
	dirs, err := state.List()
	seen := map[string]bool{}
	for _, dir := range dirs {
		seen[dir.Name] = true
	}
	for _, name := range cgroup.Clusters(cgroup.Mount) {
		dir, invalid := state.Of(name)
		if invalid == nil && !seen[name] {
			dirs = append(dirs, dir)
		}
		err = errors.Join(err, invalid)
	}
	return dirs, err
}
