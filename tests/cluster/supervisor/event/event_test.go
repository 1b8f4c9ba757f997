package event

import (
	"bytes"
	"testing"
)

func TestReadSkipsAnIncompleteLine(t *testing.T) {
	var stream bytes.Buffer
	w := NewWriter(&stream)
	if err := w.Send(Step, "", "one"); err != nil {
		t.Fatal(err)
	}
	stream.WriteString(`{"kind":"st` + "\n")
	if err := w.Send(Failed, "etcd", "two"); err != nil {
		t.Fatal(err)
	}
	var texts []string
	Read(&stream, func(e Event) { texts = append(texts, string(e.Kind)+" "+e.Component+" "+e.Text) })
	if len(texts) != 2 || texts[0] != "step  one" || texts[1] != "failed etcd two" {
		t.Errorf("%q", texts)
	}
}
