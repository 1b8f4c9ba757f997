// Package java runs an HTTP/1.1 and h2c server of Jetty.
package java

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"rouse.dev/interop/check"
)

// Version of Jetty, as in pom.xml.
const Version = "12.0.25"

// Start starts a server.
func Start(t testing.TB) check.App {
	t.Helper()
	jars := filepath.Join(os.Getenv("INTEROP"), "java", "*")
	line := check.StartProcess(t, "java", "-Xmx256m", "-Dslf4j.internal.verbosity=ERROR", "--class-path", jars, "peers/java/Server.java").FirstLine(t)
	port, err := strconv.Atoi(line)
	if err != nil {
		t.Fatalf("the server printed %q instead of its port", line)
	}
	return check.App{Host: "127.0.0.1", Port: port}
}
