// Package image packs one static binary as a container image with nothing else in it. The same
// binary always gives the same bytes.
package image

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// NonRoot is the default user of an image. It is numeric, because the kubelet cannot verify that a
// named user is not root.
const NonRoot = "65532:65532"

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
	packed, err := i.pack()
	if err != nil {
		return fmt.Errorf("pack %s: %w", i.Binary, err)
	}
	// Renaming replaces the file atomically.
	next := file + ".next"
	if err := tarball.WriteToFile(next, tag, packed); err != nil {
		os.Remove(next)
		return fmt.Errorf("write image: %w", err)
	}
	return os.Rename(next, file)
}

func (i Image) pack() (v1.Image, error) {
	content, err := i.layer()
	if err != nil {
		return nil, err
	}
	// Not compressed, because the tarball stays on one disk.
	layer := static.NewLayer(content, types.DockerUncompressedLayer)
	packed, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	inside := path.Join("/", filepath.Base(i.Binary))
	entrypoint := i.Entrypoint
	if len(entrypoint) == 0 {
		entrypoint = []string{inside}
	}
	file, err := packed.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", runtime.GOARCH
	file.Created = v1.Time{Time: time.Unix(0, 0).UTC()}
	for step := range file.History {
		file.History[step].Created = file.Created
	}
	file.Config = v1.Config{
		User:       i.User,
		Entrypoint: entrypoint,
		Env:        []string{"PATH=/"},
		WorkingDir: "/",
	}
	return mutate.ConfigFile(packed, file)
}

// layer returns the file system: the binary and an empty /tmp.
func (i Image) layer() ([]byte, error) {
	binary, err := os.ReadFile(i.Binary)
	if err != nil {
		return nil, err
	}
	if err := checkStatic(binary); err != nil {
		return nil, err
	}
	var layer bytes.Buffer
	files := tar.NewWriter(&layer)
	// Zero times and root as owner make the bytes reproducible.
	if err := files.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}); err != nil {
		return nil, err
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: filepath.Base(i.Binary), Mode: 0o755, Size: int64(len(binary))}
	if err := files.WriteHeader(header); err != nil {
		return nil, err
	}
	if _, err := files.Write(binary); err != nil {
		return nil, err
	}
	return layer.Bytes(), files.Close()
}
