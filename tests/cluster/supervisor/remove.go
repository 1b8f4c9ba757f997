package supervisor

import (
	"errors"
	"fmt"
	"os"
	"time"

	"rouse.dev/cluster/host/cgroup"
	"rouse.dev/cluster/host/state"
)

// patience is how long a killed process or its cgroup may take to go.
const patience = 10 * time.Second

// Stop ends all processes of a cluster and removes its cgroups. Files stay, so that logs can be read. It starts from
// whatever is there: a cluster that runs, one whose supervisor was killed, half of one, or none.
func Stop(dir state.Dir) error {
	// Nothing inside is worth a graceful end, so the supervisor has nothing to do that its death does not. Again until
	// nobody holds the cluster: a start that was under way may have handed it on meanwhile.
	for deadline := time.Now().Add(patience); ; {
		pid := dir.Supervisor()
		if pid == 0 {
			break
		}
		if supervisor, err := state.Identify(pid); err == nil {
			if err := supervisor.Kill(patience); err != nil {
				return err
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s stays locked, and not by process %d that it names", dir.Lock(), pid)
		}
	}
	record := dir.ReadRecord()
	// It dies of its parent's death; the end of pid 1 is the end of all, and only then the kernel lets go of mounts.
	if err := record.Init.Kill(patience); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return nil
	}
	cgroups, err := cgroup.Of(cgroup.Mount, dir.Name)
	if err != nil {
		return nil // without a cgroup file system there is nothing of ours in it
	}
	return cgroups.Remove(patience)
}

// Remove stops a cluster and removes its files.
func Remove(dir state.Dir) error {
	if err := Stop(dir); err != nil {
		return err
	}
	// A snapshot can be busy for a moment after its last user has died.
	deadline := time.Now().Add(patience)
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

// All returns every cluster of which something is left: files, or cgroups of a cluster whose files are gone.
func All() ([]state.Dir, error) {
	dirs, err := state.List()
	seen := map[string]bool{}
	for _, dir := range dirs {
		seen[dir.Name] = true
	}
	for _, name := range cgroup.Clusters(cgroup.Mount) {
		dir, wrong := state.Of(name)
		if wrong == nil && !seen[name] {
			dirs = append(dirs, dir)
		}
		err = errors.Join(err, wrong)
	}
	return dirs, err
}
