package state

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrHeld reports that another process holds the lock of the cluster.
var ErrHeld = errors.New("the cluster already has a supervisor")

// Hold locks the cluster while the returned file is open, here or in a process that inherited it.
// The kernel releases the lock when the last of them ends, in whatever way, so a held lock means a
// running process. A pid in a file does not.
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

// Sign writes the pid of the calling process into the lock that it holds. A process that inherited
// the lock signs it too, so that the cluster is locked without a gap.
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

// Supervisor returns the pid of the process that holds the lock, or 0.
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
