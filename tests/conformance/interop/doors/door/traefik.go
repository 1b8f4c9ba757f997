package door

import (
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
		Protocols: []Protocol{HTTP1, HTTP2, GRPC, Websocket, Kept},
		Start: func(t *testing.T, routes []Route, kubectl Kubectl) {
			t.Helper()
			kubectl(t, each(routes, func(Protocol) string { return traefikIngress }), "apply", "--filename", "-")
			arguments := []string{"--providers.kubernetesingress=true", "--serverstransport.maxidleconnsperhost=1000",
				"--global.checknewversion=false", "--log.level=ERROR"}
			for _, route := range routes {
				arguments = append(arguments, "--entrypoints."+route.Name+".address="+route.Listen)
				if route.Protocol == HTTP2 || route.Protocol == GRPC {
					kubectl(t, "", "annotate", "service", route.Name,
						"traefik.ingress.kubernetes.io/service.serversscheme=h2c")
				}
			}
			check.StartProcess(t, program, arguments...)
		},
	}
}
