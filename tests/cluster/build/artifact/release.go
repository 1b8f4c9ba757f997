package artifact

import (
	"fmt"
	"path"
	"strings"
)

// Release is a release of Kubernetes that can be built, such as v1.37.1.
type Release string

// Newest is built if no other release is selected. Its module is go.mod of the program; each other one has a file
// versions/MINOR.mod beside it, so that the same source is compiled with its packages.
const Newest Release = "v1.37.1"

// releases has one release of each minor version, the newest first.
var releases = []Release{Newest, "v1.36.3", "v1.35.4", "v1.34.4", "v1.33.13"}

// ReleaseOf returns the release of a minor version, such as 1.34.
func ReleaseOf(minor string) (Release, error) {
	for _, release := range releases {
		if release.Minor() == minor {
			return release, nil
		}
	}
	return "", fmt.Errorf("Kubernetes %q cannot be built; use one of %s", minor, strings.Join(Minors(), ", "))
}

// Minors returns the minor versions that can be built, the newest first.
func Minors() []string {
	var minors []string
	for _, release := range releases {
		minors = append(minors, release.Minor())
	}
	return minors
}

// Minor is the minor version, such as 1.37.
func (r Release) Minor() string {
	parts := strings.SplitN(strings.TrimPrefix(string(r), "v"), ".", 3)
	return strings.Join(parts[:2], ".")
}

// Kubernetes has all components, etcd and kubectl.
func (r Release) Kubernetes() Artifact {
	built := Artifact{
		Name: "kubernetes",
		// The tags of upstream, without selinux.
		flags: []string{"-tags", "notest,grpcnotrace", "-ldflags", r.stamps()},
		links: []string{"kubectl"},
		cost:  "about 9 minutes on 2 cores, 4 GB of build cache and 3 GB of memory at the end",
	}
	if r != Newest {
		built.module = path.Join("versions", r.Minor()+".mod")
	}
	return built
}

// stamps set the version of the binaries. Without them, clients report v0.0.0 and kubectl warns
// about version skew.
func (r Release) stamps() string {
	_, minor, _ := strings.Cut(r.Minor(), ".")
	flags := "-s -w"
	for _, target := range []string{"k8s.io/client-go/pkg/version", "k8s.io/component-base/version"} {
		flags += fmt.Sprintf(" -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=1 -X %[1]s.gitMinor=%[3]s", target, r, minor)
	}
	return flags + " -X k8s.io/component-base/version.gitTreeState=clean"
}
