package supervisor

import (
	"bytes"
	"testing"

	"rouse.dev/cluster/build/artifact"
)

// The image is named in two places: the artifact and the manifest.
func TestCoreDNSRunsThePackedImage(t *testing.T) {
	if !bytes.Contains(coreDNS, []byte("image: "+artifact.CoreDNS.Image+"\n")) {
		t.Errorf("coredns.yaml does not run %s", artifact.CoreDNS.Image)
	}
}
