package tests

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"rouse.dev/release/contents"
)

var arm64 = contents.Platforms[1]

func TestEveryProgramStartsOnArm64(t *testing.T) {
	release := built(t)
	for _, program := range programs() {
		t.Run(program.Name, func(t *testing.T) {
			output := run(t, release.qemu, release.binary(t, program, arm64), "--version")
			if !strings.HasPrefix(output, program.Name+" ") {
				t.Errorf("printed %q", output)
			}
		})
	}
}

// A start alone would not show that TLS, the allocator and the event loop work on arm64.
func TestQueueProxyServesOnArm64(t *testing.T) {
	release := built(t)
	app := httptest.NewServer(http.HandlerFunc(func(response http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(response, "from the app")
	}))
	defer app.Close()
	traffic, admin := free(t), free(t)
	proxy := exec.CommandContext(t.Context(), release.qemu, release.binary(t, contents.Images[0], arm64),
		"--upstream", strings.TrimPrefix(app.URL, "http://"),
		"--listen", traffic, "--admin-listen", admin, "--stats-listen", free(t))
	logs, err := proxy.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	proxy.Stderr = proxy.Stdout
	if err := proxy.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = proxy.Process.Kill()
		_ = proxy.Wait()
	}()
	awaitLine(t, logs, "app ready")
	for url, want := range map[string]string{"http://" + admin + "/live": "", "http://" + traffic + "/": "from the app"} {
		response, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %s %q", url, response.Status, body)
		}
	}
}

func awaitLine(t *testing.T, logs io.Reader, part string) {
	t.Helper()
	var before strings.Builder
	lines := bufio.NewScanner(logs)
	for lines.Scan() {
		before.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), part) {
			// A full pipe would block the program.
			go func() { _, _ = io.Copy(io.Discard, logs) }()
			return
		}
	}
	t.Fatalf("ended without %q:\n%s", part, before.String())
}

// free returns an address of loopback that nothing listens at.
func free(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
