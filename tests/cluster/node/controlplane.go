package node

import "rouse.dev/cluster/host/networkpolicy"

const etcdURL = "http://127.0.0.1:2379"

func (c Config) etcd() component {
	return component{name: "etcd", program: c.Kubernetes, args: append([]string{
		"--data-dir=" + c.Dir.Etcd(),
		"--listen-client-urls=" + etcdURL,
		"--advertise-client-urls=" + etcdURL,
		"--listen-peer-urls=http://127.0.0.1:2380",
		// The data need not survive a crash of the machine.
		"--unsafe-no-fsync",
		"--log-level=warn",
	}, c.Arguments["etcd"]...)}
}

func (c Config) apiServer() component {
	pki := c.Dir.PKI
	server := c.kubernetes("kube-apiserver",
		"--etcd-servers="+etcdURL,
		"--secure-port=6443",
		"--bind-address=0.0.0.0",
		// Not a loopback address: pods reach the API server through a Service with this address as
		// its endpoint.
		"--advertise-address="+NodeIP,
		"--service-cluster-ip-range="+serviceCIDR,
		"--tls-cert-file="+pki("apiserver.crt"),
		"--tls-private-key-file="+pki("apiserver.key"),
		"--client-ca-file="+pki("ca.crt"),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+pki("sa.pub"),
		"--service-account-signing-key-file="+pki("sa.key"),
		"--kubelet-client-certificate="+pki("apiserver-kubelet-client.crt"),
		"--kubelet-client-key="+pki("apiserver-kubelet-client.key"),
		"--kubelet-certificate-authority="+pki("ca.crt"),
		"--kubelet-preferred-address-types=InternalIP",
		// Aggregation: a request for another API server is sent to an endpoint of its
		// Service, with the user's name, groups and uid in headers. It needs no rules of
		// kube-proxy, which --control-plane-only lacks.
		"--enable-aggregator-routing",
		"--requestheader-client-ca-file="+pki("front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-uid-headers=X-Remote-Uid",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file="+pki("front-proxy-client.crt"),
		"--proxy-client-key-file="+pki("front-proxy-client.key"),
	)
	if c.NetworkPolicies {
		server.group = networkpolicy.APIServerGroup
	}
	return server
}

func (c Config) controllerManager() component {
	pki := c.Dir.PKI
	return c.kubernetes("kube-controller-manager", append(c.clientOf("kube-controller-manager"),
		"--use-service-account-credentials",
		"--service-account-private-key-file="+pki("sa.key"),
		"--root-ca-file="+pki("ca.crt"),
		"--cluster-signing-cert-file="+pki("ca.crt"),
		"--cluster-signing-key-file="+pki("ca.key"),
		"--flex-volume-plugin-dir="+c.Dir.Plugins(),
		// Each of forty controllers fetches a token first. At the default of 20 requests/s that
		// takes 5 s.
		"--kube-api-qps=300",
		"--kube-api-burst=600",
		"--horizontal-pod-autoscaler-sync-period="+c.HPASyncPeriod.String(),
	)...)
}

func (c Config) scheduler() component {
	return c.kubernetes("kube-scheduler", c.clientOf("kube-scheduler")...)
}

// clientOf returns the common flags of the two clients of the control plane. There is one replica
// of each, so leader election is off.
func (c Config) clientOf(name string) []string {
	kubeconfig := c.Dir.PKI(name + ".kubeconfig")
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--leader-elect=false",
		"--bind-address=127.0.0.1",
	}
}
