package image

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// program builds a small static program.
func program(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pause")
	command := exec.Command("go", "build", "-o", file, "rouse.dev/cluster/programs/pause")
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	return file
}

func TestSameBinaryGivesTheSameBytes(t *testing.T) {
	packed := Image{Name: "rouse/activator:v0.1.0", Binary: program(t), User: NonRoot}
	var files [2][]byte
	for i := range files {
		// A changed modification time must not change the bytes.
		later := time.Now().Add(time.Duration(i) * time.Hour)
		if err := os.Chtimes(packed.Binary, later, later); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "image.tar")
		if err := packed.Write(file); err != nil {
			t.Fatal(err)
		}
		files[i], _ = os.ReadFile(file)
	}
	if !bytes.Equal(files[0], files[1]) {
		t.Error("two tarballs of one binary differ")
	}
}

func TestConfiguration(t *testing.T) {
	binary := program(t)
	for _, test := range []struct {
		name       string
		image      Image
		entrypoint []string
	}{
		{"binary alone", Image{User: NonRoot}, []string{"/pause"}},
		{"with arguments", Image{User: "0:0", Entrypoint: []string{"/pause", "-v"}}, []string{"/pause", "-v"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.image.Name, test.image.Binary = "rouse/activator:v0.1.0", binary
			file := filepath.Join(t.TempDir(), "image.tar")
			if err := test.image.Write(file); err != nil {
				t.Fatal(err)
			}
			packed, err := tarball.ImageFromPath(file, nil)
			if err != nil {
				t.Fatal(err)
			}
			config, err := packed.ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			if config.Config.User != test.image.User || !slices.Equal(config.Config.Entrypoint, test.entrypoint) || config.OS != "linux" {
				t.Errorf("%+v", config)
			}
			if !slices.ContainsFunc(config.Config.Env, func(set string) bool { return strings.HasPrefix(set, "PATH=") }) {
				t.Errorf("no PATH in %v", config.Config.Env)
			}
		})
	}
}

// The kubelet finds an image by the name in the pod spec, so the tarball needs exactly that name.
func TestIdentity(t *testing.T) {
	file := filepath.Join(t.TempDir(), "image.tar")
	if err := (Image{Name: "rouse/activator:v0.1.0", Binary: program(t), User: NonRoot}).Write(file); err != nil {
		t.Fatal(err)
	}
	name, id, err := Identify(file)
	if err != nil || name != "rouse/activator:v0.1.0" || !strings.HasPrefix(id, "sha256:") {
		t.Errorf("%q %q %v", name, id, err)
	}
}

func TestRejectsBinariesThatCannotRun(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	// The shell is a dynamically linked program.
	shell, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Skip("no shell")
	}
	for _, binary := range []string{script, shell, "/nowhere"} {
		file := filepath.Join(t.TempDir(), "image.tar")
		if err := (Image{Name: "a:b", Binary: binary}).Write(file); err == nil {
			t.Errorf("packed %s", binary)
		}
		if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("left a file for %s", binary)
		}
	}
}
