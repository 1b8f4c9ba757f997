package chart

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// chartValues are the values of the repository's chart, so that a new image there cannot be
// forgotten.
func chartValues(t *testing.T) string {
	t.Helper()
	values, err := os.ReadFile("../../chart/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(values)
}

func digests() map[string]string {
	all := map[string]string{}
	for _, name := range []string{"queue-proxy", "activator", "metrics-adapter", "zero-scaler"} {
		all["rouse/"+name] = digest
	}
	return all
}

func TestPinsEveryImageAndKeepsTheRest(t *testing.T) {
	values := chartValues(t)
	pinned, err := pin(values, digests())
	if err != nil {
		t.Fatal(err)
	}
	if count := strings.Count(pinned, "digest: "+digest); count != 4 || strings.Contains(pinned, `digest: ""`) {
		t.Errorf("%d digests in\n%s", count, pinned)
	}
	if unpinned := strings.ReplaceAll(pinned, digest, `""`); unpinned != values {
		t.Errorf("changed more than digests:\n%s", unpinned)
	}
}

func TestRejectsImageWithoutDigest(t *testing.T) {
	values := chartValues(t)
	incomplete := digests()
	delete(incomplete, "rouse/activator")
	if _, err := pin(values, incomplete); err == nil || !strings.Contains(err.Error(), "rouse/activator") {
		t.Errorf("%v", err)
	}
	reordered := strings.Replace(values, "    tag: \"\"\n    digest: \"\"\n", "    digest: \"\"\n    tag: \"\"\n", 1)
	if _, err := pin(reordered, digests()); err == nil {
		t.Error("an image without a digest was accepted")
	}
}

func TestRejectsChartOfAnotherVersion(t *testing.T) {
	_, err := Source{Folder: "../../chart", Version: "9.9.9", Digests: digests()}.Pack("helm", t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "version: 9.9.9") {
		t.Errorf("%v", err)
	}
}

func TestArtifactHasHelmsTypesAndTheBytesOfTheArchive(t *testing.T) {
	archive := filepath.Join(t.TempDir(), "rouse-0.1.0.tgz")
	if err := os.WriteFile(archive, []byte("packed"), 0o644); err != nil {
		t.Fatal(err)
	}
	packed, err := Artifact(archive, "../../chart/Chart.yaml", map[string]string{"org.opencontainers.image.version": "0.1.0"})
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := packed.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	if manifest.Config.MediaType != configType || len(manifest.Layers) != 1 || manifest.Layers[0].MediaType != contentType {
		t.Errorf("%+v", manifest)
	}
	config, err := packed.RawConfigFile()
	if err != nil || !bytes.Contains(config, []byte(`"name":"rouse"`)) {
		t.Errorf("%s %v", config, err)
	}
}
