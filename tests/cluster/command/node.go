package command

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rouse.dev/cluster/host/state"
	"rouse.dev/cluster/node"
	"rouse.dev/cluster/supervisor"
)

// nodeTimeout is the timeout for the end of a killed node, and for its start.
const nodeTimeout = 10 * time.Second

// partition drops all packets between a node and the others. Those of the node and its pods among
// themselves pass.
const partition = `table ip partition {
	chain from-others { type filter hook prerouting priority -500; iifname "node" drop; }
	chain to-others { type filter hook postrouting priority 500; oifname "node" drop; }
}
`

// selectedNode is a node of a running cluster.
type selectedNode struct {
	dir  state.Dir
	name string
	// first is set for the node that runs the control plane.
	first bool
	// pid is the host's number of its pid 1; 0 if the node is stopped.
	pid int
}

func (c *cluster) node() *cobra.Command {
	command := &cobra.Command{
		Use:   "node",
		Short: "Stop, start or partition a node of the running cluster",
	}
	for _, action := range []struct {
		use, short string
		run        func(selectedNode) error
	}{
		{"stop", "Kill all processes of the node at once, as a loss of power does", selectedNode.stop},
		{"start", "Start a stopped node, or end its partition", selectedNode.start},
		{"partition", "Drop all packets between the node and the others", selectedNode.partition},
	} {
		command.AddCommand(&cobra.Command{
			Use:   action.use + " NAME",
			Short: action.short,
			Args:  cobra.ExactArgs(1),
			RunE: func(_ *cobra.Command, args []string) error {
				selected, err := c.selectNode(args[0])
				if err != nil {
					return err
				}
				return action.run(selected)
			},
		})
	}
	return command
}

func (c *cluster) selectNode(name string) (selectedNode, error) {
	dir, record, err := c.running()
	if err != nil {
		return selectedNode{}, err
	}
	config, err := node.Read(dir)
	if err != nil {
		return selectedNode{}, err
	}
	names := config.NodeNames()
	if config.ControlPlaneOnly || !slices.Contains(names, name) {
		return selectedNode{}, fmt.Errorf("cluster %s has no node %q", dir.Name, name)
	}
	running := supervisor.Nodes(config, record.Init.PID)
	return selectedNode{dir: dir, name: name, first: name == names[0], pid: running[name]}, nil
}

func (n selectedNode) stop() error {
	if n.first {
		return fmt.Errorf("%s runs the control plane; use `cluster down`", n.name)
	}
	if err := os.WriteFile(node.Stopped(n.dir, n.name), nil, 0o600); err != nil {
		return err
	}
	if n.pid == 0 {
		return nil
	}
	process, err := state.Identify(n.pid)
	if err != nil {
		return nil // it has ended
	}
	return process.Kill(nodeTimeout)
}

func (n selectedNode) start() error {
	if n.pid != 0 {
		_, err := n.nft("delete table ip partition")
		if errors.Is(err, errNoTable) {
			return nil
		}
		return err
	}
	if err := os.Remove(node.Stopped(n.dir, n.name)); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

func (n selectedNode) partition() error {
	if n.pid == 0 {
		return fmt.Errorf("%s is stopped", n.name)
	}
	// Adding a table that exists would add its rules once more.
	if _, err := n.nft("list table ip partition"); err == nil {
		return nil
	}
	_, err := n.nft(partition)
	return err
}

var errNoTable = errors.New("no such table")

// nft runs commands in the node's network, which the program inherits from this thread.
func (n selectedNode) nft(commands string) (string, error) {
	if err := enterNetwork(n.pid); err != nil {
		return "", err
	}
	command := exec.Command("nft", "-f", "-")
	command.Stdin = strings.NewReader(commands + "\n")
	output, err := command.CombinedOutput()
	if err != nil && strings.Contains(string(output), "No such file or directory") {
		return "", errNoTable
	}
	if err != nil {
		return "", fmt.Errorf("nft in the network of %s: %w: %s", n.name, err, strings.TrimSpace(string(output)))
	}
	return string(output), nil
}
