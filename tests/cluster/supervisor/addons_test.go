package supervisor

import (
	"bytes"
	"testing"

	"rouse.dev/cluster/build/artifact"
)

// The image is named in two places: the artifact and the manifest.
func TestAddonsRunThePackedImages(t *testing.T) {
	for _, addon := range []artifact.Artifact{artifact.CoreDNS, artifact.MetricsServer} {
		manifest, err := manifests.ReadFile("addons/" + addon.Name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(manifest, []byte("image: "+addon.Image+"\n")) {
			t.Errorf("%s.yaml does not run %s", addon.Name, addon.Image)
		}
	}
}
