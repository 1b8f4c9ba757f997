// Package python runs the gRPC server and client of grpcio, which is of gRPC's C core.
package python

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"rouse.dev/interop/check"
)

// Version of grpcio, as in requirements.txt.
const Version = "1.84.0"

// Interpreter is that of the virtual environment with the packages of requirements.txt.
func Interpreter() string { return filepath.Join(os.Getenv("INTEROP"), "python", "bin", "python") }

// Start starts the server with its default rule for PINGs.
func Start(t testing.TB) check.App { return start(t) }

// StartShortLived starts one that sends GOAWAY on each connection after two seconds.
func StartShortLived(t testing.TB) check.App { return start(t, "grpc.max_connection_age_ms=2000") }

func start(t testing.TB, options ...string) check.App {
	t.Helper()
	arguments := append([]string{"peers/python/server.py"}, options...)
	line := check.StartProcess(t, Interpreter(), arguments...).FirstLine(t)
	port, err := strconv.Atoi(line)
	if err != nil {
		t.Fatalf("the server printed %q instead of its port", line)
	}
	return check.App{Host: "127.0.0.1", Port: port}
}

// Client makes shapes of the same names that run grpcio's client.
func Client(shapes []check.Shape) []check.Shape {
	var own []check.Shape
	for _, shape := range shapes {
		// The Go client tries that alone.
		if shape.Name == "stream beyond GOAWAY" {
			continue
		}
		shape.Run = func(ctx context.Context, address string, _ check.App) error {
			command := exec.CommandContext(ctx, Interpreter(), "peers/python/client.py", address, shape.Name,
				fmt.Sprint(int(check.Silence.Seconds())))
			if output, err := command.CombinedOutput(); err != nil {
				return fmt.Errorf("%w: %s", err, output)
			}
			return nil
		}
		own = append(own, shape)
	}
	return own
}
