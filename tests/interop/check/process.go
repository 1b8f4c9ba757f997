package check

import (
	"bufio"
	"fmt"
	"net"
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

// StartProcess starts a program. Its output belongs to the log of a test that fails.
func StartProcess(t testing.TB, environment []string, name string, arguments ...string) *Process {
	t.Helper()
	command := exec.Command(name, arguments...)
	command.Env = append(os.Environ(), environment...)
	// A test that is killed leaves no process.
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
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

// ID of the process.
func (p *Process) ID() int { return p.command.Process.Pid }

// FreePort is a port of loopback that no process listens on.
func FreePort(t testing.TB) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// HostAddress is an address of this machine that is not loopback, as a pod has one. No packet is
// sent.
func HostAddress(t testing.TB) string {
	t.Helper()
	connection, err := net.Dial("udp4", "192.0.2.1:9")
	if err != nil {
		t.Fatalf("this machine has no route, as a pod would have: %v", err)
	}
	defer connection.Close()
	return connection.LocalAddr().(*net.UDPAddr).IP.String()
}

// Loopback is the address of a port here.
func Loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
