package state

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrHeld says that another process has the cluster.
var ErrHeld = errors.New("the cluster has a supervisor already")

// Hold makes the calling process the cluster's holder for as long as the returned file is open, here or in a process that
// inherited it. The kernel gives the lock back however the last of them ends, so a held lock is proof of life where a pid
// in a file is none.
func (d Dir) Hold() (*os.File, error) {
	file, err := os.OpenFile(d.Lock(), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the supervisor's lock: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, ErrHeld
		}
		return nil, fmt.Errorf("lock %s: %w", d.Lock(), err)
	}
	if err := Sign(file); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// Sign writes the calling process into the lock that it holds. One who inherited the lock signs for itself: between the
// two there is no moment in which nobody holds the cluster.
func Sign(held *os.File) error {
	err := held.Truncate(0)
	if err == nil {
		_, err = held.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0)
	}
	if err != nil {
		return fmt.Errorf("sign the supervisor's lock: %w", err)
	}
	return nil
}

// Supervisor returns the pid of the process that holds the cluster, or 0 when none does.
func (d Dir) Supervisor() int {
	file, err := os.Open(d.Lock())
	if err != nil {
		return 0
	}
	defer file.Close()
	if unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil {
		return 0
	}
	content, err := os.ReadFile(d.Lock())
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(content)))
	return pid
}
