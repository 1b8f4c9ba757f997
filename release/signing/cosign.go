// Package signing signs a release with a key, by cosign. Nothing leaves the machine: no transparency
// log, no certificate authority, and images are signed in a registry in memory.
package signing

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// Cosign is the program with a private key. cosign reads the key's password from COSIGN_PASSWORD.
type Cosign struct{ Program, Key string }

// offline are the flags without which cosign would use Sigstore's public services. A signing config
// without services, which cosign prefers, would still fetch Sigstore's trusted root.
var offline = []string{"--use-signing-config=false", "--tlog-upload=false", "--yes"}

// Sign signs an image or artifact in a registry.
func (c Cosign) Sign(ctx context.Context, image name.Digest) error {
	return c.run(ctx, "sign", slices.Concat(offline, []string{"--key", c.Key, image.String()})...)
}

// Attest signs a statement about an image and stores it beside the image.
func (c Cosign) Attest(ctx context.Context, image name.Digest, kind, predicate string) error {
	return c.run(ctx, "attest", slices.Concat(offline, []string{"--key", c.Key, "--type", kind, "--predicate", predicate, image.String()})...)
}

// SignFile writes the signature of a file to another.
func (c Cosign) SignFile(ctx context.Context, file, signature string) error {
	return c.run(ctx, "sign-blob", slices.Concat(offline, []string{"--key", c.Key, "--bundle", signature, file})...)
}

// PublicKey writes the public key.
func (c Cosign) PublicKey(ctx context.Context, file string) error {
	return c.run(ctx, "public-key", "--key", c.Key, "--outfile", file)
}

func (c Cosign) run(ctx context.Context, command string, args ...string) error {
	output, err := exec.CommandContext(ctx, c.Program, append([]string{command}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("cosign %s: %w: %s", command, err, strings.TrimSpace(string(output)))
	}
	return nil
}
