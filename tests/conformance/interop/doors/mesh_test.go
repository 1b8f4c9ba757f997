package doors

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"
	"testing"

	"rouse.dev/interop/check"
	"rouse.dev/interop/doors/door"
	"rouse.dev/interop/doors/load"
)

// TestMesh has activators in a mesh of which all pods require mTLS. It runs after TestDoors, because
// activators stay in the mesh.
func TestMesh(t *testing.T) {
	run := connect(t)
	mesh := door.Mesh(os.Getenv("ENVOY"), os.Getenv("VERSION"), run.cluster)
	run.addRows(mesh)
	routes := run.start(t, len(doors(run.cluster)), mesh)
	untilRefused(t, routes[0])
	t.Run(mesh.Name, func(t *testing.T) { run.repeat(t, mesh, routes) })
}

// untilRefused wakes a workload by a client outside of the mesh, which activators serve, and waits
// until its pod refuses this client.
func untilRefused(t *testing.T, route *route) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), load.Patience)
	defer cancel()
	client := load.HTTP1(route.Service, "")
	err := check.Eventually(ctx, func() error {
		err := client(ctx)
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
			return nil
		}
		return errors.Join(errors.New("a request without mTLS was not refused"), err)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := route.workload.UntilZero(t.Context()); err != nil {
		t.Fatal(err)
	}
}
