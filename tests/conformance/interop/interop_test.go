// Package interop runs widely used servers and clients through the compiled proxies, awake and at
// zero. `make test-interop` installs the programs and runs it; it prints a table of what works.
package interop

import (
	"context"
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"rouse.dev/interop/check"
	"rouse.dev/interop/peers/grpcgo"
	"rouse.dev/interop/peers/httpclient"
	"rouse.dev/interop/peers/java"
	"rouse.dev/interop/peers/nethttp"
	"rouse.dev/interop/peers/nginx"
	"rouse.dev/interop/peers/node"
	"rouse.dev/interop/peers/postgres"
	"rouse.dev/interop/peers/python"
	"rouse.dev/interop/peers/redis"
	"rouse.dev/interop/peers/websocket"
	"rouse.dev/interop/proxies"
)

// Longer than a shape takes on a busy machine.
const deadline = 5 * time.Minute

func peers() []check.Peer {
	return []check.Peer{
		{Name: "grpc-go " + grpc.Version + ", by itself", Protocol: check.HTTP,
			Start: grpcgo.Start, Shapes: grpcgo.Shapes()},
		{Name: "grpc-go " + grpc.Version + ", MaxConnectionAge, by itself", Protocol: check.HTTP,
			Start: grpcgo.StartShortLived, Shapes: grpcgo.ShortLivedShapes()},
		{Name: "grpc-go " + grpc.Version + ", by grpcio " + python.Version, Protocol: check.HTTP,
			Start: grpcgo.Start, Shapes: python.Client(grpcgo.Shapes())},
		{Name: "grpc-go " + grpc.Version + ", MaxConnectionAge, by grpcio", Protocol: check.HTTP,
			Start: grpcgo.StartShortLived, Shapes: python.Client(grpcgo.ShortLivedShapes())},
		{Name: "grpcio " + python.Version + ", by grpc-go", Protocol: check.HTTP,
			Start: python.Start, Shapes: grpcgo.Shapes()},
		{Name: "grpcio " + python.Version + ", max_connection_age, by grpc-go", Protocol: check.HTTP,
			Start: python.StartShortLived, Shapes: grpcgo.ShortLivedShapes()},
		{Name: "HTTP server of " + runtime.Version() + ", by itself", Protocol: check.HTTP,
			Start: nethttp.Start, Shapes: httpclient.Shapes()},
		{Name: "Node " + node.Version() + " http, by " + runtime.Version(), Protocol: check.HTTP,
			Start: node.Start(1), Shapes: only(httpclient.Shapes(), "HTTP/1.1")},
		{Name: "Node " + node.Version() + " http2, by " + runtime.Version(), Protocol: check.HTTP,
			Start: node.Start(2), Shapes: only(httpclient.Shapes(), "HTTP/2")},
		{Name: "Jetty " + java.Version + ", by " + runtime.Version(), Protocol: check.HTTP,
			Start: java.Start, Shapes: httpclient.Shapes()},
		{Name: "nginx " + nginx.Version + ", by " + runtime.Version(), Protocol: check.HTTP,
			Start: nginx.Start, Shapes: nginx.Shapes()},
		{Name: "websockets " + websocket.Version + ", by itself", Protocol: check.HTTP,
			Start: websocket.Start, Shapes: websocket.Shapes()},
		{Name: "websockets " + websocket.Version + ", waiting, by itself", Protocol: check.HTTP,
			Start: websocket.Start, Shapes: websocket.SilentShapes()},
		{Name: "PostgreSQL " + postgres.Version() + ", by psql and pgbench", Protocol: check.TCP,
			Start: postgres.Start, Shapes: postgres.Shapes()},
		{Name: "Redis " + redis.Version() + " without a password, by redis-cli", Protocol: check.TCP,
			Start: redis.StartProtected, Shapes: redis.ProtectedShapes()},
		{Name: "Redis " + redis.Version() + ", by redis-cli", Protocol: check.TCP,
			Start: redis.Start, Shapes: redis.Shapes()},
		{Name: "Redis " + redis.Version() + ", waiting, by redis-cli", Protocol: check.TCP,
			Start: redis.Start, Shapes: redis.SilentShapes()},
	}
}

// only selects the shapes of one version of HTTP.
func only(shapes []check.Shape, version string) []check.Shape {
	return slices.DeleteFunc(shapes, func(shape check.Shape) bool { return !strings.HasSuffix(shape.Name, version) })
}

func TestInterop(t *testing.T) {
	var table check.Table
	t.Cleanup(func() {
		var names []string
		for _, path := range proxies.Paths {
			names = append(names, path.Name)
		}
		table.Print(os.Stdout, names)
	})
	for _, peer := range peers() {
		for _, shape := range peer.Shapes {
			table.Add(peer.Name, shape.Name)
		}
		t.Run(peer.Name, func(t *testing.T) {
			t.Parallel()
			for _, path := range proxies.Paths {
				t.Run(path.Name, func(t *testing.T) {
					t.Parallel()
					runPath(t, peer, path, &table)
				})
			}
		})
	}
}

// runPath tries the shapes of a peer one after another, because some count or stop things at the
// server; the long ones follow side by side.
func runPath(t *testing.T, peer check.Peer, path proxies.Path, table *check.Table) {
	app := peer.Start(t)
	shared := sync.OnceValue(func() string { return path.Open(t, app, peer.Protocol) })
	for _, shape := range peer.Shapes {
		t.Run(shape.Name, func(t *testing.T) {
			limit := deadline
			if shape.Long {
				t.Parallel()
				limit += check.Silence
			}
			address := ""
			if path.AtZero {
				address = path.Open(t, app, peer.Protocol)
			} else {
				address = shared()
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			err := shape.Run(ctx, address, app)
			if path.Direct && shape.FailsDirect {
				if err == nil {
					t.Error("the server does not enforce its rule, so the other paths show nothing")
				}
				table.Record(peer.Name, shape.Name, path.Name, "refused")
				return
			}
			table.Record(peer.Name, shape.Name, path.Name, outcome(err))
			if err != nil && !errors.As(err, new(check.Refusal)) {
				t.Errorf("%v\nwithout this, users lose: %s", err, shape.Breaks)
			}
		})
	}
}

func outcome(err error) string {
	switch {
	case err == nil:
		return "works"
	case errors.As(err, new(check.Refusal)):
		return "refused"
	default:
		return "FAILS"
	}
}
