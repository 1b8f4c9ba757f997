package supervisor

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"time"
)

// coreDNS is what makes Services known by name.
//
//go:embed coredns.yaml
var coreDNS []byte

// addNames deploys CoreDNS into a cluster that is up. Its image is large, so it comes after the start and not in its way.
func (s *supervisor) addNames() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.deployCoreDNS(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "names of Services will not resolve:", err)
	}
}

func (s *supervisor) deployCoreDNS(ctx context.Context) error {
	if _, err := Images(s.record.Init.PID).Load(ctx, s.config.CoreDNS.File); err != nil {
		return err
	}
	apply := Kubectl(ctx, s.config, "apply", "--filename=-")
	apply.Stdin = bytes.NewReader(coreDNS)
	if output, err := apply.CombinedOutput(); err != nil {
		return fmt.Errorf("apply CoreDNS: %w: %s", err, output)
	}
	return nil
}
