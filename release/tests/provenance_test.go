package tests

import (
	"encoding/json"
	"testing"

	"rouse.dev/release/contents"
	"rouse.dev/release/provenance"
)

func TestProvenanceNamesTheCommitAndEveryDigest(t *testing.T) {
	release, head := built(t), commit(t)
	statement, err := provenance.Read(release.Provenance())
	if err != nil {
		t.Fatal(err)
	}
	if statement.PredicateType != provenance.PredicateType || !namesCommit(statement.Predicate, head.Hash) {
		t.Errorf("%+v", statement.Predicate)
	}
	subjects := map[string]string{}
	for _, subject := range statement.Subject {
		subjects[subject.Name] = subject.Digest["sha256"]
	}
	want := map[string]string{}
	for _, path := range repositories() {
		want[path] = release.digest(t, path).Hex
	}
	files := []string{release.archive(t), release.Krew()}
	for _, tool := range contents.Tools {
		for _, platform := range platforms(tool) {
			files = append(files, release.Tool(tool, platform))
		}
	}
	for _, file := range files {
		subject, err := provenance.File(string(release.Folder), file)
		if err != nil {
			t.Fatal(err)
		}
		want[subject.Name] = subject.Digest["sha256"]
	}
	for name, digest := range want {
		if subjects[name] != digest {
			t.Errorf("%s is %q instead of %s", name, subjects[name], digest)
		}
	}
}

func TestRegistryHasSignedProvenance(t *testing.T) {
	release, head := built(t), commit(t)
	host := release.registry(t)
	for _, path := range repositories() {
		attested := release.attested(t, "slsaprovenance1", release.pushed(t, host, path))
		if len(attested) != 1 {
			t.Errorf("%s has %d statements", path, len(attested))
			continue
		}
		var predicate provenance.Predicate
		if err := json.Unmarshal(attested[0], &predicate); err != nil {
			t.Fatal(err)
		}
		if !namesCommit(predicate, head.Hash) {
			t.Errorf("%s: %+v", path, predicate)
		}
	}
}

func namesCommit(predicate provenance.Predicate, hash string) bool {
	definition := predicate.BuildDefinition
	return definition.BuildType == provenance.BuildType && len(definition.ResolvedDependencies) > 2 &&
		definition.ResolvedDependencies[0].Digest["gitCommit"] == hash
}
