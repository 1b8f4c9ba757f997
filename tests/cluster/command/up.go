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
	var minor string
	command := &cobra.Command{
		Use:   "up",
		Short: "Start the cluster and wait until its nodes are Ready",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			dir, err := c.dir()
			if err != nil {
				return err
			}
			if settings.NetworkPolicies && settings.ControlPlaneOnly {
				return errors.New("--network-policies needs a node, which --control-plane-only leaves out")
			}
			if err := checkNodes(settings); err != nil {
				return err
			}
			if settings.FeatureGates, err = parseGates(gates); err != nil {
				return err
			}
			if settings.Arguments, err = parseArguments(arguments); err != nil {
				return err
			}
			release, err := artifact.ReleaseOf(minor)
			if err != nil {
				return err
			}
			return up(command.Context(), dir, settings, release)
		},
	}
	flags := command.Flags()
	flags.BoolVar(&settings.ControlPlaneOnly, "control-plane-only", false, "start etcd, API server and controllers (including the HPA) without a node")
	flags.DurationVar(&settings.HPASyncPeriod, "hpa-sync-period", 15*time.Second, "sync period of the HPA (default of Kubernetes: 15s)")
	flags.DurationVar(&settings.KubeProxyMinSyncPeriod, "kube-proxy-min-sync-period", 20*time.Millisecond, "minimum time between two changes of Service rules (default of Kubernetes: 1s)")
	flags.BoolVar(&settings.NetworkPolicies, "network-policies", false, "enforce NetworkPolicies")
	flags.BoolVar(&settings.MetricsServer, "metrics-server", false, "deploy metrics-server, which serves the CPU and memory of pods")
	flags.StringSliceVar(&gates, "feature-gates", nil, "NAME=true or NAME=false, for all Kubernetes components")
	flags.StringArrayVar(&arguments, "component-arg", nil, "COMPONENT=ARGUMENT, such as kube-apiserver=--v=4 (repeatable); components: "+strings.Join(node.Configurable(), ", "))
	flags.IntVar(&settings.Nodes, "nodes", 1, "number of nodes, each with a network, containerd, kubelet and kube-proxy of its own")
	flags.StringSliceVar(&settings.Zones, "zones", nil, "zones of the nodes, in turn, as their label topology.kubernetes.io/zone")
	flags.DurationVar(&settings.Timeout, "timeout", 2*time.Minute, "timeout of the start, without builds")
	kubernetesFlag(command, &minor)
	return command
}

// checkNodes checks the options that concern several nodes.
func checkNodes(settings node.Settings) error {
	switch {
	case settings.Nodes < 1 || settings.Nodes > node.MostNodes:
		return fmt.Errorf("--nodes %d: use 1 to %d", settings.Nodes, node.MostNodes)
	case settings.Nodes > 1 && settings.ControlPlaneOnly:
		return errors.New("--nodes needs nodes, which --control-plane-only leaves out")
	}
	return nil
}

// up builds, starts and waits for the cluster.
func up(ctx context.Context, dir state.Dir, settings node.Settings, release artifact.Release) error {
	if dir.Supervisor() != 0 {
		if !dir.ReadRecord().Ready {
			return fmt.Errorf("cluster %s is starting; to stop it, run `cluster down`", dir.Name)
		}
		fmt.Printf("cluster %s is already running with the settings of its start; to change them, run `cluster down` first\n", dir.Name)
		return nil
	}
	config, err := prepare(ctx, dir, settings, release)
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

// stop stops a failed start and keeps its files, so that its logs can be read.
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
	if settings.Nodes > 1 {
		return fmt.Sprintf("%d nodes Ready", settings.Nodes)
	}
	return "node Ready"
}

