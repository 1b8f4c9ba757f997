// Package templates makes the chart's templates from the manifests of deploy/, line by line, so that comments and formatting stay.
package templates

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// object is one document of a manifest.
type object struct {
	// Kind and name, such as "Deployment activator".
	id    string
	lines []string
}

// objects splits a manifest at its separators. It drops an empty document before the first one.
func objects(text string) ([]object, error) {
	var found []object
	for _, document := range strings.Split("\n"+strings.TrimSuffix(text, "\n")+"\n", "\n---\n") {
		lines := strings.Split(strings.Trim(document, "\n"), "\n")
		if strings.TrimSpace(document) == "" {
			continue
		}
		id, err := identity(document)
		if err != nil {
			return nil, err
		}
		found = append(found, object{id, lines})
	}
	return found, nil
}

func identity(document string) (string, error) {
	var header struct {
		Kind     string
		Metadata struct{ Name string }
	}
	if err := yaml.Unmarshal([]byte(document), &header); err != nil {
		return "", err
	}
	if header.Kind == "" || header.Metadata.Name == "" {
		return "", fmt.Errorf("a document has no kind or no name: %.80q", document)
	}
	return header.Kind + " " + header.Metadata.Name, nil
}
