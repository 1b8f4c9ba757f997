package workload

import (
	"context"
	_ "embed"
	"strconv"
	"strings"
	"testing"
	"time"
)

//go:embed workload.yaml
var manifests string

// Workload is a managed Deployment with the Service to which a front door sends.
type Workload struct {
	name    string
	cluster *Cluster
	// Address of the Service.
	Address string
}

// Create applies a workload at zero, and waits until its Service leads to activators. The app listens
// after delay, and has at most this many pods.
func (c *Cluster) Create(t *testing.T, name string, delay time.Duration, pods int) *Workload {
	t.Helper()
	values := strings.NewReplacer("NAME", name, "VERSION", c.version, "DELAY", strconv.FormatInt(delay.Milliseconds(), 10),
		"PODS", strconv.Itoa(pods))
	c.Kubectl(t, values.Replace(manifests), "apply", "--filename", "-")
	w := &Workload{name: name, cluster: c, Address: c.address(t, name)}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := w.UntilProxied(ctx); err != nil {
		t.Fatal(err)
	}
	return w
}

// UntilProxied waits until the Service leads through activators.
func (w *Workload) UntilProxied(ctx context.Context) error {
	return w.cluster.states.until(ctx, object{mode, w.name}, "Proxy")
}

// UntilServed waits until the Service leads straight to the pod.
func (w *Workload) UntilServed(ctx context.Context) error {
	return w.cluster.states.until(ctx, object{mode, w.name}, "Serve")
}

// UntilZero waits until the workload has no replica.
func (w *Workload) UntilZero(ctx context.Context) error {
	return w.cluster.states.until(ctx, object{replicas, w.name}, "0")
}

// UntilReady waits until the workload has this many pods that are ready.
func (w *Workload) UntilReady(ctx context.Context, pods int) error {
	return w.cluster.states.until(ctx, object{readyReplicas, w.name}, strconv.Itoa(pods))
}
