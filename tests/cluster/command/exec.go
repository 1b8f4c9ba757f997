package command

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

func (c *cluster) exec() *cobra.Command {
	command := &cobra.Command{
		Use:   "exec -- COMMAND [ARGUMENT...]",
		Short: "Run a program of the host in the cluster's network",
		Long: "exec runs a program of the host in the cluster's network namespace only: it reaches pods and Services, and has the\n" +
			"files and cgroups of the host. KUBECONFIG is set to a kubeconfig for that network.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir, record, err := c.running()
			if err != nil {
				return err
			}
			if os.Geteuid() == 0 {
				err = enterNetwork(record.Init.PID)
			} else {
				args = throughUserNamespace(record.Init.PID, args)
			}
			if err != nil {
				return err
			}
			program, err := exec.LookPath(args[0])
			if err != nil {
				return err
			}
			if err := os.Setenv("KUBECONFIG", dir.PKI("admin.kubeconfig")); err != nil {
				return err
			}
			// Only this thread has entered the namespace. Exec ends the other threads.
			return fmt.Errorf("run %s: %w", program, unix.Exec(program, args, os.Environ()))
		},
	}
	command.Flags().SetInterspersed(false) // flags after the first argument are the program's
	return command
}

// enterNetwork moves the calling thread into the network namespace of a process, and locks the
// goroutine to it.
func enterNetwork(pid int) error {
	runtime.LockOSThread()
	namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return fmt.Errorf("open the cluster's network: %w", err)
	}
	defer namespace.Close()
	if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter the cluster's network: %w", err)
	}
	return nil
}

// throughUserNamespace wraps a command for a user without root, whose cluster's network belongs to
// a user namespace. A process with threads, as every Go process, cannot enter a user namespace, so
// nsenter does.
func throughUserNamespace(pid int, args []string) []string {
	return append([]string{"nsenter", "--preserve-credentials", "--user", "--net", "--target", strconv.Itoa(pid), "--"}, args...)
}
