package command

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"rouse.dev/release/chart"
	"rouse.dev/release/contents"
	"rouse.dev/release/contents/krew"
	"rouse.dev/release/image"
	"rouse.dev/release/provenance"
	"rouse.dev/release/repository"
	"rouse.dev/release/source"
)

// packing is what `pack` has as arguments, then what it has read and written.
type packing struct {
	folder       contents.Folder
	version      string
	checkout     string
	helm         string
	binaries     map[string]string
	download     string
	allowChanges bool

	commit source.Commit
	// digests are the digests of images, by repository.
	digests  map[string]string
	subjects []provenance.Subject
}

func (p *packing) run() error {
	commit, err := source.Read(p.checkout)
	if err != nil {
		return err
	}
	if commit.Changed && !p.allowChanges {
		return source.ErrUncommitted
	}
	p.commit, p.digests = commit, map[string]string{}
	if err := p.folder.Begin(); err != nil {
		return err
	}
	for _, step := range []func() error{p.images, p.tools, p.chart, p.billsOfMaterials, p.provenance} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (p *packing) binary(program contents.Program, on contents.Platform) (string, error) {
	folder := p.binaries[on.Name()]
	if folder == "" {
		return "", fmt.Errorf("no folder with binaries for %s; give it by --binaries", on.Name())
	}
	return filepath.Join(folder, on.Executable(program.Name)), nil
}

// platforms are all of this release.
func (p *packing) platforms() []contents.Platform {
	return slices.Concat(contents.Platforms, p.desktops())
}

// desktops are the further platforms of tools that this release has.
func (p *packing) desktops() []contents.Platform {
	return slices.DeleteFunc(slices.Clone(contents.Desktops), func(on contents.Platform) bool { return p.binaries[on.Name()] == "" })
}

func (p *packing) labels(title string) map[string]string {
	return image.Labels("Rouse "+title, p.version, p.commit.Hash, p.commit.Time)
}

func (p *packing) images() error {
	for _, program := range contents.Images {
		if err := p.image(program); err != nil {
			return err
		}
	}
	return nil
}

func (p *packing) image(program contents.Program) error {
	labels := p.labels(program.Name)
	var packed []v1.Image
	for _, platform := range contents.Platforms {
		binary, err := p.binary(program, platform)
		if err != nil {
			return err
		}
		one, err := image.Program{
			Binary:       binary,
			Architecture: platform.Architecture,
			User:         image.NonRoot,
			Labels:       labels,
			Created:      p.commit.Time,
		}.Compressed()
		if err != nil {
			return err
		}
		packed = append(packed, one)
	}
	index, err := image.Index(labels, packed...)
	if err != nil {
		return err
	}
	layout, err := repository.Create(p.folder.Repository(program.Repository()))
	if err != nil {
		return err
	}
	if err := layout.AddIndex(index, "v"+p.version); err != nil {
		return err
	}
	return p.record(program.Repository(), index)
}

// record adds an image to the subjects of the provenance.
func (p *packing) record(repository string, image interface{ Digest() (v1.Hash, error) }) error {
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	p.digests[repository] = digest.String()
	p.subjects = append(p.subjects, provenance.Subject{Name: repository, Digest: map[string]string{digest.Algorithm: digest.Hex}})
	return nil
}

func (p *packing) tools() error {
	license, err := os.ReadFile(filepath.Join(p.checkout, "LICENSE"))
	if err != nil {
		return err
	}
	plugin := krew.Plugin{Version: p.version, Download: p.download}
	for _, program := range contents.Tools {
		for _, platform := range p.platforms() {
			archive, err := p.tool(program, platform, license)
			if err != nil {
				return err
			}
			if err := plugin.Add(archive, platform, platform.Executable(program.Name)); err != nil {
				return err
			}
		}
	}
	if p.download == "" {
		return nil
	}
	if err := plugin.Write(p.folder.Krew()); err != nil {
		return err
	}
	return p.recordFile(p.folder.Krew())
}

// tool writes the archive of a program and returns its file.
func (p *packing) tool(program contents.Program, on contents.Platform, license []byte) (string, error) {
	binary, err := p.binary(program, on)
	if err != nil {
		return "", err
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return "", err
	}
	archive, err := krew.Archive(p.commit.Time,
		krew.File{Name: filepath.Base(binary), Mode: 0o755, Content: content}, krew.File{Name: "LICENSE", Mode: 0o644, Content: license})
	if err != nil {
		return "", err
	}
	file := p.folder.Tool(program, on)
	if err := os.WriteFile(file, archive, 0o644); err != nil {
		return "", err
	}
	return file, p.recordFile(file)
}

func (p *packing) recordFile(file string) error {
	subject, err := provenance.File(string(p.folder), file)
	p.subjects = append(p.subjects, subject)
	return err
}

func (p *packing) chart() error {
	source := filepath.Join(p.checkout, "chart")
	archive, err := chart.Source{
		Folder:  source,
		Version: p.version,
		Digests: p.digests,
		Created: p.commit.Time,
	}.Pack(p.helm, string(p.folder))
	if err != nil {
		return err
	}
	if err := p.recordFile(archive); err != nil {
		return err
	}
	artifact, err := chart.Artifact(archive, filepath.Join(source, "Chart.yaml"), p.labels("chart"))
	if err != nil {
		return err
	}
	layout, err := repository.Create(p.folder.Repository(contents.ChartRepository))
	if err != nil {
		return err
	}
	// Helm selects a chart by its version as the tag.
	if err := layout.AddImage(artifact, p.version); err != nil {
		return err
	}
	return p.record(contents.ChartRepository, artifact)
}
