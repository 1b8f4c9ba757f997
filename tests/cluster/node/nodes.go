package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"rouse.dev/cluster/host/state"
	"rouse.dev/cluster/supervisor/event"
)

// MostNodes is the largest number of nodes.
const MostNodes = 16

// cgroupTimeout is the timeout for the removal of cgroups without processes.
const cgroupTimeout = 5 * time.Second

// Identity is the number of a node, from which its name and addresses follow, and its zone. The
// first node is number 1 and runs the control plane; 0 counts as 1.
type Identity struct {
	Number int    `json:"number,omitempty"`
	Zone   string `json:"zone,omitempty"`
}

func (i Identity) number() int { return max(i.Number, 1) }

// Name is the node's name.
func (i Identity) Name() string { return "node" + strconv.Itoa(i.number()) }

// IP is the node's address.
func (i Identity) IP() string { return fmt.Sprintf("10.80.0.%d", i.number()) }

// PodCIDR has the addresses of the node's pods.
func (i Identity) PodCIDR() string { return fmt.Sprintf("10.244.%d.0/24", i.number()-1) }

func (i Identity) isFurther() bool { return i.number() > 1 }

// identities are the identities of all nodes of the cluster.
func (s Settings) identities() []Identity {
	all := make([]Identity, max(s.Nodes, 1))
	for i := range all {
		all[i].Number = i + 1
		if len(s.Zones) > 0 {
			all[i].Zone = s.Zones[i%len(s.Zones)]
		}
	}
	return all
}

// NodeNames returns the names of all nodes.
func (c Config) NodeNames() []string {
	var names []string
	for _, identity := range c.identities() {
		names = append(names, identity.Name())
	}
	return names
}

// First returns the configuration with the identity of the first node.
func (c Config) First() Config {
	c.Node = c.identities()[0]
	return c
}

// further returns the configurations of the nodes beside the first.
func (c Config) further() []Config {
	var all []Config
	for _, identity := range c.identities()[1:] {
		one := c
		one.Node = identity
		one.Dir.Path = NodeDir(c.Dir, identity.Name())
		all = append(all, one)
	}
	return all
}

// NodeDir is the directory of a further node.
func NodeDir(dir state.Dir, name string) string { return filepath.Join(dir.Path, "nodes", name) }

// cluster is the directory of the cluster, in which a further node has its own.
func (c Config) cluster() state.Dir {
	dir := c.Dir
	if c.Node.isFurther() {
		dir.Path = filepath.Dir(filepath.Dir(dir.Path))
	}
	return dir
}

// Stopped is the file that keeps a further node stopped.
func Stopped(dir state.Dir, name string) string { return NodeDir(dir, name) + ".stopped" }

// init is pid 1 of a further node, in namespaces below the cluster's. It ends with pid 1 of the
// cluster, because the kernel kills the processes of nested pid namespaces as well.
func (c Config) init() component {
	return component{
		name: c.Node.Name(), program: "/proc/self/exe", args: []string{"init-node", c.Dir.Path},
		namespaces: unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		stopped:    c.Dir.Path + ".stopped",
	}
}

func (c component) isStopped() bool {
	if c.stopped == "" {
		return false
	}
	_, err := os.Stat(c.stopped)
	return err == nil
}

// joinCgroups moves the process into the cgroups of its node. Those of a further node are created
// first, and those from before it was stopped removed, as by a reboot. The kubelet would take three
// seconds for each of them.
func (c Config) joinCgroups() error {
	cgroups, err := c.cgroups()
	if err == nil && c.Node.isFurther() {
		err = errors.Join(cgroups.Remove(cgroupTimeout), cgroups.Create())
	}
	if err == nil {
		err = cgroups.Join()
	}
	return err
}

// RunFurther is pid 1 of a further node. It returns only if the start fails; its standard output is
// the node's log.
func RunFurther(config Config) error {
	start, abort := context.WithCancelCause(context.Background())
	n := &node{config: config, events: event.NewWriter(os.Stdout), reaper: newReaper(), abort: abort}
	deadline := time.AfterFunc(config.Timeout, func() { abort(errTimeout) })
	if err := n.startFurther(start); err != nil {
		return fmt.Errorf("%w (logs: %s)", err, config.Dir.Logs())
	}
	deadline.Stop()
	n.up.Store(true)
	if context.Cause(start) != nil {
		return errors.New("a component ended during the start")
	}
	select {}
}

func (n *node) startFurther(ctx context.Context) error {
	if err := n.prepareNamespaces(); err != nil {
		return err
	}
	if err := n.launch(n.config.containerd()); err != nil {
		return err
	}
	if err := n.importPause(ctx); err != nil {
		return err
	}
	return n.launch(n.config.agents()...)
}
