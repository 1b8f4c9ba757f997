package frontdoors

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"istio.io/istio/pilot/pkg/model"
	"istio.io/istio/pilot/pkg/serviceregistry/ambient"
	"istio.io/istio/pilot/pkg/serviceregistry/kube/controller"
	"istio.io/istio/pilot/pkg/serviceregistry/util/xdsfake"
	"istio.io/istio/pkg/activenotifier"
	"istio.io/istio/pkg/config/mesh/meshwatcher"
	"istio.io/istio/pkg/config/schema/gvr"
	"istio.io/istio/pkg/kube"
	"istio.io/istio/pkg/kube/kclient/clienttest"
	"istio.io/istio/pkg/kube/krt"
	"istio.io/istio/pkg/kube/multicluster"
	"istio.io/istio/pkg/test"
	"istio.io/istio/pkg/test/util/retry"
	"istio.io/istio/pkg/workloadapi"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	istioCluster = "fake"
	istioSuffix  = "company.com"
	istioSystem  = "istio-system"
)

// istioSidecars reads as istiod does for the sidecars of clients. Activators without a sidecar must
// not get mTLS.
func istioSidecars(t *testing.T, c cluster) endpoints {
	registry, _ := controller.NewFakeControllerWithOptions(t, controller.FakeControllerOptions{
		Client: kube.NewFakeClient(c.objects()...),
	})
	shards, found := registry.Endpoints.ShardsForService(service+"."+namespace+".svc."+istioSuffix, namespace)
	read := endpoints{}
	if !found {
		return read
	}
	for _, shard := range shards.Shards {
		for _, endpoint := range shard {
			if endpoint.HealthStatus != model.Healthy {
				continue
			}
			if endpoint.TLSMode != model.DisabledTLSModeLabel {
				t.Errorf("mTLS to %v", endpoint.Addresses)
			}
			read.add(endpoint.ServicePortName, fmt.Sprintf("%s:%d", endpoint.Addresses[0], endpoint.EndpointPort))
		}
	}
	return read
}

// istioAmbient reads as istiod does for ztunnels, with the workload in the mesh and the activators
// out of it.
func istioAmbient(t *testing.T, c cluster) endpoints {
	client := kube.NewFakeClient(c.objects()...)
	t.Cleanup(client.Shutdown)
	for _, crd := range []schema.GroupVersionResource{
		gvr.AuthorizationPolicy, gvr.PeerAuthentication, gvr.KubernetesGateway, gvr.GatewayClass, gvr.WorkloadEntry, gvr.ServiceEntry,
	} {
		clienttest.MakeCRD(t, client, crd)
	}
	mesh, stop := meshwatcher.NewTestWatcher(nil), test.NewStop(t)
	clusters := multicluster.NewController(multicluster.ControllerOptions{
		Client: client, ClusterID: istioCluster, SystemNamespace: istioSystem, MeshConfig: mesh, Debugger: krt.GlobalDebugHandler,
	})
	if err := clusters.Run(stop); err != nil {
		t.Fatal(err)
	}
	index := ambient.New(ambient.Options{
		SystemNamespace: istioSystem, DomainSuffix: istioSuffix, ClusterID: istioCluster, XDSUpdater: xdsfake.NewFakeXDS(),
		StatusNotifier: activenotifier.New(true), MeshConfig: mesh, Debugger: krt.GlobalDebugHandler, MultiClusterController: clusters,
	})
	go index.Run(stop)
	client.RunAndWait(stop)
	retry.UntilOrFail(t, index.HasSynced, retry.Timeout(time.Minute))
	names := map[uint32]string{}
	for _, port := range c.Service.Spec.Ports {
		names[uint32(port.Port)] = port.Name
	}
	read := endpoints{}
	for _, info := range index.All() {
		workload := info.GetWorkload()
		if workload.GetStatus() != workloadapi.WorkloadStatus_HEALTHY {
			continue
		}
		for _, port := range workload.GetServices()[namespace+"/"+service+"."+namespace+".svc."+istioSuffix].GetPorts() {
			for _, bytes := range workload.GetAddresses() {
				address, _ := netip.AddrFromSlice(bytes)
				read.add(names[port.ServicePort], fmt.Sprintf("%s:%d", address, port.TargetPort))
			}
		}
	}
	return read
}

func (c cluster) objects() []runtime.Object {
	objects := []runtime.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{"istio.io/dataplane-mode": "ambient"}}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: systemNamespace}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: istioSystem}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}},
		c.Service.DeepCopy(),
	}
	for _, pod := range c.pods() {
		objects = append(objects, pod)
	}
	for _, slice := range c.Slices {
		objects = append(objects, slice.DeepCopy())
	}
	return objects
}
