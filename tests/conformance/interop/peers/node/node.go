// Package node runs HTTP servers of Node's standard library.
package node

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"rouse.dev/interop/check"
)

// Version of the node in PATH.
func Version() string {
	output, err := exec.Command("node", "--version").Output()
	if err != nil {
		return "is not in PATH"
	}
	return strings.TrimSpace(string(output))
}

// Start starts a server of one version of HTTP: Node has none for both without TLS.
func Start(version int) func(testing.TB) check.App {
	return func(t testing.TB) check.App {
		t.Helper()
		line := check.StartProcess(t, "node", "peers/node/server.mjs", fmt.Sprint(version)).FirstLine(t)
		port, err := strconv.Atoi(line)
		if err != nil {
			t.Fatalf("the server printed %q instead of its port", line)
		}
		return check.App{Host: "127.0.0.1", Port: port}
	}
}
