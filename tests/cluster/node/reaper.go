package node

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
)

// reaper waits for every process that ends, as pid 1 must: its own children and orphans.
//
// It reaps all of them, so no other code of this process may wait for a child. Instead, start
// returns a channel for the end of the child.
type reaper struct {
	mu       sync.Mutex
	children map[int]chan<- syscall.WaitStatus
}

func newReaper() *reaper {
	r := &reaper{children: map[int]chan<- syscall.WaitStatus{}}
	exits := make(chan os.Signal, 1) // one pending signal is enough: reap handles all ended processes
	signal.Notify(exits, syscall.SIGCHLD)
	go func() {
		for range exits {
			r.reap()
		}
	}()
	return r
}

// start starts a command and returns a channel for its exit status. The lock is held meanwhile: a
// child may end before Start returns, and would be reaped as an orphan.
func (r *reaper) start(command *exec.Cmd) (<-chan syscall.WaitStatus, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", command.Args[0], err)
	}
	ended := make(chan syscall.WaitStatus, 1)
	r.children[command.Process.Pid] = ended
	return ended, command.Process.Release()
}

func (r *reaper) reap() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if pid <= 0 || err != nil {
			return
		}
		if ended := r.children[pid]; ended != nil {
			ended <- status
			delete(r.children, pid)
		}
	}
}

// describe returns an exit status as text.
func describe(status syscall.WaitStatus) string {
	if status.Signaled() {
		return fmt.Sprintf("was killed (%s)", status.Signal())
	}
	return fmt.Sprintf("ended with exit code %d", status.ExitStatus())
}
