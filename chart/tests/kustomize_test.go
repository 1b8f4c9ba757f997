package chart

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// kustomize builds a kustomization on top of deploy/, with components of it and further lines.
func kustomize(t *testing.T, components []string, lines ...string) objects {
	t.Helper()
	return kustomizeFolder(t, deploy, components, lines...)
}

func kustomizeFolder(t *testing.T, resources string, components []string, lines ...string) objects {
	t.Helper()
	folder := t.TempDir()
	base := relative(t, folder, resources)
	kustomization := []string{"resources: [" + base + "]"}
	if len(components) > 0 {
		kustomization = append(kustomization, "components:")
	}
	for _, component := range components {
		kustomization = append(kustomization, "- "+base+"/components/"+component)
	}
	text := strings.Join(append(kustomization, lines...), "\n")
	if err := os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		t.Fatal(err)
	}
	output, err := built.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(output))
}

// A kustomization that renames objects changes the account of each pod. By it the processes find that their policies name others,
// and do not start.
func TestKustomizationThatRenamesChangesAccounts(t *testing.T) {
	for _, line := range []string{"namespace: platform", "namePrefix: team-", "nameSuffix: -b"} {
		found := 0
		for id, object := range kustomize(t, nil, line) {
			if !strings.HasPrefix(id, "Deployment ") {
				continue
			}
			found++
			namespace, name := field(object, "metadata", "namespace"), field(object, "spec", "template", "spec", "serviceAccountName")
			part := field(object, "metadata", "labels", "app.kubernetes.io/name")
			if namespace == "rouse-system" && name == part {
				t.Errorf("%s: %s has the account %s/%s", line, id, namespace, name)
			}
		}
		if found != 3 {
			t.Errorf("%s: %d Deployments", line, found)
		}
	}
}

// relative is the only form in which a kustomization accepts another folder.
func relative(t *testing.T, from, to string) string {
	t.Helper()
	absolute, err := filepath.Abs(to)
	if err != nil {
		t.Fatal(err)
	}
	path, err := filepath.Rel(from, absolute)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
