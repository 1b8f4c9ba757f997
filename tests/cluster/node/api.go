package node

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"rouse.dev/cluster/host/state"
	"rouse.dev/cluster/pki"
)

// pollPeriod is short compared with a start of some seconds, and long compared with a request.
const pollPeriod = 25 * time.Millisecond

// api is a client for the few API requests of a start.
type api struct {
	client http.Client
	server string
}

// newAPI returns an api for the administrator, at an address (host and port).
func newAPI(dir state.Dir, address string) (*api, error) {
	identity, err := pki.ClientConfig(dir.PKI(), "admin")
	if err != nil {
		return nil, err
	}
	return &api{
		client: http.Client{
			Timeout:   2 * time.Second,
			Transport: &http.Transport{TLSClientConfig: identity},
		},
		server: "https://" + address,
	}, nil
}

// await polls a condition until it is true or the context is done.
func await(ctx context.Context, condition func(context.Context) bool) error {
	ticker := time.NewTicker(pollPeriod)
	defer ticker.Stop()
	for !condition(ctx) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
	return nil
}

// serving reports whether the API server is ready, including its bootstrapped roles.
func (a *api) serving(ctx context.Context) bool { return a.get(ctx, "/readyz", nil) }

// nodesReady reports whether all of these nodes are Ready.
func (a *api) nodesReady(names []string) func(context.Context) bool {
	return func(ctx context.Context) bool {
		return !slices.ContainsFunc(names, func(name string) bool { return !a.nodeReady(ctx, name) })
	}
}

// nodeReady reports whether the node is Ready.
func (a *api) nodeReady(ctx context.Context, name string) bool {
	var node struct {
		Status struct {
			Conditions []struct{ Type, Status string }
		}
	}
	if !a.get(ctx, "/api/v1/nodes/"+name, &node) {
		return false
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == "Ready" {
			return condition.Status == "True"
		}
	}
	return false
}

// takesPods reports whether a pod can be created in the default namespace: a bare pod is rejected
// until the namespace has its service account.
func (a *api) takesPods(ctx context.Context) bool {
	return a.get(ctx, "/api/v1/namespaces/default/serviceaccounts/default", nil)
}

func (a *api) get(ctx context.Context, path string, into any) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.server+path, nil)
	if err != nil {
		return false
	}
	response, err := a.client.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return false
	}
	return into == nil || json.NewDecoder(response.Body).Decode(into) == nil
}

// Condition describes the nodes of a running cluster, for display.
func Condition(dir state.Dir, address string) string {
	config, err := Read(dir)
	if err != nil {
		return err.Error()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	client, err := newAPI(dir, address)
	switch {
	case err != nil || !client.serving(ctx):
		return "API server does not respond"
	case config.ControlPlaneOnly:
		return "none"
	}
	var unready []string
	for _, name := range config.NodeNames() {
		if !client.nodeReady(ctx, name) {
			unready = append(unready, name)
		}
	}
	if unready != nil {
		return strings.Join(unready, ", ") + " not Ready"
	}
	return "Ready"
}
