package image

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

var labels = map[string]string{"org.opencontainers.image.version": "0.1.0"}

// program writes the smallest ELF file for a machine, with segments of these types.
func program(t *testing.T, machine elf.Machine, segments ...elf.ProgType) string {
	t.Helper()
	var file bytes.Buffer
	header := elf.Header64{
		Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT),
		Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: uint16(len(segments)),
	}
	copy(header.Ident[:], []byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)})
	_ = binary.Write(&file, binary.LittleEndian, header)
	for _, segment := range segments {
		_ = binary.Write(&file, binary.LittleEndian, elf.Prog64{Type: uint32(segment)})
	}
	name := filepath.Join(t.TempDir(), "activator")
	if err := os.WriteFile(name, file.Bytes(), 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

// both packs a program for both platforms.
func both(t *testing.T, amd64, arm64 string) v1.ImageIndex {
	t.Helper()
	var images []v1.Image
	for _, program := range []Program{
		{Binary: amd64, Architecture: "amd64", User: NonRoot, Labels: labels},
		{Binary: arm64, Architecture: "arm64", User: NonRoot, Labels: labels},
	} {
		packed, err := program.Compressed()
		if err != nil {
			t.Fatal(err)
		}
		images = append(images, packed)
	}
	index, err := Index(labels, images...)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

// A second build of a release has the published digests.
func TestSameBinariesGiveTheSameDigest(t *testing.T) {
	amd64, arm64 := program(t, elf.EM_X86_64), program(t, elf.EM_AARCH64)
	first, err := both(t, amd64, arm64).Digest()
	if err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(amd64, later, later); err != nil {
		t.Fatal(err)
	}
	second, err := both(t, amd64, arm64).Digest()
	if err != nil || first != second {
		t.Errorf("%v and %v, %v", first, second, err)
	}
}

// The kubelet of each node pulls the index and selects the image by its platform.
func TestIndexHasBothPlatforms(t *testing.T) {
	index := both(t, program(t, elf.EM_X86_64), program(t, elf.EM_AARCH64))
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, described := range manifest.Manifests {
		platforms = append(platforms, described.Platform.String())
		if described.MediaType != types.OCIManifestSchema1 {
			t.Errorf("%s is a %s", described.Platform, described.MediaType)
		}
	}
	if !slices.Equal(platforms, []string{"linux/amd64", "linux/arm64"}) || manifest.MediaType != types.OCIImageIndex {
		t.Errorf("%v in a %s", platforms, manifest.MediaType)
	}
	if !maps.Equal(manifest.Annotations, labels) {
		t.Errorf("%v", manifest.Annotations)
	}
}

func TestConfiguration(t *testing.T) {
	created := time.Date(2026, 11, 25, 16, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		name       string
		program    Program
		entrypoint []string
		created    time.Time
	}{
		{"binary alone", Program{User: NonRoot, Labels: labels, Created: created}, []string{"/activator"}, created},
		{"with arguments", Program{User: "0:0", Entrypoint: []string{"/activator", "-v"}}, []string{"/activator", "-v"}, time.Unix(0, 0)},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.program.Binary, test.program.Architecture = program(t, elf.EM_AARCH64), "arm64"
			packed, err := test.program.Compressed()
			if err != nil {
				t.Fatal(err)
			}
			file, err := packed.ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			set := file.Config
			if set.User != test.program.User || !slices.Equal(set.Entrypoint, test.entrypoint) || !maps.Equal(set.Labels, test.program.Labels) {
				t.Errorf("%+v", set)
			}
			if file.OS != "linux" || file.Architecture != "arm64" || !file.Created.Equal(test.created) {
				t.Errorf("%s/%s of %v", file.OS, file.Architecture, file.Created)
			}
		})
	}
}

func TestRejectsBinariesThatCannotRun(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for message, binary := range map[string]string{
		"not a Linux program":    script,
		"no such file":           "/nowhere",
		"dynamically linked":     program(t, elf.EM_AARCH64, elf.PT_LOAD, elf.PT_INTERP),
		"the image is for arm64": program(t, elf.EM_X86_64),
	} {
		_, err := Program{Binary: binary, Architecture: "arm64"}.Compressed()
		if err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%q instead of %q", err, message)
		}
	}
}

// Programs that unpack layers, such as GNU tar, refuse an archive without its end.
func TestLayerIsCompleteArchive(t *testing.T) {
	const block = 512
	layer, err := archive("activator", []byte("binary"))
	if err != nil {
		t.Fatal(err)
	}
	// Two headers, the file, and two empty blocks.
	if want := 5 * block; len(layer) != want || !bytes.Equal(layer[3*block:], make([]byte, 2*block)) {
		t.Errorf("the layer has %d bytes, not %d that end with two empty blocks", len(layer), want)
	}
}
