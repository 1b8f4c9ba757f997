package chart

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// Each choice of the chart gives the objects of the kustomization with the component of the same choice.
func TestChoicesEqualComponents(t *testing.T) {
	cases := []struct {
		name       string
		values     string
		components []string
	}{
		{"defaults", "", nil},
		{"external", "metricsApi: external", nil},
		{"custom", "metricsApi: custom", []string{"custom-metrics"}},
		{"none", "metricsApi: none", []string{"without-metrics-api"}},
		{"policy", "sidecar: {injection: policy}", nil},
		{"webhook", "sidecar: {injection: webhook}", []string{"sidecar-webhook"}},
		{"webhook and custom", "{metricsApi: custom, sidecar: {injection: webhook}}", []string{"custom-metrics", "sidecar-webhook"}},
		{"manual", "sidecar: {injection: manual}", []string{"without-sidecar-injection"}},
		{"no admission policies", "admissionPolicies: {enabled: false}", []string{"without-admission-policies"}},
		{"no network policies", "networkPolicies: {enabled: false}", []string{"without-network-policies"}},
		{"no fallback wake", "activator: {fallbackWake: false}", []string{"without-fallback-wake"}},
		{"monitoring", "monitoring: {enabled: true}", []string{"../monitoring"}},
		{
			"all at once",
			"{metricsApi: custom, sidecar: {injection: manual}, admissionPolicies: {enabled: false}," +
				" networkPolicies: {enabled: false}, activator: {fallbackWake: false}}",
			[]string{"custom-metrics", "without-sidecar-injection", "without-admission-policies",
				"without-network-policies", "without-fallback-wake"},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			assertEqual(t, install(c.values).objects(t), kustomize(t, c.components))
		})
	}
}

