package templates

import "fmt"

// include renders a template of _pods.tpl with the values of a component and further arguments.
func include(template, component, further string) string {
	return `      {{- include "` + template + `" (dict "root" . "part" .Values.` + component + further + `) | trim | nindent 6 }}`
}

// pods has the edits of a pod's template with what platforms demand: of all pods, and of those of a component.
func pods(object, name, component string) []edit {
	return []edit{
		{object, `      labels: .*`, include("rouse.podLabels", component, ` "name" "`+name+`"`)},
		{object, `      nodeSelector: .*`, include("rouse.placement", component, "")},
		{object, `      containers:`, `      {{- with .Values.image.pullSecrets }}
      imagePullSecrets:
      {{- range . }}
      - name: {{ . | quote }}
      {{- end }}
      {{- end }}
      containers:`},
	}
}

// annotations has those of a pod's template without its own.
func annotations(object, component string) edit {
	return edit{object, `    spec:`, include("rouse.podAnnotations", component, "") + "\n    spec:"}
}

// ownAnnotation has those of a pod's template with one of its own.
func ownAnnotation(object, component string) edit {
	return edit{object, `      annotations: \{(.*): (.*)\}`, include("rouse.podAnnotations", component, ` "own" (dict "$1" "$2")`)}
}

// spread has the constraints of a Deployment with the values of all. Label selectors are no values.
func spread(object, name string) edit {
	const constraint = `\n      - topologyKey: .*(\n        .*)+`
	own := `(dict "labelSelector" (dict "matchLabels" (dict "app.kubernetes.io/name" "` + name + `")) "matchLabelKeys" (list "pod-template-hash"))`
	return edit{object, `      topologySpreadConstraints:(` + constraint + `)+`, `      {{- with .Values.topologySpreadConstraints }}
      topologySpreadConstraints:
      {{- range . }}
      - {{- merge ` + own + ` . | toYaml | nindent 8 }}
      {{- end }}
      {{- end }}`}
}

// additions has the variables and volumes of a Deployment's container beside its own.
func additions(object, component string) []edit {
	added := func(key, indent string) string {
		return fmt.Sprintf("%[3]s{{- with concat .Values.%[1]s (.Values.%[2]s.%[1]s | default list) }}\n"+
			"%[3]s{{- toYaml . | nindent %[4]d }}\n%[3]s{{- end }}", key, component, indent, len(indent))
	}
	return []edit{
		{object, `        ports:`, added("env", "        ") + "\n        ports:"},
		{object, `        volumeMounts:`, "        volumeMounts:\n" + added("volumeMounts", "        ")},
		{object, `      volumes:`, "      volumes:\n" + added("volumes", "      ")},
	}
}

// serviceAccount has the annotations of a component's ServiceAccount.
func serviceAccount(name, component string) edit {
	return edit{"ServiceAccount " + name, `(  labels: .*)`, `$1
  {{- with merge (dict) (dig "serviceAccount" "annotations" (dict) .Values.` + component + `) .Values.serviceAccount.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}`}
}
