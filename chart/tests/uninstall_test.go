package chart

import (
	"reflect"
	"strings"
	"testing"
)

// What Helm creates before it deletes a release is what `kubectl apply -k deploy/components/uninstall` creates.
func TestHooksEqualTheKustomizationOfTheUninstall(t *testing.T) {
	image := `{name: rouse/zero-scaler, newName: "localhost:5000/rouse/zero-scaler", newTag: v9}`
	want := kustomizeFolder(t, deploy+"/components/uninstall", nil, "images:", "- "+image)
	got := install(`image: {registry: "localhost:5000", tag: v9}`).hooks(t)
	for _, object := range got {
		delete(object["metadata"].(map[string]any), "annotations")
	}
	assertEqual(t, got, want)
}

// The rights exist before the Job needs them, and all is deleted after it. Helm prints what it logged.
func TestHooksAreOrderedAndDeleted(t *testing.T) {
	hooks := install("").hooks(t)
	if len(hooks) == 0 {
		t.Fatal("no hooks")
	}
	for id, object := range hooks {
		weight := "-1"
		if id == "Job uninstall" {
			weight = "0"
		}
		want := map[string]any{
			"helm.sh/hook":                   "pre-delete",
			"helm.sh/hook-weight":            weight,
			"helm.sh/hook-delete-policy":     "before-hook-creation,hook-succeeded",
			"helm.sh/hook-output-log-policy": "hook-succeeded,hook-failed",
		}
		if got := field(object, "metadata", "annotations"); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v", id, got)
		}
	}
}

// `helm template | kubectl apply` would run it at once.
func TestHelmTemplateHasNoHooks(t *testing.T) {
	if hooks := install("").on(withoutCluster("v1.37.0")).hooks(t); len(hooks) > 0 {
		t.Errorf("%d hooks", len(hooks))
	}
}

func TestJobPullsItsImageAsTheZeroScalerDoes(t *testing.T) {
	release := install("{image: {pullSecrets: [one]}, zeroScaler: {image: {repository: mirror/zs, digest: " + digest + "}}}")
	pod := field(release.hooks(t)["Job uninstall"], "spec", "template", "spec")
	if got := field(pod, "containers", "0", "image"); got != "mirror/zs@"+digest {
		t.Errorf("image %v", got)
	}
	if got := field(pod, "imagePullSecrets", "0", "name"); got != "one" {
		t.Errorf("secret %v", got)
	}
}

// A Job without a node that takes it would stop `helm uninstall`.
func TestJobIsPlacedAsTheZeroScalerIs(t *testing.T) {
	release := install("{tolerations: [{key: a}], zeroScaler: {tolerations: [{key: b}], nodeSelector: {pool: system}, podLabels: {team: a}}}")
	template := field(release.hooks(t)["Job uninstall"], "spec", "template")
	for path, want := range map[string]any{
		"spec.tolerations":  []any{map[string]any{"key": "a"}, map[string]any{"key": "b"}},
		"spec.nodeSelector": map[string]any{"kubernetes.io/os": "linux", "pool": "system"},
		"metadata.labels":   map[string]any{"app.kubernetes.io/name": "uninstall", "team": "a"},
	} {
		if got := field(template, strings.Split(path, ".")...); !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %v", path, got)
		}
	}
}
