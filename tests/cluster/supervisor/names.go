package supervisor

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"rouse.dev/cluster/containerd"
	"rouse.dev/cluster/node"
	"rouse.dev/cluster/state"
)

// coreDNS is what makes Services known by name.
//
//go:embed coredns.yaml
var coreDNS []byte

// addNames deploys CoreDNS into a cluster that is up. Its image is large, so it comes after the start and not in its way.
func (s *supervisor) addNames() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.deployCoreDNS(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "names of Services will not resolve:", err)
	}
}

func (s *supervisor) deployCoreDNS(ctx context.Context) error {
	if _, err := Images(s.record.Init.PID).Load(ctx, s.config.CoreDNS.File); err != nil {
		return err
	}
	apply := Kubectl(ctx, s.config, "apply", "--filename=-")
	apply.Stdin = bytes.NewReader(coreDNS)
	if output, err := apply.CombinedOutput(); err != nil {
		return fmt.Errorf("apply CoreDNS: %w: %s", err, output)
	}
	return nil
}

// Images returns the image store of the cluster with the given pid 1. Its socket is on the cluster's own /run, which the
// host reaches through that process.
func Images(init int) containerd.Images {
	return containerd.Images{Socket: filepath.Join("/proc", fmt.Sprint(init), "root", node.ContainerdSocket)}
}

// Kubectl returns a command of the administrator on the host. It is the kubectl of the cluster's own version.
func Kubectl(ctx context.Context, config node.Config, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, config.Kubernetes, args...)
	command.Args[0] = "kubectl"
	command.Env = KubectlEnvironment(config.Dir)
	return command
}

// KubectlEnvironment points kubectl to the cluster, and keeps its notes in the cluster's directory rather than in the
// user's home.
func KubectlEnvironment(dir state.Dir) []string {
	return append(os.Environ(), "KUBECONFIG="+dir.Kubeconfig(), "KUBECACHEDIR="+dir.Cache())
}
