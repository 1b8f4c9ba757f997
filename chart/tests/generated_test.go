package chart

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"rouse.dev/chart/templates"
	"sigs.k8s.io/yaml"
)

// The templates that the repository has are those that deploy/ makes.
func TestTemplatesEqualDeploy(t *testing.T) {
	generated, err := templates.Render(deploy)
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(chartFolder, templates.Folder)
	err = fs.WalkDir(os.DirFS(folder), ".", func(path string, entry fs.DirEntry, err error) error {
		if _, known := generated[path]; !known && err == nil && !entry.IsDir() {
			t.Errorf("%s is made from no manifest; run make chart", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range generated {
		got, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil || string(got) != want {
			t.Errorf("%s differs from deploy/; run make chart (%v)", name, err)
		}
	}
}

// A manifest that is new in deploy/ needs a line in the generator's table.
func TestEveryManifestHasATemplate(t *testing.T) {
	generated, err := templates.Render(deploy)
	if err != nil {
		t.Fatal(err)
	}
	patterns := []string{"kustomization.yaml", "components/*/kustomization.yaml", "monitoring/kustomization.yaml"}
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(deploy, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			folder, err := filepath.Rel(deploy, filepath.Dir(file))
			if err != nil {
				t.Fatal(err)
			}
			for _, resource := range resources(t, file) {
				if _, known := generated[templates.TemplateOf(filepath.Join(folder, resource))]; !known {
					t.Errorf("%s of %s has no template", resource, file)
				}
			}
		}
	}
}

func resources(t *testing.T, kustomization string) []string {
	t.Helper()
	text, err := os.ReadFile(kustomization)
	if err != nil {
		t.Fatal(err)
	}
	var parsed struct {
		Resources          []string
		ConfigMapGenerator []struct{ Files []string }
	}
	if err := yaml.Unmarshal(text, &parsed); err != nil {
		t.Fatal(err)
	}
	found := parsed.Resources
	for _, configMap := range parsed.ConfigMapGenerator {
		found = append(found, configMap.Files...)
	}
	return found
}
