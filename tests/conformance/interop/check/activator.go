package check

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// Activator is a running activator that reads its workloads from a file.
type Activator struct {
	// Admin is its port for probes and metrics.
	Admin int
	file  string
}

// StartActivator starts the program with these workloads, in the form of docs/standalone.md.
func StartActivator(t testing.TB, program, logFilter string, workloads []map[string]any) *Activator {
	t.Helper()
	a := &Activator{Admin: FreePort(t), file: filepath.Join(t.TempDir(), "workloads.json")}
	if err := a.Write(workloads); err != nil {
		t.Fatal(err)
	}
	StartProcess(t, program, "--log-filter", logFilter, "--workloads", a.file,
		"--admin-port", fmt.Sprint(a.Admin), "--slots-port", fmt.Sprint(FreePort(t)))
	return a
}

// Write replaces the workloads.
func (a *Activator) Write(workloads []map[string]any) error {
	text, err := json.Marshal(map[string]any{"workloads": workloads})
	if err != nil {
		return err
	}
	if err := os.WriteFile(a.file+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(a.file+".new", a.file)
}

var heldRequests = regexp.MustCompile(`(?m)^rouse_activator_held_requests\{.*\} (\d+)`)

// Held is the number of held requests of all workloads.
func (a *Activator) Held() (int, error) {
	response, err := http.Get("http://" + Loopback(a.Admin) + "/metrics")
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	held := 0
	for _, match := range heldRequests.FindAllSubmatch(text, -1) {
		number, err := strconv.Atoi(string(match[1]))
		if err != nil {
			return 0, err
		}
		held += number
	}
	return held, nil
}
