package node

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"text/template"
)

//go:embed config
var templates embed.FS

// ContainerdSocket is the socket of containerd, on the cluster's own /run.
const ContainerdSocket = "/run/containerd/containerd.sock"

// values is the data of the templates.
type values struct {
	Config
	NodeName, NodeIP, PodCIDR, PodsCIDR, DNSIP, CgroupRoot, Socket string
}

// render writes the configuration files of the components that need files.
func (c Config) render() error {
	all, err := template.ParseFS(templates, "config/*")
	if err != nil {
		return err
	}
	data := values{
		Config: c, NodeName: c.Node.Name(), NodeIP: c.Node.IP(), PodCIDR: c.Node.PodCIDR(), PodsCIDR: podsCIDR, DNSIP: dnsIP,
		CgroupRoot: c.cgroupRoot(), Socket: ContainerdSocket,
	}
	for _, name := range []string{"containerd.toml", "kubelet.yaml", "kube-proxy.yaml", "cni/bridge.conflist", "resolv.conf"} {
		file, err := os.OpenFile(c.Dir.Components(name), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
		if err != nil {
			return fmt.Errorf("write configuration: %w", err)
		}
		err = all.ExecuteTemplate(file, filepath.Base(name), data)
		if closed := file.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return fmt.Errorf("render %s: %w", name, err)
		}
	}
	return nil
}
