package proxies

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
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
	pod           pod
	protocol      check.Protocol
	listen, admin int
	file          string
}

func startActivator(t testing.TB, pod pod, protocol check.Protocol, ready bool) *activator {
	t.Helper()
	a := &activator{
		pod: pod, protocol: protocol, listen: check.FreePort(t), admin: check.FreePort(t),
		file: filepath.Join(t.TempDir(), "workloads.json"),
	}
	if err := a.write(ready); err != nil {
		t.Fatal(err)
	}
	check.StartProcess(t, binary(t, "ACTIVATOR"), "--log-filter", "warn", "--workloads", a.file,
		"--admin-port", fmt.Sprint(a.admin), "--slots-port", fmt.Sprint(check.FreePort(t)))
	waitForStatus(t, a.admin, "/ready")
	check.WaitForPort(t, a.listen)
	return a
}

func (a *activator) address() string { return check.Loopback(a.listen) }

// write replaces the workloads file.
func (a *activator) write(hasPod bool) error {
	pods := []map[string]any{}
	if hasPod {
		pods = append(pods, map[string]any{"ip": a.pod.host, "ready": true})
	}
	text, err := json.Marshal(map[string]any{"workloads": []any{map[string]any{
		"name":    "interop/app",
		"ports":   []any{map[string]any{"listen": a.listen, "pod": a.pod.port, "protocol": a.protocol}},
		"sidecar": a.pod.sidecar,
		"pods":    pods,
	}}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(a.file+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(a.file+".new", a.file)
}

var heldRequests = regexp.MustCompile(`(?m)^rouse_activator_held_requests\{.*\} [1-9]`)

// wakeForRequest adds the pod when the activator holds a request.
func (a *activator) wakeForRequest(ctx context.Context) {
	holds := func() error {
		response, err := http.Get("http://" + check.Loopback(a.admin) + "/metrics")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err == nil && !heldRequests.Match(text) {
			err = errors.New("no request is held")
		}
		return err
	}
	if check.Eventually(ctx, holds) == nil {
		// If it fails, the request times out.
		_ = a.write(awake)
	}
}
