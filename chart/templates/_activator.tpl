{{- /* The replicas of the activator: what its HPA has set, within the bounds, so that an upgrade removes none. */}}
{{- define "rouse.activatorReplicas" -}}
{{- $least := int .Values.activator.replicas -}}
{{- $most := int .Values.activator.maxReplicas -}}
{{- if lt $most $least -}}
{{- fail (printf "activator.maxReplicas (%d) is less than activator.replicas (%d)" $most $least) -}}
{{- end -}}
{{- $live := dig "spec" "replicas" 0 (lookup "apps/v1" "Deployment" "rouse-system" "activator") -}}
{{- min (max (int $live) $least) $most -}}
{{- end }}
