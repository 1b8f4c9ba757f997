package tests

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"rouse.dev/release/contents"
)

// reference matches an image in an object of the chart.
var reference = regexp.MustCompile(`registry\.example\.com/(rouse/[a-z-]+)([:@][^\s"']+)?`)

func (r release) archive(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob(r.path("rouse-*.tgz"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v %v", found, err)
	}
	return found[0]
}

// render is the chart on the newest Kubernetes, where its choices need no cluster.
func (r release) render(t *testing.T, chart string, args ...string) string {
	t.Helper()
	return run(t, r.helm, append([]string{"template", "rouse", chart, "--namespace", "rouse-system",
		"--set", "image.registry=registry.example.com,metricsApi=external,sidecar.injection=policy"}, args...)...)
}

// A tag could later name another image than the one that was tested and signed.
func TestChartNamesOnlyDigestsOfTheRelease(t *testing.T) {
	release := built(t)
	rendered := release.render(t, release.archive(t))
	named := map[string]bool{}
	for _, match := range reference.FindAllStringSubmatch(rendered, -1) {
		named[match[1]] = true
		if want := "@" + release.digest(t, match[1]).String(); match[2] != want {
			t.Errorf("%s instead of %s", match[0], want)
		}
	}
	for _, program := range contents.Images {
		if program.Name != "sample-app" && !named[program.Repository()] {
			t.Errorf("the chart does not name %s", program.Repository())
		}
	}
	for line := range strings.Lines(rendered) {
		if strings.Contains(line, "image: ") && !strings.Contains(line, "@sha256:") && strings.Contains(line, "rouse/") {
			t.Errorf("no digest in %s", line)
		}
	}
}

func TestRegistryGivesTheSameChart(t *testing.T) {
	release := built(t)
	host := release.registry(t)
	archive := release.archive(t)
	version := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(archive), "rouse-"), ".tgz")
	chart := "oci://" + host + "/" + contents.ChartRepository
	folder := t.TempDir()
	run(t, release.helm, "pull", chart, "--version", version, "--plain-http", "--destination", folder)
	pulled, err := os.ReadFile(filepath.Join(folder, filepath.Base(archive)))
	if err != nil {
		t.Fatal(err)
	}
	packed, err := os.ReadFile(archive)
	if err != nil || !bytes.Equal(pulled, packed) {
		t.Errorf("another chart, %v", err)
	}
	fromRegistry := release.render(t, chart, "--version", version, "--plain-http")
	// Helm prints where it pulled from first.
	if _, objects, _ := strings.Cut(fromRegistry, "---\n"); !strings.HasSuffix(release.render(t, archive), objects) {
		t.Error("the chart of the registry renders other objects")
	}
}
