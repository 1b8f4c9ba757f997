// Command cluster runs a real one-node Kubernetes on a Debian machine, for tests and demos. It
// needs Go, root, Go modules and Debian packages.
package main

import (
	"os"

	"rouse.dev/cluster/command"
)

func main() { os.Exit(command.Execute()) }
