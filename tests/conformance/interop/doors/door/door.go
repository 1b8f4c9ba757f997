// Package door has front doors: programs that forward each of their ports to a Service.
package door

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Protocol is what a port of a front door speaks on both sides.
type Protocol string

const (
	// HTTP1 is HTTP/1.1 over kept connections.
	HTTP1 Protocol = "HTTP/1.1"
	// HTTP2 is HTTP/2 without TLS.
	HTTP2 Protocol = "HTTP/2"
	// GRPC is HTTP/2 with trailers.
	GRPC Protocol = "gRPC"
	// Websocket is an upgraded connection of HTTP/1.1.
	Websocket Protocol = "websocket"
	// Retried is HTTP/1.1, where the front door repeats a request after a second without a response.
	Retried Protocol = "HTTP/1.1, repeated after 1 s"
	// Kept is HTTP/1.1 over a thousand kept connections.
	Kept Protocol = "HTTP/1.1, 1,000 connections"
	// StickyCookie is HTTP/1.1 with a cookie of the front door that names an endpoint.
	StickyCookie Protocol = "HTTP/1.1, sticky by a cookie"
	// StickyHash is HTTP/1.1, where the front door selects the endpoint by the hash of a cookie.
	StickyHash Protocol = "HTTP/1.1, sticky by a hash"
	// StickyAddress is HTTP/1.1, where kube-proxy selects the endpoint by the client's address.
	StickyAddress Protocol = "HTTP/1.1, sticky by address"
)

// Sticky is whether the requests of a client go to the same pod.
func (p Protocol) Sticky() bool { return p == StickyCookie || p == StickyHash || p == StickyAddress }

// Route leads from a port of the front door to a Service.
type Route struct {
	Protocol Protocol
	// Name of the Service.
	Name string
	// Listen and Service are addresses with ports.
	Listen, Service string
}

// Kubectl runs kubectl in the namespace of the Services, with this input.
type Kubectl func(t *testing.T, input string, arguments ...string) string

// Door is a front door.
type Door struct {
	// Name of the program with its version.
	Name string
	// Protocols that it can forward.
	Protocols []Protocol
	// Start starts it for the time of a test. Without it, clients send to the Service themselves.
	Start func(t *testing.T, routes []Route, kubectl Kubectl)
}

// write writes a configuration into the folder, and returns its path.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// each fills the template of a route's protocol with its addresses.
func each(routes []Route, template func(Protocol) string) string {
	var text strings.Builder
	for _, route := range routes {
		_, port, _ := strings.Cut(route.Listen, ":")
		host, servicePort, _ := strings.Cut(route.Service, ":")
		values := strings.NewReplacer("LISTEN_PORT", port, "LISTEN", route.Listen, "SERVICE_HOST", host,
			"SERVICE_PORT", servicePort, "SERVICE", route.Service, "ID", route.Name)
		values.WriteString(&text, template(route.Protocol))
	}
	return text.String()
}
