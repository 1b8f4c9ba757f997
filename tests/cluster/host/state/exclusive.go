package state

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Exclusive keeps all other starts and removals of clusters waiting until it is released: one that cleans up what another
// is just making would leave a mess.
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
		if still(base) {
			return func() {
				os.Remove(Base()) // where this was the last cluster; it fails where it was not
				base.Close()
			}, nil
		}
		base.Close() // the one before us removed it: ours is the lock of nothing
	}
}

// still tells whether an open directory is the one that is found under its name.
func still(base *os.File) bool {
	held, err := base.Stat()
	if err != nil {
		return false
	}
	found, err := os.Stat(filepath.Clean(Base()))
	return err == nil && os.SameFile(held, found)
}
