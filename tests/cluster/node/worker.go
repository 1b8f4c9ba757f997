package node

import (
	"context"
	"net/http"

	"rouse.dev/cluster/host/cgroup"
	"rouse.dev/cluster/host/networkpolicy"
	"rouse.dev/cluster/pki"
)

// worker returns the components that start when the API server is ready, those that the node needs
// and the scheduler.
func (c Config) worker() []component {
	all := append([]component{c.scheduler()}, c.agents()...)
	for _, further := range c.further() {
		all = append(all, further.init())
	}
	return all
}

// agents returns the components of each node that are clients of the API server.
func (c Config) agents() []component {
	all := []component{c.kubelet(), c.proxy()}
	if c.NetworkPolicies {
		all = append(all, c.enforcer())
	}
	return all
}

func (c Config) containerd() component {
	return component{name: "containerd", program: "containerd", args: append([]string{
		"--config=" + c.Dir.Components("containerd.toml"),
		"--log-level=info",
	}, c.Arguments["containerd"]...)}
}

func (c Config) kubelet() component {
	args := []string{
		"--config=" + c.Dir.Components("kubelet.yaml"),
		"--kubeconfig=" + c.Dir.PKI("kubelet.kubeconfig"),
		"--hostname-override=" + c.Node.Name(),
		"--node-ip=" + c.Node.IP(),
	}
	if c.Node.Zone != "" {
		args = append(args, "--node-labels=topology.kubernetes.io/zone="+c.Node.Zone)
	}
	return c.kubernetes("kubelet", args...)
}

// proxy has its feature gates in its file, because kube-proxy ignores most flags with a file.
func (c Config) proxy() component {
	return component{name: "kube-proxy", program: c.Kubernetes, args: append([]string{
		"--config=" + c.Dir.Components("kube-proxy.yaml"),
	}, c.Arguments["kube-proxy"]...)}
}

// enforcer is this program itself.
func (c Config) enforcer() component {
	return component{name: enforcerName, program: "/proc/self/exe", args: []string{"enforce-network-policies", c.cluster().PKI()}}
}

// EnforceNetworkPolicies keeps the rules of the node's network equal to the NetworkPolicies of all
// pods, until the context is done. It reads them as the administrator of these certificates.
func EnforceNetworkPolicies(ctx context.Context, certificates string) error {
	identity, err := pki.ClientConfig(certificates, "admin")
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: identity}}
	networkpolicy.NewEnforcer(client, "https://"+API).Run(ctx)
	return ctx.Err()
}

// cgroups returns the cgroups of the cluster, or of a further node below them.
func (c Config) cgroups() (cgroup.Tree, error) {
	tree, err := cgroup.Of(cgroup.Mount, c.Dir.Name)
	if c.Node.isFurther() {
		tree = tree.Below(c.Node.Name())
	}
	return tree, err
}

func (c Config) cgroupRoot() string {
	tree, err := c.cgroups()
	if err != nil {
		return "/"
	}
	return tree.Path()
}
