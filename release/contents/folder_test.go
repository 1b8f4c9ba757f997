package contents

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// RELEASE may name any folder by mistake.
func TestBeginRemovesNothingButAnEarlierRelease(t *testing.T) {
	foreign := t.TempDir()
	kept := filepath.Join(foreign, "letter")
	if err := os.WriteFile(kept, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Folder(foreign).Begin(); !errors.Is(err, ErrForeign) {
		t.Fatal(err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
	earlier := Folder(t.TempDir())
	if err := os.MkdirAll(earlier.Repository("rouse/activator"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []Folder{earlier, Folder(t.TempDir()), Folder(filepath.Join(t.TempDir(), "new"))} {
		if err := folder.Begin(); err != nil {
			t.Error(err)
		}
		if entries, err := os.ReadDir(string(folder)); err != nil || len(entries) != 0 {
			t.Errorf("%v %v", entries, err)
		}
	}
}
