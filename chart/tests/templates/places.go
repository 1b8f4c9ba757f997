package templates

import (
	"regexp"
	"slices"
	"strings"
)

// severalReplicas is the condition of a budget of one pod, which would stop every drain of the node of a single one.
func severalReplicas(component string) string {
	return "gt (int .Values." + component + ".replicas) 1"
}

// deployment has the edits of a Deployment with the values of a component.
func deployment(name, component string) []edit {
	object, values := "Deployment "+name, ".Values."+component
	return slices.Concat(pods(object, name, component), additions(object, component), []edit{
		spread(object, name),
		image(object, name, component),
		serviceAccount(name, component),
		{object, `          requests: .*\n          limits: .*`, "          {{- toYaml " + values + ".resources | nindent 10 }}"},
	})
}

// fixedReplicas has the replicas of a Deployment that no HPA scales.
func fixedReplicas(name, component string) edit {
	return edit{"Deployment " + name, `(  replicas): \d+`, "$1: {{ .Values." + component + ".replicas }}"}
}

// image has the image of a component, in a pod's template.
func image(object, name, component string) edit {
	return edit{object, `(        image): rouse/` + name,
		`$1: {{ include "rouse.image" (dict "root" . "image" .Values.` + component + `.image) | quote }}`}
}

func customMetrics(name string) edit {
	return edit{"Deployment " + name, `        ports:`, `        {{- if ` + servesCustom + ` }}
        - {name: ROUSE_CUSTOM_METRICS, value: "true"}
        {{- end }}
        ports:`}
}

// sidecarVariables has the settings of the sidecar that the webhook adds.
func sidecarVariables() edit {
	variable := func(name, value string) string {
		return "        - {name: " + name + ", value: {{ " + value + " | quote }}}\n"
	}
	return edit{"Deployment metrics-adapter", `        ports:`, "        {{- if " + usesWebhook + " }}\n" +
		variable("ROUSE_SIDECAR_IMAGE", sidecarImage) +
		variable("ROUSE_SIDECAR_CPU_REQUEST", ".Values.sidecar.resources.requests.cpu") +
		variable("ROUSE_SIDECAR_MEMORY_REQUEST", ".Values.sidecar.resources.requests.memory") +
		variable("ROUSE_SIDECAR_MEMORY_LIMIT", ".Values.sidecar.resources.limits.memory") +
		"        {{- end }}\n        ports:"}
}

func traces() edit {
	return edit{"Deployment activator", `        ports:`, `        {{- with .Values.activator.traces.endpoint }}
        - name: OTEL_EXPORTER_OTLP_ENDPOINT
          value: {{ . | quote }}
        {{- end }}
        ports:`}
}

// uninstall has the edits of the Job that runs before a release is deleted. It is the zero-scaler's program.
func uninstall() []edit {
	const job, component = "Job uninstall", "zeroScaler"
	return append(pods(job, "uninstall", component), annotations(job, component), image(job, "zero-scaler", component))
}

// hookWeights order the objects of the Job before it, in which Helm creates them.
const (
	rightsWeight = "-1"
	jobWeight    = "0"
)

// beforeDeletion makes an object one that exists for `helm uninstall` alone. Helm prints what the Job logged.
func beforeDeletion(lines []string) []string {
	weight := rightsWeight
	if slices.Contains(lines, "kind: Job") {
		weight = jobWeight
	}
	return addAnnotations(lines,
		"helm.sh/hook: pre-delete",
		`helm.sh/hook-weight: "`+weight+`"`,
		"helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded",
		"helm.sh/hook-output-log-policy: hook-succeeded,hook-failed",
	)
}

func addAnnotations(lines []string, annotations ...string) []string {
	index := slices.Index(lines, "metadata:")
	added := []string{"  annotations:"}
	for _, annotation := range annotations {
		added = append(added, "    "+annotation)
	}
	return slices.Insert(slices.Clone(lines), index+1, added...)
}

const sidecarImage = `include "rouse.image" (dict "root" . "image" .Values.sidecar.image)`

// sidecar has the edits of the sidecar's settings, which are strings of CEL in variables of its policy.
func sidecar() []edit {
	const policy = "MutatingAdmissionPolicy queue-proxy.autoscaling.rouse.dev"
	variable := func(name, value string) edit {
		return edit{policy, `(  - name: ` + name + `\n    expression): .*`, "$1: {{ " + value + " | quote | squote }}"}
	}
	return []edit{
		variable("image", sidecarImage),
		variable("cpuRequest", ".Values.sidecar.resources.requests.cpu"),
		variable("memoryRequest", ".Values.sidecar.resources.requests.memory"),
		variable("memoryLimit", ".Values.sidecar.resources.limits.memory"),
		{policy, `  # The settings of the sidecar, as CEL strings: .*`, "  # The settings of the sidecar, as CEL strings."},
	}
}

var setting = regexp.MustCompile(`^  ([a-z-]+): (".*")$`)

// settings lets values replace each default of the ConfigMap.
func settings(lines []string) []string {
	changed := slices.Clone(lines)
	for index, line := range lines {
		changed[index] = setting.ReplaceAllString(line, `  $1: {{ get .Values.config "$1" | default $2 | quote }}`)
	}
	return changed
}

// keepOnUninstall lets a value keep a CRD, and its objects with it.
func keepOnUninstall(lines []string) []string {
	index := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "metadata:") })
	return slices.Insert(slices.Clone(lines), index+1,
		"  {{- if .Values.crds.keep }}", "  annotations: {helm.sh/resource-policy: keep}", "  {{- end }}")
}

// monitoringLabels adds the labels by which a Prometheus selects its objects.
func monitoringLabels(lines []string) []string {
	index := slices.Index(lines, "  labels: {"+partOf+"}")
	return slices.Replace(slices.Clone(lines), index, index+1, "  labels:", "    "+partOf,
		"    {{- with .Values.monitoring.labels }}", "    {{- toYaml . | nindent 4 }}", "    {{- end }}")
}

var runbook = regexp.MustCompile(`^        runbook: docs/reference/monitoring\.md(#[a-z]+)$`)

// alerts has the URL of each alert's section, where a value has the one of the page.
func alerts(lines []string) []string {
	changed := monitoringLabels(lines)
	for index, line := range changed {
		changed[index] = runbook.ReplaceAllString(line, `        {{ include "rouse.runbook" . }}$1`)
	}
	return changed
}
