package node

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
)

// reaper is the duty of pid 1: to wait for every process that ends, its own children and those that lost their parents.
//
// It takes the exits of all, so nobody in this process may wait in the usual way; who starts a child here gets a channel
// for its end instead.
type reaper struct {
	mu       sync.Mutex
	children map[int]chan<- syscall.WaitStatus
}

func newReaper() *reaper {
	r := &reaper{children: map[int]chan<- syscall.WaitStatus{}}
	exits := make(chan os.Signal, 1) // one waiting signal is enough: reap takes all that have ended
	signal.Notify(exits, syscall.SIGCHLD)
	go func() {
		for range exits {
			r.reap()
		}
	}()
	return r
}

// start runs a command and returns a channel that gets its end. The lock is held meanwhile: a child may end before Start
// has even returned, and would be reaped as nobody's.
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

// describe tells how a process ended.
func describe(status syscall.WaitStatus) string {
	if status.Signaled() {
		return fmt.Sprintf("was killed (%s)", status.Signal())
	}
	return fmt.Sprintf("ended with exit code %d", status.ExitStatus())
}
