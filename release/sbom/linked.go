package sbom

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
)

var (
	rustVersion  = regexp.MustCompile(`^rustc (\S+)`)
	glibcVersion = regexp.MustCompile(`(?s)#define __GLIBC__ (\d+)\n.*#define __GLIBC_MINOR__ (\d+)\n`)
)

// Standard returns the libraries that every static binary has: Rust's own, and the C library of a
// compiler.
func Standard(compiler string) ([]Library, error) {
	rust, err := version(rustVersion, "rustc", "--version")
	if err != nil {
		return nil, err
	}
	libc, err := version(glibcVersion, compiler, "-E", "-dM", "-x", "c", "-include", "features.h", "/dev/null")
	if err != nil {
		return nil, err
	}
	return []Library{
		{Name: "rust-std", Version: rust, License: "MIT OR Apache-2.0"},
		{Name: "glibc", Version: libc, License: "LGPL-2.1-or-later"},
	}, nil
}

func version(pattern *regexp.Regexp, program string, args ...string) (string, error) {
	output, err := exec.Command(program, args...).Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", program, err)
	}
	match := pattern.FindStringSubmatch(string(output))
	if match == nil {
		return "", fmt.Errorf("%s does not print its version", program)
	}
	return strings.Join(match[1:], "."), nil
}
