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
	all := []component{c.scheduler(), c.kubelet(), c.proxy()}
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
	return c.kubernetes("kubelet",
		"--config="+c.Dir.Components("kubelet.yaml"),
		"--kubeconfig="+c.Dir.PKI("kubelet.kubeconfig"),
		"--hostname-override="+Name,
		"--node-ip="+NodeIP,
	)
}

// proxy has its feature gates in its file, because kube-proxy ignores most flags with a file.
func (c Config) proxy() component {
	return component{name: "kube-proxy", program: c.Kubernetes, args: append([]string{
		"--config=" + c.Dir.Components("kube-proxy.yaml"),
	}, c.Arguments["kube-proxy"]...)}
}

// enforcer is this program itself.
func (c Config) enforcer() component {
	return component{name: enforcerName, program: "/proc/self/exe", args: []string{"enforce-network-policies", c.Dir.PKI()}}
}

// EnforceNetworkPolicies keeps the rules of the cluster's network equal to its NetworkPolicies, until
// the context is done. It reads them as the administrator of these certificates.
func EnforceNetworkPolicies(ctx context.Context, certificates string) error {
	identity, err := pki.ClientConfig(certificates, "admin")
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: identity}}
	networkpolicy.NewEnforcer(client, "https://"+API).Run(ctx)
	return ctx.Err()
}

// cgroups returns the cgroups of the cluster.
func (c Config) cgroups() (cgroup.Tree, error) { return cgroup.Of(cgroup.Mount, c.Dir.Name) }

func (c Config) cgroupRoot() string {
	tree, err := c.cgroups()
	if err != nil {
		return "/"
	}
	return tree.Path()
}
