package source

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// checkout returns a repository with one commit.
func checkout(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	t.Setenv("GIT_COMMITTER_DATE", "2026-11-25T17:00:00+01:00")
	for _, args := range [][]string{
		{"init", "--quiet"},
		{"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "--allow-empty", "--message", "first"},
	} {
		if _, err := git(folder, args...); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func TestReadsCommitAndItsTime(t *testing.T) {
	commit, err := Read(checkout(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(commit.Hash) != 40 || !commit.Time.Equal(time.Date(2026, 11, 25, 16, 0, 0, 0, time.UTC)) || commit.Changed {
		t.Errorf("%+v", commit)
	}
}

// The commit would not describe the binaries.
func TestReportsUncommittedChanges(t *testing.T) {
	folder := checkout(t)
	if err := os.WriteFile(filepath.Join(folder, "new"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if commit, err := Read(folder); err != nil || !commit.Changed {
		t.Errorf("%+v %v", commit, err)
	}
}

func TestRejectsFolderWithoutCommit(t *testing.T) {
	if _, err := Read(t.TempDir()); err == nil {
		t.Error("read a folder without a repository")
	}
}
