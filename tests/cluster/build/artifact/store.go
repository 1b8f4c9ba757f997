package artifact

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"rouse.dev/cluster/build/image"
)

// Store is the cache of built artifacts: one complete folder NAME-HASH each.
type Store struct {
	// Root is the folder of the cache.
	Root string
	// Source is the folder with one folder per program.
	Source string
	// Report receives progress.
	Report io.Writer
}

// Open returns the store in ROUSE_CACHE, or in the user's cache folder.
func Open(report io.Writer) (Store, error) {
	cache := os.Getenv("ROUSE_CACHE")
	if cache == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return Store{}, fmt.Errorf("find a directory for built binaries: %w; set ROUSE_CACHE", err)
		}
		cache = filepath.Join(base, "rouse")
	}
	source, err := findSource()
	if err != nil {
		return Store{}, err
	}
	return Store{Root: filepath.Join(cache, "cluster"), Source: source, Report: report}, nil
}

// findSource returns the folder of the programs: where this tool was compiled, else near the
// working directory. The programs cannot be embedded, because embedding stops at the border of a
// module.
func findSource() (string, error) {
	complete := func(dir string) bool {
		_, err := os.Stat(filepath.Join(dir, Newest.Kubernetes().Name, "go.mod"))
		return err == nil
	}
	if _, file, _, ok := runtime.Caller(0); ok {
		if dir := filepath.Join(filepath.Dir(file), "..", "..", "programs"); filepath.IsAbs(dir) && complete(dir) {
			return dir, nil
		}
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		for _, candidate := range []string{filepath.Join(dir, "programs"), filepath.Join(dir, "tests", "cluster", "programs")} {
			if complete(candidate) {
				return candidate, nil
			}
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("source of the cluster's components not found; run this inside the repository")
		}
		dir = filepath.Dir(dir)
	}
}

// Get returns an artifact, and builds it if this version is not in the cache.
func (s Store) Get(ctx context.Context, a Artifact) (Built, error) {
	hash, err := s.hash(ctx, a)
	if err != nil {
		return Built{}, err
	}
	built := Built{a, filepath.Join(s.Root, a.Name+"-"+hash)}
	if s.use(built) {
		return built, nil
	}
	if err := os.MkdirAll(s.Root, 0o755); err != nil {
		return Built{}, fmt.Errorf("make the cache: %w", err)
	}
	release, err := s.lock(ctx, a)
	if err != nil {
		return Built{}, err
	}
	defer release()
	if s.use(built) { // built by the process that held the lock
		return built, nil
	}
	if err := s.build(ctx, built); err != nil {
		return Built{}, fmt.Errorf("build %s: %w", a.Name, err)
	}
	s.prune(a)
	return built, nil
}

// use reports whether an artifact is in the cache and updates its time of use, unless another user
// owns the cache.
func (s Store) use(built Built) bool {
	if _, err := os.Stat(built.Dir); err != nil {
		return false
	}
	now := time.Now()
	_ = os.Chtimes(built.Dir, now, now)
	return true
}

// hash identifies a version of an artifact by all inputs of its build.
func (s Store) hash(ctx context.Context, a Artifact) (string, error) {
	dir := filepath.Join(s.Source, a.Name)
	version, err := goCommand(ctx, dir, "env", "GOVERSION").Output()
	if err != nil {
		return "", fmt.Errorf("get the version of Go: %w; is Go installed and in PATH?", err)
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "%s\x00%s\x00", strings.TrimSpace(string(version)), strings.Join(a.identity(), "\x00"))
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", fmt.Errorf("read the source of %s: %w", a.Name, err)
	}
	for _, name := range a.inputs(entries) {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return "", fmt.Errorf("read the source of %s: %w", a.Name, err)
		}
		fmt.Fprintf(hash, "%s\x00%d\x00%s", name, len(content), content)
	}
	return hex.EncodeToString(hash.Sum(nil))[:16], nil
}

// inputs returns the files of a program's folder that its binary depends on.
func (a Artifact) inputs(entries []os.DirEntry) []string {
	var names []string
	for _, entry := range entries {
		name := entry.Name()
		isModule := name == "go.mod" || name == "go.sum"
		if isModule && a.module == "" || filepath.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go") {
			names = append(names, name)
		}
	}
	if a.module != "" {
		names = append(names, a.module, strings.TrimSuffix(a.module, ".mod")+".sum")
	}
	return names
}

// lock serializes builds of the same artifact, so that only one process builds it.
func (s Store) lock(ctx context.Context, a Artifact) (release func(), err error) {
	file, err := os.OpenFile(filepath.Join(s.Root, a.Name+".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock the cache: %w", err)
	}
	for reported := false; ; reported = true {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { file.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			file.Close()
			return nil, fmt.Errorf("lock the cache: %w", err)
		}
		if !reported {
			fmt.Fprintf(s.Report, "%s: another process is building it, waiting\n", a.Name)
		}
		select {
		case <-ctx.Done():
			file.Close()
			return nil, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// build builds the artifact in a temporary folder and renames it when it is complete.
func (s Store) build(ctx context.Context, built Built) error {
	// The lock is held, so the files are of an interrupted build.
	next := filepath.Join(s.Root, built.Name+".building")
	if err := os.RemoveAll(next); err != nil {
		return err
	}
	if err := os.Mkdir(next, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(next)
	half := Built{built.Artifact, next}
	if err := s.compile(ctx, half); err != nil {
		return err
	}
	for _, link := range built.links {
		if err := os.Symlink(built.Name, half.Link(link)); err != nil {
			return err
		}
	}
	if built.Image != "" {
		packed := image.Image{Name: built.Image, Binary: half.Program(), User: image.NonRoot}
		if err := packed.Write(half.ImageFile()); err != nil {
			return err
		}
	}
	return os.Rename(next, built.Dir)
}

// Old versions are kept for a while, because other checkouts and branches use them.
const (
	keptVersions = 3
	keptFor      = 14 * 24 * time.Hour
)

// prune removes versions of an artifact that are neither recent nor recently used. A failure
// only costs space.
func (s Store) prune(a Artifact) {
	dirs, _ := filepath.Glob(filepath.Join(s.Root, a.Name+"-*"))
	used := map[string]time.Time{}
	for _, dir := range dirs {
		if info, err := os.Stat(dir); err == nil {
			used[dir] = info.ModTime()
		}
	}
	slices.SortFunc(dirs, func(a, b string) int { return used[b].Compare(used[a]) })
	for i, dir := range dirs {
		if i >= keptVersions && time.Since(used[dir]) > keptFor {
			os.RemoveAll(dir)
		}
	}
}
