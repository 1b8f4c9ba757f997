package chart

import (
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// objects are rendered objects by kind and name.
type objects map[string]map[string]any

func parse(t *testing.T, text string) objects {
	t.Helper()
	found := objects{}
	for _, document := range strings.Split("\n"+text, "\n---") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if object == nil {
			continue
		}
		id := object["kind"].(string) + " " + field(object, "metadata", "name").(string)
		if found[id] != nil {
			t.Fatalf("%s is there twice", id)
		}
		found[id] = withoutEmptyLines(object).(map[string]any)
	}
	return found
}

// withoutEmptyLines removes the empty lines that kustomize adds to folded texts with indented lines. CEL ignores them.
func withoutEmptyLines(value any) any {
	switch typed := value.(type) {
	case string:
		for strings.Contains(typed, "\n\n") {
			typed = strings.ReplaceAll(typed, "\n\n", "\n")
		}
		return typed
	case []any:
		for index := range typed {
			typed[index] = withoutEmptyLines(typed[index])
		}
	case map[string]any:
		for key := range typed {
			typed[key] = withoutEmptyLines(typed[key])
		}
	}
	return value
}

// field is a field of an object, or nil. A number as text selects an item of a list.
func field(value any, path ...string) any {
	for _, key := range path {
		switch typed := value.(type) {
		case map[string]any:
			value = typed[key]
		case []any:
			value = typed[index(key)]
		default:
			return nil
		}
	}
	return value
}

func index(key string) int {
	number := 0
	for _, digit := range key {
		number = number*10 + int(digit-'0')
	}
	return number
}

// assertEqual reports each object that only one side has, or that differs.
func assertEqual(t *testing.T, got, want objects) {
	t.Helper()
	for id := range want {
		if got[id] == nil {
			t.Errorf("%s is missing", id)
		} else if !reflect.DeepEqual(got[id], want[id]) {
			t.Errorf("%s is\n%s\nand not\n%s", id, text(got[id]), text(want[id]))
		}
	}
	for id := range got {
		if want[id] == nil {
			t.Errorf("%s is not expected", id)
		}
	}
}

func text(object any) string {
	lines, err := yaml.Marshal(object)
	if err != nil {
		return err.Error()
	}
	return string(lines)
}
