package provenance

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
)

// File returns a subject of a file, by its name below a folder.
func File(folder, file string) (Subject, error) {
	name, err := filepath.Rel(folder, file)
	if err != nil {
		return Subject{}, err
	}
	sum, err := Sum(file)
	return Subject{Name: filepath.ToSlash(name), Digest: map[string]string{"sha256": sum}}, err
}

// Sum returns the SHA-256 of a file.
func Sum(file string) (string, error) {
	opened, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer opened.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, opened); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
