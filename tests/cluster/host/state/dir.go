// Package state knows where a cluster keeps its files, who holds it, and which processes are its own.
//
// Everything on disk lies in one directory per cluster, so that removing a cluster is removing that directory.
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

// names keeps a cluster's name usable as a file, a cgroup and a host name.
var names = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`)

// Base is the directory that holds the directories of all clusters, below CLUSTER_STATE or a place that fits the user. It
// has a name of its own in any case: what lies in it is removed without asking.
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
		return Dir{}, fmt.Errorf("cluster name %q: use at most 40 small letters, digits and inner dashes", name)
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

// Environment tells a process that is started for this cluster where the directory is, whatever its user and working
// directory.
func (d Dir) Environment() string {
	return "CLUSTER_STATE=" + filepath.Dir(filepath.Dir(d.Path))
}

// Config is the file with the node.Config that the cluster was started with.
func (d Dir) Config() string { return d.join("config.json") }

// Lock is the file that the supervisor holds while it lives, with its pid inside.
func (d Dir) Lock() string { return d.join("supervisor.lock") }

// Record is the file in which the supervisor tells what it started.
func (d Dir) Record() string { return d.join("record.json") }

// Kubeconfig is the administrator's, for programs on the host.
func (d Dir) Kubeconfig() string { return d.join("kubeconfig") }

// PKI holds keys and certificates, and the kubeconfigs of the components.
func (d Dir) PKI(file ...string) string { return d.join(append([]string{"pki"}, file...)...) }

// Logs holds one file per component.
func (d Dir) Logs() string { return d.join("log") }

// Log is the log of one component.
func (d Dir) Log(component string) string { return d.join("log", component+".log") }

// Etcd holds etcd's data.
func (d Dir) Etcd() string { return d.join("etcd") }

// Components holds the rendered configuration files of components.
func (d Dir) Components(file ...string) string {
	return d.join(append([]string{"config"}, file...)...)
}

// Containerd is containerd's root: images and snapshots.
func (d Dir) Containerd() string { return d.join("containerd") }

// Kubelet appears as /var/lib/kubelet inside the cluster.
func (d Dir) Kubelet() string { return d.join("kubelet") }

// CNI appears as /var/lib/cni inside the cluster.
func (d Dir) CNI() string { return d.join("cni") }

// PodLogs appears as /var/log inside the cluster.
func (d Dir) PodLogs() string { return d.join("var-log") }

// Plugins is an empty directory for the volume plugins that nobody has.
func (d Dir) Plugins() string { return d.join("volume-plugins") }

// Cache is where kubectl keeps what it learned about the API.
func (d Dir) Cache() string { return d.join("kubectl-cache") }
