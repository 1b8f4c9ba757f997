package networkpolicy

import "slices"

// Selector selects objects by their labels. An empty one selects all.
type Selector struct {
	MatchLabels      map[string]string `json:"matchLabels"`
	MatchExpressions []Requirement     `json:"matchExpressions"`
}

// Requirement is a condition on one label.
type Requirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values"`
}

func (s Selector) matches(labels map[string]string) bool {
	for key, value := range s.MatchLabels {
		if labelled, found := labels[key]; !found || labelled != value {
			return false
		}
	}
	for _, requirement := range s.MatchExpressions {
		if !requirement.matches(labels) {
			return false
		}
	}
	return true
}

// matches reports whether labels satisfy the requirement. An unknown operator matches nothing.
func (r Requirement) matches(labels map[string]string) bool {
	value, found := labels[r.Key]
	switch r.Operator {
	case "In":
		return found && slices.Contains(r.Values, value)
	case "NotIn":
		return !found || !slices.Contains(r.Values, value)
	case "Exists":
		return found
	case "DoesNotExist":
		return !found
	}
	return false
}
