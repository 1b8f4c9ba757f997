package repository

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// AddReferrers adds the signatures and attestations that a registry has for a digest.
func (r Repository) AddReferrers(ctx context.Context, of name.Digest) error {
	index, err := remote.Referrers(of, options(ctx)...)
	if err != nil {
		return fmt.Errorf("list what refers to %s: %w", of, err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	present, err := r.entries()
	if err != nil {
		return err
	}
	for _, referrer := range manifest.Manifests {
		if slices.ContainsFunc(present, func(entry v1.Descriptor) bool { return entry.Digest == referrer.Digest }) {
			continue
		}
		found, err := remote.Image(of.Context().Digest(referrer.Digest.String()), options(ctx)...)
		if err != nil {
			return fmt.Errorf("pull %s: %w", referrer.Digest, err)
		}
		if err := r.layout.AppendImage(found, layout.WithAnnotations(referrer.Annotations)); err != nil {
			return fmt.Errorf("write %s: %w", referrer.Digest, err)
		}
	}
	return nil
}
