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
  {{- $mesh := get (include "rouse.mesh" .part | fromYaml) "labels" | default dict }}
  {{- merge (dict "app.kubernetes.io/name" .name) (.part.podLabels | default dict) .root.Values.podLabels $mesh | toYaml | nindent 2 }}
{{- end }}

{{- /* Takes the part's own annotations as well, if it has some. */}}
{{- define "rouse.podAnnotations" -}}
{{- $mesh := get (include "rouse.mesh" .part | fromYaml) "annotations" | default dict }}
{{- with merge (dict) (.part.podAnnotations | default dict) .root.Values.podAnnotations (.own | default dict) $mesh }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /*
What gives the pods of a part a proxy of its mesh, for their requests to Rouse's sidecars alone. Takes the values of the part.
*/}}
{{- define "rouse.mesh" -}}
{{- if eq (.mesh | default "") "istio" }}
labels: {sidecar.istio.io/inject: "true"}
annotations:
  traffic.sidecar.istio.io/includeInboundPorts: ""
  traffic.sidecar.istio.io/includeOutboundIPRanges: ""
  traffic.sidecar.istio.io/includeOutboundPorts: 8012,8022
{{- else if eq (.mesh | default "") "linkerd" }}
annotations:
  linkerd.io/inject: enabled
  config.linkerd.io/skip-inbound-ports: 1-65535
  config.linkerd.io/skip-outbound-ports: 1-8011,8013-8021,8023-65535
{{- end }}
{{- end }}
