// Package repository keeps one repository of a registry as a folder in the form of an OCI layout:
// an image or the chart, then its signatures and attestations. The content comes from a build or
// from a registry, and is pushed to a registry with the same digests.
package repository

import (
	"errors"
	"fmt"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// tagKey is OCI's annotation of a tag in a layout.
const tagKey = "org.opencontainers.image.ref.name"

// ErrEmpty reports a layout without an image.
var ErrEmpty = errors.New("no image")

// Repository is a layout.
type Repository struct {
	layout layout.Path
	folder string
}

// Create begins an empty layout, in place of an earlier one.
func Create(folder string) (Repository, error) {
	if err := os.RemoveAll(folder); err != nil {
		return Repository{}, err
	}
	created, err := layout.Write(folder, empty.Index)
	if err != nil {
		return Repository{}, fmt.Errorf("create %s: %w", folder, err)
	}
	return Repository{created, folder}, nil
}

// Open opens a layout.
func Open(folder string) (Repository, error) {
	opened, err := layout.FromPath(folder)
	if err != nil {
		return Repository{}, fmt.Errorf("open %s: %w", folder, err)
	}
	return Repository{opened, folder}, nil
}

// AddIndex adds an image of several platforms.
func (r Repository) AddIndex(index v1.ImageIndex, tag string) error {
	return r.layout.AppendIndex(index, layout.WithAnnotations(map[string]string{tagKey: tag}))
}

// AddImage adds an image or artifact.
func (r Repository) AddImage(image v1.Image, tag string) error {
	return r.layout.AppendImage(image, layout.WithAnnotations(map[string]string{tagKey: tag}))
}

// Subject describes what all else in the layout is about: its first entry.
func (r Repository) Subject() (v1.Descriptor, error) {
	entries, err := r.entries()
	if err != nil {
		return v1.Descriptor{}, err
	}
	if len(entries) == 0 {
		return v1.Descriptor{}, fmt.Errorf("%s: %w", r.folder, ErrEmpty)
	}
	return entries[0], nil
}

func (r Repository) entries() ([]v1.Descriptor, error) {
	index, err := r.layout.ImageIndex()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", r.folder, err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", r.folder, err)
	}
	return manifest.Manifests, nil
}
