package door

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"rouse.dev/interop/check"
	"rouse.dev/interop/doors/workload"
)

// envoyEndpoints is a cluster with the endpoints of a file, of which those in a mesh can have another
// transport.
func envoyEndpoints(protocol Protocol, dir, mesh, policy string) string {
	return strings.NewReplacer("MESH", mesh, "POLICY", policy, "DIR", dir, "OPTIONS", envoyOptions(protocol)).
		Replace(envoyDiscovered)
}

const envoyDiscovered = `
  - name: ID
    type: EDS
    POLICY
    eds_cluster_config: {eds_config: {resource_api_version: V3, path_config_source: {path: DIR/ID.json}}}
    circuit_breakers: {thresholds: [{max_connections: 8000, max_pending_requests: 8000, max_requests: 8000, max_retries: 8000}]}
    transport_socket_matches: [MESH{name: plain, match: {}, transport_socket: {name: envoy.transport_sockets.raw_buffer,
      typed_config: {"@type": type.googleapis.com/envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer}}}]
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {OPTIONS: {}}
`

// discover writes the endpoints of these Services for Envoy as they change, and returns when each
// has one.
func discover(t *testing.T, cluster *workload.Cluster, routes []Route, dir string) {
	t.Helper()
	var known sync.WaitGroup
	for _, route := range routes {
		known.Add(1)
		once := sync.OnceFunc(known.Done)
		version := 0
		cluster.FollowEndpoints(t, route.Name, func(endpoints []workload.Endpoint) {
			version++
			if err := writeEndpoints(dir, route.Name, version, endpoints); err != nil && t.Context().Err() == nil {
				t.Errorf("endpoints of %s: %v", route.Name, err)
			}
			if len(endpoints) > 0 {
				once()
			}
		})
	}
	all := make(chan struct{})
	go func() { defer close(all); known.Wait() }()
	select {
	case <-all:
	case <-time.After(check.StartTime):
		t.Fatal("a Service has no endpoint")
	}
}

// writeEndpoints replaces the file in one step: Envoy reads it when a file is moved there.
func writeEndpoints(dir, name string, version int, endpoints []workload.Endpoint) error {
	type object = map[string]any
	all := make([]object, len(endpoints))
	for at, endpoint := range endpoints {
		address := object{"socket_address": object{"address": endpoint.Address, "port_value": endpoint.Port}}
		all[at] = object{"endpoint": object{"address": address}}
		if endpoint.IsPod {
			match := object{"envoy.transport_socket_match": object{"tlsMode": "istio"}}
			all[at]["metadata"] = object{"filter_metadata": match}
		}
	}
	text, err := json.Marshal(object{"version_info": strconv.Itoa(version), "resources": []object{{
		"@type":        "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
		"cluster_name": name, "endpoints": []object{{"lb_endpoints": all}},
	}}})
	if err != nil {
		return err
	}
	path := filepath.Join(dir, name+".json")
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
