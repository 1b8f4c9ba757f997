// Package command is the command line of the cluster tool.
package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"rouse.dev/cluster/host/state"
)

// silent is an exit code without an error message.
type silent int

func (s silent) Error() string { return fmt.Sprintf("exit code %d", int(s)) }

// Execute runs the command line and returns the exit code.
func Execute() int {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	err := root().ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if code, ok := errors.AsType[silent](err); ok {
		return int(code)
	}
	if ctx.Err() != nil {
		fmt.Fprintln(os.Stderr, "cluster: interrupted")
		return 130
	}
	fmt.Fprintln(os.Stderr, "cluster:", err)
	return 1
}

// cluster is the cluster of a command, selected by --name.
type cluster struct{ name string }

func (c *cluster) dir() (state.Dir, error) { return state.Of(c.name) }

// running returns the directory and record of the cluster, or an error if it is not running.
func (c *cluster) running() (state.Dir, state.Record, error) {
	dir, err := c.dir()
	if err != nil {
		return dir, state.Record{}, err
	}
	record := dir.ReadRecord()
	if dir.Supervisor() == 0 || !record.Init.Alive() {
		return dir, record, fmt.Errorf("cluster %s is not running; start it with `cluster up`", dir.Name)
	}
	return dir, record, nil
}

func root() *cobra.Command {
	c := &cluster{}
	command := &cobra.Command{
		Use:           "cluster",
		Short:         "Run a real Kubernetes for tests and demos",
		Long:          "cluster runs a real Kubernetes of one or several nodes in namespaces of its own. On the host it has only files and cgroups, which\n`cluster down` removes.",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	name := os.Getenv("CLUSTER_NAME")
	if name == "" {
		name = "rouse"
	}
	command.PersistentFlags().StringVar(&c.name, "name", name, "name of the cluster (environment: CLUSTER_NAME)")
	command.AddCommand(
		c.up(), c.down(), c.status(),
		c.kubeconfig(), c.kubectl(), c.kubectlPath(), c.exec(), c.node(),
		packImage(), c.load(),
		build(),
		c.supervise(), c.init(), initNode(), enforceNetworkPolicies(),
	)
	return command
}
