package chart

import (
	"maps"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"
)

const (
	chartFolder = ".."
	deploy      = "../../deploy"
	// registry is the one of each installation that sets no other. The chart requires one, and deploy/ has none.
	registry = "registry.example.com"
)

// release is what one `helm install` renders.
type release struct {
	values    string
	cluster   cluster
	namespace string
}

// install is a release into a namespace of its own, as `helm template` does without arguments.
func install(values string) release {
	return release{values: values, cluster: newest(), namespace: "default"}
}

func (r release) on(c cluster) release {
	r.cluster = c
	return r
}

// render returns the objects and the notes.
func (r release) render(t *testing.T) (objects, string) {
	t.Helper()
	files, err := r.files(t)
	if err != nil {
		t.Fatal(err)
	}
	var manifests []string
	for name, text := range files {
		if strings.HasSuffix(name, ".yaml") {
			manifests = append(manifests, text)
		}
	}
	return parse(t, withoutRegistry(strings.Join(manifests, "\n---\n"))), files["rouse/templates/NOTES.txt"]
}

func withoutRegistry(manifests string) string {
	return strings.ReplaceAll(manifests, registry+"/", "")
}

// objects are those of an installation, without what exists for `helm uninstall` alone.
func (r release) objects(t *testing.T) objects {
	t.Helper()
	found, _ := r.render(t)
	maps.DeleteFunc(found, func(_ string, object map[string]any) bool { return isHook(object) })
	return found
}

// hooks are the objects that exist for `helm uninstall` alone.
func (r release) hooks(t *testing.T) objects {
	t.Helper()
	found, _ := r.render(t)
	maps.DeleteFunc(found, func(_ string, object map[string]any) bool { return !isHook(object) })
	return found
}

func isHook(object map[string]any) bool {
	return field(object, "metadata", "annotations", "helm.sh/hook") != nil
}

// refusal is the error of a release that must fail.
func (r release) refusal(t *testing.T) string {
	t.Helper()
	if _, err := r.files(t); err != nil {
		return err.Error()
	}
	t.Fatalf("accepted: %s", r.values)
	return ""
}

func (r release) files(t *testing.T) (map[string]string, error) {
	t.Helper()
	chart, err := loader.Load(chartFolder)
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal([]byte(r.values), &values); err != nil {
		t.Fatal(err)
	}
	values = util.CoalesceTables(values, map[string]any{"image": map[string]any{"registry": registry}})
	options := common.ReleaseOptions{Name: "rouse", Namespace: r.namespace, IsInstall: true}
	top, err := util.ToRenderValues(chart, values, options, r.cluster.capabilities(t))
	if err != nil {
		return nil, err
	}
	return engine.RenderWithClientProvider(chart, top, r.cluster)
}
