// Package command is the command line of the release tool: pack, sign, push.
package command

import (
	"github.com/spf13/cobra"

	"rouse.dev/release/contents"
)

// Root returns the command line.
func Root() *cobra.Command {
	command := &cobra.Command{
		Use:           "release",
		Short:         "Make a release of Rouse, and push it to a registry",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	command.AddCommand(packRelease(), signRelease(), pushRelease())
	return command
}

func packRelease() *cobra.Command {
	pack := packing{binaries: map[string]string{}}
	command := &cobra.Command{
		Use:   "pack --version VERSION --binaries PLATFORM=FOLDER... FOLDER",
		Short: "Write images, chart, bills of materials and provenance to a folder",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			pack.folder = contents.Folder(args[0])
			return pack.run()
		},
	}
	flags := command.Flags()
	flags.StringVar(&pack.version, "version", "", "version of the release")
	flags.StringVar(&pack.checkout, "source", ".", "git checkout that the binaries are built from")
	flags.StringToStringVar(&pack.binaries, "binaries", nil, "folder with the binaries for each platform: linux-amd64, linux-arm64, and with kubectl-rouse alone windows-amd64 and others")
	flags.StringVar(&pack.download, "download", "", "URL of the folder with the release, for krew; without it there is no manifest of krew")
	flags.StringVar(&pack.helm, "helm", "helm", "program that packs the chart")
	flags.BoolVar(&pack.allowChanges, "allow-changes", false, "accept a checkout with uncommitted changes, for tests; the provenance records them")
	_ = command.MarkFlagRequired("version")
	_ = command.MarkFlagRequired("binaries")
	return command
}

func signRelease() *cobra.Command {
	var sign signer
	command := &cobra.Command{
		Use:   "sign --key FILE FOLDER",
		Short: "Sign images, chart and checksums, without network (password of the key: COSIGN_PASSWORD)",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			sign.folder = contents.Folder(args[0])
			return sign.run(command.Context())
		},
	}
	flags := command.Flags()
	flags.StringVar(&sign.cosign.Key, "key", "", "private key of cosign")
	flags.StringVar(&sign.cosign.Program, "cosign", "cosign", "program that signs")
	_ = command.MarkFlagRequired("key")
	return command
}

func pushRelease() *cobra.Command {
	var registry string
	command := &cobra.Command{
		Use:   "push --registry REGISTRY FOLDER",
		Short: "Push images and chart, with signatures and attestations, with the credentials of `docker login`",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			return push(command.Context(), command.OutOrStdout(), contents.Folder(args[0]), registry)
		},
	}
	command.Flags().StringVar(&registry, "registry", "", "host of the registry, and a prefix of its repositories if any")
	_ = command.MarkFlagRequired("registry")
	return command
}
