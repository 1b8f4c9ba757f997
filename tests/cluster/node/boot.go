package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"rouse.dev/cluster/node/containerd"
	"rouse.dev/cluster/supervisor/event"
)

// restartDelay limits the load of a component that fails to start.
const restartDelay = time.Second

// failure is an error whose reason is in the log of a component.
type failure struct {
	component string
	err       error
}

func (f failure) Error() string { return f.component + " " + f.err.Error() }
func (f failure) Unwrap() error { return f.err }

// node is the running cluster inside its namespaces.
type node struct {
	config Config
	events *event.Writer
	reaper *reaper
	// abort cancels the start with a cause.
	abort context.CancelCauseFunc
	// up is set after the start. From then on, a component that ends is restarted.
	up atomic.Bool
}

// Run is pid 1 in the cluster's namespaces. It returns only if the start fails. A running cluster
// ends when this process is killed, because the kernel then kills all processes of the pid
// namespace.
func Run(config Config, events *event.Writer, host net.Listener) {
	start, abort := context.WithCancelCause(context.Background())
	n := &node{config: config, events: events, reaper: newReaper(), abort: abort}
	deadline := time.AfterFunc(config.Timeout, func() { abort(errTimeout) })
	if err := n.start(start, host); err != nil {
		component := ""
		if failed, ok := errors.AsType[failure](err); ok {
			component = failed.component
		}
		_ = events.Send(event.Failed, component, err.Error())
		return
	}
	deadline.Stop()
	n.up.Store(true)
	_ = events.Send(event.Ready, "", "")
	select {}
}

var errTimeout = errors.New("was not ready in time")

// start starts the components in the order of their dependencies.
func (n *node) start(ctx context.Context, host net.Listener) error {
	if err := n.prepareNamespaces(); err != nil {
		return err
	}
	go forward(host, API)
	client, err := newAPI(n.config.Dir, API)
	if err != nil {
		return err
	}
	if err := n.launch(n.config.etcd(), n.config.apiServer()); err != nil {
		return err
	}
	pause := make(chan error, 1)
	if n.config.ControlPlaneOnly {
		pause <- nil
	} else {
		if err := n.launch(n.config.containerd()); err != nil {
			return err
		}
		go func() { pause <- n.importPause(ctx) }()
	}
	if err := n.await(ctx, "kube-apiserver", client.serving); err != nil {
		return err
	}
	n.step("API server ready")
	// Only after the bootstrapped roles exist: without them, the controller manager is unauthorized
	// and exits.
	if err := n.launch(n.config.controllerManager()); err != nil {
		return err
	}
	if !n.config.ControlPlaneOnly {
		if err := n.launch(n.config.worker()...); err != nil {
			return err
		}
		if err := n.await(ctx, "kubelet", client.nodesReady(n.config.NodeNames())); err != nil {
			return err
		}
		n.step(strings.Join(n.config.NodeNames(), ", ") + " Ready")
	}
	if err := <-pause; err != nil {
		return err
	}
	return n.await(ctx, "kube-controller-manager", client.takesPods)
}

// prepareNamespaces sets up host name, cgroups, mounts and network.
func (n *node) prepareNamespaces() error {
	if err := unix.Sethostname([]byte(n.config.Node.Name())); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	if !n.config.Rootless {
		if err := n.config.joinCgroups(); err != nil {
			return err
		}
	}
	network, err := n.config.switchOfFurther()
	if err != nil {
		return err
	}
	if err := n.config.mount(); err != nil {
		return err
	}
	if network == nil && len(n.config.NodeNames()) > 1 {
		if network, err = makeSwitch(); err != nil {
			return err
		}
	}
	if err := n.config.connect(network); err != nil {
		return err
	}
	if n.config.ControlPlaneOnly {
		return nil
	}
	return allowForwarding()
}

// importPause waits for containerd and imports the pause image, which every pod needs.
func (n *node) importPause(ctx context.Context) error {
	answers := func(context.Context) bool {
		connection, err := net.Dial("unix", ContainerdSocket)
		if err == nil {
			connection.Close()
		}
		return err == nil
	}
	if err := n.await(ctx, "containerd", answers); err != nil {
		return err
	}
	n.step("containerd ready")
	log, err := n.log("containerd")
	if err != nil {
		return err
	}
	defer log.Close()
	command := containerd.Images{Socket: ContainerdSocket}.Import(n.config.Pause.File)
	command.Stdout, command.Stderr = log, log
	ended, err := n.reaper.start(command)
	if err != nil {
		return err
	}
	select {
	case status := <-ended:
		if status != 0 {
			return failure{"containerd", fmt.Errorf("did not import the image: ctr %s", describe(status))}
		}
		n.step("pause image loaded")
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// await attributes a timeout to the awaited component. A component that ended is reported itself.
func (n *node) await(ctx context.Context, component string, condition func(context.Context) bool) error {
	err := await(ctx, condition)
	if errors.Is(err, errTimeout) {
		return failure{component, fmt.Errorf("%w (%s)", err, n.config.Timeout)}
	}
	return err
}

func (n *node) launch(components ...component) error {
	for _, c := range components {
		log, err := n.log(c.name)
		if err != nil {
			return err
		}
		ended, err := n.reaper.start(c.command(log))
		log.Close()
		if err != nil {
			return failure{c.name, err}
		}
		go func() { n.ended(c, <-ended) }()
	}
	return nil
}

// ended handles the unexpected end of a component.
func (n *node) ended(c component, status syscall.WaitStatus) {
	if !n.up.Load() {
		n.abort(failure{c.name, errors.New(describe(status))})
		return
	}
	_ = n.events.Send(event.Restarted, c.name, describe(status))
	time.Sleep(restartDelay)
	for c.isStopped() {
		time.Sleep(pollPeriod)
	}
	if err := n.launch(c); err != nil {
		_ = n.events.Send(event.Failed, c.name, err.Error())
	}
}

func (n *node) log(component string) (*os.File, error) {
	file, err := os.OpenFile(n.config.Dir.Log(component), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open a log: %w", err)
	}
	return file, nil
}

func (n *node) step(text string) { _ = n.events.Send(event.Step, "", text) }
