// Command metrics-server is metrics-server as its project builds it: it serves the CPU and memory of pods, read from the
// kubelets, as metrics.k8s.io.
package main

import (
	"os"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/cli"

	"sigs.k8s.io/metrics-server/cmd/metrics-server/app"
)

func main() {
	os.Exit(cli.Run(app.NewMetricsServerCommand(genericapiserver.SetupSignalHandler())))
}
