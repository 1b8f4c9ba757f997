// Package websocket runs the server and client of Python's websockets, and cases in the categories
// of Autobahn's test suite, which needs Python 2.
package websocket

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"testing"

	"rouse.dev/interop/check"
	"rouse.dev/interop/peers/python"
)

// Version of websockets, as in ../python/requirements.txt.
const Version = "16.1"

// Start starts an echo server.
func Start(t testing.TB) check.App {
	t.Helper()
	server := check.StartProcess(t, python.Interpreter(), "peers/websocket/server.py")
	line := server.FirstLine(t)
	port, err := strconv.Atoi(line)
	if err != nil {
		t.Fatalf("the server printed %q instead of its port", line)
	}
	return check.App{Host: "127.0.0.1", Port: port, Kill: func() error {
		server.Kill()
		return nil
	}}
}

// Shapes of a websocket. The last one kills the server.
func Shapes() []check.Shape {
	return []check.Shape{
		{Name: "342 cases", Breaks: "a part of the protocol: the proxies answer otherwise than the app", Run: cases},
		{Name: "session", Breaks: "websockets with compression, large messages or codes of their own", Run: session},
		{Name: "killed server", Breaks: "errors: an orderly end has other handlers", Run: killed},
	}
}

// SilentShapes wait.
func SilentShapes() []check.Shape {
	return []check.Shape{{Name: "silent websocket", Breaks: "notifications", Long: true, Run: silent}}
}

func cases(ctx context.Context, address string, app check.App) error {
	return run(exec.CommandContext(ctx, python.Interpreter(), "peers/websocket/client.py", address,
		fmt.Sprintf("%s:%d", app.Host, app.Port)))
}

func session(ctx context.Context, address string, _ check.App) error {
	return run(client(ctx, "talk", address))
}

func silent(ctx context.Context, address string, _ check.App) error {
	return run(client(ctx, "silent", address))
}

func killed(ctx context.Context, address string, app check.App) error {
	command := client(ctx, "killed", address)
	var failure bytes.Buffer
	command.Stderr = &failure
	output, err := check.StartPiped(command)
	if err != nil {
		return err
	}
	if _, err := bufio.NewReader(output).ReadString('\n'); err == nil {
		err = app.Kill()
	}
	if err := command.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, failure.String())
	}
	return nil
}

func client(ctx context.Context, shape, address string) *exec.Cmd {
	return exec.CommandContext(ctx, python.Interpreter(), "peers/websocket/session.py", shape, address,
		fmt.Sprint(int(check.Silence.Seconds())))
}

func run(command *exec.Cmd) error {
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	return nil
}
