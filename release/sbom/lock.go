package sbom

import (
	"fmt"
	"os"
	"strings"
)

// checksums reads the SHA-256 of each crate's archive from Cargo.lock, by name@version. Cargo writes
// one key a line.
func checksums(file string) (map[string]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	sums := map[string]string{}
	for _, entry := range strings.Split(string(text), "[[package]]\n")[1:] {
		keys := map[string]string{}
		for line := range strings.Lines(entry) {
			if key, value, found := strings.Cut(strings.TrimSpace(line), " = "); found {
				keys[key] = strings.Trim(value, `"`)
			}
		}
		if keys["checksum"] != "" {
			sums[keys["name"]+"@"+keys["version"]] = keys["checksum"]
		}
	}
	if len(sums) == 0 {
		return nil, fmt.Errorf("%s has no checksums", file)
	}
	return sums, nil
}
