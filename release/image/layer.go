package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// archive returns the file system: the binary and an empty /tmp. Zero times and root as owner make
// the bytes reproducible.
func archive(name string, binary []byte) ([]byte, error) {
	var layer bytes.Buffer
	files := tar.NewWriter(&layer)
	if err := files.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}); err != nil {
		return nil, err
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(binary))}
	if err := files.WriteHeader(header); err != nil {
		return nil, err
	}
	if _, err := files.Write(binary); err != nil {
		return nil, err
	}
	// Before the bytes are read: it writes the padding of the file and the end of the archive.
	if err := files.Close(); err != nil {
		return nil, err
	}
	return layer.Bytes(), nil
}

// compress gives the same bytes for the same content and version of Go.
func compress(content []byte) (v1.Layer, error) {
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	return tarball.LayerFromOpener(open,
		tarball.WithMediaType(types.OCILayer),
		tarball.WithCompressionLevel(gzip.BestCompression),
		tarball.WithCompressedCaching)
}
