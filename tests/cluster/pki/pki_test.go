package pki

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func written(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "pki")
	cluster := Cluster{Name: "test", Node: "node1", NodeIP: "10.80.0.1", ServiceIP: "10.96.0.1", Server: "https://10.80.0.1:6443"}
	if err := cluster.Write(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func certificateIn(t *testing.T, dir, name string) *x509.Certificate {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, name+".crt"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(content)
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

func pool(certificate *x509.Certificate) *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	return roots
}

func TestServerCertificatesCoverAllTheirNames(t *testing.T) {
	dir := written(t)
	roots := pool(certificateIn(t, dir, "ca"))
	for server, hosts := range map[string][]string{
		"apiserver": {"127.0.0.1", "localhost", "10.80.0.1", "10.96.0.1", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
		"kubelet":   {"node1", "10.80.0.1"},
	} {
		for _, host := range hosts {
			_, err := certificateIn(t, dir, server).Verify(x509.VerifyOptions{Roots: roots, DNSName: host, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
			if err != nil {
				t.Errorf("%s as %s: %v", server, host, err)
			}
		}
	}
}

func TestClientCertificatesAreNotValidForServers(t *testing.T) {
	dir := written(t)
	_, err := certificateIn(t, dir, "admin").Verify(x509.VerifyOptions{Roots: pool(certificateIn(t, dir, "ca")), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	if err == nil {
		t.Error("the administrator's certificate is valid for a server")
	}
}

func TestFrontProxyHasASeparateCA(t *testing.T) {
	dir := written(t)
	client := certificateIn(t, dir, "front-proxy-client")
	usage := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if _, err := client.Verify(x509.VerifyOptions{Roots: pool(certificateIn(t, dir, "front-proxy-ca")), KeyUsages: usage}); err != nil {
		t.Error(err)
	}
	if _, err := client.Verify(x509.VerifyOptions{Roots: pool(certificateIn(t, dir, "ca")), KeyUsages: usage}); err == nil {
		t.Error("the cluster's CA also signs the front proxy, so any client could impersonate it")
	}
}

func TestKeysMatchTheirCertificatesAndArePrivate(t *testing.T) {
	dir := written(t)
	keys, _ := filepath.Glob(filepath.Join(dir, "*.key"))
	for _, key := range keys {
		if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v (%v)", key, info.Mode(), err)
		}
		if filepath.Base(key) == "sa.key" {
			continue // its public half is not a certificate
		}
		if _, err := tls.LoadX509KeyPair(strings.TrimSuffix(key, ".key")+".crt", key); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	if len(keys) != 8 {
		t.Errorf("%d keys: %v", len(keys), keys)
	}
}

func TestKubeconfigsCarryTheComponentsIdentity(t *testing.T) {
	dir := written(t)
	for name, want := range map[string]string{
		"admin":                   "kubernetes-admin",
		"kube-controller-manager": "system:kube-controller-manager",
		"kube-scheduler":          "system:kube-scheduler",
		"kubelet":                 "system:node:node1",
		"kube-proxy":              "system:kube-proxy",
	} {
		content, err := os.ReadFile(filepath.Join(dir, name+".kubeconfig"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(content), "server: https://10.80.0.1:6443\n") {
			t.Errorf("%s: %s", name, content)
		}
		_, after, _ := strings.Cut(string(content), "client-certificate-data: ")
		encoded, _, _ := strings.Cut(after, "\n")
		decoded, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(decoded)
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if certificate.Subject.CommonName != want {
			t.Errorf("%s.kubeconfig has the identity %s", name, certificate.Subject.CommonName)
		}
	}
}