// Images from a registry, by tag or digest, are those that kustomize's `images` writes.
func TestImagesEqualKustomize(t *testing.T) {
	digest := "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	values := "{image: {registry: registry.example.com:5000/mirror, tag: v9}, zeroScaler: {image: {tag: v8}}," +
		" activator: {image: {repository: team/activator, digest: \"" + digest + "\"}}}"
	want := kustomize(t, nil, "images:",
		"- {name: rouse/metrics-adapter, newName: registry.example.com:5000/mirror/rouse/metrics-adapter, newTag: v9}",
		"- {name: rouse/zero-scaler, newName: registry.example.com:5000/mirror/rouse/zero-scaler, newTag: v8}",
		"- {name: rouse/activator, newName: registry.example.com:5000/mirror/team/activator, digest: \""+digest+"\"}")
	got := install(values).objects(t)
	const policy = "MutatingAdmissionPolicy queue-proxy.autoscaling.rouse.dev"
	if image := variable(got[policy], "image"); image != `"registry.example.com:5000/mirror/rouse/queue-proxy:v9"` {
		t.Errorf("the sidecar's image is %s", image)
	}
	delete(got, policy)
	delete(want, policy)
	assertEqual(t, got, want)
}

// The webhook's sidecar has the same values as the policy's.
func TestWebhookAddsTheSidecarOfTheValues(t *testing.T) {
	image, resources := "{repository: team/sidecar, digest: \""+digest+"\"}", "{requests: {cpu: 1500m, memory: 1.5Gi}, limits: {memory: 64Mi}}"
	values := "{image: {registry: localhost:5000}, sidecar: {injection: webhook, image: " + image + ", resources: " + resources + "}}"
	variables := field(install(values).objects(t)["Deployment metrics-adapter"], strings.Split(container+"env", ".")...)
	for name, want := range map[string]string{
		"ROUSE_SIDECAR_IMAGE":          "localhost:5000/team/sidecar@" + digest,
		"ROUSE_SIDECAR_CPU_REQUEST":    "1500m",
		"ROUSE_SIDECAR_MEMORY_REQUEST": "1.5Gi",
		"ROUSE_SIDECAR_MEMORY_LIMIT":   "64Mi",
	} {
		is := func(variable any) bool { return field(variable, "name") == name }
		if index := slices.IndexFunc(variables.([]any), is); index < 0 || field(variables.([]any)[index], "value") != want {
			t.Errorf("%s is not %s in %v", name, want, variables)
		}
	}
}

// A release in rouse-system needs the namespace before its first object, so it cannot have it.
func TestNamespaceIsLeftOutInItself(t *testing.T) {
	release := install("")
	release.namespace = "rouse-system"
	want := kustomize(t, nil)
	delete(want, "Namespace rouse-system")
	assertEqual(t, release.objects(t), want)
}

// variable is the CEL expression of a variable of an admission policy.
func variable(policy map[string]any, name string) any {
	variables, _ := field(policy, "spec", "variables").([]any)
	for _, variable := range variables {
		if field(variable, "name") == name {
			return field(variable, "expression")
		}
	}
	return nil
}

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
		{"older", install("").on(older()), []string{"by a webhook, because the cluster\nhas no MutatingAdmissionPolicy v1"}, "not added"},
		{"webhook", install("sidecar: {injection: webhook}"), []string{"by a webhook.\nA pod that is created while"}, "because"},
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

// What the platform demands is set for all parts, or for one.
func TestValuesOfAllPodsCanBeThoseOfOnePart(t *testing.T) {
	const labels, spec = "spec.template.metadata.labels.", "spec.template.spec."
	cases := []struct{ key, value, field, want string }{
		{"nodeSelector", "{pool: a}", spec + "nodeSelector.pool", "a"},
		{"tolerations", "[{key: a}]", spec + "tolerations.0.key", "a"},
		{"affinity", "{podAntiAffinity: {key: a}}", spec + "affinity.podAntiAffinity.key", "a"},
		{"podLabels", "{team: a}", labels + "team", "a"},
		{"podAnnotations", "{team: a}", "spec.template.metadata.annotations.team", "a"},
		{"volumes", "[{name: a}]", spec + "volumes.0.name", "a"},
		{"volumeMounts", "[{name: a, mountPath: /a}]", container + "volumeMounts.0.name", "a"},
	}
	parts := map[string]string{"activator": "activator", "metricsAdapter": "metrics-adapter", "zeroScaler": "zero-scaler"}
	for _, c := range cases {
		all := install("{" + c.key + ": " + c.value + "}").objects(t)
		for part, name := range parts {
			one := install("{" + part + ": {" + c.key + ": " + c.value + "}}").objects(t)
			for _, other := range parts {
				if got := field(all["Deployment "+other], strings.Split(c.field, ".")...); got != c.want {
					t.Errorf("%s of all: %s has %v", c.key, other, got)
				}
				if got := field(one["Deployment "+other], strings.Split(c.field, ".")...); (got == c.want) != (other == name) {
					t.Errorf("%s of %s: %s has %v", c.key, part, other, got)
				}
			}
		}
	}
}

// A part's own value comes before that of all.
func TestPartHasItsValueBesideThatOfAll(t *testing.T) {
	values := "{nodeSelector: {pool: a}, podLabels: {team: a, tier: a}, env: [{name: A}], serviceAccount: {annotations: {role: a}}," +
		" activator: {nodeSelector: {pool: b}, podLabels: {team: b}, env: [{name: B}], serviceAccount: {annotations: {role: b}}}}"
	found := install(values).objects(t)
	template := field(found["Deployment activator"], "spec", "template")
	for path, want := range map[string]any{
		"spec.nodeSelector.pool":       "b",
		"metadata.labels.team":         "b",
		"metadata.labels.tier":         "a",
		"spec.containers.0.env.6.name": "A",
		"spec.containers.0.env.7.name": "B",
	} {
		if got := field(template, strings.Split(path, ".")...); got != want {
			t.Errorf("%s is %v", path, got)
		}
	}
	for account, want := range map[string]string{"activator": "b", "zero-scaler": "a", "metrics-adapter": "a"} {
		if got := field(found["ServiceAccount "+account], "metadata", "annotations", "role"); got != want {
			t.Errorf("%s has %v", account, got)
		}
	}
}

// OpenShift refuses a user or group that it did not assign to the namespace. The images name one that is not root.
func TestPodsNameNoUser(t *testing.T) {
	for id, object := range pods(t) {
		context, _ := field(object, "spec", "template", "spec", "securityContext").(map[string]any)
		if context["runAsNonRoot"] != true {
			t.Errorf("%s may run as root", id)
		}
		for _, key := range []string{"runAsUser", "runAsGroup", "fsGroup", "supplementalGroups"} {
			if context[key] != nil || field(object, "spec", "template", "spec", "containers", "0", "securityContext", key) != nil {
				t.Errorf("%s has %s", id, key)
			}
		}
	}
}

// Nodes with Windows cannot run the images, and old pods of a rollout say nothing about where the new ones are.
func TestPodsAreOnNodesWithLinuxAndSpreadByRevision(t *testing.T) {
	for id, object := range pods(t) {
		if got := field(object, "spec", "template", "spec", "nodeSelector", "kubernetes.io/os"); got != "linux" {
			t.Errorf("%s is on %v", id, got)
		}
		constraints, _ := field(object, "spec", "template", "spec", "topologySpreadConstraints").([]any)
		if len(constraints) != 2 && strings.HasPrefix(id, "Deployment") {
			t.Errorf("%s has %d constraints", id, len(constraints))
		}
		for _, constraint := range constraints {
			if got := field(constraint, "matchLabelKeys", "0"); got != "pod-template-hash" {
				t.Errorf("%s is spread by %v", id, got)
			}
		}
	}
}

// pods are the objects of the kustomization that make pods.
func pods(t *testing.T) objects {
	t.Helper()
	found := kustomize(t, nil)
	maps.Copy(found, kustomizeFolder(t, deploy+"/components/uninstall", nil))
	maps.DeleteFunc(found, func(_ string, object map[string]any) bool { return field(object, "spec", "template") == nil })
	if len(found) != 4 {
		t.Fatalf("%d objects have pods", len(found))
	}
	return found
}

// A schema of accounts that do not exist would leave the requests of Rouse behind those of all others.
func TestFlowSchemasNameTheAccountsOfRouse(t *testing.T) {
	found := install("").objects(t)
	for _, name := range []string{"rouse-leases", "rouse-writes"} {
		subjects, _ := field(found["FlowSchema "+name], "spec", "rules", "0", "subjects").([]any)
		if len(subjects) == 0 {
			t.Errorf("%s has no subjects", name)
		}
		for _, subject := range subjects {
			account := field(subject, "serviceAccount", "name")
			if found["ServiceAccount "+account.(string)] == nil || field(subject, "serviceAccount", "namespace") != "rouse-system" {
				t.Errorf("%s has %v", name, subject)
			}
		}
	}
}
