package tests

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"rouse.dev/release/contents"
	"rouse.dev/release/image"
	"rouse.dev/release/source"
)

func commit(t *testing.T) source.Commit {
	t.Helper()
	head, err := source.Read("../..")
	if err != nil {
		t.Fatal(err)
	}
	return head
}

func TestEveryImageIsForBothPlatformsAndDescribed(t *testing.T) {
	release, head := built(t), commit(t)
	for _, program := range contents.Images {
		manifest, err := release.index(t, program).IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		var platforms []string
		for _, described := range manifest.Manifests {
			platforms = append(platforms, described.Platform.String())
		}
		if !slices.Equal(platforms, []string{"linux/amd64", "linux/arm64"}) {
			t.Errorf("%s is for %v", program.Name, platforms)
		}
		version := manifest.Annotations["org.opencontainers.image.version"]
		want := image.Labels("Rouse "+program.Name, version, head.Hash, head.Time)
		for _, platform := range contents.Platforms {
			config, err := release.image(t, program, platform).ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			for key, value := range want {
				if value == "" || config.Config.Labels[key] != value || manifest.Annotations[key] != value {
					t.Errorf("%s for %s: %s is %q, in the index %q", program.Name, platform.Architecture,
						key, config.Config.Labels[key], manifest.Annotations[key])
				}
			}
		}
	}
}

// Builds of one commit by the same compilers can be compared by their digests.
func TestPackingAgainGivesTheSameBytes(t *testing.T) {
	release := built(t)
	again := filepath.Join(t.TempDir(), "again")
	if output, err := exec.CommandContext(t.Context(), "sh", "-c", os.Getenv("PACK_AGAIN")+" "+again).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	count := 0
	err := filepath.WalkDir(again, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == "index.json" {
			return err // index.json lists the signatures, too
		}
		name, _ := filepath.Rel(again, file)
		first, err := os.ReadFile(release.path(name))
		if err != nil {
			return err
		}
		second, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if string(first) != string(second) {
			t.Errorf("%s differs", name)
		}
		count++
		return nil
	})
	if err != nil || count < 30 {
		t.Errorf("compared %d files, %v", count, err)
	}
}
