// Package image writes an image of one static binary as a tarball for the cluster's containerd.
package image

import (
	"fmt"
	"os"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"rouse.dev/release/image"
)

// NonRoot is the default user of an image.
const NonRoot = image.NonRoot

// Image describes an image to pack.
type Image struct {
	// Name is the image's name, as in pod specs.
	Name string
	// Binary is the file to pack. It must be statically linked: the image has no loader.
	Binary string
	// User is a numeric user and group.
	User string
	// Entrypoint is the command line; empty means the binary alone.
	Entrypoint []string
}

// Write packs the image into a tarball that containerd and others can import.
func (i Image) Write(file string) error {
	tag, err := name.NewTag(i.Name)
	if err != nil {
		return fmt.Errorf("image name: %w", err)
	}
	packed, err := image.Program{
		Binary:       i.Binary,
		Architecture: runtime.GOARCH,
		User:         i.User,
		Entrypoint:   i.Entrypoint,
	}.Uncompressed()
	if err != nil {
		return err
	}
	// Renaming replaces the file atomically.
	next := file + ".next"
	if err := tarball.WriteToFile(next, tag, packed); err != nil {
		os.Remove(next)
		return fmt.Errorf("write image: %w", err)
	}
	return os.Rename(next, file)
}
