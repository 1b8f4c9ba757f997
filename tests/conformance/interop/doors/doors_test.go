// Package doors runs front doors before managed workloads on a cluster, from zero to one replica and
// back many times. `make test-doors` starts the cluster, and prints a table of failed requests.
package doors

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"rouse.dev/interop/check"
	"rouse.dev/interop/doors/door"
	"rouse.dev/interop/doors/load"
	"rouse.dev/interop/doors/workload"
)

const (
	// rate is of requests a second.
	rate   = 20
	loaded = 2 * time.Second
	// toZero is for the time from the last request to zero on a busy machine.
	toZero = 3 * time.Minute
	// slowStart needs several tries of a front door that repeats requests.
	slowStart = 3 * time.Second
	// A cycle with a thousand connections, repeated requests or a scale-up counts for so many others.
	costlyFactor = 10
	// One in so many cycles has requests while its workload is on the way to zero.
	disturbed = 4
)

func doors(cluster *workload.Cluster) []door.Door {
	protocols := []door.Protocol{door.HTTP1, door.HTTP2, door.GRPC, door.Websocket, door.StickyAddress}
	return []door.Door{
		{Name: "kube-proxy alone", Protocols: protocols},
		door.Nginx(), door.HAProxy(), door.Envoy(os.Getenv("ENVOY"), cluster),
		door.Traefik(os.Getenv("TRAEFIK")),
	}
}

func TestDoors(t *testing.T) {
	run := connect(t)
	for at, door := range doors(run.cluster) {
		run.addRows(door)
		t.Run(door.Name, func(t *testing.T) {
			t.Parallel()
			run.repeat(t, door, run.start(t, at, door))
		})
	}
}

// runs has the workloads of a cluster, and the table of their requests.
type runs struct {
	cluster *workload.Cluster
	cycles  int
	table   check.Table
}

func connect(t *testing.T) *runs {
	t.Helper()
	cycles, err := strconv.Atoi(os.Getenv("CYCLES"))
	if err != nil {
		t.Fatalf("CYCLES: %v", err)
	}
	run := &runs{cluster: workload.Connect(t), cycles: cycles}
	t.Cleanup(func() { run.table.Print(os.Stdout, []string{"cycles", "requests", "failed"}) })
	return run
}

func (r *runs) addRows(front door.Door) {
	for _, protocol := range front.Protocols {
		r.table.Add(front.Name, string(protocol))
	}
}

// start creates a workload for each protocol, and starts the front door before all of them.
func (r *runs) start(t *testing.T, at int, front door.Door) []*route {
	t.Helper()
	routes := make([]*route, len(front.Protocols))
	plain := make([]door.Route, len(front.Protocols))
	for i, protocol := range front.Protocols {
		delay, pods := time.Duration(0), 1
		if protocol == door.Retried {
			delay = slowStart
		}
		if protocol.Sticky() {
			pods = stickyPods
		}
		name := fmt.Sprintf("door-%d-%d", at, i)
		workload := r.cluster.Create(t, name, delay, pods)
		plain[i] = door.Route{Protocol: protocol, Name: name, Listen: workload.Address, Service: workload.Address}
		if front.Start != nil {
			plain[i].Listen = check.Loopback(check.FreePort(t))
		}
		if protocol == door.StickyAddress {
			r.cluster.Kubectl(t, "", "patch", "service", name, "--patch", `{"spec": {"sessionAffinity": "ClientIP"}}`)
		}
		routes[i] = &route{plain[i], workload}
	}
	if front.Start == nil {
		return routes
	}
	front.Start(t, plain, r.cluster.Kubectl)
	for _, route := range routes {
		_, port, _ := strings.Cut(route.Listen, ":")
		number, _ := strconv.Atoi(port)
		check.WaitForPort(t, number)
	}
	return routes
}

// route leads to a workload.
type route struct {
	door.Route
	workload *workload.Workload
}

// repeat runs the cycles of all routes side by side.
func (r *runs) repeat(t *testing.T, front door.Door, routes []*route) {
	for _, route := range routes {
		t.Run(string(route.Protocol), func(t *testing.T) {
			t.Parallel()
			count := r.cycles
			if route.Protocol == door.Retried || route.Protocol == door.Kept || route.Protocol.Sticky() {
				count = (r.cycles + costlyFactor - 1) / costlyFactor
			}
			run := &cycle{workload: route.workload, send: sender(route.Route)}
			done, err := run.repeat(t.Context(), count)
			for column, number := range map[string]int{"cycles": done, "requests": run.Requests, "failed": run.Failed} {
				r.table.Record(front.Name, string(route.Protocol), column, strconv.Itoa(number))
			}
			if err != nil || run.Failed > 0 {
				t.Errorf("after %d cycles %d of %d requests failed, error %v; the first are\n%s", done, run.Failed,
					run.Requests, err, strings.Join(run.Failures(), "\n"))
			}
		})
	}
}

// cycle takes a workload from zero to one replica and back.
type cycle struct {
	load.Outcome
	workload *workload.Workload
	// send sends the requests of one cycle.
	send func(ctx context.Context, c *cycle) error
}

// repeat runs cycles, and returns how many it completed.
func (c *cycle) repeat(ctx context.Context, count int) (int, error) {
	for done := range count {
		if err := c.run(ctx, done%disturbed == disturbed-1); err != nil {
			return done, err
		}
	}
	return count, nil
}

func (c *cycle) run(ctx context.Context, disturbs bool) error {
	if err := c.send(ctx, c); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, toZero)
	defer cancel()
	if disturbs {
		if err := c.workload.UntilProxied(ctx); err != nil {
			return err
		}
		if err := c.send(ctx, c); err != nil {
			return err
		}
	}
	return c.workload.UntilZero(ctx)
}

// sender is what a cycle sends by a protocol.
func sender(route door.Route) func(context.Context, *cycle) error {
	client := load.HTTP1(route.Listen, "")
	switch route.Protocol {
	case door.Kept:
		return sendThousand(load.HTTP1(route.Listen, "?work=1000"))
	case door.Websocket:
		return sendWebsockets(route.Listen)
	case door.StickyCookie, door.StickyHash, door.StickyAddress:
		return sendSticky(route)
	case door.HTTP2:
		client = load.HTTP2(route.Listen)
	case door.GRPC:
		client = load.GRPC(route.Listen)
	}
	return func(ctx context.Context, c *cycle) error {
		c.Rate(ctx, client, rate, loaded)
		return nil
	}
}

// sendThousand uses a thousand connections at the same time, through activators and again after the
// route has changed. On a busy machine the route may have changed back by then.
func sendThousand(client load.Client) func(context.Context, *cycle) error {
	return func(ctx context.Context, c *cycle) error {
		var err error
		for range 5 {
			c.AtOnce(ctx, client, 1000)
			if err = c.untilServed(ctx); err == nil {
				c.AtOnce(ctx, client, 1000)
				return nil
			}
		}
		return err
	}
}

func (c *cycle) untilServed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return c.workload.UntilServed(ctx)
}

// sendWebsockets opens short sessions beside one that lasts as long as the load.
func sendWebsockets(address string) func(context.Context, *cycle) error {
	return func(ctx context.Context, c *cycle) error {
		long := make(chan struct{})
		go func() {
			defer close(long)
			c.AtOnce(ctx, load.Websocket(address, loaded), 1)
		}()
		c.Rate(ctx, load.Websocket(address, 0), rate, loaded)
		<-long
		return nil
	}
}
