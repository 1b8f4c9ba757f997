package door

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"rouse.dev/interop/check"
)

const traefikIngress = `
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: ID
  annotations: {traefik.ingress.kubernetes.io/router.entrypoints: ID}
spec:
  rules:
  - http:
      paths:
      - {path: /, pathType: Prefix, backend: {service: {name: ID, port: {number: 80}}}}
`

// Traefik is the program at this path, which ends with its version. It reads Ingresses, and sends to the endpoints of Services.
func Traefik(program string) Door {
	return Door{
		Name:      "Traefik " + strings.TrimPrefix(filepath.Base(program), "v"),
		Protocols: []Protocol{HTTP1, HTTP2, GRPC, Websocket, Kept, StickyCookie},
		Start: func(t *testing.T, routes []Route, kubectl Kubectl) {
			t.Helper()
			kubectl(t, each(routes, func(Protocol) string { return traefikIngress }), "apply", "--filename", "-")
			api := check.Loopback(check.FreePort(t))
			arguments := []string{"--providers.kubernetesingress=true", "--serverstransport.maxidleconnsperhost=1000",
				"--global.checknewversion=false", "--log.level=ERROR",
				"--api.insecure=true", "--entrypoints.traefik.address=" + api}
			for _, route := range routes {
				arguments = append(arguments, "--entrypoints."+route.Name+".address="+route.Listen)
				if route.Protocol == HTTP2 || route.Protocol == GRPC {
					kubectl(t, "", "annotate", "service", route.Name,
						"traefik.ingress.kubernetes.io/service.serversscheme=h2c")
				}
				if route.Protocol == StickyCookie {
					kubectl(t, "", "annotate", "service", route.Name,
						"traefik.ingress.kubernetes.io/service.sticky.cookie=true")
				}
			}
			check.StartProcess(t, program, arguments...)
			waitForRouters(t, api, routes)
		},
	}
}

// waitForRouters waits until Traefik has read the Ingresses of all routes. It answers 404 before.
func waitForRouters(t *testing.T, api string, routes []Route) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), check.StartTime)
	defer cancel()
	err := check.Eventually(ctx, func() error {
		response, err := http.Get("http://" + api + "/api/http/routers?per_page=100")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		routers, err := io.ReadAll(response.Body)
		for _, route := range routes {
			if !bytes.Contains(routers, []byte(route.Name)) {
				return errors.Join(err, fmt.Errorf("no router for %s", route.Name))
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
