package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"rouse.dev/cluster/build/image"
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
		Short: "Load images into the running cluster",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, files []string) error {
			_, record, err := c.running()
			if err != nil {
				return err
			}
			images := supervisor.Images(record.Init.PID)
			for _, file := range files {
				if err := loadOne(command, images, file); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func loadOne(command *cobra.Command, images containerd.Images, file string) error {
	imported, err := images.Load(command.Context(), file)
	if err != nil {
		return fmt.Errorf("load %s: %w", file, err)
	}
	if imported {
		fmt.Println("loaded", file)
	} else {
		fmt.Println("already loaded:", file)
	}
	return nil
}
