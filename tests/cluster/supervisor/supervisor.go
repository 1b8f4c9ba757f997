// Package supervisor is the outside of a cluster: the process that stays behind `cluster up` and holds the cluster's pid
// 1, and what starts and removes it.
//
//	cluster up ──► supervisor ──► pid 1 of new namespaces ──► etcd, kube-apiserver, containerd, kubelet ...
//	 (returns)      (detached)     (dies with its parent, and the kernel kills the rest)
//
// Whatever way the supervisor ends, the processes, mounts and network of the cluster end with it. What can be left are
// cgroups and files, and those Remove finds by their names.
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
	"rouse.dev/cluster/node/pki"
	"rouse.dev/cluster/supervisor/event"
)

// The files that are inherited after the three standard ones: events to report to by both processes, and then the
// cluster's lock by the supervisor and the listener for the host's clients by pid 1.
const (
	eventsFile   = 3
	lockFile     = 4
	listenerFile = 4
)

// inherit takes over a file, and keeps it from those that this process will start.
func inherit(number uintptr, name string) *os.File {
	unix.CloseOnExec(int(number))
	return os.NewFile(number, name)
}

// Run is the life of the supervisor.
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
		// Sent in vain when `cluster up` has gone, which is why errors of reports are nobody's.
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

// writeKubeconfig makes the administrator's kubeconfig for programs on the host.
func (s *supervisor) writeKubeconfig(address string) error {
	authority, err := os.ReadFile(s.dir.PKI("ca.crt"))
	if err != nil {
		return fmt.Errorf("read the authority: %w", err)
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
// The kernel ties the death signal to the thread that made the child: the calling goroutine keeps its thread for good.
func (s *supervisor) startInit(host *net.TCPListener) (*exec.Cmd, *os.File, error) {
	runtime.LockOSThread()
	listener, err := host.File()
	if err != nil {
		return nil, nil, err
	}
	defer listener.Close()
	defer host.Close() // pid 1 has it from here on: a second holder would keep clients waiting after pid 1's end
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
			err = fmt.Errorf("%w; as an ordinary user this takes a kernel that allows user namespaces", err)
		}
		return nil, nil, fmt.Errorf("start pid 1 of the cluster: %w", err)
	}
	return command, events, nil
}

// handle takes an event from pid 1.
func (s *supervisor) handle(e event.Event) {
	fmt.Fprintln(os.Stderr, e.At.Format("15:04:05.000"), e.Kind, e.Component, e.Text)
	if e.Kind == event.Ready {
		s.record.Ready = true
		if err := s.dir.WriteRecord(s.record); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		if !s.config.ControlPlaneOnly {
			go s.addNames()
		}
	}
	_ = s.report.Forward(e)
}

// Inherited returns what startInit handed to pid 1.
func Inherited() (*event.Writer, net.Listener, error) {
	file := inherit(listenerFile, "listener")
	defer file.Close()
	host, err := net.FileListener(file)
	return event.NewWriter(inherit(eventsFile, "events")), host, err
}
