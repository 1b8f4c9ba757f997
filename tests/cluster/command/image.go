package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"rouse.dev/cluster/build/image"
	"rouse.dev/cluster/node"
	"rouse.dev/cluster/node/containerd"
	"rouse.dev/cluster/supervisor"
)

func packImage() *cobra.Command {
	var file string
	var packed image.Image
	command := &cobra.Command{
		Use:   "image --output FILE --name NAME[:TAG] BINARY",
		Short: "Pack one static binary as an image",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			packed.Binary = args[0]
			return packed.Write(file)
		},
	}
	flags := command.Flags()
	flags.StringVarP(&file, "output", "o", "", "tarball to write")
	flags.StringVar(&packed.User, "user", image.NonRoot, "UID:GID to run as")
	flags.StringSliceVar(&packed.Entrypoint, "entrypoint", nil, "command line, separated by commas (default: the binary)")
	// Here --name is the image's name, as in other image tools, and not the cluster's.
	flags.StringVar(&packed.Name, "name", "", "image name, as in pod specs")
	_ = command.MarkFlagRequired("output")
	_ = command.MarkFlagRequired("name")
	return command
}

func (c *cluster) load() *cobra.Command {
	return &cobra.Command{
		Use:   "load FILE...",
		Short: "Load images into all running nodes of the cluster",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, files []string) error {
			dir, record, err := c.running()
			if err != nil {
				return err
			}
			config, err := node.Read(dir)
			if err != nil {
				return err
			}
			stores := supervisor.Images(config, record.Init.PID)
			for _, file := range files {
				if err := loadOne(command, stores, file); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// loadOne loads an image into all nodes.
func loadOne(command *cobra.Command, stores []containerd.Images, file string) error {
	anywhere := false
	for _, images := range stores {
		imported, err := images.Load(command.Context(), file)
		if err != nil {
			return fmt.Errorf("load %s: %w", file, err)
		}
		anywhere = anywhere || imported
	}
	if anywhere {
		fmt.Println("loaded", file)
	} else {
		fmt.Println("already loaded:", file)
	}
	return nil
}
