package door

import (
	"slices"
	"strings"
	"testing"

	"rouse.dev/interop/check"
	"rouse.dev/interop/doors/workload"
)

// EnvoyVersion is that of the package of Python with its program, as in peers/envoy/requirements.txt.
const EnvoyVersion = "1.40.0"

const envoyFrame = `static_resources:
  listeners:
LISTENERS
  clusters:
CLUSTERS
`

const envoyListener = `
  - name: ID
    address: {socket_address: {address: 127.0.0.1, port_value: LISTEN_PORT}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: ID
          upgrade_configs: [{upgrade_type: websocket}]
          http_filters:
          SESSIONS
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
          route_config:
            virtual_hosts:
            - name: app
              domains: ["*"]
              routes:
              - match: {prefix: /}
                route: {cluster: ID, timeout: 0s, OPTIONS}
`

// envoyRoutes are options of the routes of a protocol.
var envoyRoutes = map[Protocol]string{
	Retried:    `retry_policy: {retry_on: "5xx,reset", num_retries: 30, per_try_timeout: 1s}`,
	StickyHash: `hash_policy: [{cookie: {name: session, ttl: 0s}}]`,
}

const envoySessions = `- name: envoy.filters.http.stateful_session
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.stateful_session.v3.StatefulSession
              session_state:
                name: envoy.http.stateful_session.cookie
                typed_config:
                  "@type": type.googleapis.com/envoy.extensions.http.stateful_session.cookie.v3.CookieBasedSessionState
                  cookie: {name: session, path: /}`

const envoyCluster = `
  - name: ID
    type: STATIC
    circuit_breakers: {thresholds: [{max_connections: 8000, max_pending_requests: 8000, max_requests: 8000, max_retries: 8000}]}
    load_assignment:
      cluster_name: ID
      endpoints:
      - lb_endpoints:
        - endpoint: {address: {socket_address: {address: SERVICE_HOST, port_value: SERVICE_PORT}}}
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {OPTIONS: {}}
`

// Envoy is the program at this path. For sticky sessions it has the endpoints of the slices.
func Envoy(program string, cluster *workload.Cluster) Door {
	return Door{
		Name:      "Envoy " + EnvoyVersion,
		Protocols: []Protocol{HTTP1, HTTP2, GRPC, Websocket, Retried, Kept, StickyCookie, StickyHash},
		Start: func(t *testing.T, routes []Route, _ Kubectl) {
			t.Helper()
			dir := t.TempDir()
			discover(t, cluster, slices.DeleteFunc(slices.Clone(routes), func(r Route) bool { return !r.Protocol.Sticky() }), dir)
			clusters := each(routes, func(protocol Protocol) string {
				switch protocol {
				case StickyCookie:
					return envoyEndpoints(protocol, dir, "", "")
				case StickyHash:
					return envoyEndpoints(protocol, dir, "", "lb_policy: RING_HASH")
				}
				return strings.Replace(envoyCluster, "OPTIONS", envoyOptions(protocol), 1)
			})
			startEnvoy(t, program, dir, routes, clusters)
		},
	}
}

// startEnvoy starts the program with a listener for each route, and with these clusters.
func startEnvoy(t *testing.T, program, dir string, routes []Route, clusters string) {
	t.Helper()
	listeners := each(routes, func(protocol Protocol) string {
		sessions := ""
		if protocol == StickyCookie {
			sessions = envoySessions
		}
		return strings.NewReplacer("SESSIONS", sessions, "OPTIONS", envoyRoutes[protocol]).Replace(envoyListener)
	})
	text := strings.NewReplacer("LISTENERS", listeners, "CLUSTERS", clusters).Replace(envoyFrame)
	check.StartProcess(t, program, "--config-path", write(t, dir, "envoy.yaml", text),
		"--disable-hot-restart", "--concurrency", "1", "--log-level", "error",
		"--service-node", "door", "--service-cluster", "doors")
}

// envoyOptions selects a protocol towards the Service.
func envoyOptions(protocol Protocol) string {
	if protocol == HTTP2 || protocol == GRPC {
		return "http2_protocol_options"
	}
	return "http_protocol_options"
}
