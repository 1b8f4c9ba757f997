package modelservers

import (
	"testing"
	"time"

	"rouse.dev/interop/check"
)

// workload is a model server at zero or with its one pod, and the ports of both.
type workload struct {
	name        string
	listen, pod int
	http2       bool
	// keepAlive is the setting.
	keepAlive   bool
	wakeTimeout time.Duration
	server      *check.Process
}

// activator is a running activator of all workloads.
type activator struct {
	*check.Activator
	workloads []*workload
}

func startActivator(t *testing.T, workloads []*workload) *activator {
	t.Helper()
	running := check.StartActivator(t, program(t, "ACTIVATOR"), "error", entries(workloads))
	for _, workload := range workloads {
		check.WaitForPort(t, workload.listen)
	}
	return &activator{running, workloads}
}

// write replaces the workloads file.
func (a *activator) write(t *testing.T) {
	t.Helper()
	if err := a.Write(entries(a.workloads)); err != nil {
		t.Fatal(err)
	}
}

// entries are those of the workloads file. A pod is there from the start of its process; the
// activator probes it until it has loaded.
func entries(workloads []*workload) []object {
	var entries []object
	for _, workload := range workloads {
		pods := []object{}
		if workload.server != nil {
			pods = append(pods, object{"ip": "127.0.0.1"})
		}
		entries = append(entries, object{
			"name":    "models/" + workload.name,
			"ports":   []object{{"listen": workload.listen, "pod": workload.pod}},
			"sidecar": false, "sseKeepAlive": workload.keepAlive, "pods": pods,
			"wakeTimeoutSeconds": int(workload.wakeTimeout.Seconds()),
		})
	}
	return entries
}

// checkHeld compares the number of held requests.
func (a *activator) checkHeld(want int) error {
	held, err := a.Held()
	if err != nil {
		return err
	}
	return check.Equal("number of held requests", held, want)
}
