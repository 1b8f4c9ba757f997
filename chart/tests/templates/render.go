package templates

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Folder is where the generated templates are, below the chart's folder.
const Folder = "templates/deploy"

// Render makes all templates from the manifests in the folder deploy, by file name.
func Render(deploy string) (map[string]string, error) {
	files := map[string]string{}
	for _, m := range manifests {
		text, err := os.ReadFile(filepath.Join(deploy, m.path))
		if err != nil {
			return nil, err
		}
		if files[TemplateOf(m.path)], err = m.render(string(text)); err != nil {
			return nil, fmt.Errorf("%s: %w", m.path, err)
		}
	}
	return files, nil
}

// TemplateOf is the file of a manifest's template below [Folder]. Its folders are the ones of the
// monitoring and of all components.
func TemplateOf(path string) string {
	name := filepath.Base(path)
	switch {
	case filepath.Ext(name) == ".json":
		return "monitoring/dashboard-" + strings.TrimSuffix(name, ".json") + ".yaml"
	case strings.HasPrefix(path, "monitoring/"):
		return path
	case strings.HasPrefix(path, "components/"):
		return "components/" + name
	}
	return name
}

func (m manifest) render(text string) (string, error) {
	if filepath.Ext(m.path) == ".json" {
		text = dashboard(filepath.Base(m.path), text)
	}
	if m.foreignActions {
		text = strings.ReplaceAll(text, "{{", `{{ "{{" }}`)
	} else if strings.Contains(text, "{{") {
		return "", fmt.Errorf("contains {{, which begins an action of a template")
	}
	found, err := objects(text)
	if err != nil {
		return "", err
	}
	if err := m.checkNames(found); err != nil {
		return "", err
	}
	lines := []string{"{{- /* Generated from deploy/" + m.path + " by `make chart`. */}}"}
	for _, o := range found {
		changed, err := m.change(o)
		if err != nil {
			return "", fmt.Errorf("%s: %w", o.id, err)
		}
		lines = append(append(lines, "---"), changed...)
	}
	return strings.Join(lines, "\n") + "\n", nil
}

func (m manifest) change(o object) ([]string, error) {
	lines, err := addLabel(o.lines)
	if err != nil {
		return nil, err
	}
	for _, e := range m.edits {
		if e.object != o.id {
			continue
		}
		if lines, err = e.apply(lines); err != nil {
			return nil, err
		}
	}
	if m.each != nil {
		lines = m.each(lines)
	}
	for _, condition := range []string{m.conditions[o.id], m.condition} {
		if condition != "" {
			lines = wrap(condition, lines)
		}
	}
	return lines, nil
}

// checkNames fails for an edit or a condition of an object that the manifest does not have.
func (m manifest) checkNames(found []object) error {
	has := func(id string) bool { return slices.ContainsFunc(found, func(o object) bool { return o.id == id }) }
	for _, e := range m.edits {
		if !has(e.object) {
			return fmt.Errorf("no object %s", e.object)
		}
	}
	for id := range m.conditions {
		if !has(id) {
			return fmt.Errorf("no object %s", id)
		}
	}
	return nil
}
