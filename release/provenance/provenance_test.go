package provenance

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// A changed order of the files would change the bytes of the statement.
func TestStatementNamesCommitAndSortedSubjects(t *testing.T) {
	build := Build{Version: "0.1.0", Commit: "abc", Changed: true, Inputs: []Subject{{Name: "Cargo.lock"}}}
	statement := build.Statement([]Subject{{Name: "b"}, {Name: "a"}})
	if statement.Subject[0].Name != "a" || statement.Subject[1].Name != "b" {
		t.Errorf("%+v", statement.Subject)
	}
	definition := statement.Predicate.BuildDefinition
	if source := definition.ResolvedDependencies; source[0].Digest["gitCommit"] != "abc" || source[1].Name != "Cargo.lock" {
		t.Errorf("%+v", source)
	}
	if definition.InternalParameters["uncommittedChanges"] != true {
		t.Error("uncommitted changes are not recorded")
	}
}

func TestWritesWhatItReads(t *testing.T) {
	file := filepath.Join(t.TempDir(), "statement.json")
	written := Build{Version: "0.1.0", Commit: "abc"}.Statement([]Subject{{Name: "a", Digest: map[string]string{"sha256": "1"}}})
	if err := Write(file, written); err != nil {
		t.Fatal(err)
	}
	read, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	want, _ := json.Marshal(written)
	if got, _ := json.Marshal(read); string(got) != string(want) {
		t.Errorf("%s instead of %s", got, want)
	}
}

func TestNamesFilesBelowTheFolder(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "kubectl-rouse")
	if err := os.WriteFile(file, []byte("abc"), 0o755); err != nil {
		t.Fatal(err)
	}
	subject, err := File(folder, file)
	if err != nil || subject.Name != "kubectl-rouse" || subject.Digest["sha256"] != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Errorf("%+v %v", subject, err)
	}
}
