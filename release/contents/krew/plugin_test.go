package krew

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rouse.dev/release/contents"
	"rouse.dev/release/provenance"
)

// krew finds the archive by its platform, compares its checksum, and runs the program in it.
func TestManifestNamesEachArchiveWithItsChecksum(t *testing.T) {
	folder := contents.Folder(t.TempDir())
	plugin, windows := Plugin{Version: "1.2.3", Download: "https://get.example.com/v1.2.3"}, contents.Desktops[0]
	file := folder.Tool(contents.Tools[0], windows)
	archive, err := Archive(time.Unix(7, 0), File{Name: "kubectl-rouse.exe", Mode: 0o755, Content: []byte("MZ")})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, archive, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := plugin.Add(file, windows, windows.Executable("kubectl-rouse")); err != nil {
		t.Fatal(err)
	}
	if err := plugin.Write(folder.Krew()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(folder.Krew())
	if err != nil {
		t.Fatal(err)
	}
	sum, _ := provenance.Sum(file)
	for _, line := range []string{
		"version: v1.2.3", "os: windows", "arch: amd64", "bin: kubectl-rouse.exe", "sha256: " + sum,
		"uri: https://get.example.com/v1.2.3/" + filepath.Base(file),
	} {
		if !strings.Contains(string(text), line+"\n") {
			t.Errorf("no %q in\n%s", line, text)
		}
	}
}

func TestArchiveHasExecutablesAndTheSameBytesEachTime(t *testing.T) {
	file := File{Name: "kubectl-rouse", Mode: 0o755, Content: []byte("abc")}
	first, err := Archive(time.Unix(7, 0), file)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := Archive(time.Unix(7, 0), file); !bytes.Equal(first, again) {
		t.Error("two archives differ")
	}
	plain, err := gzip.NewReader(bytes.NewReader(first))
	if err != nil {
		t.Fatal(err)
	}
	members := tar.NewReader(plain)
	header, err := members.Next()
	if err != nil || header.Name != "kubectl-rouse" || header.FileInfo().Mode().Perm() != 0o755 {
		t.Fatalf("%+v %v", header, err)
	}
	if content, _ := io.ReadAll(members); string(content) != "abc" {
		t.Errorf("content %q", content)
	}
}
