package sbom

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const tree = "0\tactivator v0.1.0 (/src/activator)\tApache-2.0\t\n" +
	"1\tautoscaler v0.1.0 (/src/autoscaler)\tApache-2.0\tapi\n" +
	"2\tkube v5.0.0\tApache-2.0\t\n" +
	"1\tring v0.17.14\tApache-2.0 AND ISC\tstd\n" +
	"\n" +
	"0\tautoscaler v0.1.0 (/src/autoscaler)\tApache-2.0\tapi (*)\n" +
	"\n" +
	"0\tzero-scaler v0.1.0 (/src/zero-scaler)\tApache-2.0\t\n" +
	"1\tautoscaler v0.1.0 (/src/autoscaler)\tApache-2.0\tapi (*)\n" +
	"1\tmemchr v2.7.0\tUnlicense/MIT\t\n"

// A repeated crate has its dependencies at another place of the output.
func TestListsCratesOfRepeatedLines(t *testing.T) {
	root, err := parse(tree, "zero-scaler")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, linked := range walk(root) {
		found = append(found, linked.id())
	}
	if want := []string{"zero-scaler@0.1.0", "autoscaler@0.1.0", "kube@5.0.0", "memchr@2.7.0"}; !slices.Equal(found, want) {
		t.Errorf("%v", found)
	}
}

func TestRejectsUnreadableTree(t *testing.T) {
	for _, text := range []string{"", "0\tweb v1 (/src)\tMIT\n", "x\tweb v1\tMIT\t\n", "0\tweb\tMIT\t\n", "1\tweb v1\tMIT\t\n", tree} {
		if _, err := parse(text, "web"); err == nil {
			t.Errorf("read %q", text)
		}
	}
}

func TestComponentHasLicenceChecksumAndURL(t *testing.T) {
	component, err := crate{name: "memchr", version: "2.7.0+1", license: "Unlicense/MIT"}.component("ab")
	if err != nil {
		t.Fatal(err)
	}
	if license := (*component.Licenses)[0].Expression; license != "Unlicense OR MIT" {
		t.Error(license)
	}
	if component.PackageURL != "pkg:cargo/memchr@2.7.0%2B1" || (*component.Hashes)[0].Value != "ab" {
		t.Errorf("%+v", component)
	}
}

func TestRejectsCrateWithoutLicenceOrChecksum(t *testing.T) {
	for message, incomplete := range map[string]crate{
		"licence":  {name: "a", version: "1", local: true},
		"checksum": {name: "a", version: "1", license: "MIT"},
	} {
		if _, err := incomplete.component(""); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%v instead of %s", err, message)
		}
	}
}

func TestReadsChecksums(t *testing.T) {
	file := filepath.Join(t.TempDir(), "Cargo.lock")
	lock := "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"ab\"\ndependencies = [\n \"b\",\n]\n\n[[package]]\nname = \"b\"\nversion = \"0.1.0\"\n"
	if err := os.WriteFile(file, []byte(lock), 0o644); err != nil {
		t.Fatal(err)
	}
	sums, err := checksums(file)
	if err != nil || len(sums) != 1 || sums["a@1.0.0"] != "ab" {
		t.Errorf("%v %v", sums, err)
	}
}
