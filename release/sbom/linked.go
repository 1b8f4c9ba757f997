package sbom

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
)

var (
	rustVersion = regexp.MustCompile(`^rustc (\S+)`)
	// libraries are the C libraries by operating system, with the header that defines their version.
	libraries = map[string]struct {
		name, license, header string
		version               *regexp.Regexp
	}{
		"linux": {"glibc", "LGPL-2.1-or-later", "features.h",
			regexp.MustCompile(`(?s)#define __GLIBC__ (\d+)\n.*#define __GLIBC_MINOR__ (\d+)\n`)},
		"windows": {"mingw-w64", "ZPL-2.1", "_mingw.h",
			regexp.MustCompile(`(?s)#define __MINGW64_VERSION_MAJOR (\d+)\n.*#define __MINGW64_VERSION_MINOR (\d+)\n`)},
	}
)

// Standard returns the libraries that every binary for an operating system has in it: Rust's own,
// and the C library of a compiler, if it is linked statically.
func Standard(os, compiler string) ([]Library, error) {
	rust, err := version(rustVersion, "rustc", "--version")
	if err != nil {
		return nil, err
	}
	linked := []Library{{Name: "rust-std", Version: rust, License: "MIT OR Apache-2.0"}}
	library, known := libraries[os]
	if !known || compiler == "" {
		return linked, nil
	}
	libc, err := version(library.version, compiler, "-E", "-dM", "-x", "c", "-include", library.header, "/dev/null")
	if err != nil {
		return nil, err
	}
	return append(linked, Library{Name: library.name, Version: libc, License: library.license}), nil
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
