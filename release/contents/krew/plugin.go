// Package krew packs the kubectl plugin for krew, kubectl's package manager: an archive for each
// platform, and the manifest that names them.
package krew

import (
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"rouse.dev/release/contents"
	"rouse.dev/release/provenance"
)

// Plugin is the plugin with the platforms that it has.
type Plugin struct {
	Version string
	// Download is the URL of the folder with the archives.
	Download  string
	platforms []platform
}

// The types of the manifest, krew.googlecontainertools.github.com/v1alpha2.
type (
	manifest struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Metadata   metadata `json:"metadata"`
		Spec       spec     `json:"spec"`
	}
	metadata struct {
		Name string `json:"name"`
	}
	spec struct {
		Version          string     `json:"version"`
		ShortDescription string     `json:"shortDescription"`
		Description      string     `json:"description"`
		Platforms        []platform `json:"platforms"`
	}
	platform struct {
		Selector selector `json:"selector"`
		URI      string   `json:"uri"`
		SHA256   string   `json:"sha256"`
		Bin      string   `json:"bin"`
	}
	selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	}
)

// Add adds the archive of a platform, with the program's name in it.
func (p *Plugin) Add(archive string, on contents.Platform, program string) error {
	sum, err := provenance.Sum(archive)
	if err != nil {
		return err
	}
	p.platforms = append(p.platforms, platform{
		Selector: selector{MatchLabels: map[string]string{"os": on.OS, "arch": on.Architecture}},
		URI:      p.Download + "/" + filepath.Base(archive),
		SHA256:   sum,
		Bin:      program,
	})
	return nil
}

// Write writes the manifest.
func (p *Plugin) Write(file string) error {
	text, err := yaml.Marshal(manifest{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2",
		Kind:       "Plugin",
		Metadata:   metadata{Name: "rouse"},
		Spec: spec{
			Version:          "v" + p.Version,
			ShortDescription: "Shows, checks and sets up workloads of Rouse",
			Description:      "Rouse scales workloads on their requests, to zero and back. The plugin reads with your rights.",
			Platforms:        p.platforms,
		},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}
