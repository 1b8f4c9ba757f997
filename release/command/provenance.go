package command

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"rouse.dev/release/provenance"
)

// inputs pin all source outside of the repository, and the compiler.
var inputs = []string{"Cargo.lock", "rust-toolchain.toml", "release/go.sum", "chart/tests/go.sum"}

func (p *packing) provenance() error {
	build := provenance.Build{
		Version: p.version,
		Commit:  p.commit.Hash,
		Changed: p.commit.Changed,
	}
	for _, input := range inputs {
		subject, err := provenance.File(p.checkout, filepath.Join(p.checkout, input))
		if err != nil {
			return err
		}
		build.Inputs = append(build.Inputs, subject)
	}
	for _, platform := range p.platforms() {
		build.Platforms = append(build.Platforms, platform.Target)
	}
	var err error
	if build.Programs, err = p.programs(); err != nil {
		return err
	}
	return provenance.Write(p.folder.Provenance(), build.Statement(p.subjects))
}

// programs returns the versions of what compiled and packed.
func (p *packing) programs() (map[string]string, error) {
	versions := map[string]string{"go": runtime.Version()}
	commands := map[string][]string{
		"rustc": {"rustc", "--version"},
		"cargo": {"cargo", "--version"},
		"helm":  {p.helm, "version", "--short"},
	}
	for _, platform := range p.platforms() {
		if compiler := platform.Compiler(); compiler != "" {
			commands["cc for "+platform.Name()] = []string{compiler, "--version"}
		}
	}
	for name, command := range commands {
		output, err := exec.Command(command[0], command[1:]...).Output()
		if err != nil {
			return nil, err
		}
		versions[name], _, _ = strings.Cut(string(output), "\n")
	}
	return versions, nil
}
