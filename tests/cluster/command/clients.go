package command

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"rouse.dev/cluster/node"
	"rouse.dev/cluster/supervisor"
)

func (c *cluster) kubeconfig() *cobra.Command {
	return &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print the path of the administrator's kubeconfig, for programs on the host",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			dir, _, err := c.running()
			if err == nil {
				fmt.Println(dir.Kubeconfig())
			}
			return err
		},
	}
}

func (c *cluster) kubectl() *cobra.Command {
	command := &cobra.Command{
		Use:   "kubectl -- ARGUMENT...",
		Short: "Run the kubectl of the cluster's version as the administrator",
		RunE: func(command *cobra.Command, args []string) error {
			dir, _, err := c.running()
			if err != nil {
				return err
			}
			config, err := node.Read(dir)
			if err != nil {
				return err
			}
			kubectl := supervisor.Kubectl(command.Context(), config, args...)
			return unix.Exec(kubectl.Path, kubectl.Args, kubectl.Environ()) // in Environ, the later of two settings wins
		},
	}
	command.Flags().SetInterspersed(false) // flags after the first argument are kubectl's
	return command
}

func (c *cluster) kubectlPath() *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl-path",
		Short: "Print the path of the kubectl of the cluster's version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			dir, _, err := c.running()
			if err != nil {
				return err
			}
			config, err := node.Read(dir)
			if err == nil {
				fmt.Println(filepath.Join(filepath.Dir(config.Kubernetes), "kubectl"))
			}
			return err
		},
	}
}
