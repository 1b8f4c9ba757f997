package image

import (
	"bytes"
	"debug/elf"
	"fmt"
)

// checkStatic rejects a binary that needs a loader. In an image without a loader it would fail with
// "no such file or directory", which does not name the missing file.
func checkStatic(binary []byte) error {
	file, err := elf.NewFile(bytes.NewReader(binary))
	if err != nil {
		return fmt.Errorf("not a Linux program: %w", err)
	}
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_INTERP {
			return fmt.Errorf("dynamically linked, but the image has no loader and no libraries: link it statically (Rust: a -musl target, Go: CGO_ENABLED=0)")
		}
	}
	return nil
}
