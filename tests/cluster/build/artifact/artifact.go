// Package artifact builds the programs of a cluster, once per version of their source, into a cache
// outside of the repository.
package artifact

import (
	"path/filepath"
	"runtime"

	"rouse.dev/cluster/build/image"
)

// Artifact is one program to build.
type Artifact struct {
	// Name is the name of the program and of its folder.
	Name string
	// flags are the flags of `go build` that affect the binary.
	flags []string
	// links are further names of the program. A multi-call binary selects the command by its name.
	links []string
	// Image is the name of the image to pack it into, if any.
	Image string
	// module is the file of the module's requirements, below the program's folder; empty for go.mod.
	module string
	// cost describes the time and memory of a first build; empty for a quick one.
	cost string
}

var (
	// CoreDNS serves the cluster's own names.
	CoreDNS = Artifact{
		Name:  "coredns",
		flags: []string{"-ldflags", "-s -w"},
		Image: "rouse-cluster/coredns:v1",
		cost:  "about 2 minutes on 2 cores",
	}
	// MetricsServer serves the CPU and memory of pods. A cluster has it on request alone, so it is not one of All.
	MetricsServer = Artifact{
		Name:  "metrics-server",
		flags: []string{"-ldflags", "-s -w"},
		Image: "rouse-cluster/metrics-server:v1",
		cost:  "about 3 minutes on 2 cores",
	}
	// Pause keeps the namespaces of a pod alive.
	Pause = Artifact{
		Name:  "pause",
		flags: []string{"-ldflags", "-s -w"},
		Image: "rouse-cluster/pause:v1",
	}
)

// All returns every artifact of a cluster with this release, the quickest last.
func All(release Release) []Artifact { return []Artifact{release.Kubernetes(), CoreDNS, Pause} }

// Built is an artifact in the cache.
type Built struct {
	Artifact
	Dir string
}

// Program is the path of the built program.
func (b Built) Program() string { return filepath.Join(b.Dir, b.Name) }

// Link is the path of the program under one of its further names.
func (b Built) Link(name string) string { return filepath.Join(b.Dir, name) }

// ImageFile is the path of the image's tarball.
func (b Built) ImageFile() string { return filepath.Join(b.Dir, b.Name+".tar") }

// buildFlags returns the common flags and the artifact's own.
func (a Artifact) buildFlags() []string {
	// Nothing is debugged, and compiling without DWARF takes a fifteenth less time.
	common := []string{"-buildvcs=false", "-trimpath", "-gcflags=all=-dwarf=false"}
	if a.module != "" {
		common = append(common, "-modfile="+a.module)
	}
	return append(common, a.flags...)
}

// identity lists the inputs of a build other than source and toolchain.
func (a Artifact) identity() []string {
	return append(append(a.buildFlags(), a.links...), a.Image, image.NonRoot, runtime.GOARCH)
}
