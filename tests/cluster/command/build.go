package command

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"rouse.dev/cluster/build/artifact"
)

func build() *cobra.Command {
	return &cobra.Command{
		Use:   "build",
		Short: "Build the programs of a cluster that are not in the cache",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			store, err := artifact.Open(os.Stderr)
			if err != nil {
				return err
			}
			for _, wanted := range artifact.All() {
				built, err := store.Get(command.Context(), wanted)
				if err != nil {
					return err
				}
				fmt.Println(built.Program())
			}
			return nil
		},
	}
}
