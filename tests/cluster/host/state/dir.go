// Package state has the files, the lock and the processes of a cluster.
//
// All files are in one directory per cluster, so that removing a cluster means removing that
// directory.
package state

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// Dir is the directory of one cluster.
type Dir struct {
	Name string
	Path string
}

// names are the valid cluster names: valid as file name, cgroup name and host name.
var names = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`)

// Base is the parent of all cluster directories, below CLUSTER_STATE or a default for the user. It
// always has a name of its own, because its content is removed without confirmation.
func Base() string {
	return filepath.Join(parent(), "rouse-cluster")
}

func parent() string {
	if dir := os.Getenv("CLUSTER_STATE"); dir != "" {
		return dir
	}
	if os.Geteuid() == 0 {
		return "/var/lib"
	}
	if dir := os.Getenv("XDG_STATE_HOME"); dir != "" {
		return dir
	}
	return filepath.Join(os.Getenv("HOME"), ".local", "state")
}

// Of returns the directory of the named cluster, which need not exist.
func Of(name string) (Dir, error) {
	if !names.MatchString(name) {
		return Dir{}, fmt.Errorf("cluster name %q: use at most 40 lower-case letters, digits and inner dashes", name)
	}
	path, err := filepath.Abs(filepath.Join(Base(), name))
	return Dir{Name: name, Path: path}, err
}

// List returns the clusters that have a directory.
func List() ([]Dir, error) {
	entries, err := os.ReadDir(Base())
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list clusters: %w", err)
	}
	var dirs []Dir
	for _, entry := range entries {
		if dir, err := Of(entry.Name()); err == nil && entry.IsDir() {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}

func (d Dir) join(elements ...string) string {
	return filepath.Join(append([]string{d.Path}, elements...)...)
}

// Environment is the setting that gives a child process the same directory, independent of its user
// and working directory.
func (d Dir) Environment() string {
	return "CLUSTER_STATE=" + filepath.Dir(filepath.Dir(d.Path))
}

// Config is the file with the node.Config of the running cluster.
func (d Dir) Config() string { return d.join("config.json") }

// Lock is the file that the supervisor locks while it runs. It contains the pid.
func (d Dir) Lock() string { return d.join("supervisor.lock") }

// Record is the file in which the supervisor records the started processes.
func (d Dir) Record() string { return d.join("record.json") }

// Kubeconfig is the administrator's kubeconfig for programs on the host.
func (d Dir) Kubeconfig() string { return d.join("kubeconfig") }

// PKI has keys, certificates and the kubeconfigs of the components.
func (d Dir) PKI(file ...string) string { return d.join(append([]string{"pki"}, file...)...) }

// Logs has one file per component.
func (d Dir) Logs() string { return d.join("log") }

// Log is the log of one component.
func (d Dir) Log(component string) string { return d.join("log", component+".log") }

// Etcd has the data of etcd.
func (d Dir) Etcd() string { return d.join("etcd") }

// Components has the rendered configuration files of components.
func (d Dir) Components(file ...string) string {
	return d.join(append([]string{"config"}, file...)...)
}

// Containerd is the root of containerd: images and snapshots.
func (d Dir) Containerd() string { return d.join("containerd") }

// Kubelet is mounted as /var/lib/kubelet inside the cluster.
func (d Dir) Kubelet() string { return d.join("kubelet") }

// CNI is mounted as /var/lib/cni inside the cluster.
func (d Dir) CNI() string { return d.join("cni") }

// PodLogs is mounted as /var/log inside the cluster.
func (d Dir) PodLogs() string { return d.join("var-log") }

// Plugins is an empty directory for volume plugins.
func (d Dir) Plugins() string { return d.join("volume-plugins") }

// Cache is kubectl's cache of API discovery.
func (d Dir) Cache() string { return d.join("kubectl-cache") }
