package door

import (
	"os/exec"
	"strings"
	"testing"

	"rouse.dev/interop/check"
)

// One process, so that all requests share the kept connections.
const nginxFrame = `daemon off;
pid DIR/pid;
error_log stderr crit;
master_process off;
worker_rlimit_nofile 16384;
events { worker_connections 8192; }
http {
  access_log off;
  client_body_temp_path DIR/body;
  proxy_temp_path DIR/proxy;
  fastcgi_temp_path DIR/fastcgi;
  uwsgi_temp_path DIR/uwsgi;
  scgi_temp_path DIR/scgi;
  proxy_http_version 1.1;
  keepalive_requests 1000000;
ROUTES}
`

const nginxHTTP1 = `
  upstream ID { server SERVICE; keepalive 1024; }
  server {
    listen LISTEN backlog=4096;
    location / { proxy_pass http://ID; proxy_set_header Connection ""; }
  }
`

const nginxGRPC = `
  upstream ID { server SERVICE; keepalive 1024; }
  server {
    listen LISTEN http2;
    location / { grpc_pass grpc://ID; }
  }
`

const nginxWebsocket = `
  server {
    listen LISTEN;
    location / {
      proxy_pass http://SERVICE;
      proxy_set_header Connection upgrade;
      proxy_set_header Upgrade $http_upgrade;
    }
  }
`

// Each try takes the next of the servers, which are all the same Service.
var nginxRetried = `
  upstream ID { ` + strings.Repeat("server SERVICE max_fails=0; ", 30) + `keepalive 1024; }
  server {
    listen LISTEN;
    location / {
      proxy_pass http://ID;
      proxy_set_header Connection "";
      proxy_read_timeout 1s;
      proxy_next_upstream error timeout non_idempotent;
    }
  }
`

// Nginx is Debian's nginx.
func Nginx() Door {
	templates := map[Protocol]string{
		HTTP1: nginxHTTP1, Kept: nginxHTTP1, GRPC: nginxGRPC, Websocket: nginxWebsocket, Retried: nginxRetried,
	}
	return Door{
		Name:      "nginx " + version("nginx", "-v"),
		Protocols: []Protocol{HTTP1, GRPC, Websocket, Retried, Kept},
		Start: func(t *testing.T, routes []Route, _ Kubectl) {
			t.Helper()
			dir := t.TempDir()
			text := strings.ReplaceAll(nginxFrame, "DIR", dir)
			text = strings.Replace(text, "ROUTES", each(routes, func(p Protocol) string { return templates[p] }), 1)
			check.StartCommand(t, exec.Command("/usr/sbin/nginx", "-p", dir, "-e", "stderr", "-c", write(t, dir, "nginx.conf", text)))
		},
	}
}
