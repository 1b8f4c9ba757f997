package repository

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"

	"github.com/google/go-containerregistry/pkg/registry"
)

// InMemory starts a registry on a port of loopback. cosign writes signatures to registries only.
func InMemory() (host string, stop func() error, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("start a registry: %w", err)
	}
	server := &http.Server{Handler: registry.New(
		registry.WithReferrersSupport(true),
		registry.Logger(log.New(io.Discard, "", 0)),
	)}
	go func() { _ = server.Serve(listener) }()
	return listener.Addr().String(), server.Close, nil
}
