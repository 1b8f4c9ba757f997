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

// Images returns the image store of the cluster with the given pid 1. Its socket is on the cluster's own /run, which the
// host reaches through that process.
func Images(init int) containerd.Images {
	return containerd.Images{Socket: filepath.Join("/proc", strconv.Itoa(init), "root", node.ContainerdSocket)}
}

// Kubectl returns a command of the administrator on the host. It is the kubectl of the cluster's own version.
func Kubectl(ctx context.Context, config node.Config, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, config.Kubernetes, args...)
	command.Args[0] = "kubectl"
	command.Env = kubectlEnvironment(config.Dir)
	return command
}

// kubectlEnvironment points kubectl to the cluster, and keeps its notes in the cluster's directory rather than in the
// user's home.
func kubectlEnvironment(dir state.Dir) []string {
	return append(os.Environ(), "KUBECONFIG="+dir.Kubeconfig(), "KUBECACHEDIR="+dir.Cache())
}
