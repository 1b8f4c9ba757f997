package repository

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// in returns a repository of a registry that ends with the test.
func in(t *testing.T) name.Repository {
	t.Helper()
	host, stop, err := InMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stop() })
	repository, err := name.NewRepository(host + "/rouse/activator")
	if err != nil {
		t.Fatal(err)
	}
	return repository
}

// layoutOf returns a layout with a new image of two platforms.
func layoutOf(t *testing.T) (Repository, v1.Hash) {
	t.Helper()
	index, err := random.Index(100, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	layout, err := Create(filepath.Join(t.TempDir(), "rouse", "activator"))
	if err != nil {
		t.Fatal(err)
	}
	if err := layout.AddIndex(index, "v0.1.0"); err != nil {
		t.Fatal(err)
	}
	digest, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return layout, digest
}

// The chart names digests, so a registry must have the same ones as the folder.
func TestPushKeepsDigestAndSetsTag(t *testing.T) {
	layout, digest := layoutOf(t)
	to := in(t)
	for range 2 { // the second push finds everything there
		if err := layout.Push(t.Context(), to); err != nil {
			t.Fatal(err)
		}
	}
	for _, reference := range []name.Reference{to.Digest(digest.String()), to.Tag("v0.1.0")} {
		if pushed, err := remote.Index(reference); err != nil {
			t.Error(err)
		} else if has, _ := pushed.Digest(); has != digest {
			t.Errorf("%s is %s instead of %s", reference, has, digest)
		}
	}
}

// A version that was pulled once has the same bytes at each later pull.
func TestPushNeverMovesATag(t *testing.T) {
	first, digest := layoutOf(t)
	second, _ := layoutOf(t)
	to := in(t)
	if err := first.Push(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	if err := second.Push(t.Context(), to); !errors.Is(err, ErrTagged) {
		t.Fatal(err)
	}
	if present, err := remote.Head(to.Tag("v0.1.0")); err != nil || present.Digest != digest {
		t.Errorf("%v %v", present, err)
	}
}

func TestKeepsSignaturesAcrossRegistries(t *testing.T) {
	layout, digest := layoutOf(t)
	from, to := in(t), in(t)
	if err := layout.Push(t.Context(), from); err != nil {
		t.Fatal(err)
	}
	refer(t, from, digest)
	for range 2 { // the second time adds nothing
		if err := layout.AddReferrers(t.Context(), from.Digest(digest.String())); err != nil {
			t.Fatal(err)
		}
	}
	if entries, err := layout.entries(); err != nil || len(entries) != 2 {
		t.Fatalf("%v %v", entries, err)
	}
	if subject, err := layout.Subject(); err != nil || subject.Digest != digest {
		t.Fatalf("%v %v", subject, err)
	}
	if err := layout.Push(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	referrers, err := remote.Referrers(to.Digest(digest.String()))
	if err != nil {
		t.Fatal(err)
	}
	if manifest, err := referrers.IndexManifest(); err != nil || len(manifest.Manifests) != 1 {
		t.Errorf("%+v %v", manifest, err)
	}
}

// refer pushes what refers to a digest, as a signature does.
func refer(t *testing.T, in name.Repository, digest v1.Hash) {
	t.Helper()
	image, err := random.Image(10, 1)
	if err != nil {
		t.Fatal(err)
	}
	image = mutate.MediaType(image, types.OCIManifestSchema1)
	subject := v1.Descriptor{MediaType: types.OCIImageIndex, Digest: digest, Size: 1}
	signature := mutate.Subject(image, subject).(v1.Image)
	pushed, err := signature.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(in.Digest(pushed.String()), signature); err != nil {
		t.Fatal(err)
	}
}
