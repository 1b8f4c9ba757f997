package command

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"rouse.dev/cluster/host/state"
	"rouse.dev/cluster/supervisor"
)

func (c *cluster) down() *cobra.Command {
	var all bool
	command := &cobra.Command{
		Use:   "down",
		Short: "Remove the cluster and everything of it",
		Long:  "down removes the cluster: processes, mounts, networks, cgroups and files, of a running cluster and of what a crash left.\nIt does nothing where there is nothing.",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			dirs := make([]state.Dir, 1)
			var err error
			if all {
				dirs, err = supervisor.All()
			} else {
				dirs[0], err = c.dir()
			}
			if err != nil {
				return err
			}
			return down(dirs)
		},
	}
	command.Flags().BoolVar(&all, "all", false, "every cluster of this tool")
	return command
}

func down(dirs []state.Dir) error {
	release, err := state.Exclusive()
	if err != nil {
		return err
	}
	defer release()
	for _, dir := range dirs {
		start := time.Now()
		if wrong := supervisor.Remove(dir); wrong != nil {
			err = errors.Join(err, fmt.Errorf("cluster %s: %w", dir.Name, wrong))
			continue
		}
		fmt.Printf("cluster %s down in %d ms\n", dir.Name, time.Since(start).Milliseconds())
	}
	return err
}
