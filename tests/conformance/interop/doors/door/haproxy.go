package door

import (
	"strings"
	"testing"

	"rouse.dev/interop/check"
)

const haproxyFrame = `global
    maxconn 8000
    tune.pool-low-fd-ratio 100
    tune.pool-high-fd-ratio 100

defaults
    mode http
    timeout connect 5s
    timeout client 600s
    timeout server 600s
    timeout tunnel 600s
    http-reuse always
ROUTES`

const haproxyRoute = `
frontend from-ID
    bind LISTEN backlog 4096 PROTO
    default_backend ID

backend ID
    MORE
    server service SERVICE PROTO
`

const haproxyRetries = `timeout server 1s
    retries 30
    retry-on response-timeout conn-failure`

// HAProxy is Debian's haproxy.
func HAProxy() Door {
	template := func(protocol Protocol) string {
		proto, more := "", ""
		switch protocol {
		case HTTP2, GRPC:
			proto = "proto h2"
		case Retried:
			more = haproxyRetries
		}
		return strings.NewReplacer("PROTO", proto, "MORE", more).Replace(haproxyRoute)
	}
	return Door{
		Name:      "haproxy " + version("haproxy", "-v"),
		Protocols: []Protocol{HTTP1, HTTP2, GRPC, Websocket, Retried, Kept},
		Start: func(t *testing.T, routes []Route, _ Kubectl) {
			t.Helper()
			text := strings.Replace(haproxyFrame, "ROUTES", each(routes, template), 1)
			check.StartProcess(t, "/usr/sbin/haproxy", "-db", "-f", write(t, t.TempDir(), "haproxy.cfg", text))
		},
	}
}
