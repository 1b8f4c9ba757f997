package state

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Exclusive blocks all other starts and removals of clusters until it is released. A removal must
// not delete the files of a concurrent start.
func Exclusive() (release func(), err error) {
	for {
		if err := os.MkdirAll(Base(), 0o755); err != nil {
			return nil, fmt.Errorf("make the directory of clusters: %w", err)
		}
		base, err := os.Open(Base())
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("lock the directory of clusters: %w", err)
		}
		if err := unix.Flock(int(base.Fd()), unix.LOCK_EX); err != nil {
			base.Close()
			return nil, fmt.Errorf("lock the directory of clusters: %w", err)
		}
		if isCurrent(base) {
			return func() {
				os.Remove(Base()) // succeeds only without clusters
				base.Close()
			}, nil
		}
		base.Close() // the previous holder removed the directory, so this lock is useless
	}
}

// isCurrent reports whether an open directory still has its name.
func isCurrent(base *os.File) bool {
	held, err := base.Stat()
	if err != nil {
		return false
	}
	found, err := os.Stat(filepath.Clean(Base()))
	return err == nil && os.SameFile(held, found)
}
