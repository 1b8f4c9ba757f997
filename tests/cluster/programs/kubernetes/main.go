// Command kubernetes is every server of a one-node cluster in one binary: the first argument names the component, and
// each component runs as a process of its own.
//
// One binary, because the components share almost all of their code: five binaries would take five links of several
// gigabytes of memory each and 600 MB of disk. Separate processes, because every component registers its flags,
// feature gates and metrics in process-wide registries.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// components maps a component's name to its command. Only the one that runs may be constructed: the constructors
// register into the shared registries.
var components = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kubelet":                 func() *cobra.Command { return construct(kubelet.NewKubeletCommand) },
	"kube-proxy":              proxy.NewProxyCommand,
	"kubectl":                 kubectl.NewDefaultKubectlCommand,
}

// construct calls a constructor that takes a context from Kubernetes 1.34 on.
func construct(constructor any) *cobra.Command {
	switch constructor := constructor.(type) {
	case func(context.Context) *cobra.Command:
		return constructor(context.Background())
	case func() *cobra.Command:
		return constructor()
	}
	panic(fmt.Sprintf("a constructor of type %T", constructor))
}

func main() {
	// A link to the binary that bears a component's name runs that component.
	args := os.Args
	name := filepath.Base(args[0])
	if components[name] == nil && name != "etcd" {
		if len(args) < 2 {
			usage()
		}
		args = args[1:]
		name = args[0]
	}
	os.Args = append([]string{name}, args[1:]...)
	if name == "etcd" {
		etcdmain.Main(os.Args)
		return
	}
	command := components[name]
	if command == nil {
		usage()
	}
	os.Exit(cli.Run(command()))
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: kubernetes etcd|kube-apiserver|kube-controller-manager|kube-scheduler|kubelet|kube-proxy|kubectl [flags]")
	os.Exit(2)
}
