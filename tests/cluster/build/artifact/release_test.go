package artifact

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const source = "../../programs"

// The modules of a release's components are v0.MINOR.PATCH of its own version.
func TestModulesRequireTheirRelease(t *testing.T) {
	component := regexp.MustCompile(`(?m)^\tk8s\.io/(?:[a-z-]+ => k8s\.io/)?(?:api|kubectl|kubelet|client-go|kubernetes) (v\S+)$`)
	for _, release := range releases {
		file := release.Kubernetes().module
		if file == "" {
			file = "go.mod"
		}
		text, err := os.ReadFile(filepath.Join(source, "kubernetes", file))
		if err != nil {
			t.Fatal(err)
		}
		staged := "v0" + strings.TrimPrefix(string(release), "v1")
		found := component.FindAllStringSubmatch(string(text), -1)
		if len(found) < 5 {
			t.Errorf("%s: %q", file, found)
		}
		for _, match := range found {
			if version := match[1]; version != string(release) && version != staged && version != "v0.0.0" {
				t.Errorf("%s has %s, not %s", file, version, release)
			}
		}
	}
}

func TestSelectsReleaseByMinorVersion(t *testing.T) {
	if release, err := ReleaseOf("1.34"); err != nil || release.Minor() != "1.34" {
		t.Errorf("%s %v", release, err)
	}
	if _, err := ReleaseOf("1.3"); err == nil || !strings.Contains(err.Error(), "1.37, 1.36, 1.35, 1.34, 1.33") {
		t.Errorf("%v", err)
	}
}

// A change of one version's module must not build the others again.
func TestBinaryDependsOnTheModuleOfItsVersionAlone(t *testing.T) {
	entries, err := os.ReadDir(filepath.Join(source, "kubernetes"))
	if err != nil {
		t.Fatal(err)
	}
	older, err := ReleaseOf("1.34")
	if err != nil {
		t.Fatal(err)
	}
	cases := map[Release][]string{
		Newest: {"go.mod", "go.sum", "main.go"},
		older:  {"main.go", "versions/1.34.mod", "versions/1.34.sum"},
	}
	for release, want := range cases {
		if got := release.Kubernetes().inputs(entries); !slices.Equal(got, want) {
			t.Errorf("%s: %q", release, got)
		}
	}
}
