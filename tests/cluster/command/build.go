package command

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"rouse.dev/cluster/build/artifact"
)

func build() *cobra.Command {
	var minor string
	command := &cobra.Command{
		Use:   "build",
		Short: "Build the programs of a cluster that are not in the cache",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			release, err := artifact.ReleaseOf(minor)
			if err != nil {
				return err
			}
			store, err := artifact.Open(os.Stderr)
			if err != nil {
				return err
			}
			for _, wanted := range artifact.All(release) {
				built, err := store.Get(command.Context(), wanted)
				if err != nil {
					return err
				}
				fmt.Println(built.Program())
			}
			return nil
		},
	}
	kubernetesFlag(command, &minor)
	return command
}

// kubernetesFlag selects the version of Kubernetes.
func kubernetesFlag(command *cobra.Command, minor *string) {
	command.Flags().StringVar(minor, "kubernetes", artifact.Newest.Minor(),
		"version of Kubernetes: "+strings.Join(artifact.Minors(), ", ")+"; each is built when it is first used")
}
