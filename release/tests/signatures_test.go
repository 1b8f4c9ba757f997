package tests

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"rouse.dev/release/contents"
)

// withKey are the flags of a verification by a key, without a transparency log.
func (r release) withKey(key string) []string {
	return []string{"--key", key, "--insecure-ignore-tlog=true"}
}

// otherKey returns a public key that signed nothing here.
func (r release) otherKey(t *testing.T) string {
	t.Helper()
	prefix := filepath.Join(t.TempDir(), "other")
	run(t, r.cosign, "generate-key-pair", "--output-key-prefix", prefix)
	return prefix + ".pub"
}

func repositories() []string {
	paths := []string{contents.ChartRepository}
	for _, program := range contents.Images {
		paths = append(paths, program.Repository())
	}
	return paths
}

func TestChecksumsMatchEveryFile(t *testing.T) {
	release := built(t)
	check := exec.Command("sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")
	check.Dir = string(release.Folder)
	if output, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, output)
	}
}

func TestChecksumsAreSigned(t *testing.T) {
	release := built(t)
	verify := func(key, file string) (string, error) {
		args := append([]string{"verify-blob", "--bundle", release.Signature()}, release.withKey(key)...)
		return offline(t, release.cosign, append(args, file)...)
	}
	if output, err := verify(release.PublicKey(), release.Checksums()); err != nil {
		t.Errorf("%v: %s", err, output)
	}
	if _, err := verify(release.otherKey(t), release.Checksums()); err == nil {
		t.Error("another key verifies the checksums")
	}
	sums, err := os.ReadFile(release.Checksums())
	if err != nil {
		t.Fatal(err)
	}
	sums[0] ^= 1
	changed := filepath.Join(t.TempDir(), "SHA256SUMS")
	if err := os.WriteFile(changed, sums, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := verify(release.PublicKey(), changed); err == nil {
		t.Error("a changed byte verifies")
	}
}

func TestImagesAndChartAreSigned(t *testing.T) {
	release := built(t)
	host := release.registry(t)
	other := release.otherKey(t)
	for _, path := range repositories() {
		image := release.pushed(t, host, path)
		run(t, release.cosign, append(append([]string{"verify"}, release.withKey(release.PublicKey())...), image)...)
		if _, err := offline(t, release.cosign, append(append([]string{"verify"}, release.withKey(other)...), image)...); err == nil {
			t.Errorf("another key verifies %s", path)
		}
	}
}

// attested returns the predicates of a type that are signed for an image.
func (r release) attested(t *testing.T, kind, image string) []json.RawMessage {
	t.Helper()
	command := exec.CommandContext(t.Context(), r.cosign,
		append(append([]string{"verify-attestation", "--type", kind}, r.withKey(r.PublicKey())...), image)...)
	output, err := command.Output()
	if err != nil {
		t.Fatalf("%s of %s: %v", kind, image, err)
	}
	var predicates []json.RawMessage
	for line := range strings.Lines(string(output)) {
		var envelope struct{ Payload string }
		var statement struct{ Predicate json.RawMessage }
		if err := json.Unmarshal([]byte(line), &envelope); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		payload, err := base64.StdEncoding.DecodeString(envelope.Payload)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(payload, &statement); err != nil {
			t.Fatal(err)
		}
		predicates = append(predicates, statement.Predicate)
	}
	return predicates
}
