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
		Long: "exec runs a program of the host in the cluster's network namespace, and in no other of its namespaces: pods and Services\n" +
			"can be reached, and files and cgroups are the host's. KUBECONFIG is set to one that works from there.",
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
			// From this very thread, which alone has entered: the others end with it.
			return fmt.Errorf("run %s: %w", program, unix.Exec(program, args, os.Environ()))
		},
	}
	command.Flags().SetInterspersed(false) // from the first word on, all flags are the program's
	return command
}

// enterNetwork moves the calling thread, and keeps the goroutine on it.
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

// throughUserNamespace wraps a command for an ordinary user, whose cluster's network belongs to a user namespace. That one
// has to be entered first, and the kernel lets no program do so that has threads, as every Go program has.
func throughUserNamespace(pid int, args []string) []string {
	return append([]string{"nsenter", "--preserve-credentials", "--user", "--net", "--target", strconv.Itoa(pid), "--"}, args...)
}
