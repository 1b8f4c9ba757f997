package signing

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"rouse.dev/release/provenance"
)

// Checksums writes the list of all files beside and below it, except some, as sha256sum does.
func Checksums(list string, without []string) error {
	folder := filepath.Dir(list)
	var lines strings.Builder
	err := filepath.WalkDir(folder, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || slices.Contains(without, file) {
			return err
		}
		subject, err := provenance.File(folder, file)
		fmt.Fprintf(&lines, "%s  %s\n", subject.Digest["sha256"], subject.Name)
		return err
	})
	if err != nil {
		return fmt.Errorf("list the files of %s: %w", folder, err)
	}
	return os.WriteFile(list, []byte(lines.String()), 0o644)
}
