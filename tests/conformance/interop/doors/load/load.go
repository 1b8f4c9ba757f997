// Package load sends requests at a rate, and counts those that fail.
package load

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Patience is longer than a wake takes on a busy machine.
const Patience = time.Minute

// clock is the form of times.
const clock = "15:04:05.000"

// Client sends one request, and returns an error unless its response is complete and right.
type Client func(ctx context.Context) error

// Outcome counts requests.
type Outcome struct {
	mutex         sync.Mutex
	Requests      int
	Failed        int
	firstFailures []string
}

// Failures are the first failures, with the times of their requests: a cut ends many at one moment.
func (o *Outcome) Failures() []string {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.firstFailures
}

func (o *Outcome) add(began time.Time, err error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.Requests++
	if err == nil {
		return
	}
	o.Failed++
	if len(o.firstFailures) < 10 {
		o.firstFailures = append(o.firstFailures,
			fmt.Sprintf("%s to %s: %v", began.Format(clock), time.Now().Format(clock), err))
	}
}

func (o *Outcome) request(ctx context.Context, client Client) {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	began := time.Now()
	o.add(began, client(ctx))
}

// Rate begins so many requests a second for this time, whether or not earlier ones have ended, and
// waits for their ends.
func (o *Outcome) Rate(ctx context.Context, client Client, rate int, lasts time.Duration) {
	ticker := time.NewTicker(time.Second / time.Duration(rate))
	defer ticker.Stop()
	var requests sync.WaitGroup
	for end := time.Now().Add(lasts); time.Now().Before(end); {
		requests.Go(func() { o.request(ctx, client) })
		<-ticker.C
	}
	requests.Wait()
}

// AtOnce begins all requests at the same time, and waits for their ends.
func (o *Outcome) AtOnce(ctx context.Context, client Client, count int) {
	var requests sync.WaitGroup
	for range count {
		requests.Go(func() { o.request(ctx, client) })
	}
	requests.Wait()
}
