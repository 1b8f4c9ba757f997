// Package check has the words of the interoperability tests: peers, the shapes of their exchanges,
// and the table of outcomes.
package check

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// Protocol is the protocol by which the proxies forward to an app.
type Protocol string

const (
	// HTTP is HTTP/1.1 and HTTP/2 without TLS.
	HTTP Protocol = "http"
	// TCP is unmodified bytes.
	TCP Protocol = "tcp"
)

// Silence of streams. A server with gRPC's default rule closes a connection at the third PING
// within five minutes without data, so the silence reveals PINGs with a period of up to 40 s.
const Silence = 130 * time.Second

// App is a server that has started.
type App struct {
	// Host is where its pod would be reached.
	Host string
	// Port of the app.
	Port int
	// Kill ends it without notice; nil if no shape needs that.
	Kill func() error
}

// Peer is a server with the shapes that its clients try.
type Peer struct {
	// Name of the server with its version, then of the client.
	Name     string
	Protocol Protocol
	// Start starts the server for the time of a test.
	Start  func(t testing.TB) App
	Shapes []Shape
}

// Shape is one kind of exchange.
type Shape struct {
	Name string
	// Breaks is what a user would lose if it failed.
	Breaks string
	// Long shapes wait most of their time, so they run beside others.
	Long bool
	// FailsDirect: the server refuses it without a proxy, which shows that its rule is in force.
	FailsDirect bool
	// Run does the exchange with the server behind the address.
	Run func(ctx context.Context, address string, app App) error
}

// Refusal is the outcome of a shape that a page of the documents excludes.
type Refusal struct{ Reason string }

func (r Refusal) Error() string { return "documented: " + r.Reason }

// Equal fails if got is another value.
func Equal[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s is %.200s, want %.200s", what, fmt.Sprint(got), fmt.Sprint(want))
	}
	return nil
}

// Eventually retries until there is no error or the context ends.
func Eventually(ctx context.Context, try func() error) error {
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
