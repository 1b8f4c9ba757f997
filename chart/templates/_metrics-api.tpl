{{- /* The Service that an APIService leads to, as namespace/name; empty if the cluster has no such APIService, or cannot be read. */}}
{{- define "rouse.apiServiceBackend" -}}
{{- $found := lookup "apiregistration.k8s.io/v1" "APIService" "" . -}}
{{- if $found -}}
{{- $service := dig "spec" "service" nil $found | default dict -}}
{{- printf "%s/%s" ($service.namespace | default "-") ($service.name | default "-") -}}
{{- end -}}
{{- end }}

{{- /* The first of the given APIServices that leads to another Service, and that Service; empty if there is none. */}}
{{- define "rouse.takenApiService" -}}
{{- $taken := "" -}}
{{- range . -}}
{{- $backend := include "rouse.apiServiceBackend" . -}}
{{- if and (not $taken) $backend (ne $backend "rouse-system/metrics-adapter") -}}
{{- $taken = printf "APIService %s leads to Service %s" . $backend -}}
{{- end -}}
{{- end -}}
{{- $taken -}}
{{- end }}

{{- define "rouse.externalMetricsTaken" -}}
{{- include "rouse.takenApiService" (list "v1beta1.external.metrics.k8s.io") -}}
{{- end }}

{{- /* Both versions: HPAs read the preferred one, so a second owner would take the metrics of the first. */}}
{{- define "rouse.customMetricsTaken" -}}
{{- include "rouse.takenApiService" (list "v1beta1.custom.metrics.k8s.io" "v1beta2.custom.metrics.k8s.io") -}}
{{- end }}

{{- /* external, custom or none. `auto` continues what is installed, so that an upgrade changes no HPA's API. */}}
{{- define "rouse.metricsApi" -}}
{{- $external := include "rouse.externalMetricsTaken" . -}}
{{- $custom := include "rouse.customMetricsTaken" . -}}
{{- $ours := "rouse-system/metrics-adapter" -}}
{{- if eq .Values.metricsApi "external" -}}
{{- with $external }}{{ fail (printf "%s; set metricsApi to auto, custom or none" .) }}{{ end -}}
external
{{- else if eq .Values.metricsApi "custom" -}}
{{- with $custom }}{{ fail (printf "%s; set metricsApi to auto, external or none" .) }}{{ end -}}
custom
{{- else if eq .Values.metricsApi "none" -}}
none
{{- else if eq (include "rouse.apiServiceBackend" "v1beta1.external.metrics.k8s.io") $ours -}}
external
{{- else if and (not $custom) (eq (include "rouse.apiServiceBackend" "v1beta2.custom.metrics.k8s.io") $ours) -}}
custom
{{- else if not $external -}}
external
{{- else if not $custom -}}
custom
{{- else -}}
none
{{- end -}}
{{- end }}

{{- /*
Fails if an APIService of this release leads to another Service now. Helm deletes what a release no longer has, so an upgrade would
delete the APIService of its new owner.
*/}}
{{- define "rouse.checkTakenOver" -}}
{{- range list "v1beta1.external.metrics.k8s.io" "v1beta2.custom.metrics.k8s.io" -}}
{{- $taken := include "rouse.takenApiService" (list .) -}}
{{- if $taken -}}
{{- $annotations := dig "metadata" "annotations" nil (lookup "apiregistration.k8s.io/v1" "APIService" "" .) | default dict -}}
{{- $isOfRelease := and (eq (get $annotations "meta.helm.sh/release-name") $.Release.Name) (eq (get $annotations "meta.helm.sh/release-namespace") $.Release.Namespace) -}}
{{- if and $isOfRelease (ne (get $annotations "helm.sh/resource-policy") "keep") -}}
{{- fail (printf "%s, and belongs to this release; to leave it there, run: kubectl annotate apiservice %s helm.sh/resource-policy=keep" $taken .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}
