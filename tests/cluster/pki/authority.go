// Package pki creates the keys and certificates of a cluster. A cluster runs for a day or two, so
// there is no rotation and no revocation.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// lifetime exceeds the lifetime of any test or demo cluster.
const lifetime = 365 * 24 * time.Hour

// leeway allows a clock that is set back after the certificates were created.
const leeway = time.Hour

// Pair is a certificate and its key, both PEM.
type Pair struct{ Certificate, Key []byte }

// Authority issues certificates.
type Authority struct {
	Pair
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// Subject is the subject of a certificate.
type Subject struct {
	// CommonName is the user's name, for a client.
	CommonName string
	// Organizations are the user's groups.
	Organizations []string
	// Hosts are the names and IP addresses of a server. A subject without hosts is a client only.
	Hosts []string
}

// NewAuthority creates a self-signed CA.
func NewAuthority(name string) (*Authority, error) {
	template, err := newTemplate(pkix.Name{CommonName: name})
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	key, encodedKey, err := newKey()
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("make the authority %s: %w", name, err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("make the authority %s: %w", name, err)
	}
	return &Authority{Pair{encode("CERTIFICATE", der), encodedKey}, certificate, key}, nil
}

// Issue issues a certificate for a client and, if the subject has hosts, for a server.
func (a *Authority) Issue(subject Subject) (Pair, error) {
	template, err := newTemplate(pkix.Name{CommonName: subject.CommonName, Organization: subject.Organizations})
	if err != nil {
		return Pair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	for _, host := range subject.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	if len(subject.Hosts) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	key, encodedKey, err := newKey()
	if err != nil {
		return Pair{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("issue a certificate to %s: %w", subject.CommonName, err)
	}
	return Pair{encode("CERTIFICATE", der), encodedKey}, nil
}

func newTemplate(name pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{SerialNumber: serial, Subject: name, NotBefore: now.Add(-leeway), NotAfter: now.Add(lifetime)}, nil
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return key, encode("PRIVATE KEY", der), err
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
