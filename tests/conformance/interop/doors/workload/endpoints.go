package workload

import (
	"encoding/json"
	"io"
	"testing"
)

// Endpoint is an endpoint of a Service that is ready.
type Endpoint struct {
	Address string
	Port    int
	// IsPod is whether it names its pod: those of activators do not.
	IsPod bool
}

// event is a change of an EndpointSlice.
type event struct {
	Type   string
	Object struct {
		Metadata  struct{ Name string }
		Endpoints []struct {
			Addresses  []string
			Conditions struct{ Ready *bool }
			TargetRef  *struct{ Kind string }
		}
		Ports []struct{ Port int }
	}
}

func (e *event) ready() []Endpoint {
	var all []Endpoint
	for _, endpoint := range e.Object.Endpoints {
		if endpoint.Conditions.Ready != nil && !*endpoint.Conditions.Ready || len(e.Object.Ports) == 0 {
			continue
		}
		isPod := endpoint.TargetRef != nil && endpoint.TargetRef.Kind == "Pod"
		all = append(all, Endpoint{endpoint.Addresses[0], e.Object.Ports[0].Port, isPod})
	}
	return all
}

// FollowEndpoints calls changed with the endpoints of all slices of a Service at each change, until
// the test ends.
func (c *Cluster) FollowEndpoints(t *testing.T, service string, changed func([]Endpoint)) {
	read := func(output io.Reader) {
		bySlice := map[string][]Endpoint{}
		for events := json.NewDecoder(output); ; {
			var next event
			if events.Decode(&next) != nil {
				return
			}
			bySlice[next.Object.Metadata.Name] = next.ready()
			if next.Type == "DELETED" {
				delete(bySlice, next.Object.Metadata.Name)
			}
			var all []Endpoint
			for _, endpoints := range bySlice {
				all = append(all, endpoints...)
			}
			changed(all)
		}
	}
	c.watch(t, read, "endpointslices", "--selector", "kubernetes.io/service-name="+service, "--output", "json",
		"--output-watch-events")
}
