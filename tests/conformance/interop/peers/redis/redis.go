// Package redis has Redis as app, and redis-cli.
package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"rouse.dev/interop/check"
)

const password = "secret"

// Version of the server in PATH.
func Version() string {
	output, _ := exec.Command("redis-server", "--version").Output()
	for _, field := range strings.Fields(string(output)) {
		if version, ok := strings.CutPrefix(field, "v="); ok {
			return version
		}
	}
	return "is not installed"
}

// Start starts a server with a password.
func Start(t testing.TB) check.App { return start(t, "--requirepass", password) }

// StartProtected starts one without, so it refuses clients that are not local.
func StartProtected(t testing.TB) check.App { return start(t) }

func start(t testing.TB, flags ...string) check.App {
	t.Helper()
	port := check.FreePort(t)
	flags = append([]string{"--port", fmt.Sprint(port), "--bind", "0.0.0.0", "--save", "", "--dir", t.TempDir()}, flags...)
	server := check.StartProcess(t, "redis-server", flags...)
	check.WaitForPort(t, port)
	return check.App{Host: check.HostAddress(t), Port: port, Kill: func() error {
		server.Kill()
		return nil
	}}
}

// Shapes of redis-cli. The last one kills the server.
func Shapes() []check.Shape {
	return []check.Shape{
		{Name: "session", Breaks: "caches", Run: session},
		{Name: "value of 8 MiB", Breaks: "large values", Run: largeValue},
		{Name: "pipeline", Breaks: "imports", Run: pipeline},
		{Name: "publish and subscribe", Breaks: "messages", Run: publish},
		{Name: "killed while it blocks", Breaks: "errors: workers wait without end", Run: killed},
	}
}

// ProtectedShapes are for a server without a password.
func ProtectedShapes() []check.Shape {
	return []check.Shape{{Name: "protected mode", Breaks: "their data: any client would be local", Run: protected}}
}

// SilentShapes wait.
func SilentShapes() []check.Shape {
	return []check.Shape{{Name: "silent subscriber", Breaks: "rare messages", Long: true, Run: silent}}
}

func client(ctx context.Context, address string, arguments ...string) *exec.Cmd {
	host, port, _ := net.SplitHostPort(address)
	command := exec.CommandContext(ctx, "redis-cli", append([]string{"-h", host, "-p", port}, arguments...)...)
	command.Env = append(os.Environ(), "REDISCLI_AUTH="+password)
	return command
}

func run(command *exec.Cmd) (string, error) {
	output, err := command.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %.500s", err, output)
	}
	return strings.TrimSpace(string(output)), err
}

func session(ctx context.Context, address string, _ check.App) error {
	command := client(ctx, address)
	command.Stdin = strings.NewReader("SET greeting hello\nMULTI\nINCR visits\nEXEC\nGET greeting\n")
	got, err := run(command)
	return errors.Join(err, check.Equal("last reply", got[strings.LastIndex(got, "\n")+1:], "hello"))
}

func largeValue(ctx context.Context, address string, _ check.App) error {
	value := bytes.Repeat([]byte("value ..."), 1<<20)
	set := client(ctx, address, "-x", "SET", "large")
	set.Stdin = bytes.NewReader(value)
	if _, err := run(set); err != nil {
		return err
	}
	got, err := client(ctx, address, "GET", "large").Output()
	return errors.Join(err, check.Equal("value is what was set", bytes.Equal(bytes.TrimSuffix(got, []byte("\n")), value), true))
}

func pipeline(ctx context.Context, address string, _ check.App) error {
	var commands bytes.Buffer
	for at := range 50_000 {
		fmt.Fprintf(&commands, "SET key%d %d\r\n", at, at)
	}
	command := client(ctx, address, "--pipe")
	command.Stdin = &commands
	got, err := run(command)
	return errors.Join(err, check.Equal("all succeed", strings.Contains(got, "errors: 0, replies: 50000"), true))
}

func publish(ctx context.Context, address string, _ check.App) error {
	return receive(ctx, address, "soon", 0)
}

func silent(ctx context.Context, address string, _ check.App) error {
	return receive(ctx, address, "later", check.Silence)
}

// receive publishes a message to a subscriber some time after it has subscribed.
func receive(ctx context.Context, address, channel string, after time.Duration) error {
	subscriber := client(ctx, address, "SUBSCRIBE", channel)
	output, err := check.StartPiped(subscriber)
	if err != nil {
		return err
	}
	defer subscriber.Wait()
	defer subscriber.Process.Kill()
	if err := expect(output, "subscribe\n"+channel+"\n1\n"); err != nil {
		return err
	}
	time.Sleep(after)
	if _, err := run(client(ctx, address, "PUBLISH", channel, "news")); err != nil {
		return err
	}
	return expect(output, "message\n"+channel+"\nnews\n")
}

func expect(output io.Reader, want string) error {
	got := make([]byte, len(want))
	_, err := io.ReadFull(output, got)
	return errors.Join(err, check.Equal("output", string(got), want))
}

func protected(ctx context.Context, address string, _ check.App) error {
	command := client(ctx, address, "PING")
	command.Env = os.Environ()
	got, _ := run(command)
	return check.Equal("the server refuses", strings.Contains(got, "protected mode"), true)
}

func killed(ctx context.Context, address string, app check.App) error {
	command := client(ctx, address)
	command.Stdin = strings.NewReader("PING\nBLPOP list 0\n")
	output, err := check.StartPiped(command)
	if err != nil {
		return err
	}
	if err := expect(output, "PONG\n"); err != nil {
		return err
	}
	if err := app.Kill(); err != nil {
		return err
	}
	rest, _ := io.ReadAll(output)
	_ = command.Wait()
	if ctx.Err() != nil {
		return fmt.Errorf("the client waits: %w", ctx.Err())
	}
	return check.Equal("the client got no reply", strings.Contains(string(rest), "list"), false)
}
