package image

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
)

var errDynamic = errors.New("dynamically linked, but the image has no loader and no libraries: " +
	"link it statically (Rust: -C target-feature=+crt-static, Go: CGO_ENABLED=0)")

// machines are the architectures of a release, by their names in GOARCH.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// check rejects a binary that cannot run in an image of this architecture.
func check(binary []byte, architecture string) error {
	file, err := elf.NewFile(bytes.NewReader(binary))
	if err != nil {
		return fmt.Errorf("not a Linux program: %w", err)
	}
	if machine, known := machines[architecture]; !known || file.Machine != machine {
		return fmt.Errorf("a program for %v, but the image is for %s", file.Machine, architecture)
	}
	return checkStatic(file)
}

// checkStatic rejects a binary that needs a loader. In an image without a loader it would fail with
// "no such file or directory", which does not name the missing file.
func checkStatic(file *elf.File) error {
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_INTERP {
			return errDynamic
		}
	}
	return nil
}
