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
func deployment(name, component, replicas string) []edit {
	object, values := "Deployment "+name, ".Values."+component
	return []edit{
		{object, `(  replicas): \d+`, "$1: {{ " + replicas + " }}"},
		{object, `(        image): rouse/` + name,
			`$1: {{ include "rouse.image" (dict "root" . "image" ` + values + `.image) | quote }}`},
		{object, `          requests: .*\n          limits: .*`, "          {{- toYaml " + values + ".resources | nindent 10 }}"},
		{object, `      containers:`, `      {{- with .Values.image.pullSecrets }}
      imagePullSecrets:
      {{- range . }}
      - name: {{ . | quote }}
      {{- end }}
      {{- end }}
      containers:`},
	}
}

func customMetrics(name string) edit {
	return edit{"Deployment " + name, `        ports:`, `        {{- if ` + servesCustom + ` }}
        - {name: ROUSE_CUSTOM_METRICS, value: "true"}
        {{- end }}
        ports:`}
}

// sidecar has the edits of the sidecar's settings, which are strings of CEL in variables of its policy.
func sidecar() []edit {
	const policy = "MutatingAdmissionPolicy queue-proxy.autoscaling.rouse.dev"
	variable := func(name, value string) edit {
		return edit{policy, `(  - name: ` + name + `\n    expression): .*`, "$1: {{ " + value + " | quote | squote }}"}
	}
	return []edit{
		variable("image", `include "rouse.image" (dict "root" . "image" .Values.sidecar.image)`),
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
