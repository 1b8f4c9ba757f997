package artifact

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// compile runs the Go compiler and reports progress.
func (s Store) compile(ctx context.Context, target Built) error {
	dir := filepath.Join(s.Source, target.Name)
	if target.cost != "" {
		fmt.Fprintf(s.Report, "%s: building from Go modules; the first build takes %s\n", target.Name, target.cost)
	}
	expected := countPackages(ctx, dir, target.buildFlags())
	if err := ctx.Err(); err != nil {
		return err
	}
	progress := watch(s.Report, target.Name, expected)
	defer progress.stop()
	// -v prints each package as it is compiled, except those in the build cache.
	args := append([]string{"build", "-v"}, target.buildFlags()...)
	command := goCommand(ctx, dir, append(args, "-o", target.Program(), ".")...)
	// An interrupted Go leaves its temporary files, up to a gigabyte. Here they are removed with
	// the incomplete build.
	temporary := filepath.Join(target.Dir, "temporary")
	if err := os.Mkdir(temporary, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	command.Env = append(command.Env, "GOTMPDIR="+temporary)
	output, err := command.StderrPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	var messages bytes.Buffer
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if line := lines.Text(); isPackage(line) {
			progress.compiled.Add(1)
		} else {
			fmt.Fprintln(&messages, line)
		}
	}
	if err := command.Wait(); err != nil {
		return fmt.Errorf("go build in %s: %w\n%s", dir, err, tail(messages.String(), 20))
	}
	return nil
}

// goCommand keeps the caller's settings for modules and caches, and overrides those that affect the
// binary.
func goCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = dir
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOWORK=off")
	// An interrupted Go also ends the compilers and linkers that it has started; a killed one does
	// not.
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 10 * time.Second
	return command
}

// countPackages returns the number of packages of a program, or 0 if it cannot be determined.
func countPackages(ctx context.Context, dir string, flags []string) int {
	output, err := goCommand(ctx, dir, append(append([]string{"list", "-deps"}, flags...), ".")...).Output()
	if err != nil {
		return 0
	}
	return bytes.Count(output, []byte("\n"))
}

// isPackage distinguishes the import paths that go build -v prints from its error messages.
func isPackage(line string) bool {
	return line != "" && !strings.ContainsAny(line, " \t:#")
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// progress prints the state of a build: on a terminal a line updated every second, elsewhere a line
// every 20 s.
type progress struct {
	compiled atomic.Int64
	done     chan struct{}
	ended    chan struct{}
}

func watch(report interface{ Write([]byte) (int, error) }, name string, expected int) *progress {
	p := &progress{done: make(chan struct{}), ended: make(chan struct{})}
	period, before, after := 20*time.Second, "", "\n"
	if file, ok := report.(*os.File); ok && isTerminal(file) {
		period, before, after = time.Second, "\r\033[K", ""
	}
	start := time.Now()
	show := func(last string) {
		compiled := p.compiled.Load()
		fmt.Fprintf(report, "%s%s: %s, %d of at most %d packages compiled%s%s",
			before, name, time.Since(start).Round(time.Second), compiled, expected, last, after)
	}
	go func() {
		defer close(p.ended)
		ticker := time.NewTicker(period)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				show("")
			case <-p.done:
				show(", done")
				if after == "" {
					fmt.Fprintln(report)
				}
				return
			}
		}
	}()
	return p
}

func (p *progress) stop() {
	close(p.done)
	<-p.ended
}

func isTerminal(file *os.File) bool {
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}
