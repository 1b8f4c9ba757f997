package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// kubeletSysctls are settings of the whole machine that the kubelet would set to these values. It
// gets bind-mounted files that already have them.
var kubeletSysctls = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// mount changes the copy of the host's mounts: a /proc of the cluster's processes, and directories
// of the cluster at the fixed paths of components. The host does not see these mounts, and they end
// with the last process of the cluster.
func (c Config) mount() error {
	steps := mounting{}
	steps.do("", "/", "", unix.MS_REC|unix.MS_PRIVATE)
	if c.Node.isFurther() {
		// These are copies of the first node's. Its pods' mounts would stay busy in them.
		for _, path := range []string{"/var/lib/kubelet", "/var/lib/cni", "/var/log", "/run"} {
			steps.detach(path)
		}
	}
	steps.do("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC)
	steps.do("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV)
	if c.ControlPlaneOnly {
		return steps.err
	}
	// The kubelet and the network plugins need directories in /var/lib that the host may lack.
	// Creating them there would leave them behind, so /var/lib is covered by a tmpfs, and the
	// directories of the cluster are moved back into it.
	if !c.Node.isFurther() {
		c.coverVarLib(&steps)
	}
	steps.bind(c.Dir.Kubelet(), "/var/lib/kubelet")
	steps.bind(c.Dir.CNI(), "/var/lib/cni")
	steps.bind(c.Dir.PodLogs(), "/var/log")
	for name, value := range kubeletSysctls {
		setting := filepath.Join("/proc/sys", name)
		if _, err := os.Stat(setting); err != nil {
			continue // not every kernel has every setting
		}
		fake := filepath.Join("/run/sysctl", strings.ReplaceAll(name, "/", "."))
		steps.file(fake, value+"\n")
		steps.do(fake, setting, "", unix.MS_BIND)
	}
	// The kubelet expects mount propagation from pods to the node.
	steps.do("", "/", "", unix.MS_REC|unix.MS_SHARED)
	return steps.err
}

func (c Config) coverVarLib(steps *mounting) {
	const covered = "/var/lib"
	var kept []string
	for _, path := range []string{c.Dir.Path, filepath.Dir(c.Kubernetes), filepath.Dir(c.Pause.File), c.CNIPlugins} {
		if strings.HasPrefix(path, covered+"/") {
			kept = append(kept, path)
		}
	}
	for i, path := range kept {
		steps.bind(path, fmt.Sprintf("/run/kept/%d", i))
	}
	steps.do("tmpfs", covered, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV)
	for i, path := range kept {
		steps.directory(path)
		steps.do(fmt.Sprintf("/run/kept/%d", i), path, "", unix.MS_MOVE)
	}
}

// mounting keeps the first error of a list of mounts.
type mounting struct{ err error }

func (m *mounting) do(source, target, kind string, flags uintptr) {
	if m.err != nil {
		return
	}
	options := ""
	if kind == "tmpfs" {
		options = "mode=755"
	}
	if err := unix.Mount(source, target, kind, flags, options); err != nil {
		m.err = fmt.Errorf("mount %q on %s: %w", source, target, err)
	}
}

// detach removes a mount with all mounts below it.
func (m *mounting) detach(target string) {
	if m.err != nil {
		return
	}
	if err := unix.Unmount(target, unix.MNT_DETACH); err != nil {
		m.err = fmt.Errorf("unmount %s: %w", target, err)
	}
}

func (m *mounting) bind(source, target string) {
	m.directory(target)
	m.do(source, target, "", unix.MS_BIND|unix.MS_REC)
}

func (m *mounting) directory(path string) {
	if m.err == nil {
		m.err = os.MkdirAll(path, 0o755)
	}
}

func (m *mounting) file(path, content string) {
	m.directory(filepath.Dir(path))
	if m.err == nil {
		m.err = os.WriteFile(path, []byte(content), 0o644)
	}
}
