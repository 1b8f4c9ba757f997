package frontdoors

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	namespace        = "shop"
	service          = "web"
	systemNamespace  = "rouse-system"
	sidecarPort      = 8012
	recordingOfRouse = "testdata/slices.json"
)

// cluster is a Service with its slices, as recorded from the zero-scaler.
type cluster struct {
	State   string                    `json:"state"`
	Service corev1.Service            `json:"service"`
	Slices  []discovery.EndpointSlice `json:"slices"`
	// Expected has the endpoints of each port of the Service, sorted.
	Expected map[string][]string `json:"expected"`
}

func recorded(t *testing.T) []cluster {
	t.Helper()
	data, err := os.ReadFile(recordingOfRouse)
	if err != nil {
		t.Fatal(err)
	}
	var clusters []cluster
	if err := json.Unmarshal(data, &clusters); err != nil {
		t.Fatal(err)
	}
	for i := range clusters {
		clusters[i].Service.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}
		clusters[i].Service.Spec.Type = corev1.ServiceTypeClusterIP
		clusters[i].Service.Spec.ClusterIPs = []string{clusters[i].Service.Spec.ClusterIP}
	}
	return clusters
}

// pods are the activators, and the pods of the workload that the slices name.
func (c cluster) pods() []*corev1.Pod {
	pods := []*corev1.Pod{
		pod(systemNamespace, "activator-0", "10.2.0.1", map[string]int32{"admin": 9090, "slots": 8081}),
		pod(systemNamespace, "activator-1", "10.2.0.2", map[string]int32{"admin": 9090, "slots": 8081}),
	}
	for i := range 2 {
		name, address := fmt.Sprintf("web-%d", i), fmt.Sprintf("10.1.0.%d", i+1)
		if c.has(address) {
			pods = append(pods, pod(namespace, name, address, map[string]int32{"queue-proxy": sidecarPort}))
		}
	}
	return pods
}

func (c cluster) has(address string) bool {
	return slices.ContainsFunc(c.Slices, func(slice discovery.EndpointSlice) bool {
		return slices.ContainsFunc(slice.Endpoints, func(endpoint discovery.Endpoint) bool {
			return slices.Contains(endpoint.Addresses, address)
		})
	})
}

// pod is ready. Its UID is its name, as in the recording.
func pod(namespace, name, address string, ports map[string]int32) *corev1.Pod {
	labels := map[string]string{"app": name}
	if namespace != systemNamespace {
		labels["app"] = service
	}
	container := corev1.Container{Name: "main"}
	for port, number := range ports {
		container.Ports = append(container.Ports, corev1.ContainerPort{Name: port, ContainerPort: number, Protocol: corev1.ProtocolTCP})
	}
	spec := corev1.PodSpec{NodeName: "node-1", ServiceAccountName: "default", Containers: []corev1.Container{container}}
	if namespace != systemNamespace {
		// As the sidecar is added.
		always := corev1.ContainerRestartPolicyAlways
		container.RestartPolicy = &always
		spec.InitContainers, spec.Containers = []corev1.Container{container}, []corev1.Container{{Name: "app"}}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, UID: types.UID(name), Labels: labels},
		Spec:       spec,
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			PodIP:      address,
			PodIPs:     []corev1.PodIP{{IP: address}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
}
