{{- /* The reference of an image. Takes a dict: root, and image, the values of one image. */}}
{{- define "rouse.image" -}}
{{- required "image.registry is empty: name the registry that has Rouse's images, as in --set image.registry=registry.example.com" .root.Values.image.registry -}}
/{{ .image.repository -}}
{{- if .image.digest -}}
@{{ .image.digest }}
{{- else -}}
:{{ coalesce .image.tag .root.Values.image.tag (printf "v%s" .root.Chart.AppVersion) }}
{{- end -}}
{{- end }}
