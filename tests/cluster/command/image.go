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
	flags.StringVarP(&file, "output", "o", "", "the tarball to write")
	flags.StringVar(&packed.User, "user", image.NonRoot, "UID:GID to run as")
	flags.StringSliceVar(&packed.Entrypoint, "entrypoint", nil, "the command line, with commas between words (default the binary alone)")
	// Not the cluster's name: here, as in every image tool, it is the image's.
	flags.StringVar(&packed.Name, "name", "", "the image's name, as pods give it")
	_ = command.MarkFlagRequired("output")
	_ = command.MarkFlagRequired("name")
	return command
}

func (c *cluster) load() *cobra.Command {
	return &cobra.Command{
		Use:   "load FILE...",
		Short: "Give images to the running cluster",
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
		fmt.Println("there already:", file)
	}
	return nil
}
