package command

import (
	"context"
	"os"
	"path/filepath"

	"rouse.dev/release/contents"
	"rouse.dev/release/provenance"
	"rouse.dev/release/repository"
	"rouse.dev/release/signing"
)

// signer signs a packed release.
type signer struct {
	folder contents.Folder
	cosign signing.Cosign
}

// run signs what registries store first, because the checksums are about the layouts, too.
func (s signer) run(ctx context.Context) error {
	for _, step := range []func(context.Context) error{s.repositories, s.publicKey, s.checksums} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s signer) repositories(ctx context.Context) error {
	host, stop, err := repository.InMemory()
	if err != nil {
		return err
	}
	defer stop()
	work, err := os.MkdirTemp("", "rouse-release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	statement, err := provenance.Read(s.folder.Provenance())
	if err != nil {
		return err
	}
	predicate := filepath.Join(work, "predicate.json")
	if err := provenance.Write(predicate, statement.Predicate); err != nil {
		return err
	}
	for _, program := range contents.Images {
		var documents []string
		for _, platform := range contents.Platforms {
			documents = append(documents, s.folder.SBOM(program, platform))
		}
		if err := s.repository(ctx, host, program.Repository(), predicate, documents); err != nil {
			return err
		}
	}
	return s.repository(ctx, host, contents.ChartRepository, predicate, nil)
}

// repository signs an image or the chart, and attests its provenance and bills of materials.
func (s signer) repository(ctx context.Context, host, path, predicate string, documents []string) error {
	layout, err := repository.Open(s.folder.Repository(path))
	if err != nil {
		return err
	}
	digest, err := pushLayout(ctx, layout, host+"/"+path)
	if err != nil {
		return err
	}
	if err := s.cosign.Sign(ctx, digest); err != nil {
		return err
	}
	if err := s.cosign.Attest(ctx, digest, "slsaprovenance1", predicate); err != nil {
		return err
	}
	for _, document := range documents {
		if err := s.cosign.Attest(ctx, digest, "cyclonedx", document); err != nil {
			return err
		}
	}
	return layout.AddReferrers(ctx, digest)
}

func (s signer) publicKey(ctx context.Context) error {
	return s.cosign.PublicKey(ctx, s.folder.PublicKey())
}

func (s signer) checksums(ctx context.Context) error {
	without := []string{s.folder.Checksums(), s.folder.Signature(), s.folder.PublicKey()}
	if err := signing.Checksums(s.folder.Checksums(), without); err != nil {
		return err
	}
	return s.cosign.SignFile(ctx, s.folder.Checksums(), s.folder.Signature())
}
