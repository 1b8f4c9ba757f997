package policies

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

const (
	// update is the variable that writes the results of the policy into the table.
	update = "UPDATE_TESTDATA"
	// sharedImage is the sidecar's image in the table.
	sharedImage = "queue-proxy:v1"
	// width is the longest value on one line.
	width = 100
)

// sharedPod is a pod, and the same pod with the sidecar, without fields that have no content.
type sharedPod struct {
	Name        string         `json:"name"`
	Pod         map[string]any `json:"pod"`
	WithSidecar map[string]any `json:"withSidecar"`
}

func sharedFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/pods/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no pods: %v", err)
	}
	return files
}

func readShared(t *testing.T, file string) []sharedPod {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var cases []sharedPod
	if err := json.Unmarshal(content, &cases); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return cases
}

func writeShared(t *testing.T, file string, cases []sharedPod) {
	t.Helper()
	var content any
	convert(t, cases, &content)
	if err := os.WriteFile(file, []byte(format(t, content, "")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (c sharedPod) input(t *testing.T) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	convert(t, c.Pod, pod)
	return pod
}

// plain is a pod as JSON, without what Go encodes of fields that are not set.
func plain(t *testing.T, pod *corev1.Pod) map[string]any {
	t.Helper()
	var object map[string]any
	convert(t, pod, &object)
	removeEmpty(object, "status")
	if metadata, ok := object["metadata"].(map[string]any); ok {
		removeEmpty(metadata, "creationTimestamp")
	}
	spec, _ := object["spec"].(map[string]any)
	for _, list := range []string{"initContainers", "containers"} {
		containers, _ := spec[list].([]any)
		for _, container := range containers {
			removeEmpty(container.(map[string]any), "resources")
		}
	}
	return object
}

func removeEmpty(object map[string]any, field string) {
	if inner, isMap := object[field].(map[string]any); object[field] == nil || isMap && len(inner) == 0 {
		delete(object, field)
	}
}

func convert(t *testing.T, from, into any) {
	t.Helper()
	encoded, err := json.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(encoded, into); err != nil {
		t.Fatal(err)
	}
}

// format is JSON with one value a line, and short values on one line.
func format(t *testing.T, value any, indent string) string {
	t.Helper()
	line := encode(t, value)
	if len(indent)+len(line) <= width {
		return line
	}
	deeper := indent + "  "
	var parts []string
	switch typed := value.(type) {
	case map[string]any:
		for key, inner := range typed {
			parts = append(parts, deeper+encode(t, key)+": "+format(t, inner, deeper))
		}
		slices.Sort(parts)
		return fmt.Sprintf("{\n%s\n%s}", strings.Join(parts, ",\n"), indent)
	case []any:
		for _, inner := range typed {
			parts = append(parts, deeper+format(t, inner, deeper))
		}
		return fmt.Sprintf("[\n%s\n%s]", strings.Join(parts, ",\n"), indent)
	}
	return line
}

func encode(t *testing.T, value any) string {
	t.Helper()
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line.String())
}
