// Package event is what the parts of a starting cluster tell each other: one JSON object a line, from pid 1 of the
// cluster to its supervisor, and from there to the `cluster up` that waits.
package event

import (
	"bufio"
	"encoding/json"
	"io"
	"sync"
	"time"
)

// Kind says what happened.
type Kind string

const (
	// Step is progress worth a line, such as a component that answers.
	Step Kind = "step"
	// Ready ends a start: the cluster can be used.
	Ready Kind = "ready"
	// Failed ends a start too, or tells that a running cluster is over.
	Failed Kind = "failed"
	// Restarted tells that a component ended after the start and was run again.
	Restarted Kind = "restarted"
)

// Event is one thing that happened.
type Event struct {
	Kind Kind      `json:"kind"`
	At   time.Time `json:"at"`
	// Text is for people.
	Text string `json:"text"`
	// Component names the log that explains a failure; empty where none does.
	Component string `json:"component,omitempty"`
}

// Writer sends events. Any number of goroutines may use it.
type Writer struct {
	mu      sync.Mutex
	encoder *json.Encoder
}

// NewWriter returns a Writer whose events appear on w, each in one write.
func NewWriter(w io.Writer) *Writer { return &Writer{encoder: json.NewEncoder(w)} }

// Send writes an event that happens now. The error is that of the underlying writer: a reader may go away at any time,
// and whether that matters is the caller's to know.
func (w *Writer) Send(kind Kind, component, text string) error {
	return w.Forward(Event{Kind: kind, At: time.Now(), Component: component, Text: text})
}

// Forward writes an event that happened elsewhere, as it was.
func (w *Writer) Forward(e Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.encoder.Encode(e)
}

// Read calls handle for each event until the writing end is closed. Lines that are no event are left out: the other end
// may have died in the middle of one.
func Read(r io.Reader, handle func(Event)) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var e Event
		if json.Unmarshal(lines.Bytes(), &e) == nil {
			handle(e)
		}
	}
}
