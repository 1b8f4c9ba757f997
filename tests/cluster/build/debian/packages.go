// Package debian installs the programs of a node that are not Go modules: the container runtime and
// the tools that the kubelet and kube-proxy run.
package debian

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// need is a program and its package.
type need struct{ program, pack string }

var needs = []need{
	{"containerd", "containerd"},
	{"ctr", "containerd"},
	{"runc", "runc"},
	{"conntrack", "conntrack"},
	{"nft", "nftables"},
	{"iptables", "iptables"},
	{"ip", "iproute2"},
}

// pluginsPackage has the container network plugins, which are not in PATH.
const pluginsPackage = "containernetworking-plugins"

// pluginDirs are the directories of the plugins in different distributions.
var pluginDirs = []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"}

// Plugins returns the directory of the container network plugins, or "" if there is none.
func Plugins() string {
	for _, dir := range pluginDirs {
		if _, err := os.Stat(filepath.Join(dir, "ptp")); err == nil {
			return dir
		}
	}
	return ""
}

// Missing returns the packages to install. It checks for programs, so it accepts the programs of
// other distributions.
func Missing() []string {
	var missing []string
	for _, need := range needs {
		if !has(need.program) && (len(missing) == 0 || missing[len(missing)-1] != need.pack) {
			missing = append(missing, need.pack)
		}
	}
	if Plugins() == "" {
		missing = append(missing, pluginsPackage)
	}
	return missing
}

// Ensure installs the missing packages, which needs root and Debian.
func Ensure(ctx context.Context, report io.Writer) error {
	missing := Missing()
	if len(missing) == 0 {
		return nil
	}
	install := append([]string{"apt-get", "install", "--yes", "--no-install-recommends"}, missing...)
	if os.Geteuid() != 0 || !has("apt-get") {
		return fmt.Errorf("a node needs programs that are not installed; as root, on Debian, run: apt-get update && %s", strings.Join(install, " "))
	}
	fmt.Fprintf(report, "installing %s\n", strings.Join(missing, " "))
	// A package list that is outdated or empty makes the installation fail. Only then is it
	// updated.
	first := run(ctx, install)
	if first != nil {
		if err := run(ctx, []string{"apt-get", "update"}); err != nil {
			return errors.Join(first, err)
		}
		if err := run(ctx, install); err != nil {
			return err
		}
	}
	if still := Missing(); len(still) > 0 {
		return fmt.Errorf("not found after installation: %s", strings.Join(still, " "))
	}
	return nil
}

func run(ctx context.Context, args []string) error {
	command := exec.CommandContext(ctx, args[0], args[1:]...)
	command.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, output)
	}
	return nil
}

// has also checks the directories of root's programs, which the PATH of other users lacks.
func has(program string) bool {
	if _, err := exec.LookPath(program); err == nil {
		return true
	}
	for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/local/sbin"} {
		if _, err := os.Stat(filepath.Join(dir, program)); err == nil {
			return true
		}
	}
	return false
}
