package pki

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
)

// ClientConfig returns the TLS configuration of a client of the API server, from a pair and the CA
// that Write wrote.
func ClientConfig(dir, name string) (*tls.Config, error) {
	pair, err := ReadPair(dir, name)
	if err != nil {
		return nil, err
	}
	certificate, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		return nil, fmt.Errorf("use the certificate of %s: %w", name, err)
	}
	authority, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("read the CA: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	return &tls.Config{Certificates: []tls.Certificate{certificate}, RootCAs: roots}, nil
}
