package node

import "rouse.dev/cluster/host/cgroup"

func (c Config) containerd() component {
	return component{"containerd", "containerd", append([]string{
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
	return component{"kube-proxy", c.Kubernetes, append([]string{
		"--config=" + c.Dir.Components("kube-proxy.yaml"),
	}, c.Arguments["kube-proxy"]...)}
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
