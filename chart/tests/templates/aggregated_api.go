package templates

const securePort = "{{ .Values.metricsAdapter.securePort }}"

// aggregatedAPI has the port and the network of the metrics-adapter, which the API server connects to.
func aggregatedAPI() []edit {
	const object = "Deployment metrics-adapter"
	return []edit{
		{object, `(        args: \[--api-port)=\d+\]`, "$1=" + securePort + "]"},
		{object, `(        - \{name: api, containerPort): \d+\}`, "$1: " + securePort + "}"},
		{object, `      containers:`, `      {{- if .Values.metricsAdapter.hostNetwork }}
      hostNetwork: true
      dnsPolicy: ClusterFirstWithHostNet
      {{- end }}
      containers:`},
	}
}

func aggregatedAPIPolicy() []edit {
	return []edit{{"NetworkPolicy metrics-adapter", `(  - ports:\n    - \{protocol: TCP, port): \d+\}`, "$1: " + securePort + "}"}}
}

// podSecurity has the level of the namespace, which refuses pods on the network of their node but for `privileged`.
func podSecurity() []edit {
	return []edit{{"Namespace rouse-system", `(    pod-security.kubernetes.io/enforce): restricted`,
		"$1: {{ .Values.metricsAdapter.hostNetwork | ternary \"privileged\" \"restricted\" }}"}}
}
