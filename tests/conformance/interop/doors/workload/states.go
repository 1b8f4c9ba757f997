package workload

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"rouse.dev/interop/check"
)

// Fields that are followed.
const (
	replicas      = ".spec.replicas"
	readyReplicas = ".status.readyReplicas"
	mode          = ".status.mode"
)

// object is a field and the name of its object.
type object struct{ field, name string }

// states has one field of each object that is followed.
type states struct {
	mutex  sync.Mutex
	fields map[object]string
	// changed is closed and replaced at each change.
	changed chan struct{}
}

func newStates() *states {
	return &states{fields: map[object]string{}, changed: make(chan struct{})}
}

func (s *states) set(of object, field string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.fields[of] = field
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *states) get(of object) (string, <-chan struct{}) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.fields[of], s.changed
}

// until waits until the field has this value.
func (s *states) until(ctx context.Context, of object, wanted string) error {
	for {
		field, changed := s.get(of)
		if field == wanted {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%s of %s is %q: %w", of.field, of.name, field, ctx.Err())
		}
	}
}

// follow watches a field of all objects of a kind, until the test ends.
func (c *Cluster) follow(t *testing.T, kind, field string) {
	read := func(output io.Reader) { c.states.read(field, output) }
	c.watch(t, read, kind, "--no-headers", "--output", "custom-columns=NAME:.metadata.name,FIELD:"+field)
}

// watch gives read the output of `kubectl get --watch`, until the test ends. A watch begins with the
// present state, and so does the next one if it breaks.
func (c *Cluster) watch(t *testing.T, read func(io.Reader), arguments ...string) {
	arguments = append([]string{"--namespace", Namespace, "get", "--watch"}, arguments...)
	go func() {
		for t.Context().Err() == nil {
			command := exec.CommandContext(t.Context(), c.kubectl, arguments...)
			// A test that is killed leaves no process.
			command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			if output, err := check.StartPiped(command); err == nil {
				read(output)
				command.Wait()
			}
		}
	}()
}

// read sets the states of lines with a name and a field.
func (s *states) read(field string, from io.Reader) {
	for lines := bufio.NewScanner(from); lines.Scan(); {
		if words := strings.Fields(lines.Text()); len(words) == 2 {
			s.set(object{field, words[0]}, words[1])
		}
	}
}
