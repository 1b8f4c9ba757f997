// Package workload has managed workloads on the cluster of KUBECONFIG.
package workload

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Namespace of all workloads.
const Namespace = "rouse-doors"

// Cluster runs kubectl, and follows what Rouse writes.
type Cluster struct {
	kubectl string
	// Version of the images.
	version string
	states  *states
}

// Connect creates the namespace, and follows sizes and routes in it until the test ends. CLUSTER is
// the cluster tool, and VERSION that of the images.
func Connect(t *testing.T) *Cluster {
	t.Helper()
	path, err := exec.Command(os.Getenv("CLUSTER"), "kubectl-path").Output()
	if err != nil {
		t.Fatalf("path of kubectl: %v", err)
	}
	c := &Cluster{
		kubectl: strings.TrimSpace(string(path)), version: os.Getenv("VERSION"), states: newStates(),
	}
	c.Kubectl(t, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "`+Namespace+`"}}`, "apply", "--filename", "-")
	c.Kubectl(t, "", "--namespace", "rouse-system", "patch", "configmap", "config-autoscaler", "--type", "merge",
		"--patch", `{"data": {"scale-to-zero-grace-period": "1s"}}`)
	c.follow(t, "deployments", replicas)
	c.follow(t, "deployments", readyReplicas)
	c.follow(t, "serverlessservices", mode)
	return c
}

// Kubectl runs kubectl in the namespace of the workloads with this input, and returns its output.
func (c *Cluster) Kubectl(t *testing.T, input string, arguments ...string) string {
	t.Helper()
	command := exec.Command(c.kubectl, append([]string{"--namespace", Namespace}, arguments...)...)
	command.Stdin = strings.NewReader(input)
	var failure bytes.Buffer
	command.Stderr = &failure
	output, err := command.Output()
	if err != nil {
		t.Fatalf("kubectl %s: %v: %s", strings.Join(arguments, " "), err, failure.String())
	}
	return string(output)
}

// address is the Service's ClusterIP with its port.
func (c *Cluster) address(t *testing.T, name string) string {
	ip := c.Kubectl(t, "", "get", "service", name, "--output", "jsonpath={.spec.clusterIP}")
	return fmt.Sprintf("%s:80", ip)
}
