package frontdoors

import (
	"strings"
	"testing"
	"time"

	"github.com/traefik/traefik/v3/pkg/config/dynamic"
	"github.com/traefik/traefik/v3/pkg/provider/kubernetes/ingress"
	"github.com/traefik/traefik/v3/pkg/safe"
	corev1 "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	networking "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// traefikIngress reads with Traefik's provider for Ingresses, which watches an API of these objects.
func traefikIngress(t *testing.T, c cluster) endpoints {
	api := staticAPI(t, map[string]any{
		"/apis/networking.k8s.io/v1/ingresses":      networking.IngressList{Items: []networking.Ingress{ingressTo(c)}},
		"/apis/networking.k8s.io/v1/ingressclasses": networking.IngressClassList{},
		"/api/v1/services":                          corev1.ServiceList{Items: []corev1.Service{c.Service}},
		"/api/v1/secrets":                           corev1.SecretList{},
		"/api/v1/nodes":                             corev1.NodeList{},
		"/apis/discovery.k8s.io/v1/endpointslices":  discovery.EndpointSliceList{Items: c.Slices},
	})
	configurations, pool := make(chan dynamic.Message, 1), safe.NewPool(t.Context())
	provider := ingress.Provider{Endpoint: api, Token: "none"}
	if err := provider.Provide(configurations, pool); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Stop)
	select {
	case message := <-configurations:
		return ofTraefik(c, message.Configuration)
	case <-time.After(time.Minute):
		t.Fatal("no configuration")
		return nil
	}
}

// ofTraefik has the servers of each port. Traefik's names of services end with the port's name.
func ofTraefik(c cluster, configuration *dynamic.Configuration) endpoints {
	read := endpoints{}
	for name, service := range configuration.HTTP.Services {
		for _, port := range c.Service.Spec.Ports {
			if !strings.HasSuffix(name, "-"+port.Name) {
				continue
			}
			for _, server := range service.LoadBalancer.Servers {
				_, address, _ := strings.Cut(server.URL, "://")
				read.add(port.Name, address)
			}
		}
	}
	return read
}

func ingressTo(c cluster) networking.Ingress {
	prefix := networking.PathTypePrefix
	var paths []networking.HTTPIngressPath
	for _, port := range c.Service.Spec.Ports {
		backend := networking.IngressServiceBackend{Name: service, Port: networking.ServiceBackendPort{Name: port.Name}}
		paths = append(paths, networking.HTTPIngressPath{Path: "/" + port.Name, PathType: &prefix, Backend: networking.IngressBackend{Service: &backend}})
	}
	return networking.Ingress{
		ObjectMeta: metav1.ObjectMeta{Name: service, Namespace: namespace},
		Spec: networking.IngressSpec{Rules: []networking.IngressRule{{
			IngressRuleValue: networking.IngressRuleValue{HTTP: &networking.HTTPIngressRuleValue{Paths: paths}},
		}}},
	}
}
