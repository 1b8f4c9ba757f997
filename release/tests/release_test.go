// Package tests checks a built release, as a user gets it: `make test-release`.
package tests

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"rouse.dev/release/contents"
	"rouse.dev/release/repository"
)

// release is a built release, with the programs that read it.
type release struct {
	contents.Folder
	cosign, helm, qemu string
}

// built returns the release of make.
func built(t *testing.T) release {
	t.Helper()
	if os.Getenv("RELEASE") == "" {
		t.Skip("make test-release builds a release for this test")
	}
	return release{contents.Folder(os.Getenv("RELEASE")), os.Getenv("COSIGN"), os.Getenv("HELM"), os.Getenv("QEMU")}
}

// path is a file of the release.
func (r release) path(name string) string { return filepath.Join(string(r.Folder), name) }

// run runs a program that has to succeed. A connection to anything but loopback fails, because
// nothing listens at that proxy.
func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	output, err := offline(t, program, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(program), strings.Join(args, " "), err, output)
	}
	return output
}

func offline(t *testing.T, program string, args ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), program, args...)
	command.Env = append(os.Environ(),
		"HOME="+t.TempDir(), "HTTP_PROXY=http://127.0.0.1:1", "HTTPS_PROXY=http://127.0.0.1:1", "NO_PROXY=127.0.0.1")
	output, err := command.CombinedOutput()
	return string(output), err
}

// index returns the image of a program, for all platforms.
func (r release) index(t *testing.T, program contents.Program) v1.ImageIndex {
	t.Helper()
	stored, err := layout.FromPath(r.Repository(program.Repository()))
	if err != nil {
		t.Fatal(err)
	}
	all, err := stored.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	index, err := all.ImageIndex(r.digest(t, program.Repository()))
	if err != nil {
		t.Fatal(err)
	}
	return index
}

// digest is the digest of an image or of the chart.
func (r release) digest(t *testing.T, path string) v1.Hash {
	t.Helper()
	opened, err := repository.Open(r.Repository(path))
	if err != nil {
		t.Fatal(err)
	}
	subject, err := opened.Subject()
	if err != nil {
		t.Fatal(err)
	}
	return subject.Digest
}

// image returns a program's image for a platform.
func (r release) image(t *testing.T, program contents.Program, platform contents.Platform) v1.Image {
	t.Helper()
	index := r.index(t, program)
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, described := range manifest.Manifests {
		if described.Platform.Architecture == platform.Architecture {
			image, err := index.Image(described.Digest)
			if err != nil {
				t.Fatal(err)
			}
			return image
		}
	}
	t.Fatalf("%s has no image for %s", program.Name, platform.Architecture)
	return nil
}

// binary returns a program's file: from its image, if it has one.
func (r release) binary(t *testing.T, program contents.Program, platform contents.Platform) string {
	t.Helper()
	if slices.Contains(contents.Tools, program) {
		return r.unpacked(t, program, platform)
	}
	layers, err := r.image(t, program, platform).Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	reader, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	file := filepath.Join(t.TempDir(), program.Name)
	if err := extract(reader, program.Name, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// unpacked returns a tool's file from its archive.
func (r release) unpacked(t *testing.T, program contents.Program, platform contents.Platform) string {
	t.Helper()
	archive, err := os.Open(r.Tool(program, platform))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	reader, err := gzip.NewReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	name := platform.Executable(program.Name)
	file := filepath.Join(t.TempDir(), name)
	if err := extract(reader, name, file); err != nil {
		t.Fatal(err)
	}
	return file
}

func extract(layer io.Reader, member, to string) error {
	files := tar.NewReader(layer)
	for {
		header, err := files.Next()
		if err != nil {
			return fmt.Errorf("find %s in a layer: %w", member, err)
		}
		if header.Name == member {
			var content bytes.Buffer
			if _, err := io.Copy(&content, files); err != nil {
				return err
			}
			return os.WriteFile(to, content.Bytes(), 0o755)
		}
	}
}

// programs are all of the release.
func programs() []contents.Program { return slices.Concat(contents.Images, contents.Tools) }

// platforms are those of a program in a release that `make release` builds.
func platforms(program contents.Program) []contents.Platform {
	if slices.Contains(contents.Tools, program) {
		return append(slices.Clone(contents.Platforms), contents.Desktops[0])
	}
	return contents.Platforms
}

// registry starts a registry in memory and pushes the release to it by the release tool's command.
func (r release) registry(t *testing.T) string {
	t.Helper()
	host, stop, err := repository.InMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stop() })
	pushed := run(t, os.Getenv("RELEASE_TOOL"), "push", "--registry", host, string(r.Folder))
	if lines := strings.Count(pushed, host+"/rouse/"); lines != len(contents.Images)+1 {
		t.Fatalf("pushed %s", pushed)
	}
	return host
}

// pushed is the reference of an image or the chart in a registry.
func (r release) pushed(t *testing.T, host, path string) string {
	t.Helper()
	to, err := name.NewRepository(host + "/" + path)
	if err != nil {
		t.Fatal(err)
	}
	return to.Digest(r.digest(t, path).String()).String()
}
