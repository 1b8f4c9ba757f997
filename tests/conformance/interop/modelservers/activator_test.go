package modelservers

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
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
	admin     int
	file      string
	workloads []*workload
}

func startActivator(t *testing.T, workloads []*workload) *activator {
	t.Helper()
	a := &activator{admin: check.FreePort(t), file: filepath.Join(t.TempDir(), "workloads.json"), workloads: workloads}
	a.write(t)
	check.StartProcess(t, program(t, "ACTIVATOR"), "--log-filter", "error", "--workloads", a.file,
		"--admin-port", fmt.Sprint(a.admin), "--slots-port", fmt.Sprint(check.FreePort(t)))
	for _, workload := range workloads {
		check.WaitForPort(t, workload.listen)
	}
	return a
}

// write replaces the workloads file. A pod is there from the start of its process; the activator
// probes it until it has loaded.
func (a *activator) write(t *testing.T) {
	t.Helper()
	var workloads []object
	for _, workload := range a.workloads {
		pods := []object{}
		if workload.server != nil {
			pods = append(pods, object{"ip": "127.0.0.1"})
		}
		workloads = append(workloads, object{
			"name":    "models/" + workload.name,
			"ports":   []object{{"listen": workload.listen, "pod": workload.pod}},
			"sidecar": false, "sseKeepAlive": workload.keepAlive, "pods": pods,
			"wakeTimeoutSeconds": int(workload.wakeTimeout.Seconds()),
		})
	}
	text, err := json.Marshal(object{"workloads": workloads})
	if err == nil {
		err = os.WriteFile(a.file+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(a.file+".new", a.file)
	}
	if err != nil {
		t.Fatal(err)
	}
}

var heldRequests = regexp.MustCompile(`(?m)^rouse_activator_held_requests\{.*\} (\d+)`)

// checkHeld compares the number of held requests.
func (a *activator) checkHeld(want int) error {
	response, err := http.Get("http://" + check.Loopback(a.admin) + "/metrics")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	held := 0
	for _, match := range heldRequests.FindAllSubmatch(text, -1) {
		number, invalid := strconv.Atoi(string(match[1]))
		held, err = held+number, errors.Join(err, invalid)
	}
	return errors.Join(err, check.Equal("number of held requests", held, want))
}
