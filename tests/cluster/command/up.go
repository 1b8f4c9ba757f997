package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"rouse.dev/cluster/build/artifact"
	"rouse.dev/cluster/build/debian"
	"rouse.dev/cluster/host/cgroup"
	"rouse.dev/cluster/host/state"
	"rouse.dev/cluster/node"
	"rouse.dev/cluster/supervisor"
	"rouse.dev/cluster/supervisor/event"
)

func (c *cluster) up() *cobra.Command {
	var settings node.Settings
	var gates, arguments []string
	command := &cobra.Command{
		Use:   "up",
		Short: "Start the cluster and wait until its node is Ready",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			dir, err := c.dir()
			if err != nil {
				return err
			}
			if settings.FeatureGates, err = parseGates(gates); err != nil {
				return err
			}
			if settings.Arguments, err = parseArguments(arguments); err != nil {
				return err
			}
			return up(command.Context(), dir, settings)
		},
	}
	flags := command.Flags()
	flags.BoolVar(&settings.ControlPlaneOnly, "control-plane-only", false, "etcd, API server and controllers (the HPA is one), without a node")
	flags.DurationVar(&settings.HPASyncPeriod, "hpa-sync-period", 15*time.Second, "how often the HPA looks; 15s is stock")
	flags.DurationVar(&settings.KubeProxyMinSyncPeriod, "kube-proxy-min-sync-period", 20*time.Millisecond, "least time between two changes of Service rules; 1s is stock")
	flags.StringSliceVar(&gates, "feature-gates", nil, "NAME=true or NAME=false, for all Kubernetes components")
	flags.StringArrayVar(&arguments, "component-arg", nil, "COMPONENT=ARGUMENT, such as kube-apiserver=--v=4; can be given again; "+strings.Join(node.Components(), ", "))
	flags.DurationVar(&settings.Timeout, "timeout", 2*time.Minute, "how long the start may take, once everything is built")
	return command
}

// up is the whole way from nothing to a cluster.
func up(ctx context.Context, dir state.Dir, settings node.Settings) error {
	if dir.Supervisor() != 0 {
		if !dir.ReadRecord().Ready {
			return fmt.Errorf("cluster %s is being started; `cluster down` stops that", dir.Name)
		}
		fmt.Printf("cluster %s is running already, with the settings it was started with; `cluster down` to start over\n", dir.Name)
		return nil
	}
	config, err := prepare(ctx, dir, settings)
	if err != nil {
		return err
	}
	clock := &stopwatch{start: time.Now()}
	events, err := launch(config, clock)
	if err != nil {
		return err
	}
	defer events.Close()
	failure := follow(ctx, dir, events, clock)
	if failure == nil {
		fmt.Printf("%s in %d ms\n", goal(settings), clock.elapsed(time.Now()))
		return nil
	}
	if ctx.Err() != nil {
		return errors.Join(failure, down([]state.Dir{dir}))
	}
	return errors.Join(failure, stop(dir))
}

// stop leaves the files of a failed start, so that its logs can be read.
func stop(dir state.Dir) error {
	release, err := state.Exclusive()
	if err != nil {
		return err
	}
	defer release()
	return supervisor.Stop(dir)
}

func goal(settings node.Settings) string {
	if settings.ControlPlaneOnly {
		return "API server ready"
	}
	return "node Ready"
}

// prepare gets what a start needs and that may take long: packages and binaries.
func prepare(ctx context.Context, dir state.Dir, settings node.Settings) (node.Config, error) {
	config := node.Config{Settings: settings, Dir: dir, Rootless: os.Geteuid() != 0}
	if config.Rootless && !settings.ControlPlaneOnly {
		return config, fmt.Errorf("a node needs root; an ordinary user can have --control-plane-only")
	}
	store, err := artifact.Open(os.Stderr)
	if err != nil {
		return config, err
	}
	if !settings.ControlPlaneOnly {
		if err := debian.Ensure(ctx, os.Stderr); err != nil {
			return config, err
		}
		config.CNIPlugins = debian.Plugins()
		config.Snapshotter = snapshotter()
		if config.Pause, err = imageOf(ctx, store, artifact.Pause); err != nil {
			return config, err
		}
		if config.CoreDNS, err = imageOf(ctx, store, artifact.CoreDNS); err != nil {
			return config, err
		}
	}
	built, err := store.Get(ctx, artifact.Kubernetes)
	config.Kubernetes = built.Program()
	return config, err
}

