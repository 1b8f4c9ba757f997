package chart

import (
	"strings"
	"testing"
)

func TestNotesStateTheChoiceItsReasonAndTheNextStep(t *testing.T) {
	both := newest(apiService(externalMetrics, keda), apiService(customMetricsOld, "monitoring/prometheus-adapter"))
	cases := []struct {
		name    string
		release release
		has     []string
		hasNot  string
	}{
		{"defaults", install(""), []string{
			"Metrics API: external.metrics.k8s.io. HPAs have metrics of type External.\n\nSidecar: added to pods",
			"kubectl wait --for=condition=Available apiservice/" + externalMetrics,
			"docs/getting-started.md",
		}, "leads to"},
		{"beside another", install("").on(newest(apiService(externalMetrics, keda))), []string{
			"Metrics API: custom.metrics.k8s.io", "APIService " + externalMetrics + " leads to Service " + keda + ".",
			"apiservice/" + customMetrics,
		}, "apiservice/" + externalMetrics},
		{"beside two", install("").on(both), []string{
			"Metrics API: none", "leads to Service " + keda + ".", "leads to Service monitoring/prometheus-adapter.",
		}, "kubectl wait"},
		{"named", install("metricsApi: none"), []string{"Metrics API: none"}, "leads to"},
		{"older", install("").on(older()), []string{"Sidecar: not added, because the cluster has no MutatingAdmissionPolicy"}, "added to pods"},
		{"manual", install("sidecar: {injection: manual}"), []string{"Sidecar: not added.\n"}, "because"},
		{"no policies", install("admissionPolicies: {enabled: false}"), []string{"Admission policies: none."}, "because"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, notes := c.release.render(t)
			for _, part := range c.has {
				if !strings.Contains(notes, part) {
					t.Errorf("no %q in\n%s", part, notes)
				}
			}
			if strings.Contains(notes, c.hasNot) {
				t.Errorf("%q in\n%s", c.hasNot, notes)
			}
		})
	}
}
