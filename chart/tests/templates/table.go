package templates

// manifest is one file of deploy/, and the places at which values of the chart take effect.
type manifest struct {
	// Below deploy/.
	path string
	// For all objects of the file.
	condition string
	// For one object, by kind and name.
	conditions map[string]string
	edits      []edit
	// Applied to each object after its edits.
	each func([]string) []string
	// Whether the text has actions of another template language, which Helm must leave as they are.
	foreignActions bool
}

const (
	servesExternal = `eq (include "rouse.metricsApi" .) "external"`
	servesCustom   = `eq (include "rouse.metricsApi" .) "custom"`
	usesWebhook    = `eq (include "rouse.sidecar" .) "webhook"`
	// Hooks in the output of `helm template` would run at once when it is applied. Without a cluster Helm has group versions alone.
	renderedForCluster = `.Capabilities.APIVersions.Has "v1/Pod"`
	monitoring         = ".Values.monitoring.enabled"
)

// manifests has every manifest of deploy/; a test compares it with kustomization.yaml and the components.
var manifests = []manifest{
	// A release in this namespace needs it before its first object.
	{path: "namespace.yaml", condition: `ne .Release.Namespace "rouse-system"`, edits: podSecurity()},
	{path: "crds.yaml", each: keepOnUninstall},
	{path: "config-autoscaler.yaml", each: settings},
	{
		path: "metrics-adapter.yaml",
		conditions: map[string]string{
			"APIService v1beta1.external.metrics.k8s.io":             servesExternal,
			"ClusterRole rouse-metrics-adapter-deletion-cost":        ".Values.admissionPolicies.enabled",
			"ClusterRoleBinding rouse-metrics-adapter-deletion-cost": ".Values.admissionPolicies.enabled",
			"PodDisruptionBudget metrics-adapter":                    severalReplicas("metricsAdapter"),
		},
		edits: append(append(deployment("metrics-adapter", "metricsAdapter"), aggregatedAPI()...),
			annotations("Deployment metrics-adapter", "metricsAdapter"), fixedReplicas("metrics-adapter", "metricsAdapter"),
			customMetrics("metrics-adapter"), sidecarVariables()),
	},
	{
		path: "zero-scaler.yaml",
		conditions: map[string]string{
			"ClusterRole rouse-zero-scaler-dry-run":        ".Values.admissionPolicies.enabled",
			"ClusterRoleBinding rouse-zero-scaler-dry-run": ".Values.admissionPolicies.enabled",
			"PodDisruptionBudget zero-scaler":              severalReplicas("zeroScaler"),
		},
		edits: append(deployment("zero-scaler", "zeroScaler"), annotations("Deployment zero-scaler", "zeroScaler"),
			fixedReplicas("zero-scaler", "zeroScaler"), customMetrics("zero-scaler")),
	},
	{
		path: "activator.yaml",
		conditions: map[string]string{
			"ClusterRole rouse-activator-fallback-waker":        ".Values.activator.fallbackWake",
			"ClusterRoleBinding rouse-activator-fallback-waker": ".Values.activator.fallbackWake",
			"PodDisruptionBudget activator":                     severalReplicas("activator"),
		},
		edits: append(deployment("activator", "activator"),
			ownAnnotation("Deployment activator", "activator"),
			traces(),
			edit{"HorizontalPodAutoscaler activator", `(  minReplicas): \d+`, `$1: {{ .Values.activator.replicas }}`},
			edit{"HorizontalPodAutoscaler activator", `(  maxReplicas): \d+`, `$1: {{ .Values.activator.maxReplicas }}`},
		),
	},
	{path: "queue-proxy.yaml", condition: `eq (include "rouse.sidecar" .) "policy"`, edits: sidecar()},
	{path: "roles.yaml"},
	{path: "policies.yaml", condition: ".Values.admissionPolicies.enabled"},
	{path: "network-policies.yaml", condition: ".Values.networkPolicies.enabled", edits: aggregatedAPIPolicy()},
	{path: "priorities.yaml"},
	{path: "components/custom-metrics/custom-metrics.yaml", condition: servesCustom},
	{path: "components/sidecar-webhook/sidecar-webhook.yaml", condition: usesWebhook},
	{path: "components/uninstall/uninstall.yaml", condition: renderedForCluster, edits: uninstall(), each: beforeDeletion},
	{
		path:       "monitoring/pod-monitors.yaml",
		condition:  monitoring,
		conditions: map[string]string{"PodMonitor rouse-sidecars": ".Values.monitoring.sidecars"},
		each:       monitoringLabels,
	},
	{path: "monitoring/alerts.yaml", condition: monitoring, each: alerts, foreignActions: true},
	{path: "monitoring/dashboards/fleet.json", condition: monitoring, foreignActions: true},
	{path: "monitoring/dashboards/workload.json", condition: monitoring, foreignActions: true},
	{path: "monitoring/dashboards/parts.json", condition: monitoring, foreignActions: true},
}
