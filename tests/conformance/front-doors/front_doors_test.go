// Package frontdoors reads the slices that Rouse writes with the code of programs that stand in
// front of Services: whether they send requests to where an activator listens.
package frontdoors

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// page has the table that this test prints.
const page = "../../../docs/howto/front-doors/README.md"

// endpoints are addresses with ports, sorted, by the name of the Service's port.
type endpoints map[string][]string

// reader is a program that reads EndpointSlices.
type reader struct {
	name   string
	module string
	// read returns the endpoints to which it sends requests for each port.
	read func(t *testing.T, c cluster) endpoints
	// refuses has the states that it does not read rightly, with what it does.
	refuses map[string]string
}

const targetsArePods = "managed, at zero, targets are pods"

func readers() []reader {
	return []reader{
		{name: "Cilium", module: "github.com/cilium/cilium", read: cilium},
		{name: "Istio with sidecars", module: "istio.io/istio", read: istioSidecars},
		{
			name: "Istio ambient", module: "istio.io/istio", read: istioAmbient,
			refuses: map[string]string{targetsArePods: "no port"},
		},
		{name: "Traefik, Ingress", module: "github.com/traefik/traefik/v3", read: traefikIngress},
	}
}

func TestFrontDoors(t *testing.T) {
	clusters := recorded(t)
	rows := []string{"| Slices | " + strings.Join(names(), " | ") + " |", "|---" + strings.Repeat("|---", len(names())) + "|"}
	for _, c := range clusters {
		cells := []string{c.State}
		for _, reader := range readers() {
			t.Run(reader.name+"/"+c.State, func(t *testing.T) {
				cells = append(cells, verdict(t, reader, c))
			})
		}
		rows = append(rows, "| "+strings.Join(cells, " | ")+" |")
	}
	table := strings.Join(rows, "\n")
	fmt.Println(table)
	t.Run("page has the table", func(t *testing.T) {
		text, err := os.ReadFile(filepath.FromSlash(page))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), table) {
			t.Errorf("%s has another table than the one above", page)
		}
	})
}

// verdict is the cell of a table: what a reader does with the slices.
func verdict(t *testing.T, reader reader, c cluster) string {
	t.Helper()
	got, refusal := reader.read(t, c), reader.refuses[c.State]
	if isEqual := maps.EqualFunc(got, c.Expected, slices.Equal[[]string]); isEqual != (refusal == "") {
		t.Errorf("it sends to %v, of %v; known: %q", got, c.Expected, refusal)
	}
	if refusal != "" {
		return refusal
	}
	return "works"
}

func names() []string {
	versions := moduleVersions()
	var names []string
	for _, reader := range readers() {
		names = append(names, reader.name+" "+versions[reader.module])
	}
	return names
}

// moduleVersions reads go.mod. A commit's version is shown as its day and hash.
func moduleVersions() map[string]string {
	versions := map[string]string{}
	data, err := os.ReadFile("go.mod")
	if err != nil {
		return versions
	}
	for _, found := range regexp.MustCompile(`(?m)^\s*(\S+) v(\S+)`).FindAllStringSubmatch(string(data), -1) {
		version := found[2]
		if commit := regexp.MustCompile(`-(\d{8})\d{6}-([0-9a-f]{7})`).FindStringSubmatch(version); commit != nil {
			version = commit[2] + " of " + commit[1]
		}
		versions[found[1]] = version
	}
	return versions
}

// add appends an endpoint, unless it is there.
func (e endpoints) add(port, address string) {
	if !slices.Contains(e[port], address) {
		e[port] = append(e[port], address)
		slices.Sort(e[port])
	}
}
