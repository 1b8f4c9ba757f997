package doors

import (
	"context"
	"errors"
	"sync"
	"time"

	"rouse.dev/interop/check"
	"rouse.dev/interop/doors/door"
	"rouse.dev/interop/doors/load"
)

const (
	// stickyPods are fewer than the clients need at the target of ten requests a pod.
	stickyPods     = 3
	stickySessions = 6
	// stickyClients send one request after another, so many for each session.
	stickyClients = 6 * stickySessions
	// stickyWork is of a request, in milliseconds.
	stickyWork = 500
	// scaleUp is for the HPA on a busy machine.
	scaleUp = 3 * time.Minute
)

// sendSticky sends from several sessions, from zero until there are several pods. Then each session
// has to stay at its pod.
func sendSticky(route door.Route) func(context.Context, *cycle) error {
	return func(ctx context.Context, c *cycle) error {
		sessions := make([]*load.Session, stickySessions)
		for i := range sessions {
			session, err := load.NewSession(route.Listen, route.Protocol == door.StickyAddress)
			if err != nil {
				return err
			}
			sessions[i] = session
		}
		loaded, stop := context.WithCancel(ctx)
		var clients sync.WaitGroup
		for i := range stickyClients {
			clients.Go(func() { c.loadUntil(loaded, sessions[i%stickySessions]) })
		}
		err := c.untilSticky(ctx, sessions)
		stop()
		clients.Wait()
		return err
	}
}

// loadUntil sends one request after another until loaded ends. It cuts none.
func (c *cycle) loadUntil(loaded context.Context, session *load.Session) {
	client := func(ctx context.Context) error {
		_, err := session.Send(ctx, stickyWork)
		return err
	}
	for loaded.Err() == nil {
		c.AtOnce(context.WithoutCancel(loaded), client, 1)
	}
}

func (c *cycle) untilSticky(ctx context.Context, sessions []*load.Session) error {
	ctx, cancel := context.WithTimeout(ctx, scaleUp)
	defer cancel()
	if err := c.workload.UntilReady(ctx, stickyPods); err != nil {
		return err
	}
	// A front door may take a while to read the last change.
	return check.Eventually(ctx, func() error {
		for _, session := range sessions {
			var err error
			c.AtOnce(ctx, func(ctx context.Context) error {
				if err = session.Stays(ctx, 5); errors.Is(err, load.ErrMoved) {
					return nil
				}
				return err
			}, 1)
			if err != nil {
				return err
			}
		}
		return nil
	})
}
