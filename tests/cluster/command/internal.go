package command

import (
	"errors"

	"github.com/spf13/cobra"

	"rouse.dev/cluster/node"
	"rouse.dev/cluster/supervisor"
)

// supervise and init are internal commands: the tool runs itself as the supervisor and as pid 1.

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
