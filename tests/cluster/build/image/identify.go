package image

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// ErrSeveral reports that a tarball does not have exactly one image with one name.
var ErrSeveral = errors.New("not one image with one name")

// Identify returns the name and the id of the image in a tarball. The id is the digest of its
// configuration, which includes the digests of its layers.
func Identify(file string) (name, id string, err error) {
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(file) })
	if err != nil {
		return "", "", fmt.Errorf("read image tarball %s: %w", file, err)
	}
	if len(manifest) != 1 || len(manifest[0].RepoTags) != 1 {
		return "", "", ErrSeveral
	}
	packed, err := tarball.ImageFromPath(file, nil)
	if err != nil {
		return "", "", fmt.Errorf("read image tarball %s: %w", file, err)
	}
	digest, err := packed.ConfigName()
	if err != nil {
		return "", "", fmt.Errorf("read image tarball %s: %w", file, err)
	}
	return manifest[0].RepoTags[0], digest.String(), nil
}
