package templates

import (
	"fmt"
	"slices"
	"strings"
)

// partOf is the label that kustomization.yaml gives to all objects.
const partOf = "app.kubernetes.io/part-of: rouse"

// addLabel labels an object as `labels` of the kustomization does: its metadata, and no selector or pod template.
func addLabel(lines []string) ([]string, error) {
	start := slices.Index(lines, "metadata:")
	if start < 0 {
		return nil, fmt.Errorf("no line `metadata:`")
	}
	end := start + 1
	for end < len(lines) && strings.HasPrefix(lines[end], " ") {
		switch {
		case lines[end] == "  labels:":
			return slices.Insert(slices.Clone(lines), end+1, "    "+partOf), nil
		case strings.HasPrefix(lines[end], "  labels: {"):
			labelled := slices.Clone(lines)
			labelled[end] = strings.Replace(lines[end], "{", "{"+partOf+", ", 1)
			return labelled, nil
		}
		end++
	}
	return slices.Insert(slices.Clone(lines), end, "  labels: {"+partOf+"}"), nil
}
