package chart

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const digest = "sha256:00000000000000000000000000000000000000000000000000000000000000ff"

// effect is what one value changes.
type effect struct {
	// Path of the value, and the value as YAML.
	path, value string
	// Object and path of the field, and the field's value as YAML; "absent" for an object or a field that is not there.
	object string
	field  string
	want   string
}

var effects = []effect{
	{"metricsApi", "none", "APIService " + externalMetrics, "", "absent"},
	{"sidecar.injection", "manual", sidecarPolicy, "", "absent"},
	{"sidecar.injection", "webhook", sidecarPolicy, "", "absent"},
	{"sidecar.injection", "webhook", sidecarWebhook, "webhooks.0.failurePolicy", "Ignore"},
	{"sidecar.image.repository", "mirror/sidecar", sidecarPolicy, "spec.variables.0.expression", `'"mirror/sidecar:v0.1.0"'`},
	{"sidecar.image.tag", "v7", sidecarPolicy, "spec.variables.0.expression", `'"rouse/queue-proxy:v7"'`},
	{"sidecar.image.digest", digest, sidecarPolicy, "spec.variables.0.expression", `'"rouse/queue-proxy@` + digest + `"'`},
	{"sidecar.resources.requests.cpu", "1500m", sidecarPolicy, "spec.variables.1.expression", `'"1500m"'`},
	{"sidecar.resources.requests.memory", "1.5Gi", sidecarPolicy, "spec.variables.2.expression", `'"1.5Gi"'`},
	{"sidecar.resources.limits.memory", "64Mi", sidecarPolicy, "spec.variables.3.expression", `'"64Mi"'`},
	{"image.registry", "localhost:5000", "Deployment activator", container + "image", "localhost:5000/rouse/activator:v0.1.0"},
	{"image.tag", "v7", "Deployment zero-scaler", container + "image", "rouse/zero-scaler:v7"},
	{"image.pullSecrets", "[one, two]", "Deployment metrics-adapter", "spec.template.spec.imagePullSecrets", "[{name: one}, {name: two}]"},
	{"nodeSelector", "{pool: system}", "Deployment activator", "spec.template.spec.nodeSelector", "{kubernetes.io/os: linux, pool: system}"},
	{"nodeSelector", "{kubernetes.io/os: null}", "Deployment activator", "spec.template.spec.nodeSelector", "null"},
	{"tolerations", "[{key: a, operator: Exists}]", "Deployment activator", "spec.template.spec.tolerations", "[{key: a, operator: Exists}]"},
	{"affinity", "{nodeAffinity: {a: {}}}", "Deployment zero-scaler", "spec.template.spec.affinity", "{nodeAffinity: {a: {}}}"},
	{"topologySpreadConstraints", "[{topologyKey: rack, maxSkew: 2, whenUnsatisfiable: DoNotSchedule}]", "Deployment activator", "spec.template.spec.topologySpreadConstraints",
		"[{topologyKey: rack, maxSkew: 2, whenUnsatisfiable: DoNotSchedule, matchLabelKeys: [pod-template-hash], labelSelector: {matchLabels: {app.kubernetes.io/name: activator}}}]"},
	{"topologySpreadConstraints", "[]", "Deployment activator", "spec.template.spec.topologySpreadConstraints", "null"},
	{"podLabels", "{team: a, app.kubernetes.io/name: b}", "Deployment activator", "spec.template.metadata.labels", "{team: a, app.kubernetes.io/name: activator}"},
	{"podAnnotations", "{team: a}", "Deployment activator", "spec.template.metadata.annotations", "{team: a, cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes: state}"},
	{"serviceAccount.annotations", "{role: a}", "ServiceAccount activator", "metadata.annotations", "{role: a}"},
	{"env", "[{name: A, value: '1'}]", "Deployment activator", container + "env.6", "{name: A, value: '1'}"},
	{"volumes", "[{name: ca, configMap: {name: ca}}]", "Deployment activator", "spec.template.spec.volumes.0", "{name: ca, configMap: {name: ca}}"},
	{"volumeMounts", "[{name: ca, mountPath: /ca}]", "Deployment activator", container + "volumeMounts.0", "{name: ca, mountPath: /ca}"},
	{"config", `{stable-window: "90s"}`, "ConfigMap config-autoscaler", "data.stable-window", "90s"},
	{"activator.replicas", "3", "HorizontalPodAutoscaler activator", "spec.minReplicas", "3"},
	{"activator.maxReplicas", "2", "HorizontalPodAutoscaler activator", "spec.maxReplicas", "2"},
	{"activator.fallbackWake", "false", "ClusterRole rouse-activator-fallback-waker", "", "absent"},
	{"activator.fallbackWake", "false", "ClusterRoleBinding rouse-activator-fallback-waker", "", "absent"},
	{"activator.mesh", "istio", "Deployment activator", "spec.template.metadata.labels", "{app.kubernetes.io/name: activator, sidecar.istio.io/inject: 'true'}"},
	{"activator.mesh", "istio", "Deployment activator", "spec.template.metadata.annotations", "{cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes: state," +
		" traffic.sidecar.istio.io/includeInboundPorts: '', traffic.sidecar.istio.io/includeOutboundIPRanges: '', traffic.sidecar.istio.io/includeOutboundPorts: '8012,8022'}"},
	{"activator.mesh", "istio", "DestinationRule sidecars", "spec.trafficPolicy", "{tls: {mode: ISTIO_MUTUAL}}"},
	{"activator.mesh", "istio", "ServiceEntry sidecars", "spec.ports", "[{name: tcp, number: 8012, protocol: TCP}, {name: tcp-admin, number: 8022, protocol: TCP}]"},
	{"activator.mesh", "linkerd", "Deployment activator", "spec.template.metadata.annotations", "{cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes: state," +
		" linkerd.io/inject: enabled, config.linkerd.io/skip-inbound-ports: 1-65535, config.linkerd.io/skip-outbound-ports: '1-8011,8013-8021,8023-65535'}"},
	{"activator.mesh", "linkerd", "ServiceEntry sidecars", "", "absent"},
	{"activator.waitingPage", `"<p title=\"{{name}}\">\n: é{{script}}"`, "ConfigMap waiting-page", "data", `{waiting-page.html: "<p title=\"{{name}}\">\n: é{{script}}"}`},
	{"activator.traces.endpoint", "http://c:4318", "Deployment activator", container + "env.6", "{name: OTEL_EXPORTER_OTLP_ENDPOINT, value: 'http://c:4318'}"},
	{"activator.image.repository", "mirror/activator", "Deployment activator", container + "image", "mirror/activator:v0.1.0"},
	{"activator.image.tag", "v7", "Deployment activator", container + "image", "rouse/activator:v7"},
	{"activator.image.digest", digest, "Deployment activator", container + "image", "rouse/activator@" + digest},
	{"activator.resources.requests.cpu", "1", "Deployment activator", container + "resources.requests", "{cpu: 1, memory: 768Mi}"},
	{"activator.resources.requests.memory", "2Gi", "Deployment activator", container + "resources.requests", "{cpu: 100m, memory: 2Gi}"},
	{"activator.resources.limits.memory", "2Gi", "Deployment activator", container + "resources.limits", "{memory: 2Gi}"},
	{"metricsAdapter.securePort", "6443", "Deployment metrics-adapter", container + "args", "[--api-port=6443]"},
	{"metricsAdapter.securePort", "6443", "Deployment metrics-adapter", container + "ports.0", "{name: api, containerPort: 6443}"},
	{"metricsAdapter.securePort", "6443", "NetworkPolicy metrics-adapter", "spec.ingress.0.ports.0", "{protocol: TCP, port: 6443}"},
	{"metricsAdapter.hostNetwork", "true, securePort: 10260", "Deployment metrics-adapter", "spec.template.spec.hostNetwork", "true"},
	{"metricsAdapter.hostNetwork", "true, securePort: 10260", "Deployment metrics-adapter", "spec.template.spec.dnsPolicy", "ClusterFirstWithHostNet"},
	{"metricsAdapter.hostNetwork", "true, securePort: 10260", "Namespace rouse-system", "metadata.labels", "{app.kubernetes.io/part-of: rouse, pod-security.kubernetes.io/enforce: privileged}"},
	{"metricsAdapter.replicas", "1", "Deployment metrics-adapter", "spec.replicas", "1"},
	{"metricsAdapter.replicas", "1", "PodDisruptionBudget metrics-adapter", "", "absent"},
	{"metricsAdapter.image.repository", "mirror/adapter", "Deployment metrics-adapter", container + "image", "mirror/adapter:v0.1.0"},
	{"metricsAdapter.image.tag", "v7", "Deployment metrics-adapter", container + "image", "rouse/metrics-adapter:v7"},
	{"metricsAdapter.image.digest", digest, "Deployment metrics-adapter", container + "image", "rouse/metrics-adapter@" + digest},
	{"metricsAdapter.resources.requests.cpu", "2", "Deployment metrics-adapter", container + "resources.requests", "{cpu: 2, memory: 256Mi}"},
	{"metricsAdapter.resources.requests.memory", "2Gi", "Deployment metrics-adapter", container + "resources.requests", "{cpu: 50m, memory: 2Gi}"},
	{"metricsAdapter.resources.limits.memory", "null", "Deployment metrics-adapter", container + "resources.limits", "{}"},
	{"zeroScaler.replicas", "3", "Deployment zero-scaler", "spec.replicas", "3"},
	{"zeroScaler.replicas", "1", "PodDisruptionBudget zero-scaler", "", "absent"},
	{"zeroScaler.image.repository", "mirror/zero-scaler", "Deployment zero-scaler", container + "image", "mirror/zero-scaler:v0.1.0"},
	{"zeroScaler.image.tag", "v7", "Deployment zero-scaler", container + "image", "rouse/zero-scaler:v7"},
	{"zeroScaler.image.digest", digest, "Deployment zero-scaler", container + "image", "rouse/zero-scaler@" + digest},
	{"zeroScaler.resources.requests.cpu", "250m", "Deployment zero-scaler", container + "resources.requests", "{cpu: 250m, memory: 256Mi}"},
	{"zeroScaler.resources.requests.memory", "2Gi", "Deployment zero-scaler", container + "resources.requests", "{cpu: 50m, memory: 2Gi}"},
	{"zeroScaler.resources.limits.memory", "2Gi", "Deployment zero-scaler", container + "resources.limits", "{memory: 2Gi}"},
	{"admissionPolicies.enabled", "false", "ValidatingAdmissionPolicy activator-scale.autoscaling.rouse.dev", "", "absent"},
	{"networkPolicies.enabled", "false", "NetworkPolicy activator", "", "absent"},
	{"monitoring.enabled", "true", "PrometheusRule rouse", "metadata.namespace", "rouse-system"},
	{"monitoring.enabled", "true", "ConfigMap rouse-dashboard-fleet", "metadata.namespace", "rouse-system"},
	// The others need the first.
	{"monitoring.sidecars", "false, enabled: true", "PodMonitor rouse-sidecars", "", "absent"},
	{"monitoring.labels", "{release: prometheus}, enabled: true", "PodMonitor rouse", "metadata.labels.release", "prometheus"},
	{"monitoring.runbook", "https://docs.example.com/monitoring.html, enabled: true", "PrometheusRule rouse", "spec.groups.0.rules.0.annotations.runbook_url",
		"'https://docs.example.com/monitoring.html#rouseactivatorsabsent'"},
	{"crds.keep", "true", "CustomResourceDefinition metrics.autoscaling.rouse.dev", "metadata.annotations", "{helm.sh/resource-policy: keep}"},
}

