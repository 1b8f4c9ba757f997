package frontdoors

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"

	"github.com/cilium/cilium/pkg/k8s"
	slim "github.com/cilium/cilium/pkg/k8s/slim/k8s/api/discovery/v1"
)

// cilium reads as its agents do, which replace kube-proxy.
func cilium(t *testing.T, c cluster) endpoints {
	found := endpoints{}
	for _, slice := range c.Slices {
		data, err := json.Marshal(slice)
		if err != nil {
			t.Fatal(err)
		}
		var trimmed slim.EndpointSlice
		if err := json.Unmarshal(data, &trimmed); err != nil {
			t.Fatal(err)
		}
		for address, backend := range k8s.ParseEndpointSliceV1(slog.New(slog.DiscardHandler), &trimmed).Backends {
			for port, names := range backend.Ports {
				for _, name := range names {
					if backend.Conditions.IsReady() {
						found.add(name, fmt.Sprintf("%s:%d", address.Addr(), port.Port))
					}
				}
			}
		}
	}
	return found
}
