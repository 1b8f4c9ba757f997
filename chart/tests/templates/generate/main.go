// Command generate writes the chart's templates from the manifests of deploy/: generate REPOSITORY.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"rouse.dev/chart/templates"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: generate REPOSITORY")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// write replaces the whole folder, so that no template of a removed manifest stays.
func write(repository string) error {
	files, err := templates.Render(filepath.Join(repository, "deploy"))
	if err != nil {
		return err
	}
	folder := filepath.Join(repository, "chart", templates.Folder)
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	for name, text := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
