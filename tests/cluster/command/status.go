package command

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"rouse.dev/cluster/host/state"
	"rouse.dev/cluster/node"
	"rouse.dev/cluster/supervisor"
)

// status is the output of `cluster status`.
type status struct {
	Name       string `json:"name"`
	Running    bool   `json:"running"`
	Ready      bool   `json:"ready"`
	Node       string `json:"node,omitempty"`
	Server     string `json:"server,omitempty"`
	Kubeconfig string `json:"kubeconfig,omitempty"`
	State      string `json:"state"`
	Supervisor int    `json:"supervisor,omitempty"`
	// Nodes are the pids of pid 1 of the running nodes.
	Nodes map[string]int `json:"nodes,omitempty"`
	// Components are the pids of components on the host.
	Components map[string]int `json:"components,omitempty"`
	// Processes is the number of all processes, including processes of pods.
	Processes int `json:"processes"`
}

func (c *cluster) status() *cobra.Command {
	var output string
	command := &cobra.Command{
		Use:   "status",
		Short: "Show the state of the cluster; exit code 0 if it runs, else 1",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			dir, err := c.dir()
			if err != nil {
				return err
			}
			current := inspect(dir)
			switch output {
			case "json":
				encoder := json.NewEncoder(os.Stdout)
				encoder.SetIndent("", "  ")
				err = encoder.Encode(current)
			case "":
				err = current.print()
			default:
				err = fmt.Errorf("output %q: use json", output)
			}
			if err == nil && !current.Running {
				return silent(1)
			}
			return err
		},
	}
	command.Flags().StringVarP(&output, "output", "o", "", "json")
	return command
}

// inspect reads the state from the kernel, because files can be outdated.
func inspect(dir state.Dir) status {
	s := status{Name: dir.Name, State: dir.Path, Supervisor: dir.Supervisor()}
	record := dir.ReadRecord()
	if s.Supervisor == 0 || !record.Init.Alive() {
		return s
	}
	s.Running = true
	s.Ready = record.Ready
	s.Server = "https://" + record.Address
	s.Kubeconfig = dir.Kubeconfig()
	s.Processes = len(state.InPIDNamespace(record.Init.PID))
	s.Components = map[string]int{}
	for name, pid := range state.Children(record.Init.PID) {
		if slices.Contains(node.Components(), name) { // other children are orphans of containers
			s.Components[name] = pid
		}
	}
	s.Node = node.Condition(dir, record.Address)
	if config, err := node.Read(dir); err == nil && !config.ControlPlaneOnly {
		s.Nodes = supervisor.Nodes(config, record.Init.PID)
	}
	return s
}

func (s status) print() error {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	line := func(name string, value any) { fmt.Fprintf(table, "%s\t%v\n", name, value) }
	if !s.Running {
		line("cluster "+s.Name, "not running")
		return table.Flush()
	}
	what := "running"
	if !s.Ready {
		what = "starting"
	}
	line("cluster "+s.Name, what)
	line("node", s.Node)
	for _, name := range slices.Sorted(maps.Keys(s.Nodes)) {
		line("pid 1 of "+name, s.Nodes[name])
	}
	line("API server", s.Server)
	line("kubeconfig", s.Kubeconfig)
	line("state", s.State)
	line("supervisor", s.Supervisor)
	for _, name := range node.Components() {
		if pid := s.Components[name]; pid != 0 {
			line(name, pid)
		}
	}
	line("processes", s.Processes)
	return table.Flush()
}
