package command

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// leastDisk is the free space, in bytes, that the images, pods and logs of a test need.
const leastDisk = 2 << 30

// requireDisk returns an error if the file system of path has less free space than least. Without it, a
// cluster starts and the kubelet evicts its pods minutes later.
func requireDisk(path string, least uint64) error {
	var filesystem unix.Statfs_t
	if err := unix.Statfs(path, &filesystem); err != nil {
		return fmt.Errorf("read the free space of %s: %w", path, err)
	}
	if free := filesystem.Bavail * uint64(filesystem.Bsize); free < least {
		return fmt.Errorf("%s has %d MiB of free disk; a node needs %d MiB", path, free>>20, least>>20)
	}
	return nil
}
