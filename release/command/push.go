package command

import (
	"context"
	"fmt"
	"io"

	"github.com/google/go-containerregistry/pkg/name"

	"rouse.dev/release/contents"
	"rouse.dev/release/repository"
)

// push pushes the chart last, because it names the images.
func push(ctx context.Context, output io.Writer, folder contents.Folder, registry string) error {
	var paths []string
	for _, program := range contents.Images {
		paths = append(paths, program.Repository())
	}
	for _, path := range append(paths, contents.ChartRepository) {
		layout, err := repository.Open(folder.Repository(path))
		if err != nil {
			return err
		}
		digest, err := pushLayout(ctx, layout, registry+"/"+path)
		if err != nil {
			return err
		}
		fmt.Fprintln(output, digest)
	}
	return nil
}

// pushLayout pushes a layout, and returns the reference of its subject there.
func pushLayout(ctx context.Context, layout repository.Repository, to string) (name.Digest, error) {
	destination, err := name.NewRepository(to)
	if err != nil {
		return name.Digest{}, err
	}
	if err := layout.Push(ctx, destination); err != nil {
		return name.Digest{}, err
	}
	subject, err := layout.Subject()
	if err != nil {
		return name.Digest{}, err
	}
	return destination.Digest(subject.Digest.String()), nil
}
