// Package artifact builds the programs of a cluster, once per version of their source, into a cache
// outside of the repository.
package artifact

import (
	"path/filepath"
	"runtime"

	"rouse.dev/cluster/build/image"
)

// Version is the Kubernetes that is built, as its module is required in kubernetes/go.mod.
const Version = "v1.37.1"

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
	// cost describes the time and memory of a first build; empty for a quick one.
	cost string
}

// stamps set the version of the binaries. Without them, clients report v0.0.0 and kubectl warns
// about version skew.
const stamps = "-s -w" +
	" -X k8s.io/client-go/pkg/version.gitVersion=" + Version +
	" -X k8s.io/client-go/pkg/version.gitMajor=1" +
	" -X k8s.io/client-go/pkg/version.gitMinor=37" +
	" -X k8s.io/component-base/version.gitVersion=" + Version +
	" -X k8s.io/component-base/version.gitMajor=1" +
	" -X k8s.io/component-base/version.gitMinor=37" +
	" -X k8s.io/component-base/version.gitTreeState=clean"

var (
	// Kubernetes has all components, etcd and kubectl.
	Kubernetes = Artifact{
		Name: "kubernetes",
		// The tags of upstream, without selinux.
		flags: []string{"-tags", "notest,grpcnotrace", "-ldflags", stamps},
		links: []string{"kubectl"},
		cost:  "about 9 minutes on 2 cores, 4 GB of build cache and 3 GB of memory at the end",
	}
	// CoreDNS serves the cluster's own names.
	CoreDNS = Artifact{
		Name:  "coredns",
		flags: []string{"-ldflags", "-s -w"},
		Image: "rouse-cluster/coredns:v1",
		cost:  "about 2 minutes on 2 cores",
	}
	// Pause keeps the namespaces of a pod alive.
	Pause = Artifact{
		Name:  "pause",
		flags: []string{"-ldflags", "-s -w"},
		Image: "rouse-cluster/pause:v1",
	}
)

// All returns every artifact, the quickest last.
func All() []Artifact { return []Artifact{Kubernetes, CoreDNS, Pause} }

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
	return append([]string{"-buildvcs=false", "-trimpath"}, a.flags...)
}

// identity lists the inputs of a build other than source and toolchain.
func (a Artifact) identity() []string {
	return append(append(a.buildFlags(), a.links...), a.Image, image.NonRoot, runtime.GOARCH)
}
