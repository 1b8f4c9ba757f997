package tests

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"rouse.dev/release/contents"
	"rouse.dev/release/provenance"
)

// compiledIn matches the paths of crates' sources, which panic messages put into a binary.
var compiledIn = regexp.MustCompile(`registry/src/[^/\x00]+/([a-zA-Z0-9_-]+?)-(\d+\.\d+\.\d+[0-9A-Za-z.+-]*)/`)

func decode(t *testing.T, document []byte) *cdx.BOM {
	t.Helper()
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(document), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	return &bom
}

func TestBillOfMaterialsListsTheCratesOfTheBinary(t *testing.T) {
	release := built(t)
	for _, program := range programs() {
		for _, platform := range platforms(program) {
			t.Run(program.Name+" on "+platform.Name(), func(t *testing.T) {
				document, err := os.ReadFile(release.SBOM(program, platform))
				if err != nil {
					t.Fatal(err)
				}
				check(t, decode(t, document), release.binary(t, program, platform))
			})
		}
	}
}

// check compares a document with its binary.
func check(t *testing.T, bom *cdx.BOM, binary string) {
	t.Helper()
	sum, err := provenance.Sum(binary)
	if err != nil {
		t.Fatal(err)
	}
	if hashes := *bom.Metadata.Component.Hashes; hashes[0].Value != sum {
		t.Errorf("the document is about %s, the binary is %s", hashes[0].Value, sum)
	}
	listed := map[string]bool{}
	for _, component := range *bom.Components {
		listed[component.Name+"@"+component.Version] = true
		if component.Version == "" || component.Licenses == nil || (*component.Licenses)[0].Expression == "" {
			t.Errorf("%s has no version or licence", component.Name)
		}
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	found := compiledIn.FindAllSubmatch(content, -1)
	if len(found) == 0 {
		t.Error("the binary names no crate")
	}
	for _, match := range found {
		if id := string(match[1]) + "@" + string(match[2]); !listed[id] {
			t.Errorf("the binary has %s, which is not listed", id)
			listed[id] = true
		}
	}
}

// Users rely on this: a sidecar runs in each pod, and has no access to the API.
func TestQueueProxyHasNoKubernetesClient(t *testing.T) {
	release := built(t)
	document, err := os.ReadFile(release.SBOM(contents.Images[0], arm64))
	if err != nil {
		t.Fatal(err)
	}
	for _, component := range *decode(t, document).Components {
		if slices.Contains([]string{"kube", "kube-client", "k8s-openapi"}, component.Name) {
			t.Errorf("lists %s", component.Name)
		}
	}
}

func TestRegistryHasSignedBillsOfMaterials(t *testing.T) {
	release := built(t)
	host := release.registry(t)
	for _, program := range contents.Images {
		attested := release.attested(t, "cyclonedx", release.pushed(t, host, program.Repository()))
		if len(attested) != len(contents.Platforms) {
			t.Errorf("%s has %d documents", program.Name, len(attested))
		}
		for _, document := range attested {
			if bom := decode(t, document); bom.Metadata.Component.Name != program.Name {
				t.Errorf("%s has a document about %s", program.Name, bom.Metadata.Component.Name)
			}
		}
	}
}
