// Package contents lists what a release has, and where each file is in its folder.
package contents

import (
	"runtime"
	"strings"
)

// Program is a binary of a release.
type Program struct {
	Name string
	// Package is the crate.
	Package string
	// Alone is whether make builds the package without the rest of the workspace.
	Alone bool
}

// Repository is the name of the program's image, as in the chart.
func (p Program) Repository() string { return "rouse/" + p.Name }

var (
	// Images are the programs that run in a cluster.
	Images = []Program{
		{Name: "queue-proxy", Package: "queue-proxy", Alone: true},
		{Name: "activator", Package: "activator"},
		{Name: "metrics-adapter", Package: "metrics-adapter"},
		{Name: "zero-scaler", Package: "zero-scaler"},
		{Name: "sample-app", Package: "sample-app"},
	}
	// Tools are the programs that a user runs.
	Tools = []Program{{Name: "kubectl-rouse", Package: "cli", Alone: true}}
	// Platforms are the platforms of every program.
	Platforms = []Platform{
		{OS: "linux", Architecture: "amd64", Target: "x86_64-unknown-linux-gnu"},
		{OS: "linux", Architecture: "arm64", Target: "aarch64-unknown-linux-gnu"},
	}
	// Desktops are further platforms of tools. A release has those that it was given binaries of:
	// Debian's compilers link for Windows on amd64 alone.
	Desktops = []Platform{
		{OS: "windows", Architecture: "amd64", Target: "x86_64-pc-windows-gnu"},
		{OS: "windows", Architecture: "arm64", Target: "aarch64-pc-windows-gnullvm"},
		{OS: "darwin", Architecture: "amd64", Target: "x86_64-apple-darwin"},
		{OS: "darwin", Architecture: "arm64", Target: "aarch64-apple-darwin"},
	}
)

// ChartRepository is the name of the chart in a registry. Helm requires the chart's own name as the
// last part.
const ChartRepository = "rouse/charts/rouse"

// Platform is an operating system on one architecture.
type Platform struct {
	// OS is the name in GOOS, in images and in krew.
	OS string
	// Architecture is the name in GOARCH, in images and in krew.
	Architecture string
	// Target is Rust's name.
	Target string
}

// Name is the platform's name in files and arguments.
func (p Platform) Name() string { return p.OS + "-" + p.Architecture }

// Executable is the file of a program on the platform.
func (p Platform) Executable(name string) string {
	if p.OS == "windows" {
		return name + ".exe"
	}
	return name
}

// Compiler is the C compiler for the platform: Debian's, if it is a cross compiler. Empty where the
// binary is built elsewhere.
func (p Platform) Compiler() string {
	switch {
	case p.Target == "x86_64-pc-windows-gnu":
		return "x86_64-w64-mingw32-gcc"
	case p.OS != "linux":
		return ""
	case p.Architecture == runtime.GOARCH:
		return "cc"
	}
	return strings.Replace(p.Target, "-unknown-", "-", 1) + "-gcc"
}
