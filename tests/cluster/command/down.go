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
		Short: "Remove the cluster with its processes and files",
		Long:  "down removes the processes, mounts, networks, cgroups and files of a running cluster or of a crashed one.\nWithout a cluster it does nothing.",
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
	command.Flags().BoolVar(&all, "all", false, "remove every cluster of this tool")
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
		if failure := supervisor.Remove(dir); failure != nil {
			err = errors.Join(err, fmt.Errorf("cluster %s: %w", dir.Name, failure))
			continue
		}
		fmt.Printf("cluster %s down in %d ms\n", dir.Name, time.Since(start).Milliseconds())
	}
	return err
}
