package krew

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"time"
)

// File is a file of an archive.
type File struct {
	Name    string
	Mode    int64
	Content []byte
}

// Archive returns a gzipped tar archive, the form in which krew downloads. One time for all files,
// and root as owner, make the bytes reproducible.
func Archive(created time.Time, files ...File) ([]byte, error) {
	var archive bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&archive, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	members := tar.NewWriter(compressed)
	for _, file := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: file.Name, Mode: file.Mode, Size: int64(len(file.Content)), ModTime: created}
		if err := members.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := members.Write(file.Content); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(members.Close(), compressed.Close()); err != nil {
		return nil, err
	}
	return archive.Bytes(), nil
}
