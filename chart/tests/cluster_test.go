package chart

import (
	"fmt"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
)

const (
	externalMetrics = "v1beta1.external.metrics.k8s.io"
	customMetrics   = "v1beta2.custom.metrics.k8s.io"
	// The older version, which prometheus-adapter serves.
	customMetricsOld = "v1beta1.custom.metrics.k8s.io"
	ours             = "rouse-system/metrics-adapter"
	keda             = "keda/keda-operator-metrics-apiserver"
)

// cluster is what the chart reads of a cluster.
type cluster struct {
	objects []runtime.Object
	kinds   []string
	version string
}

// withoutCluster is what Helm has for `helm template`: groups without kinds, and no objects.
func withoutCluster(version string) cluster {
	return cluster{version: version}
}

// newest is a cluster with every API that the chart uses.
func newest(objects ...runtime.Object) cluster {
	kinds := []string{"v1/Pod", "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"}
	return cluster{objects: objects, kinds: kinds, version: "v1.37.0"}
}

// older is a cluster without MutatingAdmissionPolicy v1.
func older() cluster {
	return cluster{kinds: []string{"v1/Pod"}, version: "v1.35.2"}
}

func (c cluster) capabilities(t *testing.T) *common.Capabilities {
	t.Helper()
	version, err := common.ParseKubeVersion(c.version)
	if err != nil {
		t.Fatal(err)
	}
	versions := append(common.VersionSet{"v1", "apps/v1", "admissionregistration.k8s.io/v1"}, c.kinds...)
	return &common.Capabilities{KubeVersion: *version, APIVersions: versions}
}

// GetClientFor answers `lookup` from memory.
func (c cluster) GetClientFor(apiVersion, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	if kind != "APIService" {
		return nil, false, fmt.Errorf("unexpected lookup of %s %s", apiVersion, kind)
	}
	client := fake.NewSimpleDynamicClient(runtime.NewScheme(), c.objects...)
	gvk := schema.FromAPIVersionAndKind(apiVersion, kind)
	return client.Resource(gvk.GroupVersion().WithResource("apiservices")), false, nil
}

// apiService leads to the Service namespace/name; without one the API server serves the API itself.
func apiService(name, backend string, annotations ...string) *unstructured.Unstructured {
	spec := map[string]any{}
	if namespace, service, found := strings.Cut(backend, "/"); found {
		spec["service"] = map[string]any{"namespace": namespace, "name": service}
	}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1",
		"kind":       "APIService",
		"metadata":   map[string]any{"name": name},
		"spec":       spec,
	}}
	pairs := map[string]string{}
	for index := 0; index < len(annotations); index += 2 {
		pairs[annotations[index]] = annotations[index+1]
	}
	object.SetAnnotations(pairs)
	return object
}
