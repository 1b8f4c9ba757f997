// Package proxies starts the compiled queue-proxy and activator in front of an app, on loopback
// and without Kubernetes.
package proxies

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"testing"

	"rouse.dev/interop/check"
)

// Path is a way from a client to an app.
type Path struct {
	Name string
	// Open starts the proxies and returns the address for clients.
	Open func(t testing.TB, app check.App, protocol check.Protocol) string
	// AtZero: the workload has no pod before the first request, so each shape needs new proxies.
	AtZero bool
	// Direct: there is no proxy.
	Direct bool
}

// Paths are all ways. The first has no proxy: it shows that the check itself is right.
var Paths = []Path{
	{Name: "direct", Direct: true, Open: func(_ testing.TB, app check.App, _ check.Protocol) string {
		return fmt.Sprintf("%s:%d", app.Host, app.Port)
	}},
	{Name: "sidecar", Open: func(t testing.TB, app check.App, protocol check.Protocol) string {
		return check.Loopback(startQueueProxy(t, app, protocol).traffic)
	}},
	{Name: "activator", Open: func(t testing.TB, app check.App, protocol check.Protocol) string {
		return startActivator(t, pod{host: app.Host, port: app.Port}, protocol, awake).address()
	}},
	{Name: "both", Open: func(t testing.TB, app check.App, protocol check.Protocol) string {
		return startActivator(t, startQueueProxy(t, app, protocol).pod(protocol), protocol, awake).address()
	}},
	{Name: "from zero", AtZero: true, Open: func(t testing.TB, app check.App, protocol check.Protocol) string {
		activator := startActivator(t, startQueueProxy(t, app, protocol).pod(protocol), protocol, atZero)
		go activator.wakeForRequest(t.Context())
		return activator.address()
	}},
}

// pod is where an activator connects.
type pod struct {
	host    string
	port    int
	sidecar bool
}

// queueProxy is a running sidecar.
type queueProxy struct{ traffic, admin int }

// startQueueProxy starts one with the port of the app alone, as the annotations do, so it finds
// the app's address by itself.
func startQueueProxy(t testing.TB, app check.App, protocol check.Protocol) queueProxy {
	t.Helper()
	proxy := queueProxy{traffic: check.FreePort(t), admin: check.FreePort(t)}
	check.StartProcess(t, binary(t, "QUEUE_PROXY"),
		"--listen", check.Loopback(proxy.traffic), "--admin-listen", check.Loopback(proxy.admin),
		"--stats-listen", check.Loopback(check.FreePort(t)),
		"--log-filter", "warn", "--app-port", fmt.Sprint(app.Port), "--protocol", string(protocol))
	waitForStatus(t, proxy.admin, "/ready")
	return proxy
}

// pod is the sidecar as an activator reaches it: in TCP mode by a tunnel on the admin port.
func (p queueProxy) pod(protocol check.Protocol) pod {
	if protocol == check.TCP {
		return pod{host: "127.0.0.1", port: p.admin, sidecar: true}
	}
	return pod{host: "127.0.0.1", port: p.traffic, sidecar: true}
}

// binary is the program that the variable names.
func binary(t testing.TB, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Fatalf("%s is not set; run make test-interop", variable)
	}
	return path
}

// waitForStatus waits until a path of an admin port returns 200.
func waitForStatus(t testing.TB, port int, path string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), check.StartTime)
	defer cancel()
	err := check.Eventually(ctx, func() error {
		response, err := http.Get("http://" + check.Loopback(port) + path)
		if err != nil {
			return err
		}
		response.Body.Close()
		return check.Equal("status", response.StatusCode, http.StatusOK)
	})
	if err != nil {
		t.Fatalf("port %d%s: %v", port, path, err)
	}
}
