package check

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
)

// Table collects outcomes from tests that run side by side.
type Table struct {
	mutex    sync.Mutex
	rows     []row
	outcomes map[row]map[string]string
}

type row struct{ peer, shape string }

// Add adds a row without outcomes, so that rows keep their order.
func (t *Table) Add(peer, shape string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.rows = append(t.rows, row{peer, shape})
}

// Record sets the outcome of a shape on a path.
func (t *Table) Record(peer, shape, path, outcome string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.outcomes == nil {
		t.outcomes = map[row]map[string]string{}
	}
	at := row{peer, shape}
	if t.outcomes[at] == nil {
		t.outcomes[at] = map[string]string{}
	}
	t.outcomes[at][path] = outcome
}

// Print prints the rows that have an outcome.
func (t *Table) Print(to io.Writer, paths []string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	columns := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(columns, "peer\tshape\t%s\n", strings.Join(paths, "\t"))
	for _, row := range slices.Compact(t.rows) {
		outcomes := t.outcomes[row]
		if outcomes == nil {
			continue
		}
		fmt.Fprintf(columns, "%s\t%s", row.peer, row.shape)
		for _, path := range paths {
			fmt.Fprintf(columns, "\t%s", outcomes[path])
		}
		fmt.Fprintln(columns)
	}
	columns.Flush()
}
