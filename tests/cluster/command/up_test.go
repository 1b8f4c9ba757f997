package command

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestArguments(t *testing.T) {
	arguments, err := parseArguments([]string{"kube-apiserver=--v=4", "kube-apiserver=--event-ttl=5m", "etcd=--log-level=info"})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(arguments["kube-apiserver"], []string{"--v=4", "--event-ttl=5m"}) || !slices.Equal(arguments["etcd"], []string{"--log-level=info"}) {
		t.Errorf("%v", arguments)
	}
	for _, wrong := range []string{"apiserver=--v=4", "kube-apiserver", "--v=4"} {
		if _, err := parseArguments([]string{wrong}); err == nil || !strings.Contains(err.Error(), "kube-apiserver") {
			t.Errorf("%q: %v does not list the components", wrong, err)
		}
	}
}

func TestGates(t *testing.T) {
	gates, err := parseGates([]string{"A=true", "B=false"})
	if err != nil || !gates["A"] || gates["B"] || len(gates) != 2 {
		t.Errorf("%v %v", gates, err)
	}
	for _, wrong := range []string{"A", "A=yes"} {
		if _, err := parseGates([]string{wrong}); err == nil {
			t.Errorf("accepted %q", wrong)
		}
	}
}

func TestLastLines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(file, []byte(strings.Repeat(strings.Repeat("x", 99)+"\n", 2000)+"one\ntwo\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := lastLines(file, 2); got != "one\ntwo" {
		t.Errorf("%q", got)
	}
	if got := lastLines("/nowhere", 2); !strings.Contains(got, "/nowhere") {
		t.Errorf("%q", got)
	}
}
