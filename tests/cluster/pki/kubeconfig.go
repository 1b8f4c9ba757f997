package pki

import (
	"bytes"
	"encoding/base64"
	"text/template"
)

// kubeconfig is a text template, because a client library for one small file would be most of this
// program.
var kubeconfig = template.Must(template.New("").Funcs(template.FuncMap{"base64": base64.StdEncoding.EncodeToString}).Parse(
	`apiVersion: v1
kind: Config
clusters:
- name: {{ .Cluster }}
  cluster:
    server: {{ .Server }}
    certificate-authority-data: {{ base64 .Authority }}
users:
- name: {{ .User }}
  user:
    client-certificate-data: {{ base64 .Pair.Certificate }}
    client-key-data: {{ base64 .Pair.Key }}
contexts:
- name: {{ .Cluster }}
  context:
    cluster: {{ .Cluster }}
    user: {{ .User }}
current-context: {{ .Cluster }}
`))

// Kubeconfig has the address of an API server and the identity of a client.
type Kubeconfig struct {
	Cluster   string
	Server    string
	Authority []byte
	User      string
	Pair      Pair
}

// Encode returns the file.
func (k Kubeconfig) Encode() ([]byte, error) {
	var file bytes.Buffer
	err := kubeconfig.Execute(&file, k)
	return file.Bytes(), err
}
