{{- /*
policy, webhook or manual. A cluster reports its kinds, v1/Pod among them. Without a cluster Helm has group versions alone, and the version of
Kubernetes decides.
*/}}
{{- define "rouse.sidecar" -}}
{{- $versions := .Capabilities.APIVersions -}}
{{- if ne .Values.sidecar.injection "auto" -}}
{{ .Values.sidecar.injection }}
{{- else if $versions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy" -}}
policy
{{- else if and (not ($versions.Has "v1/Pod")) (semverCompare ">=1.36-0" .Capabilities.KubeVersion.Version) -}}
policy
{{- else -}}
webhook
{{- end -}}
{{- end }}
