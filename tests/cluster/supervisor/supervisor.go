// Package supervisor runs outside the namespaces of a cluster: the process that starts pid 1 and
// stays after `cluster up`, and the functions that start and remove it.
//
//	cluster up ──► supervisor ──► pid 1 of new namespaces ──► etcd, kube-apiserver, containerd, kubelet ...
//	 (returns)      (detached)     (dies with its parent, and the kernel kills the rest)
//
// However the supervisor ends, the processes, mounts and network of the cluster end with it.
// Cgroups and files may remain; Remove finds them by name.
package supervisor

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"rouse.dev/cluster/host/state"
	"rouse.dev/cluster/node"
	"rouse.dev/cluster/pki"
	"rouse.dev/cluster/supervisor/event"
)

// The files that are inherited after the three standard ones. Both processes inherit the pipe for
// events; the supervisor also inherits the cluster's lock, and pid 1 the listener for clients on
// the host.
const (
	eventsFile   = 3
	lockFile     = 4
	listenerFile = 4
)

// inherit opens an inherited file, and closes it for the children of this process.
func inherit(number uintptr, name string) *os.File {
	unix.CloseOnExec(int(number))
	return os.NewFile(number, name)
}

// Run runs the supervisor until the cluster ends.
func Run(dir state.Dir) error {
	report := event.NewWriter(inherit(eventsFile, "events"))
	held := inherit(lockFile, "lock")
	defer held.Close()
	s := &supervisor{dir: dir, report: report}
	err := state.Sign(held)
	if err == nil {
		err = s.run()
	}
	if err != nil {
		// Fails if `cluster up` has ended, so the errors of reports are ignored.
		_ = report.Send(event.Failed, "supervisor", err.Error())
		return err
	}
	return nil
}

type supervisor struct {
	dir    state.Dir
	config node.Config
	report *event.Writer
	record state.Record
}

func (s *supervisor) run() error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	var err error
	if s.config, err = node.Read(s.dir); err != nil {
		return err
	}
	host, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for clients of the API server: %w", err)
	}
	if err := s.writeKubeconfig(host.Addr().String()); err != nil {
		return err
	}
	initial, events, err := s.startInit(host.(*net.TCPListener))
	if err != nil {
		return err
	}
	identity, err := state.Identify(initial.Process.Pid)
	if err != nil {
		return err
	}
	s.record = state.Record{Init: identity, Address: host.Addr().String()}
	if err := s.dir.WriteRecord(s.record); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		event.Read(events, s.handle)
		ended <- initial.Wait()
	}()
	select {
	case <-stop:
		_ = initial.Process.Kill()
		<-ended
		return nil
	case err := <-ended:
		return fmt.Errorf("pid 1 of the cluster ended: %v", err)
	}
}

// writeKubeconfig writes the administrator's kubeconfig for programs on the host.
func (s *supervisor) writeKubeconfig(address string) error {
	authority, err := os.ReadFile(s.dir.PKI("ca.crt"))
	if err != nil {
		return fmt.Errorf("read the CA: %w", err)
	}
	admin, err := pki.ReadPair(s.dir.PKI(), "admin")
	if err != nil {
		return err
	}
	content, err := pki.Kubeconfig{
		Cluster: s.dir.Name, Server: "https://" + address, Authority: authority, User: "kubernetes-admin", Pair: admin,
	}.Encode()
	if err != nil {
		return err
	}
	return os.WriteFile(s.dir.Kubeconfig(), content, 0o600)
}

// startInit starts pid 1 in namespaces of its own, with the listener for the host's clients.
//
// The kernel sends the death signal when the thread that created the child ends, so the calling
// goroutine is locked to its thread.
func (s *supervisor) startInit(host *net.TCPListener) (*exec.Cmd, *os.File, error) {
	runtime.LockOSThread()
	listener, err := host.File()
	if err != nil {
		return nil, nil, err
	}
	defer listener.Close()
	defer host.Close() // pid 1 has it: with a second copy, clients would hang after the end of pid 1
	events, write, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer write.Close()
	command := exec.Command("/proc/self/exe", "init", "--name", s.dir.Name)
	command.Args[0] = "cluster-init"
	command.Env = append(node.Environment(), s.dir.Environment())
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.ExtraFiles = []*os.File{write, listener} // in the order of the constants above
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
	}
	if s.config.Rootless {
		command.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		command.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		command.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	if err := command.Start(); err != nil {
		if s.config.Rootless {
			err = fmt.Errorf("%w; without root this needs a kernel that allows user namespaces", err)
		}
		return nil, nil, fmt.Errorf("start pid 1 of the cluster: %w", err)
	}
	return command, events, nil
}

// handle handles an event from pid 1.
func (s *supervisor) handle(e event.Event) {
	fmt.Fprintln(os.Stderr, e.At.Format("15:04:05.000"), e.Kind, e.Component, e.Text)
	if e.Kind == event.Ready {
		s.record.Ready = true
		if err := s.dir.WriteRecord(s.record); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		if !s.config.ControlPlaneOnly {
			go s.deployAddons()
		}
	}
	_ = s.report.Forward(e)
}

// Inherited returns the files that startInit passed to pid 1.
func Inherited() (*event.Writer, net.Listener, error) {
	file := inherit(listenerFile, "listener")
	defer file.Close()
	host, err := net.FileListener(file)
	return event.NewWriter(inherit(eventsFile, "events")), host, err
}
