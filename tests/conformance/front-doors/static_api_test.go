package frontdoors

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
)

// staticAPI serves lists of a Kubernetes API that never change. A watch is refused where it asks for
// the initial objects, after which clients list, and stays silent otherwise.
func staticAPI(t *testing.T, lists map[string]any) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		list, found := lists[request.URL.Path]
		query := request.URL.Query()
		switch {
		case !found:
			http.NotFound(w, request)
		case query.Get("sendInitialEvents") != "":
			http.Error(w, "not supported", http.StatusUnprocessableEntity)
		case query.Get("watch") != "":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-request.Context().Done()
		default:
			w.Header().Set("Content-Type", "application/json")
			if err := json.NewEncoder(w).Encode(withVersion(t, list)); err != nil {
				t.Error(err)
			}
		}
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// withVersion is a list as JSON with a resource version, which a watch begins at.
func withVersion(t *testing.T, list any) map[string]any {
	data, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	object := map[string]any{}
	if err := json.Unmarshal(data, &object); err != nil {
		t.Fatal(err)
	}
	object["metadata"] = map[string]any{"resourceVersion": "1"}
	return object
}
