package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"time"

	"rouse.dev/cluster/host/state"
	"rouse.dev/cluster/node/pki"
)

// pollPeriod is short beside the seconds that a start takes, and long beside what a request costs.
const pollPeriod = 25 * time.Millisecond

// api asks the API server the few questions that a start has.
type api struct {
	client http.Client
	server string
}

// newAPI returns an api for the administrator, at an address (host and port).
func newAPI(dir state.Dir, address string) (*api, error) {
	pair, err := pki.ReadPair(dir.PKI(), "admin")
	if err != nil {
		return nil, err
	}
	certificate, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		return nil, fmt.Errorf("use the administrator's certificate: %w", err)
	}
	authority, err := os.ReadFile(dir.PKI("ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("read the authority: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	return &api{
		client: http.Client{
			Timeout:   2 * time.Second,
			Transport: &http.Transport{TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, RootCAs: roots}},
		},
		server: "https://" + address,
	}, nil
}

// await asks until the answer is yes or the context is over.
func await(ctx context.Context, question func(context.Context) bool) error {
	ticker := time.NewTicker(pollPeriod)
	defer ticker.Stop()
	for !question(ctx) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
	return nil
}

// serving tells whether the API server is ready, bootstrapped roles included.
func (a *api) serving(ctx context.Context) bool { return a.get(ctx, "/readyz", nil) }

// nodeReady tells whether the node takes pods.
func (a *api) nodeReady(ctx context.Context) bool {
	var node struct {
		Status struct {
			Conditions []struct{ Type, Status string }
		}
	}
	if !a.get(ctx, "/api/v1/nodes/"+Name, &node) {
		return false
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == "Ready" {
			return condition.Status == "True"
		}
	}
	return false
}

// takesPods tells whether a pod may be created in the default namespace: a bare pod is refused until the namespace has
// its service account.
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

// Condition tells in a word how the node of a running cluster is, for people.
func Condition(dir state.Dir, address string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	client, err := newAPI(dir, address)
	switch {
	case err != nil || !client.serving(ctx):
		return "API server does not answer"
	case client.nodeReady(ctx):
		return "Ready"
	case client.get(ctx, "/api/v1/nodes/"+Name, nil):
		return "not Ready"
	}
	return "none"
}
