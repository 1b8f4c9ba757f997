package chart

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
)

const (
	releaseName      = "meta.helm.sh/release-name"
	releaseNamespace = "meta.helm.sh/release-namespace"
)

// servedBy is the metrics API of a release: external, custom, none, or both.
func servedBy(found objects) string {
	external, custom := found["APIService "+externalMetrics] != nil, found["APIService "+customMetrics] != nil
	switch {
	case external && custom:
		return "both"
	case external:
		return "external"
	case custom:
		return "custom"
	}
	return "none"
}

func TestMetricsApiIsOneThatNoOtherAdapterServes(t *testing.T) {
	cases := []struct {
		name    string
		objects []runtime.Object
		want    string
	}{
		{"all free", nil, "external"},
		{"external of another", list(apiService(externalMetrics, keda)), "custom"},
		{"external of a local API server", list(apiService(externalMetrics, "")), "custom"},
		{"same name in another namespace", list(apiService(externalMetrics, "monitoring/metrics-adapter")), "custom"},
		{"custom of another", list(apiService(customMetrics, "monitoring/prometheus-adapter")), "external"},
		{
			"both of others",
			list(apiService(externalMetrics, keda), apiService(customMetrics, "monitoring/prometheus-adapter")),
			"none",
		},
		{
			"older version of custom of another",
			list(apiService(externalMetrics, keda), apiService(customMetricsOld, "monitoring/prometheus-adapter")),
			"none",
		},
		{"external installed", list(apiService(externalMetrics, ours)), "external"},
		{"custom installed, and external free again", list(apiService(customMetrics, ours)), "custom"},
		{
			"custom installed beside another",
			list(apiService(externalMetrics, keda), apiService(customMetrics, ours)),
			"custom",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := servedBy(install("").on(newest(c.objects...)).objects(t)); got != c.want {
				t.Errorf("serves %s, not %s", got, c.want)
			}
		})
	}
}

// The rest of the release is what the same choice gives when it is named.
func TestAutomaticChoiceEqualsNamedOne(t *testing.T) {
	automatic := install("").on(newest(apiService(externalMetrics, keda))).objects(t)
	assertEqual(t, automatic, install("metricsApi: custom").objects(t))
}

func TestNamedMetricsApiOfAnotherOwnerIsRefused(t *testing.T) {
	cases := []struct{ values, taken string }{
		{"metricsApi: external", externalMetrics},
		{"metricsApi: custom", customMetrics},
		{"metricsApi: custom", customMetricsOld},
	}
	for _, c := range cases {
		got := install(c.values).on(newest(apiService(c.taken, keda))).refusal(t)
		if want := "APIService " + c.taken + " leads to Service " + keda + "; set metricsApi to"; !strings.Contains(got, want) {
			t.Errorf("%s: %s", c.values, got)
		}
	}
	taken := newest(apiService(externalMetrics, keda), apiService(customMetrics, keda))
	if got := servedBy(install("metricsApi: none").on(taken).objects(t)); got != "none" {
		t.Errorf("serves %s", got)
	}
}

// Helm deletes what an upgrade leaves out, here an APIService that has another owner by now.
func TestUpgradeDeletesNoApiServiceOfAnotherOwner(t *testing.T) {
	annotations := []string{releaseName, "rouse", releaseNamespace, "default"}
	for _, values := range []string{"", "metricsApi: none", "metricsApi: custom"} {
		taken := newest(apiService(externalMetrics, keda, annotations...))
		got := install(values).on(taken).refusal(t)
		if !strings.Contains(got, "kubectl annotate apiservice "+externalMetrics+" helm.sh/resource-policy=keep") {
			t.Errorf("%q: %s", values, got)
		}
	}
	kept := newest(apiService(externalMetrics, keda, append(annotations, "helm.sh/resource-policy", "keep")...))
	if got := servedBy(install("").on(kept).objects(t)); got != "custom" {
		t.Errorf("serves %s", got)
	}
	other := newest(apiService(externalMetrics, keda, releaseName, "keda", releaseNamespace, "keda"))
	if got := servedBy(install("").on(other).objects(t)); got != "custom" {
		t.Errorf("serves %s", got)
	}
}

func TestSidecarIsAddedByAWebhookWhereTheClusterHasNoPolicy(t *testing.T) {
	disabled := older()
	disabled.version = "v1.37.0"
	cases := []struct {
		name    string
		values  string
		cluster cluster
		want    string
	}{
		{"newest", "", newest(), "policy"},
		{"older", "", older(), "webhook"},
		{"API disabled", "", disabled, "webhook"},
		{"rendered for 1.36", "", withoutCluster("v1.36.0"), "policy"},
		{"rendered for a pre-release of 1.36", "", withoutCluster("v1.36.0-rc.1"), "policy"},
		{"rendered for 1.35", "", withoutCluster("v1.35.4"), "webhook"},
		{"named on an older one", "sidecar: {injection: policy}", older(), "policy"},
		{"webhook on the newest", "sidecar: {injection: webhook}", newest(), "webhook"},
		{"manual on the newest", "sidecar: {injection: manual}", newest(), "none"},
		{"manual on an older one", "sidecar: {injection: manual}", older(), "none"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			found := install(c.values).on(c.cluster).objects(t)
			policy := found[sidecarPolicy] != nil
			binding := found["MutatingAdmissionPolicyBinding queue-proxy.autoscaling.rouse.dev"] != nil
			webhook := found[sidecarWebhook] != nil
			right := found["ClusterRole rouse-metrics-adapter-sidecar-webhook"] != nil
			if policy != (c.want == "policy") || binding != policy || webhook != (c.want == "webhook") || right != webhook {
				t.Errorf("policy %t, binding %t, webhook %t, right %t", policy, binding, webhook, right)
			}
		})
	}
}

// The HPA has them: an upgrade of Helm 4 would conflict with it, and a rollback would take activators away under load.
func TestActivatorsHaveNoReplicasOfTheirManifest(t *testing.T) {
	for _, found := range []objects{install("").objects(t), install("activator: {replicas: 6}").objects(t), kustomize(t, nil)} {
		if got := field(found["Deployment activator"], "spec", "replicas"); got != nil {
			t.Errorf("%v", got)
		}
		if target := field(found["HorizontalPodAutoscaler activator"], "spec", "scaleTargetRef", "name"); target != "activator" {
			t.Errorf("the HPA scales %v", target)
		}
	}
}

func list(objects ...runtime.Object) []runtime.Object {
	return objects
}
