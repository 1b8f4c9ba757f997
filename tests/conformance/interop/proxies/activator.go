package proxies

import (
	"context"
	"errors"
	"testing"

	"rouse.dev/interop/check"
)

// Whether a workload has its pod when the activator starts.
const (
	awake  = true
	atZero = false
)

// activator is a running activator of one workload.
type activator struct {
	*check.Activator
	pod      pod
	protocol check.Protocol
	listen   int
}

func startActivator(t testing.TB, pod pod, protocol check.Protocol, ready bool) *activator {
	t.Helper()
	a := &activator{pod: pod, protocol: protocol, listen: check.FreePort(t)}
	a.Activator = check.StartActivator(t, binary(t, "ACTIVATOR"), "warn", a.entries(ready))
	waitForStatus(t, a.Admin, "/ready")
	check.WaitForPort(t, a.listen)
	return a
}

func (a *activator) address() string { return check.Loopback(a.listen) }

// entries are those of the workloads file.
func (a *activator) entries(hasPod bool) []map[string]any {
	pods := []map[string]any{}
	if hasPod {
		pods = append(pods, map[string]any{"ip": a.pod.host, "ready": true})
	}
	return []map[string]any{{
		"name":    "interop/app",
		"ports":   []any{map[string]any{"listen": a.listen, "pod": a.pod.port, "protocol": a.protocol}},
		"sidecar": a.pod.sidecar,
		"pods":    pods,
	}}
}

// wakeForRequest adds the pod when the activator holds a request.
func (a *activator) wakeForRequest(ctx context.Context) {
	holds := func() error {
		held, err := a.Held()
		if err == nil && held == 0 {
			err = errors.New("no request is held")
		}
		return err
	}
	if check.Eventually(ctx, holds) == nil {
		// If it fails, the request times out.
		_ = a.Write(a.entries(awake))
	}
}
