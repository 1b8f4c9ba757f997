package pki

import (
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
)

// Cluster has the names and addresses in the certificates of a cluster.
type Cluster struct {
	Name string
	// Node is the node's name and NodeIP its address.
	Node, NodeIP string
	// ServiceIP is the first address of the Service range, the address of the API server for pods.
	ServiceIP string
	// Server is the API server's URL for the components.
	Server string
	// Further are the nodes beside the first.
	Further []Node
}

// Node has the name and address in the certificates of a further node, and the directory for them.
type Node struct{ Name, IP, Dir string }

// certificate is a certificate to issue and the name of its files.
type certificate struct {
	file    string
	subject Subject
}

// servers are the certificates between components.
func (c Cluster) servers() []certificate {
	return []certificate{
		// 127.0.0.1 is the address for programs on the host.
		{"apiserver", Subject{CommonName: "kube-apiserver", Hosts: []string{
			"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
			"localhost", "127.0.0.1", c.NodeIP, c.ServiceIP,
		}}},
		{"apiserver-kubelet-client", Subject{CommonName: "kube-apiserver-kubelet-client", Organizations: []string{"system:masters"}}},
		Node{Name: c.Node, IP: c.NodeIP}.server(),
	}
}

// server is the certificate of a kubelet for the API server.
func (n Node) server() certificate {
	return certificate{"kubelet", Subject{
		CommonName: "system:node:" + n.Name, Organizations: []string{"system:nodes"}, Hosts: []string{n.Name, n.IP, "127.0.0.1"},
	}}
}

// clients are the clients of the API server on a node.
func (n Node) clients() []certificate {
	return []certificate{
		{"kubelet", Subject{CommonName: "system:node:" + n.Name, Organizations: []string{"system:nodes"}}},
		{"kube-proxy", Subject{CommonName: "system:kube-proxy"}},
	}
}

// clients are the clients of the API server; each has a kubeconfig.
func (c Cluster) clients() []certificate {
	return append([]certificate{
		{"admin", Subject{CommonName: "kubernetes-admin", Organizations: []string{"system:masters"}}},
		{"kube-controller-manager", Subject{CommonName: "system:kube-controller-manager"}},
		{"kube-scheduler", Subject{CommonName: "system:kube-scheduler"}},
	}, Node{Name: c.Node}.clients()...)
}

// Write creates all files in a directory: NAME.crt and NAME.key of both CAs (ca, front-proxy-ca)
// and of each certificate, sa.key and sa.pub for service accounts, and NAME.kubeconfig of each
// client.
func (c Cluster) Write(dir string) error {
	authority, err := NewAuthority("rouse-cluster-" + c.Name)
	if err != nil {
		return err
	}
	// A separate CA, because a client with a certificate of this one may name any user in a header.
	frontProxy, err := NewAuthority("rouse-cluster-" + c.Name + "-front-proxy")
	if err != nil {
		return err
	}
	frontProxyClient, err := frontProxy.Issue(Subject{CommonName: "front-proxy-client"})
	if err != nil {
		return err
	}
	pairs := map[string]Pair{"ca": authority.Pair, "front-proxy-ca": frontProxy.Pair, "front-proxy-client": frontProxyClient}
	for _, server := range c.servers() {
		if pairs[server.file], err = authority.Issue(server.subject); err != nil {
			return err
		}
	}
	files := map[string][]byte{}
	for _, client := range c.clients() {
		pair, err := authority.Issue(client.subject)
		if err != nil {
			return err
		}
		if client.file == "admin" {
			pairs["admin"] = pair
		}
		if files[client.file+".kubeconfig"], err = c.kubeconfig(authority, client, pair); err != nil {
			return err
		}
	}
	for name, pair := range pairs {
		files[name+".crt"], files[name+".key"] = pair.Certificate, pair.Key
	}
	if files["sa.key"], files["sa.pub"], err = signingKey(); err != nil {
		return err
	}
	if err := writeFiles(dir, files); err != nil {
		return err
	}
	for _, node := range c.Further {
		if err := c.writeNode(authority, node); err != nil {
			return err
		}
	}
	return nil
}

// writeNode creates the files of a further node: ca.crt, kubelet.crt and kubelet.key, and the
// kubeconfigs of its clients.
func (c Cluster) writeNode(authority *Authority, node Node) error {
	server, err := authority.Issue(node.server().subject)
	if err != nil {
		return err
	}
	files := map[string][]byte{"ca.crt": authority.Certificate, "kubelet.crt": server.Certificate, "kubelet.key": server.Key}
	for _, client := range node.clients() {
		pair, err := authority.Issue(client.subject)
		if err != nil {
			return err
		}
		if files[client.file+".kubeconfig"], err = c.kubeconfig(authority, client, pair); err != nil {
			return err
		}
	}
	return writeFiles(node.Dir, files)
}

func (c Cluster) kubeconfig(authority *Authority, client certificate, pair Pair) ([]byte, error) {
	return Kubeconfig{
		Cluster: c.Name, Server: c.Server, Authority: authority.Certificate, User: client.subject.CommonName, Pair: pair,
	}.Encode()
}

func writeFiles(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the directory for certificates: %w", err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return fmt.Errorf("write certificates: %w", err)
		}
	}
	return nil
}

// ReadPair reads a pair written by Write.
func ReadPair(dir, name string) (Pair, error) {
	certificate, err := os.ReadFile(filepath.Join(dir, name+".crt"))
	if err != nil {
		return Pair{}, fmt.Errorf("read a certificate: %w", err)
	}
	key, err := os.ReadFile(filepath.Join(dir, name+".key"))
	if err != nil {
		return Pair{}, fmt.Errorf("read a key: %w", err)
	}
	return Pair{certificate, key}, nil
}

// signingKey returns the key pair that signs the tokens of service accounts.
func signingKey() (private, public []byte, err error) {
	key, private, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the key for tokens: %w", err)
	}
	return private, encode("PUBLIC KEY", der), nil
}
