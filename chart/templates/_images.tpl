{{- /* The reference of an image. Takes a dict: root, and image, the values of one image. */}}
{{- define "rouse.image" -}}
{{- with .root.Values.image.registry }}{{ . }}/{{ end -}}
{{- .image.repository -}}
{{- if .image.digest -}}
@{{ .image.digest }}
{{- else -}}
:{{ coalesce .image.tag .root.Values.image.tag (printf "v%s" .root.Chart.AppVersion) }}
{{- end -}}
{{- end }}
