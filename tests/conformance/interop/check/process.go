package check

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Process is a program that ends with its test.
type Process struct {
	command *exec.Cmd
	// firstLine is the first line of its output.
	firstLine chan string
	end       sync.Once
}

// StartProcess starts a program.
func StartProcess(t testing.TB, name string, arguments ...string) *Process {
	t.Helper()
	return StartCommand(t, exec.Command(name, arguments...))
}

// StartCommand starts a program. Its output belongs to the log of a test that fails.
func StartCommand(t testing.TB, command *exec.Cmd) *Process {
	t.Helper()
	name := command.Path
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	// A test that is killed leaves no process.
	command.SysProcAttr.Pdeathsig = syscall.SIGKILL
	output, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	command.Stdout, command.Stderr = write, write
	if err := command.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	write.Close()
	process := &Process{command: command, firstLine: make(chan string, 1)}
	var log strings.Builder
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(process.firstLine)
		lines := bufio.NewScanner(output)
		for first := true; lines.Scan(); first = false {
			if first {
				process.firstLine <- lines.Text()
			}
			if log.Len() < 64<<10 {
				log.WriteString(lines.Text() + "\n")
			}
		}
	}()
	t.Cleanup(func() {
		process.Kill()
		output.Close()
		<-read
		if t.Failed() {
			t.Logf("output of %s:\n%s", name, log.String())
		}
	})
	return process
}

// StartPiped starts a client and returns its standard output.
func StartPiped(command *exec.Cmd) (io.Reader, error) {
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return output, command.Start()
}

// FirstLine waits for the first line of the output.
func (p *Process) FirstLine(t testing.TB) string {
	t.Helper()
	line, ok := <-p.firstLine
	if !ok {
		t.Fatalf("%s ended without output", p.command.Path)
	}
	return line
}

// Kill ends the process without notice.
func (p *Process) Kill() {
	p.end.Do(func() {
		p.command.Process.Kill()
		p.command.Wait()
	})
}
