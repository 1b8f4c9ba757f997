package image

import (
	"bytes"
	"debug/elf"
	"fmt"
)

// checkStatic refuses a binary that needs a loader. In an image without one it would fail as "no such file or directory",
// which sends people looking for the wrong file.
func checkStatic(binary []byte) error {
	file, err := elf.NewFile(bytes.NewReader(binary))
	if err != nil {
		return fmt.Errorf("not a Linux program: %w", err)
	}
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_INTERP {
			return fmt.Errorf("dynamically linked, and the image holds nothing but the binary: link it statically (Rust: a -musl target, Go: CGO_ENABLED=0)")
		}
	}
	return nil
}