const (
	sidecarPolicy  = "MutatingAdmissionPolicy queue-proxy.autoscaling.rouse.dev"
	sidecarWebhook = "MutatingWebhookConfiguration queue-proxy.autoscaling.rouse.dev"
	container      = "spec.template.spec.containers.0."
)

func TestEveryValueHasItsEffect(t *testing.T) {
	for _, e := range effects {
		t.Run(e.path, func(t *testing.T) {
			found := install(nested(e.path, e.value)).objects(t)
			if e.want == "absent" {
				if found[e.object] != nil {
					t.Errorf("%s is there", e.object)
				}
				return
			}
			if got, want := field(found[e.object], strings.Split(e.field, ".")...), parsed(t, e.want); !reflect.DeepEqual(got, want) {
				t.Errorf("%s is %s, not %s", e.field, text(got), e.want)
			}
		})
	}
}

// nested is the YAML of a value at a path.
func nested(path, value string) string {
	keys := strings.Split(path, ".")
	return "{" + strings.Join(keys, ": {") + ": " + value + strings.Repeat("}", len(keys))
}

func parsed(t *testing.T, text string) any {
	t.Helper()
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// A value that is new needs a row in the table, and a line in the schema.
func TestEveryValueIsInTheTableAndTheSchema(t *testing.T) {
	schema := readSchema(t)
	for _, path := range leaves(readValues(t), "") {
		if !slices.ContainsFunc(effects, func(e effect) bool { return strings.HasPrefix(path+".", e.path+".") }) {
			t.Errorf("%s is in no row of the table", path)
		}
		if !schema.has(strings.Split(path, ".")) {
			t.Errorf("%s is not in the schema", path)
		}
	}
}

func readValues(t *testing.T) map[string]any {
	t.Helper()
	lines, err := os.ReadFile(chartFolder + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return parsed(t, string(lines)).(map[string]any)
}

// leaves are the paths of all values that are not maps, or are empty maps.
func leaves(values map[string]any, prefix string) []string {
	var paths []string
	for key, value := range values {
		if inner, isMap := value.(map[string]any); isMap && len(inner) > 0 {
			paths = append(paths, leaves(inner, prefix+key+".")...)
		} else {
			paths = append(paths, prefix+key)
		}
	}
	return paths
}

// valuesSchema is the part of a JSON schema that names values.
type valuesSchema struct {
	Ref                  string                  `json:"$ref"`
	Defs                 map[string]valuesSchema `json:"$defs"`
	Properties           map[string]valuesSchema
	AdditionalProperties any
}

func readSchema(t *testing.T) valuesSchema {
	t.Helper()
	lines, err := os.ReadFile(chartFolder + "/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var read valuesSchema
	if err := json.Unmarshal(lines, &read); err != nil {
		t.Fatal(err)
	}
	return read
}

func (s valuesSchema) has(path []string) bool {
	return s.hasBelow(s, path)
}

func (s valuesSchema) hasBelow(part valuesSchema, path []string) bool {
	if name, isRef := strings.CutPrefix(part.Ref, "#/$defs/"); isRef {
		part = s.Defs[name]
	}
	if len(path) == 0 {
		return true
	}
	if inner, named := part.Properties[path[0]]; named {
		return s.hasBelow(inner, path[1:])
	}
	// A map of any keys, such as quantities. Keys of labels have dots themselves.
	_, open := part.AdditionalProperties.(map[string]any)
	return open
}

// The schema has the keys of the ConfigMap, and each of them replaces its default.
func TestEverySettingCanBeReplaced(t *testing.T) {
	settings := field(install("").objects(t)["ConfigMap config-autoscaler"], "data").(map[string]any)
	inSchema := readSchema(t).Properties["config"].Properties
	if len(settings) == 0 || len(settings) != len(inSchema) {
		t.Errorf("%d settings, %d in the schema", len(settings), len(inSchema))
	}
	for key := range settings {
		found := install(`{config: {"` + key + `": "0"}}`).objects(t)["ConfigMap config-autoscaler"]
		if got := field(found, "data", key); got != "0" {
			t.Errorf("%s is %v", key, got)
		}
	}
}

func TestWrongValuesAreRefused(t *testing.T) {
	cases := []struct{ values, message string }{
		{"metricsAPI: none", "additional properties 'metricsAPI' not allowed"},
		{"metricsApi: both", "at '/metricsApi'"},
		{"metricsApi: true", "at '/metricsApi'"},
		{"sidecar: {injection: hand}", "at '/sidecar/injection'"},
		{"sidecar: {resources: {limits: {cpu: 1}}}", "at '/sidecar/resources/limits'"},
		{`sidecar: {resources: {requests: {cpu: '1" + "'}}}`, "at '/sidecar/resources/requests/cpu'"},
		{"sidecar: {resources: {requests: {cpu: null}}}", "at '/sidecar/resources/requests'"},
		{`sidecar: {image: {tag: 'v1"'}}`, "at '/sidecar/image/tag'"},
		{"image: {registry: registry.example.com/}", "at '/image/registry'"},
		{"image: {registry: https://registry.example.com}", "at '/image/registry'"},
		{`image: {registry: ""}`, "image.registry is empty"},
		{"image: {pullSecrets: [{name: one}]}", "at '/image/pullSecrets/0'"},
		{"image: {digest: " + digest + "}", "at '/image'"},
		{"activator: {image: {digest: sha256:12}}", "at '/activator/image/digest'"},
		{"activator: {image: {repository: ''}}", "at '/activator/image/repository'"},
		{"activator: {replicas: 0}", "at '/activator/replicas'"},
		{"activator: {replicas: 2.5}", "at '/activator/replicas'"},
		{"activator: {replicas: 21}", "activator.maxReplicas (20) is less than activator.replicas (21)"},
		{"activator: {traces: {endpoint: 'collector:4317'}}", "at '/activator/traces/endpoint'"},
		{"activator: {env: [{name: A, value: 1}]}", "at '/activator/env/0/value'"},
		{"tolerations: [{effect: NoStart}]", "at '/tolerations/0/effect'"},
		{"zeroScaler: {affinity: {podAffinities: {}}}", "at '/zeroScaler/affinity'"},
		{"topologySpreadConstraints: [{topologyKey: rack, maxSkew: 1, whenUnsatisfiable: ScheduleAnyway, labelSelector: {}}]", "at '/topologySpreadConstraints/0'"},
		{"activator: {topologySpreadConstraints: []}", "at '/activator'"},
		{"podLabels: {team: 1}", "at '/podLabels/team'"},
		{"metricsAdapter: {securePort: 443}", "at '/metricsAdapter/securePort'"},
		{"metricsAdapter: {hostNetwork: true}", "set metricsAdapter.securePort to a port that is free on all nodes"},
		{"activator: {fallbackWake: 'yes'}", "at '/activator/fallbackWake'"},
		{"activator: {mesh: ambient}", "at '/activator/mesh'"},
		{"activator: {waitingPage: {}}", "at '/activator/waitingPage'"},
		{"zeroScaler: {resources: {limits: {memory: 1 GiB}}}", "at '/zeroScaler/resources/limits/memory'"},
		{"zeroScaler: {resources: {claims: []}}", "at '/zeroScaler/resources'"},
		{"config: {scale-to-zero: 'true'}", "at '/config'"},
		{"config: {enable-scale-to-zero: false}", "at '/config/enable-scale-to-zero'"},
		{"networkPolicies: false", "at '/networkPolicies'"},
		{"monitoring: {labels: {release: 1}}", "at '/monitoring/labels/release'"},
		{"monitoring: {runbook: docs.example.com}", "at '/monitoring/runbook'"},
		{"crds: {install: false}", "at '/crds'"},
	}
	for _, c := range cases {
		if got := install(c.values).refusal(t); !strings.Contains(got, c.message) {
			t.Errorf("%s: %s", c.values, got)
		}
	}
}

// Helm adds `global` to the values of a chart that another one depends on.
func TestGlobalValuesOfAParentChartAreAccepted(t *testing.T) {
	assertEqual(t, install("global: {any: thing}").objects(t), install("").objects(t))
}
