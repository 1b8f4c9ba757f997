// Package node runs inside the namespaces of a cluster: its pid 1, which sets up and runs the
// components.
package node

import (
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"text/template"
	"time"

	"rouse.dev/cluster/host/state"
	"rouse.dev/cluster/pki"
)

// Addresses are the same in every cluster, because each has a network namespace of its own.
const (
	// NodeIP is the address of the first node, which runs the control plane.
	NodeIP      = "10.80.0.1"
	serviceCIDR = "10.96.0.0/16"
	serviceIP   = "10.96.0.1"
	dnsIP       = "10.96.0.10"
	// podsCIDR has the pods of all nodes.
	podsCIDR = "10.244.0.0/16"
	// API is the address of the API server for components and pods of the host network.
	API = NodeIP + ":6443"
)

// Settings are the options of `cluster up`.
type Settings struct {
	// ControlPlaneOnly starts no node: there are controllers, including the HPA, but pods do not
	// run.
	ControlPlaneOnly bool `json:"controlPlaneOnly,omitempty"`
	// HPASyncPeriod is the sync period of the HPA; the default of Kubernetes is 15 s.
	HPASyncPeriod time.Duration `json:"hpaSyncPeriod"`
	// KubeProxyMinSyncPeriod is the minimum time between two changes of a node's rules; the default
	// of Kubernetes is 1 s.
	KubeProxyMinSyncPeriod time.Duration `json:"kubeProxyMinSyncPeriod"`
	// NetworkPolicies enforces NetworkPolicies; without it they have no effect.
	NetworkPolicies bool `json:"networkPolicies,omitempty"`
	// MetricsServer deploys metrics-server, which serves the CPU and memory of pods.
	MetricsServer bool `json:"metricsServer,omitempty"`
	// FeatureGates are set on all Kubernetes components.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// Arguments are appended to a component's arguments and override them.
	Arguments map[string][]string `json:"arguments,omitempty"`
	// Nodes is the number of nodes.
	Nodes int `json:"nodes,omitempty"`
	// Zones are the zones of the nodes, in turn; empty for none.
	Zones []string `json:"zones,omitempty"`
	// Timeout is the timeout of the start.
	Timeout time.Duration `json:"timeout"`
}

// Config is the configuration of pid 1. It is passed through two processes as a file.
type Config struct {
	Settings
	// Dir is the directory of the cluster, or of a further node in it.
	Dir state.Dir `json:"dir"`
	// Node is the node that the process runs.
	Node Identity `json:"node"`
	// Kubernetes is the binary of all Kubernetes components and etcd.
	Kubernetes string `json:"kubernetes"`
	// Pause is empty without a node, and so are the addons.
	Pause  Image   `json:"pause"`
	Addons []Addon `json:"addons,omitempty"`
	// CNIPlugins is the directory of the container network plugins.
	CNIPlugins string `json:"cniPlugins,omitempty"`
	// Snapshotter is the snapshotter of containerd.
	Snapshotter string `json:"snapshotter,omitempty"`
	// Rootless is set if uid 0 of the cluster is a user without root on the host.
	Rootless bool `json:"rootless,omitempty"`
}

// Addon is a program that pods of the cluster run, and that is deployed after the start.
type Addon struct {
	Name  string `json:"name"`
	Image Image  `json:"image"`
}

// Image is an image in a tarball.
type Image struct {
	Name string `json:"name"`
	File string `json:"file"`
}

// Write creates the cluster's directory with the certificates, the configuration of the components
// and the Config itself.
func (c Config) Write() error {
	further := c.further()
	var nodes []pki.Node
	for _, f := range further {
		nodes = append(nodes, pki.Node{Name: f.Node.Name(), IP: f.Node.IP(), Dir: f.Dir.PKI()})
	}
	certificates := pki.Cluster{Name: c.Dir.Name, Node: c.Node.Name(), NodeIP: NodeIP, ServiceIP: serviceIP, Server: "https://" + API, Further: nodes}
	if err := certificates.Write(c.Dir.PKI()); err != nil {
		return err
	}
	for _, one := range append([]Config{c}, further...) {
		if err := one.writeNode(); err != nil {
			return err
		}
	}
	return nil
}

// writeNode creates the directory of one node with its configuration.
func (c Config) writeNode() error {
	dir := c.Dir
	for _, path := range []string{dir.Path, dir.Logs(), dir.Etcd(), dir.Components("cni"), dir.Containerd(), dir.Kubelet(), dir.CNI(), dir.PodLogs(), dir.Plugins()} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return fmt.Errorf("make the cluster's directory: %w", err)
		}
	}
	if !c.ControlPlaneOnly {
		if err := c.render(); err != nil {
			return err
		}
	}
	content, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(dir.Config(), content, 0o600)
}

// Read returns the Config written by Write.
func Read(dir state.Dir) (Config, error) {
	var config Config
	content, err := os.ReadFile(dir.Config())
	if err == nil {
		err = json.Unmarshal(content, &config)
	}
	if err != nil {
		return config, fmt.Errorf("read the cluster's configuration: %w", err)
	}
	return config, nil
}

//go:embed config
var templates embed.FS

// ContainerdSocket is the socket of containerd, on the cluster's own /run.
const ContainerdSocket = "/run/containerd/containerd.sock"

// values is the data of the templates.
type values struct {
	Config
	NodeName, NodeIP, PodCIDR, PodsCIDR, DNSIP, CgroupRoot, Socket string
}

// render writes the configuration files of the components that need files.
func (c Config) render() error {
	all, err := template.ParseFS(templates, "config/*")
	if err != nil {
		return err
	}
	data := values{
		Config: c, NodeName: c.Node.Name(), NodeIP: c.Node.IP(), PodCIDR: c.Node.PodCIDR(), PodsCIDR: podsCIDR, DNSIP: dnsIP,
		CgroupRoot: c.cgroupRoot(), Socket: ContainerdSocket,
	}
	for _, name := range []string{"containerd.toml", "kubelet.yaml", "kube-proxy.yaml", "cni/pods.conflist", "resolv.conf"} {
		file, err := os.OpenFile(c.Dir.Components(name), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
		if err != nil {
			return fmt.Errorf("write configuration: %w", err)
		}
		err = all.ExecuteTemplate(file, filepath.Base(name), data)
		if closed := file.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return fmt.Errorf("render %s: %w", name, err)
		}
	}
	return nil
}
