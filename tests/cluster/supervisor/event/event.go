// Package event has the messages of a starting cluster: one JSON object per line, from pid 1 of the
// cluster to its supervisor, and from there to the waiting `cluster up`.
package event

import (
	"bufio"
	"encoding/json"
	"io"
	"sync"
	"time"
)

// Kind is the type of an event.
type Kind string

const (
	// Step reports progress, such as a component that became ready.
	Step Kind = "step"
	// Ready ends a successful start.
	Ready Kind = "ready"
	// Failed ends a failed start, or reports that a running cluster ended.
	Failed Kind = "failed"
	// Restarted reports that a component ended after the start and is started again.
	Restarted Kind = "restarted"
)

// Event is one message.
type Event struct {
	Kind Kind      `json:"kind"`
	At   time.Time `json:"at"`
	// Text is for display.
	Text string `json:"text"`
	// Component names the log that explains a failure; empty without one.
	Component string `json:"component,omitempty"`
}

// Writer sends events. It is safe for concurrent use.
type Writer struct {
	mu      sync.Mutex
	encoder *json.Encoder
}

// NewWriter returns a Writer that sends each event to w in one write.
func NewWriter(w io.Writer) *Writer { return &Writer{encoder: json.NewEncoder(w)} }

// Send writes an event with the current time. The error is the underlying writer's: the reader may
// close at any time, and the caller decides whether that matters.
func (w *Writer) Send(kind Kind, component, text string) error {
	return w.Forward(Event{Kind: kind, At: time.Now(), Component: component, Text: text})
}

// Forward writes an event of another process unchanged.
func (w *Writer) Forward(e Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.encoder.Encode(e)
}

// Read calls handle for each event until the writing end is closed. It skips invalid lines, because
// the writer may have died in the middle of one.
func Read(r io.Reader, handle func(Event)) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var e Event
		if json.Unmarshal(lines.Bytes(), &e) == nil {
			handle(e)
		}
	}
}