// prepare installs the packages and builds the binaries of a start.
func prepare(ctx context.Context, dir state.Dir, settings node.Settings, release artifact.Release) (node.Config, error) {
	config := node.Config{Settings: settings, Dir: dir, Rootless: os.Geteuid() != 0}.First()
	if config.Rootless && !settings.ControlPlaneOnly {
		return config, fmt.Errorf("a node needs root; without root, use --control-plane-only")
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
		if config.Addons, err = addons(ctx, store, settings); err != nil {
			return config, err
		}
	}
	built, err := store.Get(ctx, release.Kubernetes())
	config.Kubernetes = built.Program()
	return config, err
}

func addons(ctx context.Context, store artifact.Store, settings node.Settings) ([]node.Addon, error) {
	wanted := []artifact.Artifact{artifact.CoreDNS}
	if settings.MetricsServer {
		wanted = append(wanted, artifact.MetricsServer)
	}
	var all []node.Addon
	for _, addon := range wanted {
		image, err := imageOf(ctx, store, addon)
		if err != nil {
			return nil, err
		}
		all = append(all, node.Addon{Name: addon.Name, Image: image})
	}
	return all, nil
}

func imageOf(ctx context.Context, store artifact.Store, wanted artifact.Artifact) (node.Image, error) {
	built, err := store.Get(ctx, wanted)
	return node.Image{Name: wanted.Image, File: built.ImageFile()}, err
}

// snapshotter returns the snapshotter of containerd. An overlay cannot be mounted on an overlay,
// which the file system of a container is. There every layer is copied, which is slower.
func snapshotter() string {
	var filesystem unix.Statfs_t
	if unix.Statfs("/var/lib", &filesystem) == nil && filesystem.Type == unix.OVERLAYFS_SUPER_MAGIC {
		return "native"
	}
	return "overlayfs"
}

// launch creates the cluster's files and cgroups and starts its supervisor, while it excludes other
// starts and removals.
func launch(config node.Config, clock *stopwatch) (*os.File, error) {
	release, err := state.Exclusive()
	if err != nil {
		return nil, err
	}
	defer release()
	if config.Dir.Supervisor() != 0 {
		return nil, fmt.Errorf("cluster %s was started by another process meanwhile", config.Dir.Name)
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
	if !config.ControlPlaneOnly {
		if err := requireDisk(config.Dir.Path, leastDisk); err != nil {
			return nil, err
		}
	}
	clock.print(time.Now(), "certificates and configuration in "+config.Dir.Path)
	held, err := config.Dir.Hold()
	if err != nil {
		return nil, err
	}
	defer held.Close()
	return supervisor.Spawn(config.Dir, held)
}

// loadModules loads the kernel modules that cannot be loaded from a network namespace. A failure is
// ignored: the modules may be built in, and otherwise the component that needs one fails with an
// error.
func loadModules() {
	_ = exec.Command("modprobe", "--all", "overlay", "nf_tables", "nf_conntrack", "veth").Run()
}

// follow prints the events of a start until the cluster is ready. It returns the reason of a
// failure.
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
		over <- explain(dir, event.Event{Component: "supervisor", Text: "the supervisor ended"})
	}()
	select {
	case err := <-over:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// explain returns an error with the last lines of the log of the failed component.
func explain(dir state.Dir, e event.Event) error {
	if e.Component == "" {
		return fmt.Errorf("%s (logs: %s)", e.Text, dir.Logs())
	}
	file := dir.Log(e.Component)
	return fmt.Errorf("%s; the end of %s:\n%s", e.Text, file, lastLines(file, 12))
}

// stopwatch prints steps with the time since the start.
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
			return nil, fmt.Errorf("feature gate %q: use NAME=true or NAME=false", pair)
		}
		gates[name] = value == "true"
	}
	return gates, nil
}

func parseArguments(pairs []string) (map[string][]string, error) {
	arguments := map[string][]string{}
	for _, pair := range pairs {
		component, argument, found := strings.Cut(pair, "=")
		if !found || !slices.Contains(node.Configurable(), component) {
			return nil, fmt.Errorf("component argument %q: use COMPONENT=ARGUMENT with one of %s", pair, strings.Join(node.Configurable(), ", "))
		}
		arguments[component] = append(arguments[component], argument)
	}
	return arguments, nil
}
