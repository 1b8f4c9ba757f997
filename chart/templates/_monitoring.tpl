{{- /* The annotation of an alert, without the anchor of its section: Alertmanager and Grafana link `runbook_url`. Without a URL the
text is the page's path in the repository. */}}
{{- define "rouse.runbook" -}}
{{- with .Values.monitoring.runbook }}runbook_url: {{ . }}{{ else }}runbook: docs/reference/monitoring.md{{ end }}
{{- end }}
