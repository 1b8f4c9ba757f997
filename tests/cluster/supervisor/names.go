package supervisor

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"time"
)

// coreDNS has the manifests of CoreDNS.
//
//go:embed coredns.yaml
var coreDNS []byte

// addDNS deploys CoreDNS after the start, because importing its large image would delay the start.
func (s *supervisor) addDNS() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.deployCoreDNS(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "CoreDNS not deployed, names of Services do not resolve:", err)
	}
}

func (s *supervisor) deployCoreDNS(ctx context.Context) error {
	for _, images := range Images(s.config, s.record.Init.PID) {
		if _, err := images.Load(ctx, s.config.CoreDNS.File); err != nil {
			return err
		}
	}
	apply := Kubectl(ctx, s.config, "apply", "--filename=-")
	apply.Stdin = bytes.NewReader(coreDNS)
	if output, err := apply.CombinedOutput(); err != nil {
		return fmt.Errorf("apply CoreDNS: %w: %s", err, output)
	}
	return nil
}
