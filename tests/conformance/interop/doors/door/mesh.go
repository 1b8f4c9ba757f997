package door

import (
	"embed"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"rouse.dev/interop/doors/workload"
)

//go:embed mesh
var meshFiles embed.FS

const (
	identity = `{tls_certificates: [{certificate_chain: {filename: DIR/cert.pem}, private_key: {filename: DIR/key.pem}}],
            validation_context: {trusted_ca: {filename: DIR/ca.pem},
            match_typed_subject_alt_names: [{san_type: URI, matcher: {prefix: "` + trustDomain + `"}}]}}`
	meshMatch = `{name: mtls, match: {tlsMode: istio}, transport_socket: {name: envoy.transport_sockets.tls,
      typed_config: {"@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext,
      common_tls_context: IDENTITY}}},`
)

// Mesh is a mesh of the Envoy at this path, in the way of Istio with mTLS mode STRICT: pods accept
// mTLS alone, clients have a proxy with the endpoints of the slices, and activators one for what
// they send to pods. Activators stay in the mesh.
func Mesh(program, version string, cluster *workload.Cluster) Door {
	return Door{
		Name:      "strict mTLS, Envoy " + EnvoyVersion,
		Protocols: []Protocol{HTTP1, HTTP2, GRPC, Websocket},
		Start: func(t *testing.T, routes []Route, kubectl Kubectl) {
			t.Helper()
			files := certificates(t)
			dir := t.TempDir()
			for name, text := range files {
				write(t, dir, name, text)
			}
			mesh := sidecars{files: meshConfig(t, files), program: program, version: version, kubectl: kubectl}
			for _, route := range routes {
				mesh.add(t, workload.Namespace, route.Name, "inbound")
			}
			// As it has to be for a mesh without a CNI plugin.
			kubectl(t, "", "label", "namespace", "rouse-system", "--overwrite", "pod-security.kubernetes.io/enforce=privileged")
			mesh.add(t, "rouse-system", "activator", "outbound")
			kubectl(t, "", "--namespace", "rouse-system", "rollout", "status", "deployment", "activator", "--timeout=5m")
			discover(t, cluster, routes, dir)
			match := strings.ReplaceAll(strings.ReplaceAll(meshMatch, "IDENTITY", identity), "DIR", dir)
			clusters := each(routes, func(protocol Protocol) string { return envoyEndpoints(protocol, dir, match, "") })
			startEnvoy(t, program, dir, routes, clusters)
		},
	}
}

// sidecars adds proxies of the mesh to pods.
type sidecars struct {
	files            string
	program, version string
	kubectl          Kubectl
}

func (s *sidecars) add(t *testing.T, namespace, deployment, direction string) {
	t.Helper()
	s.kubectl(t, s.files, "--namespace", namespace, "apply", "--filename", "-")
	pod := strings.NewReplacer("VERSION", s.version, "DIRECTION", direction, "ENVOY", filepath.Dir(s.program))
	s.kubectl(t, "", "--namespace", namespace, "patch", "deployment", deployment, "--patch", pod.Replace(read(t, "pod.yaml")))
}

// meshConfig is a ConfigMap with the files of each proxy.
func meshConfig(t *testing.T, certificates map[string]string) string {
	t.Helper()
	data := map[string]string{}
	for name, text := range certificates {
		data[name] = text
	}
	for _, name := range []string{"inbound.yaml", "outbound.yaml", "inbound.nft", "outbound.nft"} {
		text := strings.ReplaceAll(read(t, name), "IDENTITY", identity)
		data[name] = strings.ReplaceAll(text, "DIR/", "/mesh/")
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]string{"name": "mesh"}, "data": data,
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := meshFiles.ReadFile("mesh/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
