package modelservers

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"rouse.dev/interop/check"
)

type object = map[string]any

// startEnvoy routes the path of each workload to its port of the activator, and returns the port
// for clients. It ends streams that are silent for the idle time.
func startEnvoy(t *testing.T, workloads []*workload) int {
	t.Helper()
	port := check.FreePort(t)
	var routes, clusters []any
	for _, workload := range workloads {
		routes = append(routes, object{
			"match": object{"prefix": "/" + workload.name + "/"},
			// Without a bound on the whole stream.
			"route": object{"cluster": workload.name, "prefix_rewrite": "/", "timeout": "0s"},
		})
		clusters = append(clusters, cluster(workload))
	}
	text, err := json.Marshal(object{"static_resources": object{
		"listeners": []any{object{"name": "traffic", "address": address(port), "filter_chains": []any{object{
			"filters": []any{object{
				"name": "envoy.filters.network.http_connection_manager",
				"typed_config": object{
					"@type":               "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
					"stat_prefix":         "traffic",
					"stream_idle_timeout": idleTime.String(),
					"http_filters": []any{object{
						"name":         "envoy.filters.http.router",
						"typed_config": object{"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"},
					}},
					"route_config": object{"virtual_hosts": []any{object{
						"name": "all", "domains": []string{"*"}, "routes": routes,
					}}},
				},
			}},
		}}}},
		"clusters": clusters,
	}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "envoy.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	check.StartProcess(t, program(t, "ENVOY"), "--config-path", file, "--concurrency", "1",
		"--disable-hot-restart", "--log-level", "error")
	check.WaitForPort(t, port)
	return port
}

// cluster is the activator's port of a workload, by the version of HTTP that its clients use.
func cluster(workload *workload) object {
	version := "http_protocol_options"
	if workload.http2 {
		version = "http2_protocol_options"
	}
	endpoint := object{"endpoint": object{"address": address(workload.listen)}}
	return object{
		"name": workload.name, "type": "STATIC", "connect_timeout": "5s",
		"load_assignment": object{
			"cluster_name": workload.name,
			"endpoints":    []any{object{"lb_endpoints": []any{endpoint}}},
		},
		"typed_extension_protocol_options": object{
			"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": object{
				"@type":                "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
				"explicit_http_config": object{version: object{}},
			},
		},
	}
}

func address(port int) object {
	return object{"socket_address": object{"address": "127.0.0.1", "port_value": port}}
}
