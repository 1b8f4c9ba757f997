package door

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/url"
	"testing"
	"time"
)

// trustDomain begins the names of all that are in the mesh.
const trustDomain = "spiffe://cluster.local/"

// certificates are files in PEM: ca.pem, and cert.pem with key.pem of an identity of the mesh.
func certificates(t *testing.T) map[string]string {
	t.Helper()
	ca := &x509.Certificate{
		Subject: pkix.Name{CommonName: "mesh"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caKey, _ := key(t)
	caDER := sign(t, ca, ca, &caKey.PublicKey, caKey)
	name, err := url.Parse(trustDomain + "ns/rouse-doors/sa/default")
	if err != nil {
		t.Fatal(err)
	}
	identity := &x509.Certificate{
		URIs: []*url.URL{name}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	identityKey, keyDER := key(t)
	return map[string]string{
		"ca.pem":   encode("CERTIFICATE", caDER),
		"cert.pem": encode("CERTIFICATE", sign(t, identity, ca, &identityKey.PublicKey, caKey)),
		"key.pem":  encode("PRIVATE KEY", keyDER),
	}
}

func key(t *testing.T) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return key, der
}

// sign makes a certificate for a day.
func sign(t *testing.T, certificate, by *x509.Certificate, of *ecdsa.PublicKey, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	now := time.Now()
	certificate.SerialNumber = big.NewInt(now.UnixNano())
	certificate.NotBefore, certificate.NotAfter = now.Add(-time.Hour), now.Add(24*time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, certificate, by, of, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func encode(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}
