package templates

import "strings"

// dashboard is the ConfigMap that the kustomization generates from a dashboard's file.
func dashboard(file, text string) string {
	indented := strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n    ")
	return `apiVersion: v1
kind: ConfigMap
metadata:
  name: rouse-dashboard-` + strings.TrimSuffix(file, ".json") + `
  namespace: rouse-system
  labels: {grafana_dashboard: "1"}
data:
  ` + file + `: |
    ` + indented + "\n"
}
