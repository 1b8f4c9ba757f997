package door

import (
	"strings"
	"testing"

	"rouse.dev/interop/check"
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
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
          route_config:
            virtual_hosts:
            - name: app
              domains: ["*"]
              routes:
              - match: {prefix: /}
                route: {cluster: ID, timeout: 0s, RETRIES}
`

const envoyRetries = `retry_policy: {retry_on: "5xx,reset", num_retries: 30, per_try_timeout: 1s}`

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

// Envoy is the program at this path.
func Envoy(program string) Door {
	listener := func(protocol Protocol) string {
		retries := ""
		if protocol == Retried {
			retries = envoyRetries
		}
		return strings.Replace(envoyListener, "RETRIES", retries, 1)
	}
	cluster := func(protocol Protocol) string {
		options := "http_protocol_options"
		if protocol == HTTP2 || protocol == GRPC {
			options = "http2_protocol_options"
		}
		return strings.Replace(envoyCluster, "OPTIONS", options, 1)
	}
	return Door{
		Name:      "Envoy " + EnvoyVersion,
		Protocols: []Protocol{HTTP1, HTTP2, GRPC, Websocket, Retried, Kept},
		Start: func(t *testing.T, routes []Route, _ Kubectl) {
			t.Helper()
			text := strings.NewReplacer("LISTENERS", each(routes, listener), "CLUSTERS", each(routes, cluster)).Replace(envoyFrame)
			check.StartProcess(t, program, "--config-path", write(t, t.TempDir(), "envoy.yaml", text),
				"--disable-hot-restart", "--concurrency", "1", "--log-level", "error")
		},
	}
}
