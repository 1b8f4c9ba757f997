// Package image packs one static binary as a container image. Nothing else is in it, and the same binary always gives the
// same bytes.
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

// NonRoot is who runs in an image unless somebody else is named. It is a number: the kubelet cannot prove of a name that
// it is not root's.
const NonRoot = "65532:65532"

// Image is what to pack.
type Image struct {
	// Name is the image's name, as pods will give it.
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
	// The next file takes the place of the last in one step: a reader never sees half an image.
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
	// Not compressed: the tarball goes from one disk to the same one.
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

// layer is the whole file system: the binary, and a /tmp for those who want one.
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
	// Times stay zero and owners root's.
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
