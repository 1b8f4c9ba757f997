package contents

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Folder is the folder of a release.
type Folder string

// Repository is the OCI layout of an image or the chart, with its signatures and attestations.
func (f Folder) Repository(name string) string { return f.path("oci", name) }

// Tool is the archive of a program that a user downloads.
func (f Folder) Tool(p Program, on Platform) string {
	return f.path(p.Name + "-" + on.Name() + ".tar.gz")
}

// Krew is the manifest by which krew installs the plugin.
func (f Folder) Krew() string { return f.path("krew.yaml") }

// SBOM is the bill of materials of a binary.
func (f Folder) SBOM(p Program, on Platform) string {
	return f.path("sbom", p.Name+"-"+on.Name()+".cdx.json")
}

// Provenance is the statement about how all files of the release were built.
func (f Folder) Provenance() string { return f.path("provenance.intoto.json") }

// Checksums lists all other files, and is itself signed.
func (f Folder) Checksums() string { return f.path("SHA256SUMS") }

// Signature is the signature of the checksums.
func (f Folder) Signature() string { return f.path("SHA256SUMS.sigstore.json") }

// PublicKey is the key for all signatures. It is in no checksum: a user has it from elsewhere.
func (f Folder) PublicKey() string { return f.path("cosign.pub") }

// ErrForeign reports a folder with other files than a release's.
var ErrForeign = errors.New("the folder exists and is not a release; name another one, or remove it")

// Begin creates the folder, empty. A file of an earlier release would be signed as a part of this one.
func (f Folder) Begin() error {
	entries, err := os.ReadDir(string(f))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := os.Stat(f.path("oci", "rouse")); len(entries) > 0 && err != nil {
		return fmt.Errorf("%s: %w", f, ErrForeign)
	}
	if err := os.RemoveAll(string(f)); err != nil {
		return err
	}
	return os.MkdirAll(string(f), 0o755)
}

func (f Folder) path(parts ...string) string {
	return filepath.Join(append([]string{string(f)}, parts...)...)
}
