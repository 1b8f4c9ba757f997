package supervisor

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"os"
	"time"

	"rouse.dev/cluster/node"
)

// manifests has a file for each addon.
//
//go:embed addons/*.yaml
var manifests embed.FS

// deployAddons deploys the addons after the start, because importing their large images would delay the start.
func (s *supervisor) deployAddons() {
	for _, addon := range s.config.Addons {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		if err := s.deploy(ctx, addon); err != nil {
			fmt.Fprintln(os.Stderr, addon.Name, "not deployed:", err)
		}
		cancel()
	}
}

func (s *supervisor) deploy(ctx context.Context, addon node.Addon) error {
	manifest, err := manifests.ReadFile("addons/" + addon.Name + ".yaml")
	if err != nil {
		return err
	}
	for _, images := range Images(s.config, s.record.Init.PID) {
		if _, err := images.Load(ctx, addon.Image.File); err != nil {
			return err
		}
	}
	apply := Kubectl(ctx, s.config, "apply", "--filename=-")
	apply.Stdin = bytes.NewReader(manifest)
	if output, err := apply.CombinedOutput(); err != nil {
		return fmt.Errorf("apply %s: %w: %s", addon.Name, err, output)
	}
	return nil
}