func imageOf(ctx context.Context, store artifact.Store, wanted artifact.Artifact) (node.Image, error) {
	built, err := store.Get(ctx, wanted)
	return node.Image{Name: wanted.Image, File: built.ImageFile()}, err
}

// snapshotter returns how to stack image layers. An overlay cannot be stacked on an overlay, as the disk of a container
// is one: there every layer is a copy, which is slower and works.
func snapshotter() string {
	var filesystem unix.Statfs_t
	if unix.Statfs("/var/lib", &filesystem) == nil && filesystem.Type == unix.OVERLAYFS_SUPER_MAGIC {
		return "native"
	}
	return "overlayfs"
}

// launch makes the cluster's files and groups and starts its supervisor, while no other start or removal is under way.
func launch(config node.Config, clock *stopwatch) (*os.File, error) {
	release, err := state.Exclusive()
	if err != nil {
		return nil, err
	}
	defer release()
	if config.Dir.Supervisor() != 0 {
		return nil, fmt.Errorf("cluster %s was started by somebody else meanwhile", config.Dir.Name)
	}
	if err := supervisor.Remove(config.Dir); err != nil {
		return nil, fmt.Errorf("clean up after an earlier cluster: %w", err)
	}
	if !config.Rootless {
		cgroups, err := cgroup.Of(cgroup.Mount, config.Dir.Name)
		if err == nil {
			err = cgroups.Create()
		}
		if err != nil {
			return nil, err
		}
	}
	if !config.ControlPlaneOnly {
		loadModules()
	}
	if err := config.Write(); err != nil {
		return nil, err
	}
	clock.print(time.Now(), "certificates and configuration in "+config.Dir.Path)
	held, err := config.Dir.Hold()
	if err != nil {
		return nil, err
	}
	defer held.Close()
	return supervisor.Spawn(config.Dir, held)
}

// loadModules asks for kernel modules that a network namespace cannot load itself. Where they are built in, or cannot be
// had, this does nothing, and what lacks one later says so.
func loadModules() {
	_ = exec.Command("modprobe", "--all", "overlay", "br_netfilter", "nf_tables", "nf_conntrack", "veth").Run()
}

// follow prints what happens until the cluster is ready, and returns why it will not be.
func follow(ctx context.Context, dir state.Dir, events *os.File, clock *stopwatch) error {
	over := make(chan error, 1)
	go func() {
		event.Read(events, func(e event.Event) {
			switch e.Kind {
			case event.Step:
				clock.print(e.At, e.Text)
			case event.Ready:
				over <- nil
			case event.Failed:
				over <- explain(dir, e)
			}
		})
		over <- explain(dir, event.Event{Component: "supervisor", Text: "the supervisor is gone"})
	}()
	select {
	case err := <-over:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// explain turns a failure into an error with the end of the log that has the reason.
func explain(dir state.Dir, e event.Event) error {
	if e.Component == "" {
		return fmt.Errorf("%s (logs: %s)", e.Text, dir.Logs())
	}
	file := dir.Log(e.Component)
	return fmt.Errorf("%s; the end of %s:\n%s", e.Text, file, lastLines(file, 12))
}

// stopwatch prints steps with the time since it was started.
type stopwatch struct{ start time.Time }

func (s *stopwatch) elapsed(at time.Time) int64 { return at.Sub(s.start).Milliseconds() }

func (s *stopwatch) print(at time.Time, text string) {
	fmt.Printf("%6d ms  %s\n", s.elapsed(at), text)
}

func parseGates(pairs []string) (map[string]bool, error) {
	gates := map[string]bool{}
	for _, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		if value != "true" && value != "false" {
			return nil, fmt.Errorf("feature gate %q: write NAME=true or NAME=false", pair)
		}
		gates[name] = value == "true"
	}
	return gates, nil
}

func parseArguments(pairs []string) (map[string][]string, error) {
	arguments := map[string][]string{}
	for _, pair := range pairs {
		component, argument, found := strings.Cut(pair, "=")
		if !found || !slices.Contains(node.Components(), component) {
			return nil, fmt.Errorf("component argument %q: write COMPONENT=ARGUMENT, with one of %s", pair, strings.Join(node.Components(), ", "))
		}
		arguments[component] = append(arguments[component], argument)
	}
	return arguments, nil
}
