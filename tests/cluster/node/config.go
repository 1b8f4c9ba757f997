// Package node is the inside of a cluster: what pid 1 of the cluster's namespaces sets up and runs.
package node

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"rouse.dev/cluster/host/state"
	"rouse.dev/cluster/node/pki"
)

// Addresses are the same in every cluster: each has a network namespace of its own.
const (
	Name        = "node1"
	NodeIP      = "10.80.0.1"
	nodeCIDR    = NodeIP + "/24"
	serviceCIDR = "10.96.0.0/16"
	serviceIP   = "10.96.0.1"
	dnsIP       = "10.96.0.10"
	podCIDR     = "10.244.0.0/24"
	// API is where components and pods of the host network reach the API server.
	API = NodeIP + ":6443"
)

// Settings are what the user of a cluster may choose.
type Settings struct {
	// ControlPlaneOnly leaves out the node: objects, controllers and the HPA, but no pod ever runs.
	ControlPlaneOnly bool `json:"controlPlaneOnly,omitempty"`
	// HPASyncPeriod is how often the HPA looks; the stock value is 15 s.
	HPASyncPeriod time.Duration `json:"hpaSyncPeriod"`
	// KubeProxyMinSyncPeriod is the least time between two changes of a node's rules; the stock value is 1 s.
	KubeProxyMinSyncPeriod time.Duration `json:"kubeProxyMinSyncPeriod"`
	// FeatureGates go to all Kubernetes components: Name to true or false.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// Arguments are added to those of a component, by its name, and win over them.
	Arguments map[string][]string `json:"arguments,omitempty"`
	// Timeout bounds the start.
	Timeout time.Duration `json:"timeout"`
}

// Config is all that the inside of a cluster has to know. It crosses two process borders as a file.
type Config struct {
	Settings
	Dir state.Dir `json:"dir"`
	// Kubernetes is the binary of all Kubernetes components and etcd.
	Kubernetes string `json:"kubernetes"`
	// Pause is the image of a pod's sandbox, and CoreDNS what its name says; both are empty without a node.
	Pause   Image `json:"pause"`
	CoreDNS Image `json:"coreDNS"`
	// CNIPlugins is the directory of the container network plugins.
	CNIPlugins string `json:"cniPlugins,omitempty"`
	// Snapshotter is how containerd stacks image layers.
	Snapshotter string `json:"snapshotter,omitempty"`
	// Rootless tells that uid 0 of the cluster is an ordinary user of the host.
	Rootless bool `json:"rootless,omitempty"`
}

// Image is an image in a tarball.
type Image struct {
	Name string `json:"name"`
	File string `json:"file"`
}

// Write makes the cluster's directory with everything that is known before it starts: certificates, the components'
// configuration, and the Config itself.
func (c Config) Write() error {
	dir := c.Dir
	for _, path := range []string{dir.Path, dir.Logs(), dir.Etcd(), dir.Components("cni"), dir.Containerd(), dir.Kubelet(), dir.CNI(), dir.PodLogs(), dir.Plugins()} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return fmt.Errorf("make the cluster's directory: %w", err)
		}
	}
	certificates := pki.Cluster{Name: dir.Name, Node: Name, NodeIP: NodeIP, ServiceIP: serviceIP, Server: "https://" + API}
	if err := certificates.Write(dir.PKI()); err != nil {
		return err
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

// Read returns the Config that Write wrote.
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
