package frontdoors

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"istio.io/istio/pilot/pkg/model"
	"istio.io/istio/pilot/pkg/networking/core"
	"istio.io/istio/pilot/test/xdstest"
)

const meshTemplate = "../../../chart/templates/mesh.yaml"

var directives = regexp.MustCompile(`(?m)^\{\{.*\}\}$`)

// The proxy of an activator sends to the address that the activator selected, with mTLS. Those of
// other namespaces are as before.
func TestIstioSendsFromActivatorsWithMTLS(t *testing.T) {
	text, err := os.ReadFile(filepath.FromSlash(meshTemplate))
	if err != nil {
		t.Fatal(err)
	}
	istiod := core.NewConfigGenTest(t, core.TestOptions{ConfigString: directives.ReplaceAllString(string(text), "")})
	activator := istiod.SetupProxy(&model.Proxy{ConfigNamespace: systemNamespace})
	other := istiod.SetupProxy(&model.Proxy{ConfigNamespace: namespace})
	for _, port := range []int{8012, 8022} {
		name := fmt.Sprintf("outbound|%d||sidecars.rouse-system.internal", port)
		sidecars := xdstest.ExtractCluster(name, istiod.Clusters(activator))
		if sidecars.GetType() != clusterv3.Cluster_ORIGINAL_DST {
			t.Errorf("%s: endpoints are found by %s", name, sidecars.GetType())
		}
		if transport := sidecars.GetTransportSocket().GetName(); transport != "envoy.transport_sockets.tls" {
			t.Errorf("%s: the transport is %q", name, transport)
		}
		listener := xdstest.ExtractListener(fmt.Sprintf("0.0.0.0_%d", port), istiod.Listeners(activator))
		leadsThere := func(chain *listenerv3.FilterChain) bool {
			return xdstest.ExtractTCPProxy(t, chain).GetCluster() == name
		}
		if !slices.ContainsFunc(listener.GetFilterChains(), leadsThere) {
			t.Errorf("no listener leads to %s", name)
		}
		if xdstest.ExtractCluster(name, istiod.Clusters(other)) != nil {
			t.Errorf("%s: other namespaces have it", name)
		}
	}
}
