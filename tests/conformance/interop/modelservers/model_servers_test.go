// Package modelservers wakes fake model servers through Envoy, which ends streams that are silent
// for less time than a model server loads. `make test-model-servers` runs it.
package modelservers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"rouse.dev/interop/check"
)

const (
	// The shortest default of a front door.
	idleTime = 15 * time.Second
	// A model server takes minutes. More than the idle time shows the same.
	loadTime  = 20 * time.Second
	wakes     = 500
	atATime   = 100
	tokens    = 8
	tokenTime = 100 * time.Millisecond
	// Longer than a round takes on a busy machine.
	deadline = 5 * time.Minute

	comment    = ": waiting for a pod\n\n"
	errorEvent = "event: error\n"
	end        = "data: [DONE]\n\n"
)

// result is what a client got.
type result struct {
	status int
	events string
	err    error
	took   time.Duration
}

func TestModelServers(t *testing.T) {
	var workloads []*workload
	add := func(name string, http2, keepAlive bool, wakeTimeout time.Duration) *workload {
		added := &workload{name: name, listen: check.FreePort(t), pod: check.FreePort(t),
			http2: http2, keepAlive: keepAlive, wakeTimeout: wakeTimeout}
		workloads = append(workloads, added)
		return added
	}
	for number := range atATime {
		add(fmt.Sprint("model-", number), number%2 == 1, true, deadline)
	}
	models := workloads
	// Neither has a pod.
	failing := []*workload{add("failing-1", false, true, loadTime), add("failing-2", true, true, loadTime)}
	silent := add("silent", false, false, deadline)
	activator := startActivator(t, workloads)
	envoy := startEnvoy(t, workloads)

	t.Run("wakes", func(t *testing.T) {
		failed := 0
		for round := range wakes / atATime {
			for at, result := range wake(t, activator, envoy, models) {
				if err := result.checkStream(); err != nil {
					failed++
					t.Errorf("round %d, %s: %v", round, models[at].name, err)
				}
			}
		}
		fmt.Printf("%d wakes of %v through Envoy with an idle time of %v: %d failed\n", wakes, loadTime, idleTime, failed)
	})
	t.Run("failed wake", func(t *testing.T) {
		for at, result := range requestAll(t, envoy, failing) {
			if !strings.Contains(result.events, errorEvent+`data: {"error":{"code":504,`) || result.err == nil {
				t.Errorf("%s: %+v, want an event with the error, and then no end", failing[at].name, result)
			}
		}
	})
	t.Run("without the setting", func(t *testing.T) {
		result := requestAll(t, envoy, []*workload{silent})[0]
		if result.status != http.StatusGatewayTimeout || result.took < idleTime {
			t.Errorf("%+v, want 504 from Envoy: otherwise the wakes show nothing", result)
		}
	})
}

// wake sends a request to each workload at zero, and starts the servers when all are held.
// Afterwards the workloads are at zero again.
func wake(t *testing.T, activator *activator, envoy int, models []*workload) []result {
	t.Helper()
	var results []result
	var clients sync.WaitGroup
	clients.Go(func() { results = requestAll(t, envoy, models) })
	waitForHeld(t, activator, len(models))
	for _, model := range models {
		model.server = check.StartProcess(t, program(t, "SAMPLE_APP"), "serve", "--port", fmt.Sprint(model.pod),
			"--start-delay-ms", fmt.Sprint(loadTime.Milliseconds()))
	}
	activator.write(t)
	clients.Wait()
	for _, model := range models {
		model.server.Kill()
		model.server = nil
	}
	activator.write(t)
	waitForHeld(t, activator, 0)
	return results
}

func waitForHeld(t *testing.T, activator *activator, want int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), check.StartTime)
	defer cancel()
	if err := check.Eventually(ctx, func() error { return activator.checkHeld(want) }); err != nil {
		t.Fatal(err)
	}
}

// requestAll sends a request to each workload at the same time, and reads the responses.
func requestAll(t *testing.T, envoy int, models []*workload) []result {
	results := make([]result, len(models))
	var clients sync.WaitGroup
	for at, model := range models {
		clients.Go(func() {
			start := time.Now()
			results[at] = request(t.Context(), envoy, model)
			results[at].took = time.Since(start)
		})
	}
	clients.Wait()
	return results
}

func request(ctx context.Context, envoy int, model *workload) result {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(!model.http2)
	transport.Protocols.SetUnencryptedHTTP2(model.http2)
	defer transport.CloseIdleConnections()
	url := fmt.Sprintf("http://%s/%s/v1/chat/completions?tokens=%d&work=%d",
		check.Loopback(envoy), model.name, tokens, tokenTime.Milliseconds())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"stream":true}`))
	if err != nil {
		return result{err: err}
	}
	request.Header.Set("Accept", "text/event-stream")
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return result{err: err}
	}
	defer response.Body.Close()
	events, err := io.ReadAll(response.Body)
	return result{status: response.StatusCode, events: string(events), err: err}
}

// checkStream checks a stream that was silent for longer than the idle time without comments, and
// has all tokens.
func (r result) checkStream() error {
	events := strings.ReplaceAll(r.events, comment, "")
	if r.took < idleTime {
		return fmt.Errorf("it took %v, and no idle time was over", r.took)
	}
	return errors.Join(r.err,
		check.Equal("status", r.status, http.StatusOK),
		check.Equal("number of events", strings.Count(events, "\n\n"), tokens+1),
		check.Equal("number of tokens", strings.Count(events, `"content":"token `), tokens),
		check.Equal("end", strings.HasSuffix(events, end), true),
	)
}

// program is the path that the variable has.
func program(t *testing.T, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Fatalf("%s is not set; run make test-model-servers", variable)
	}
	return path
}
