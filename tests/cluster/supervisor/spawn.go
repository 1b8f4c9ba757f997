package supervisor

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"rouse.dev/cluster/host/state"
)

// Spawn starts a supervisor that outlives the caller, passes it the held lock, and returns the pipe
// of its events.
func Spawn(dir state.Dir, held *os.File) (*os.File, error) {
	log, err := os.OpenFile(dir.Log("supervisor"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the supervisor's log: %w", err)
	}
	defer log.Close()
	events, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer write.Close()
	command := exec.Command("/proc/self/exe", "supervise", "--name", dir.Name)
	command.Args[0] = "cluster-supervisor"
	command.Dir = "/"
	command.Env = append(os.Environ(), dir.Environment())
	command.Stdout, command.Stderr = log, log
	command.ExtraFiles = []*os.File{write, held} // in the order of the constants in supervisor.go
	// A separate session: no terminal, and no Ctrl-C of `cluster up`.
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		events.Close()
		return nil, fmt.Errorf("start the supervisor: %w", err)
	}
	return events, command.Process.Release()
}
