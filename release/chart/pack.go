// Package chart packs the Helm chart of a release with values that name the digest of each image. The
// input is the folder of the chart, which stays as it is.
package chart

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Source is a chart, and what its packed form has in place of the defaults.
type Source struct {
	// Folder has Chart.yaml.
	Folder string
	// Version is the release's; the chart must have it already.
	Version string
	// Digests are the digests of the images, by repository.
	Digests map[string]string
	// Created is the time of all files, because Helm writes it into the archive.
	Created time.Time
}

// Pack writes the chart's archive into a folder by Helm's own command, and returns its path.
func (s Source) Pack(helm, to string) (string, error) {
	work, err := os.MkdirTemp("", "rouse-chart")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	copied := filepath.Join(work, "rouse")
	if err := os.CopyFS(copied, os.DirFS(s.Folder)); err != nil {
		return "", fmt.Errorf("copy the chart: %w", err)
	}
	if err := s.edit(copied); err != nil {
		return "", err
	}
	output, err := exec.Command(helm, "package", copied, "--destination", to).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("helm package: %w: %s", err, strings.TrimSpace(string(output)))
	}
	return filepath.Join(to, "rouse-"+s.Version+".tgz"), nil
}

func (s Source) edit(copied string) error {
	if err := s.checkVersion(filepath.Join(copied, "Chart.yaml")); err != nil {
		return err
	}
	file := filepath.Join(copied, "values.yaml")
	values, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	pinned, err := pin(string(values), s.Digests)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, []byte(pinned), 0o644); err != nil {
		return err
	}
	return filepath.WalkDir(copied, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chtimes(path, s.Created, s.Created)
	})
}

func (s Source) checkVersion(file string) error {
	about, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for _, key := range []string{"version", "appVersion"} {
		line := fmt.Sprintf("\n%s: %s\n", key, s.Version)
		if !strings.Contains(string(about), line) {
			return fmt.Errorf("Chart.yaml does not have %q, the version of Cargo.toml", strings.TrimSpace(line))
		}
	}
	return nil
}
