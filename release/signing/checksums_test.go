package signing

import (
	"os"
	"path/filepath"
	"testing"
)

func TestChecksumsListAllFilesButSome(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"a", "oci/b", "cosign.pub"} {
		file := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("abc"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	list := filepath.Join(folder, "SHA256SUMS")
	if err := Checksums(list, []string{list, filepath.Join(folder, "cosign.pub")}); err != nil {
		t.Fatal(err)
	}
	const sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	if got, err := os.ReadFile(list); err != nil || string(got) != sum+"  a\n"+sum+"  oci/b\n" {
		t.Errorf("%s %v", got, err)
	}
}
