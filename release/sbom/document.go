// Package sbom writes the software bill of materials of a binary as CycloneDX: the crates that are
// linked into it, with versions, licences and checksums. The input is Cargo's own resolution for
// the build of the binary. cargo-cyclonedx reads `cargo metadata`, which unifies the features over
// the workspace: its document for the queue-proxy would list a Kubernetes client.
package sbom

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// Document describes one binary.
type Document struct {
	Selection
	// Workspace is the folder of Cargo.lock.
	Workspace string
	// Binary is the file.
	Binary string
	// Version is the release's.
	Version string
	// Created is the time of the commit, because the present time would change the bytes.
	Created time.Time
	// Linked are what is in the binary beside crates.
	Linked []Library
}

// Library is something other than a crate that is in a binary.
type Library struct{ Name, Version, License string }

// Write writes the document.
func (d Document) Write(file string) error {
	root, err := d.tree(d.Workspace)
	if err != nil {
		return err
	}
	sums, err := checksums(filepath.Join(d.Workspace, "Cargo.lock"))
	if err != nil {
		return err
	}
	binary, err := os.ReadFile(d.Binary)
	if err != nil {
		return err
	}
	bom, err := d.bom(root, sums, sha256.Sum256(binary))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	output, err := os.Create(file)
	if err != nil {
		return err
	}
	defer output.Close()
	encoder := cdx.NewBOMEncoder(output, cdx.BOMFileFormatJSON).SetPretty(true)
	if err := encoder.EncodeVersion(bom, cdx.SpecVersion1_6); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return output.Close()
}

func (d Document) bom(root *node, sums map[string]string, binary [sha256.Size]byte) (*cdx.BOM, error) {
	linked := walk(root)
	var components []cdx.Component
	for _, found := range linked[1:] {
		component, err := found.component(sums[found.id()])
		if err != nil {
			return nil, err
		}
		components = append(components, component)
	}
	for _, library := range d.Linked {
		components = append(components, library.component())
	}
	bom := cdx.NewBOM()
	// A document has the number of its binary, so that it is the same in each build.
	bom.SerialNumber = fmt.Sprintf("urn:uuid:%x-%x-8%03x-8%03x-%x",
		binary[0:4], binary[4:6], uint16(binary[6])<<4|uint16(binary[7])>>4, uint16(binary[8])<<4|uint16(binary[9])>>4, binary[10:16])
	bom.Metadata = d.metadata(root, hex.EncodeToString(binary[:]))
	bom.Components = &components
	bom.Dependencies = d.dependencies(linked)
	return bom, nil
}

func (d Document) metadata(root *node, sum string) *cdx.Metadata {
	return &cdx.Metadata{
		Timestamp:  d.Created.UTC().Format(time.RFC3339),
		Lifecycles: &[]cdx.Lifecycle{{Phase: cdx.LifecyclePhaseBuild}},
		Component: &cdx.Component{
			BOMRef:   root.id(),
			Type:     cdx.ComponentTypeApplication,
			Name:     filepath.Base(d.Binary),
			Version:  d.Version,
			Licenses: licensed(root.license),
			Hashes:   &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}},
		},
		Properties: &[]cdx.Property{{Name: "cdx:rustc:sbom:target:triple", Value: d.Target}},
	}
}

// walk returns a crate and all that it uses, each once; the crate itself first, the others sorted.
func walk(root *node) []*node {
	seen := map[string]bool{root.id(): true}
	all := []*node{root}
	for next := 0; next < len(all); next++ {
		for _, used := range all[next].uses {
			if !seen[used.id()] {
				seen[used.id()] = true
				all = append(all, used)
			}
		}
	}
	slices.SortFunc(all[1:], func(a, b *node) int { return strings.Compare(a.id(), b.id()) })
	return all
}

func (c crate) component(sum string) (cdx.Component, error) {
	if c.license == "" {
		return cdx.Component{}, fmt.Errorf("crate %s has no licence", c.id())
	}
	component := cdx.Component{
		BOMRef:   c.id(),
		Type:     cdx.ComponentTypeLibrary,
		Name:     c.name,
		Version:  c.version,
		Licenses: licensed(c.license),
	}
	if c.local {
		return component, nil
	}
	if sum == "" {
		return cdx.Component{}, fmt.Errorf("crate %s has no checksum in Cargo.lock", c.id())
	}
	// A build version is in the name of the package's URL, where a plus sign would be a space.
	component.PackageURL = "pkg:cargo/" + c.name + "@" + strings.ReplaceAll(c.version, "+", "%2B")
	component.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}}
	return component, nil
}

func (l Library) id() string { return l.Name + "@" + l.Version }

func (l Library) component() cdx.Component {
	return cdx.Component{
		BOMRef:     l.id(),
		Type:       cdx.ComponentTypeLibrary,
		Name:       l.Name,
		Version:    l.Version,
		Licenses:   licensed(l.License),
		PackageURL: "pkg:generic/" + l.Name + "@" + l.Version,
	}
}

// licensed returns an SPDX expression. Old manifests separate alternatives by a slash.
func licensed(expression string) *cdx.Licenses {
	return &cdx.Licenses{{Expression: strings.ReplaceAll(expression, "/", " OR ")}}
}

func (d Document) dependencies(linked []*node) *[]cdx.Dependency {
	var all []cdx.Dependency
	for _, from := range linked {
		var uses []string
		for _, to := range from.uses {
			uses = append(uses, to.id())
		}
		if from == linked[0] {
			for _, library := range d.Linked {
				uses = append(uses, library.id())
			}
		}
		slices.Sort(uses)
		uses = slices.Compact(uses)
		all = append(all, cdx.Dependency{Ref: from.id(), Dependencies: &uses})
	}
	return &all
}
