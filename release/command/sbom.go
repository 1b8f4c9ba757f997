package command

import (
	"fmt"
	"slices"

	"rouse.dev/release/contents"
	"rouse.dev/release/sbom"
)

func (p *packing) billsOfMaterials() error {
	for _, platform := range contents.Platforms {
		linked, err := sbom.Standard(platform.Compiler())
		if err != nil {
			return err
		}
		for _, program := range slices.Concat(contents.Images, contents.Tools) {
			binary, err := p.binary(program, platform)
			if err != nil {
				return err
			}
			err = sbom.Document{
				Selection: sbom.Selection{Package: program.Package, Alone: program.Alone, Target: platform.Target},
				Workspace: p.checkout,
				Binary:    binary,
				Version:   p.version,
				Created:   p.commit.Time,
				Linked:    linked,
			}.Write(p.folder.SBOM(program, platform))
			if err != nil {
				return fmt.Errorf("bill of materials of %s: %w", program.Name, err)
			}
		}
	}
	return nil
}
