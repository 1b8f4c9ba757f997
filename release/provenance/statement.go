// Package provenance writes how a release was built, as an in-toto statement with the predicate of
// SLSA's version 1. It has no times and no name of a machine: two builds of one commit by the same
// compilers give the same bytes.
package provenance

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The types of the formats, and of this build.
const (
	StatementType = "https://in-toto.io/Statement/v1"
	PredicateType = "https://slsa.dev/provenance/v1"
	BuildType     = "https://rouse.dev/release/make/v1"
)

// Statement binds the subjects to the predicate, which describes their build.
type Statement struct {
	Type          string    `json:"_type"`
	Subject       []Subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     Predicate `json:"predicate"`
}

// Subject is a file or an image, by its digest.
type Subject struct {
	Name   string            `json:"name"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest"`
}

// Predicate is SLSA's provenance.
type Predicate struct {
	BuildDefinition BuildDefinition `json:"buildDefinition"`
	RunDetails      RunDetails      `json:"runDetails"`
}

// BuildDefinition has all inputs of the build.
type BuildDefinition struct {
	BuildType            string            `json:"buildType"`
	ExternalParameters   map[string]string `json:"externalParameters"`
	InternalParameters   map[string]any    `json:"internalParameters"`
	ResolvedDependencies []Subject         `json:"resolvedDependencies"`
}

// RunDetails names the builder and its programs.
type RunDetails struct {
	Builder Builder `json:"builder"`
}

// Builder is what ran the build.
type Builder struct {
	ID      string            `json:"id"`
	Version map[string]string `json:"version"`
}

// Build is what a statement needs of a build.
type Build struct {
	Version string
	// Commit is the hash of the source, and Changed whether the source differed from it.
	Commit  string
	Changed bool
	// Inputs are digests of files of the source that pin further source, such as Cargo.lock.
	Inputs []Subject
	// Programs are the versions of compilers.
	Programs map[string]string
	// Platforms are the targets.
	Platforms []string
}

// Statement returns the statement about subjects, sorted by name.
func (b Build) Statement(subjects []Subject) Statement {
	sorted := slices.SortedFunc(slices.Values(subjects), func(a, b Subject) int { return strings.Compare(a.Name, b.Name) })
	source := Subject{Name: "source", Digest: map[string]string{"gitCommit": b.Commit}}
	return Statement{
		Type:          StatementType,
		Subject:       sorted,
		PredicateType: PredicateType,
		Predicate: Predicate{
			BuildDefinition: BuildDefinition{
				BuildType:            BuildType,
				ExternalParameters:   map[string]string{"target": "release", "version": b.Version},
				InternalParameters:   map[string]any{"platforms": b.Platforms, "uncommittedChanges": b.Changed},
				ResolvedDependencies: append([]Subject{source}, b.Inputs...),
			},
			RunDetails: RunDetails{Builder: Builder{ID: BuildType, Version: b.Programs}},
		},
	}
}

// Write writes a statement, or its predicate alone.
func Write(file string, document any) error {
	text, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// Read reads a statement.
func Read(file string) (Statement, error) {
	var read Statement
	text, err := os.ReadFile(file)
	if err != nil {
		return read, err
	}
	return read, json.Unmarshal(text, &read)
}
