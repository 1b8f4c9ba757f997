package node

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// component is one long-running process of the cluster.
type component struct {
	name string
	// program is the file to run; it is called by the component's name.
	program string
	args    []string
}

// Components returns the names that may get arguments of their own.
func Components() []string {
	return []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "containerd", "kubelet", "kube-proxy"}
}

// kubernetes returns a component of the multi-call binary, with the feature gates and the user's arguments last: of a
// flag given twice the later one counts.
func (c Config) kubernetes(name string, args ...string) component {
	if gates := c.featureGates(); gates != "" {
		args = append(args, "--feature-gates="+gates)
	}
	return component{name, c.Kubernetes, append(args, c.Arguments[name]...)}
}

func (c Config) featureGates() string {
	var gates []string
	for name, on := range c.FeatureGates {
		gates = append(gates, name+"="+strconv.FormatBool(on))
	}
	slices.Sort(gates)
	return strings.Join(gates, ",")
}

// Environment is all that pid 1 and the components see of an environment: a cluster must not depend on who started it.
func Environment() []string {
	return []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=/root",
	}
}

func (c component) command(log *os.File) *exec.Cmd {
	command := exec.Command(c.program, c.args...)
	command.Args[0] = c.name
	command.Env = Environment()
	command.Stdout, command.Stderr = log, log
	return command
}
