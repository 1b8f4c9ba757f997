package templates

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// edit changes one place of an object.
type edit struct {
	// Kind and name of the object.
	object string
	// Matches whole lines of the manifest, once. A manifest that changes at such a place fails here,
	// and not in the chart.
	old string
	// In place of them; $1 is the first group of old.
	new string
}

func (e edit) apply(lines []string) ([]string, error) {
	pattern, err := regexp.Compile("(?m)^" + e.old + "$")
	if err != nil {
		return nil, err
	}
	text := strings.Join(lines, "\n")
	if matches := pattern.FindAllStringIndex(text, -1); len(matches) != 1 {
		return nil, fmt.Errorf("%s: %d places match %q, not one", e.object, len(matches), e.old)
	}
	return strings.Split(pattern.ReplaceAllString(text, e.new), "\n"), nil
}

// wrap renders an object, or the objects of a file, only under a condition.
func wrap(condition string, lines []string) []string {
	return slices.Concat([]string{"{{- if " + condition + " }}"}, lines, []string{"{{- end }}"})
}
