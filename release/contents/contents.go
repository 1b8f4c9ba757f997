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
		{Architecture: "amd64", Target: "x86_64-unknown-linux-gnu"},
		{Architecture: "arm64", Target: "aarch64-unknown-linux-gnu"},
	}
)

// ChartRepository is the name of the chart in a registry. Helm requires the chart's own name as the
// last part.
const ChartRepository = "rouse/charts/rouse"

// Platform is Linux on one architecture.
type Platform struct {
	// Architecture is the name in GOARCH and in images.
	Architecture string
	// Target is Rust's name.
	Target string
}

// Compiler is the C compiler for the platform: Debian's, if it is a cross compiler.
func (p Platform) Compiler() string {
	if p.Architecture == runtime.GOARCH {
		return "cc"
	}
	return strings.Replace(p.Target, "-unknown-", "-", 1) + "-gcc"
}
