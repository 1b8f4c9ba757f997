package command

import (
	"fmt"
	"slices"

	"rouse.dev/release/contents"
	"rouse.dev/release/sbom"
)

func (p *packing) billsOfMaterials() error {
	for _, platform := range contents.Platforms {
		if err := p.billsOf(slices.Concat(contents.Images, contents.Tools), platform); err != nil {
			return err
		}
	}
	for _, platform := range p.desktops() {
		if err := p.billsOf(contents.Tools, platform); err != nil {
			return err
		}
	}
	return nil
}

func (p *packing) billsOf(programs []contents.Program, on contents.Platform) error {
	linked, err := sbom.Standard(on.OS, on.Compiler())
	if err != nil {
		return err
	}
	for _, program := range programs {
		binary, err := p.binary(program, on)
		if err != nil {
			return err
		}
		err = sbom.Document{
			Selection: sbom.Selection{Package: program.Package, Alone: program.Alone, Target: on.Target},
			Workspace: p.checkout,
			Binary:    binary,
			Version:   p.version,
			Created:   p.commit.Time,
			Linked:    linked,
		}.Write(p.folder.SBOM(program, on))
		if err != nil {
			return fmt.Errorf("bill of materials of %s: %w", program.Name, err)
		}
	}
	return nil
}
