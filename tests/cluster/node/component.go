package node

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// component is a long-running process of the cluster.
type component struct {
	name string
	// program is the file to run, with the component's name as argv[0].
	program string
	args    []string
	// group is the group id of the process; root's if it is 0.
	group uint32
	// namespaces are clone flags of namespaces of its own.
	namespaces uintptr
	// stopped is a file that keeps it from being started again; none if it is empty.
	stopped string
}

// enforcerName is the name of the process that enforces NetworkPolicies.
const enforcerName = "network-policies"

// Components returns the names of all components in the order of their start.
func Components() []string {
	return append(Configurable(), enforcerName)
}

// Configurable returns the names that --component-arg accepts.
func Configurable() []string {
	return []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "containerd", "kubelet", "kube-proxy"}
}

// kubernetes returns a component of the multi-call binary. The feature gates and the user's
// arguments are last, because the later of two equal flags wins.
func (c Config) kubernetes(name string, args ...string) component {
	if gates := c.featureGates(); gates != "" {
		args = append(args, "--feature-gates="+gates)
	}
	return component{name: name, program: c.Kubernetes, args: append(args, c.Arguments[name]...)}
}

func (c Config) featureGates() string {
	var gates []string
	for name, on := range c.FeatureGates {
		gates = append(gates, name+"="+strconv.FormatBool(on))
	}
	slices.Sort(gates)
	return strings.Join(gates, ",")
}

// Environment is the environment of pid 1 and the components. It does not depend on the caller.
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
	if c.namespaces != 0 {
		command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: c.namespaces}
	}
	if c.group != 0 {
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Gid: c.group}}
	}
	return command
}
