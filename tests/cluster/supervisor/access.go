package supervisor

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"

	"rouse.dev/cluster/host/state"
	"rouse.dev/cluster/node"
	"rouse.dev/cluster/node/containerd"
)

// Nodes returns pid 1 of each running node of the cluster with the given pid 1.
func Nodes(config node.Config, init int) map[string]int {
	children := state.Children(init)
	running := map[string]int{}
	for i, name := range config.NodeNames() {
		if i == 0 {
			running[name] = init
		} else if pid := children[name]; pid != 0 {
			running[name] = pid
		}
	}
	return running
}

// Images returns the image stores of the running nodes. A socket is on the node's own /run, which is
// reachable through /proc.
func Images(config node.Config, init int) []containerd.Images {
	running := Nodes(config, init)
	var stores []containerd.Images
	for _, name := range slices.Sorted(maps.Keys(running)) {
		socket := filepath.Join("/proc", strconv.Itoa(running[name]), "root", node.ContainerdSocket)
		stores = append(stores, containerd.Images{Socket: socket})
	}
	return stores
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
