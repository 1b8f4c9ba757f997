package networkpolicy

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

func namespaceObject(name, team string) string {
	return fmt.Sprintf(`{"metadata": {"name": %q, "labels": {"team": %q}}}`, name, team)
}

// teams returns the objects as NAME=TEAM.
func teams(objects map[string]Namespace) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(objects)) {
		all = append(all, objects[key].Metadata.Name+"="+objects[key].Metadata.Labels["team"])
	}
	return strings.Join(all, " ")
}

// A watch that ends is followed by a new list, so a change that was missed meanwhile is not lost.
func TestWatchFollowsChangesAndListsAgainAfterAnError(t *testing.T) {
	lists := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			lists++
			items := []string{
				namespaceObject("a", "red") + "," + namespaceObject("b", "red"),
				namespaceObject("d", "blue"),
			}[min(lists, 2)-1]
			fmt.Fprintf(w, `{"metadata": {"resourceVersion": "%d"}, "items": [%s]}`, lists*10, items)
			return
		}
		if r.URL.Query().Get("resourceVersion") != "10" {
			<-r.Context().Done()
			return
		}
		for _, line := range []string{
			`{"type": "ADDED", "object": ` + namespaceObject("c", "red") + `}`,
			`{"type": "MODIFIED", "object": ` + namespaceObject("a", "blue") + `}`,
			`{"type": "DELETED", "object": ` + namespaceObject("b", "red") + `}`,
			`{"type": "ERROR", "object": {"code": 410}}`,
		} {
			fmt.Fprintln(w, line)
		}
	}))
	defer server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var seen, errors []string
	watch[Namespace]{
		client:   server.Client(),
		url:      server.URL,
		metadata: func(n Namespace) Meta { return n.Metadata },
		replace: func(objects map[string]Namespace) {
			seen = append(seen, teams(objects))
			if teams(objects) == "d=blue" {
				cancel()
			}
		},
	}.run(ctx, func(err error) { errors = append(errors, err.Error()) })
	want := []string{"a=red b=red", "a=red b=red c=red", "a=blue b=red c=red", "a=blue c=red", "d=blue"}
	if !slices.Equal(seen, want) {
		t.Errorf("%q, want %q", seen, want)
	}
	if len(errors) != 1 || !strings.Contains(errors[0], "410") {
		t.Errorf("errors %q", errors)
	}
}
