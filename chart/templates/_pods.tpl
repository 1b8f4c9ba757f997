{{- /*
What the pods of a part have: the values of all parts, and those of the part. A map of the part replaces single keys, a list is added.
Each takes a dict: root, and part, the values of one part.
*/}}
{{- define "rouse.placement" -}}
{{- with merge (deepCopy (.part.nodeSelector | default dict)) .root.Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with concat .root.Values.tolerations (.part.tolerations | default list) }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with merge (deepCopy (.part.affinity | default dict)) .root.Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Takes the name of the part as well, by which Services and policies select its pods. */}}
{{- define "rouse.podLabels" -}}
labels:
  {{- merge (dict "app.kubernetes.io/name" .name) (.part.podLabels | default dict) .root.Values.podLabels | toYaml | nindent 2 }}
{{- end }}

{{- /* Takes the part's own annotations as well, if it has some. */}}
{{- define "rouse.podAnnotations" -}}
{{- with merge (dict) (.part.podAnnotations | default dict) .root.Values.podAnnotations (.own | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
