package artifact

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// store returns a Store with a tiny program instead of the large ones.
func store(t *testing.T) (Store, Artifact) {
	t.Helper()
	source := t.TempDir()
	s := Store{Root: filepath.Join(t.TempDir(), "cache"), Source: source, Report: io.Discard}
	a := Artifact{Name: "tiny", links: []string{"other"}, Image: "test/tiny:v1"}
	write(t, filepath.Join(source, "tiny", "go.mod"), "module tiny\n\ngo 1.26\n")
	write(t, filepath.Join(source, "tiny", "main.go"), "package main\n\nfunc main() {}\n")
	return s, a
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestBuildsOncePerSource(t *testing.T) {
	s, a := store(t)
	first, err := s.Get(context.Background(), a)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{first.Program(), first.Link("other"), first.ImageFile()} {
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	}
	info, _ := os.Stat(first.Program())
	again, err := s.Get(context.Background(), a)
	if err != nil || again.Dir != first.Dir {
		t.Fatalf("%v %v", again, err)
	}
	if later, _ := os.Stat(again.Program()); !later.ModTime().Equal(info.ModTime()) {
		t.Error("built again without a change")
	}
	write(t, filepath.Join(s.Source, "tiny", "main.go"), "package main\n\nfunc main() { println() }\n")
	changed, err := s.Get(context.Background(), a)
	if err != nil || changed.Dir == first.Dir {
		t.Errorf("the version did not change with the source: %v %v", changed, err)
	}
	a.flags = []string{"-ldflags", "-s"}
	if flagged, err := s.Get(context.Background(), a); err != nil || flagged.Dir == changed.Dir {
		t.Errorf("the version did not change with the flags: %v %v", flagged, err)
	}
}

func TestFailedBuildLeavesNothing(t *testing.T) {
	s, a := store(t)
	write(t, filepath.Join(s.Source, "tiny", "main.go"), "package main\n\nfunc main() { nonsense }\n")
	_, err := s.Get(context.Background(), a)
	if err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("%v lacks the compiler output", err)
	}
	left, _ := filepath.Glob(filepath.Join(s.Root, "tiny-*"))
	half, _ := filepath.Glob(filepath.Join(s.Root, "*.building"))
	if len(left)+len(half) > 0 {
		t.Errorf("left %v %v", left, half)
	}
}

func TestPruneKeepsNewAndUsedVersions(t *testing.T) {
	s, a := store(t)
	for i, age := range []time.Duration{0, time.Hour, 20 * 24 * time.Hour, 21 * 24 * time.Hour, 24 * time.Hour} {
		dir := filepath.Join(s.Root, "tiny-"+string(rune('a'+i)))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		used := time.Now().Add(-age)
		if err := os.Chtimes(dir, used, used); err != nil {
			t.Fatal(err)
		}
	}
	s.prune(a)
	left, _ := filepath.Glob(filepath.Join(s.Root, "tiny-*"))
	var names []string
	for _, dir := range left {
		names = append(names, filepath.Base(dir))
	}
	if got := strings.Join(names, " "); got != "tiny-a tiny-b tiny-e" {
		t.Errorf("left %s", got)
	}
}
