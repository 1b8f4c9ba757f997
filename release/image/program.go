// Package image packs one static binary as a container image with nothing else in it. The same
// binary always gives the same bytes.
package image

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// NonRoot is the default user of an image. It is numeric, because the kubelet cannot verify that a
// named user is not root.
const NonRoot = "65532:65532"

// Program is a binary, and how a container runs it.
type Program struct {
	// Binary is the file to pack. It must be statically linked: the image has no loader.
	Binary string
	// Architecture is the binary's, as in GOARCH.
	Architecture string
	// User is a numeric user and group.
	User string
	// Entrypoint is the command line; empty means the binary alone.
	Entrypoint []string
	// Labels describe the image.
	Labels map[string]string
	// Created is the time in the image's configuration; zero means 1970, never the present.
	Created time.Time
}

// Uncompressed returns an image for one disk, where compression only takes time.
func (p Program) Uncompressed() (v1.Image, error) {
	content, err := p.layer()
	if err != nil {
		return nil, fmt.Errorf("pack %s: %w", p.Binary, err)
	}
	return p.configure(empty.Image, static.NewLayer(content, types.DockerUncompressedLayer))
}

// Compressed returns an image for registries, in the formats of OCI.
func (p Program) Compressed() (v1.Image, error) {
	content, err := p.layer()
	if err != nil {
		return nil, fmt.Errorf("pack %s: %w", p.Binary, err)
	}
	layer, err := compress(content)
	if err != nil {
		return nil, fmt.Errorf("pack %s: %w", p.Binary, err)
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	packed, err := p.configure(base, layer)
	if err != nil {
		return nil, err
	}
	return mutate.Annotations(packed, p.Labels).(v1.Image), nil
}

func (p Program) configure(base v1.Image, layer v1.Layer) (v1.Image, error) {
	packed, err := mutate.AppendLayers(base, layer)
	if err != nil {
		return nil, err
	}
	file, err := packed.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", p.Architecture
	file.Created = p.created()
	for step := range file.History {
		file.History[step].Created = file.Created
	}
	file.Config = v1.Config{
		User:       p.User,
		Entrypoint: p.entrypoint(),
		Env:        []string{"PATH=/"},
		WorkingDir: "/",
		Labels:     p.Labels,
	}
	return mutate.ConfigFile(packed, file)
}

func (p Program) created() v1.Time {
	if p.Created.IsZero() {
		return v1.Time{Time: time.Unix(0, 0).UTC()}
	}
	return v1.Time{Time: p.Created.UTC()}
}

func (p Program) entrypoint() []string {
	if len(p.Entrypoint) == 0 {
		return []string{path.Join("/", filepath.Base(p.Binary))}
	}
	return p.Entrypoint
}

func (p Program) layer() ([]byte, error) {
	binary, err := os.ReadFile(p.Binary)
	if err != nil {
		return nil, err
	}
	if err := check(binary, p.Architecture); err != nil {
		return nil, err
	}
	return archive(filepath.Base(p.Binary), binary)
}
