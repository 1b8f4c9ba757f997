package command

import (
	"errors"

	"github.com/spf13/cobra"

	"rouse.dev/cluster/host/state"
	"rouse.dev/cluster/node"
	"rouse.dev/cluster/supervisor"
)

// These commands are internal: the tool runs itself as the supervisor, as pid 1, and as a component.

func (c *cluster) supervise() *cobra.Command {
	return &cobra.Command{
		Use:    "supervise",
		Hidden: true,
		RunE: func(*cobra.Command, []string) error {
			dir, err := c.dir()
			if err != nil {
				return err
			}
			return supervisor.Run(dir)
		},
	}
}

func (c *cluster) init() *cobra.Command {
	return &cobra.Command{
		Use:    "init",
		Hidden: true,
		RunE: func(*cobra.Command, []string) error {
			dir, err := c.dir()
			if err != nil {
				return err
			}
			config, err := node.Read(dir)
			if err != nil {
				return err
			}
			events, host, err := supervisor.Inherited()
			if err != nil {
				return err
			}
			node.Run(config, events, host)
			return errors.New("start failed")
		},
	}
}

func initNode() *cobra.Command {
	return &cobra.Command{
		Use:    "init-node DIRECTORY",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			config, err := node.Read(state.Dir{Path: args[0]})
			if err != nil {
				return err
			}
			return node.RunFurther(config)
		},
	}
}

func enforceNetworkPolicies() *cobra.Command {
	return &cobra.Command{
		Use:    "enforce-network-policies CERTIFICATES",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			return node.EnforceNetworkPolicies(command.Context(), args[0])
		},
	}
}
