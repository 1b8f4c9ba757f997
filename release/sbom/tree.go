package sbom

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// Selection is how a binary is built. Cargo unifies the features of dependencies over all packages
// of one build, so that the same program has other crates when it is built alone.
type Selection struct {
	// Package has the binary.
	Package string
	// Alone is whether the package is built without the rest of the workspace.
	Alone bool
	// Target is Rust's name of the platform.
	Target string
}

// crate is one package, with the features of one build.
type crate struct {
	name, version, license, features string
	// local is whether it is a package of this repository.
	local bool
}

// id distinguishes versions, but not features: a document lists a crate once.
func (c crate) id() string { return c.name + "@" + c.version }

// node is a crate and its direct dependencies.
type node struct {
	crate
	uses []*node
}

// tree returns what is linked into the binary: neither build scripts and macros, nor crates of
// tests.
func (s Selection) tree(workspace string) (*node, error) {
	selected := "--workspace"
	if s.Alone {
		selected = "--package=" + s.Package
	}
	command := exec.Command("cargo", "tree", selected, "--locked", "--target", s.Target,
		"--edges", "normal,no-proc-macro", "--prefix", "depth", "--format", "\t{p}\t{l}\t{f}")
	command.Dir = workspace
	output, err := command.Output()
	if exit, ok := err.(*exec.ExitError); ok {
		return nil, fmt.Errorf("cargo tree: %w: %s", err, exit.Stderr)
	}
	if err != nil {
		return nil, fmt.Errorf("cargo tree: %w", err)
	}
	return parse(string(output), s.Package)
}

// parse reads lines of depth, package, licence and features. Cargo writes the dependencies of a
// crate once, and marks its further lines.
func parse(text, root string) (*node, error) {
	nodes := map[crate]*node{}
	var path []*node
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" {
			continue
		}
		depth, read, err := parseLine(line)
		if err != nil {
			return nil, err
		}
		if depth > len(path) {
			return nil, fmt.Errorf("cargo tree: no parent of %q", line)
		}
		known := nodes[read]
		if known == nil {
			known = &node{crate: read}
			nodes[read] = known
		}
		path = append(path[:depth], known)
		if depth > 0 {
			parent := path[depth-1]
			parent.uses = append(parent.uses, known)
		}
	}
	for read, found := range nodes {
		if read.local && read.name == root {
			return found, nil
		}
	}
	return nil, fmt.Errorf("cargo tree does not have the package %s", root)
}

func parseLine(line string) (int, crate, error) {
	line = strings.TrimSuffix(line, " (*)")
	fields := strings.Split(line, "\t")
	if len(fields) != 4 {
		return 0, crate{}, fmt.Errorf("cargo tree: not four fields in %q", line)
	}
	depth, err := strconv.Atoi(fields[0])
	if err != nil {
		return 0, crate{}, fmt.Errorf("cargo tree: no depth in %q", line)
	}
	about := strings.Fields(fields[1])
	if len(about) < 2 {
		return 0, crate{}, fmt.Errorf("cargo tree: no version in %q", line)
	}
	return depth, crate{
		name:     about[0],
		version:  strings.TrimPrefix(about[1], "v"),
		license:  fields[2],
		features: fields[3],
		local:    strings.Contains(fields[1], " (/"),
	}, nil
}
