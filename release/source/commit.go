// Package source reads what a release is built from: the commit and its time. Its input is a git
// checkout. A release has no other time than the commit's, so that two builds give the same bytes.
package source

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// ErrUncommitted reports that the checkout differs from its commit.
var ErrUncommitted = errors.New("the checkout has changes that are in no commit")

// Commit is the source of a release.
type Commit struct {
	// Hash names the commit.
	Hash string
	// Time is the commit's own.
	Time time.Time
	// Changed is whether the checkout has changes that are in no commit.
	Changed bool
}

// Read returns the commit that is checked out in a folder.
func Read(folder string) (Commit, error) {
	head, err := git(folder, "log", "--max-count=1", "--format=%H %cI")
	if err != nil {
		return Commit{}, err
	}
	hash, at, _ := strings.Cut(head, " ")
	created, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return Commit{}, fmt.Errorf("read the time of commit %s: %w", hash, err)
	}
	changes, err := git(folder, "status", "--porcelain")
	if err != nil {
		return Commit{}, err
	}
	return Commit{Hash: hash, Time: created.UTC(), Changed: changes != ""}, nil
}

func git(folder string, args ...string) (string, error) {
	output, err := exec.Command("git", append([]string{"-C", folder}, args...)...).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(output)), nil
}
