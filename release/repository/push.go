package repository

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// ErrTagged reports that a registry has the tag of this release for something else.
var ErrTagged = errors.New("the tag has another digest; tags of releases do not move")

// Push pushes all of the layout to a repository of a registry, with the user's credentials for
// Docker. It sets tags last, and never moves one.
func (r Repository) Push(ctx context.Context, to name.Repository) error {
	entries, err := r.entries()
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := checkTag(ctx, to, entry); err != nil {
			return err
		}
	}
	for _, entry := range entries {
		if err := r.write(to.Digest(entry.Digest.String()), entry, options(ctx)); err != nil {
			return fmt.Errorf("push %s: %w", to.Digest(entry.Digest.String()), err)
		}
	}
	for _, entry := range entries {
		if err := setTag(ctx, to, entry); err != nil {
			return err
		}
	}
	return nil
}

func options(ctx context.Context) []remote.Option {
	return []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
}

func (r Repository) write(to name.Reference, entry v1.Descriptor, options []remote.Option) error {
	all, err := r.layout.ImageIndex()
	if err != nil {
		return err
	}
	if entry.MediaType.IsIndex() {
		index, err := all.ImageIndex(entry.Digest)
		if err != nil {
			return err
		}
		return remote.WriteIndex(to, index, options...)
	}
	image, err := all.Image(entry.Digest)
	if err != nil {
		return err
	}
	return remote.Write(to, image, options...)
}

func checkTag(ctx context.Context, to name.Repository, entry v1.Descriptor) error {
	tag := entry.Annotations[tagKey]
	if tag == "" {
		return nil
	}
	present, err := remote.Head(to.Tag(tag), options(ctx)...)
	if response, ok := errors.AsType[*transport.Error](err); ok && response.StatusCode == http.StatusNotFound {
		return nil
	}
	if err != nil {
		return fmt.Errorf("check tag %s: %w", to.Tag(tag), err)
	}
	if present.Digest != entry.Digest {
		return fmt.Errorf("%s: %w", to.Tag(tag), ErrTagged)
	}
	return nil
}

func setTag(ctx context.Context, to name.Repository, entry v1.Descriptor) error {
	tag := entry.Annotations[tagKey]
	if tag == "" {
		return nil
	}
	pushed, err := remote.Get(to.Digest(entry.Digest.String()), options(ctx)...)
	if err != nil {
		return fmt.Errorf("tag %s: %w", to.Tag(tag), err)
	}
	if err := remote.Tag(to.Tag(tag), pushed, options(ctx)...); err != nil {
		return fmt.Errorf("tag %s: %w", to.Tag(tag), err)
	}
	return nil
}
