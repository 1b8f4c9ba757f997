package supervisor

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"rouse.dev/cluster/host/state"
	"rouse.dev/cluster/node"
	"rouse.dev/cluster/node/containerd"
)

// Images returns the image store of the cluster with the given pid 1. Its socket is on the
// cluster's own /run, which is reachable through /proc.
func Images(init int) containerd.Images {
	return containerd.Images{Socket: filepath.Join("/proc", strconv.Itoa(init), "root", node.ContainerdSocket)}
}

// Kubectl returns a kubectl command of the cluster's version, with the administrator's kubeconfig.
func Kubectl(ctx context.Context, config node.Config, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, config.Kubernetes, args...)
	command.Args[0] = "kubectl"
	command.Env = kubectlEnvironment(config.Dir)
	return command
}

// kubectlEnvironment sets the kubeconfig, and a cache in the cluster's directory instead of the
// user's home.
func kubectlEnvironment(dir state.Dir) []string {
	return append(os.Environ(), "KUBECONFIG="+dir.Kubeconfig(), "KUBECACHEDIR="+dir.Cache())
}
