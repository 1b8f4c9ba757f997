package node

import (
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rouse.dev/cluster/host/networkpolicy"
	"rouse.dev/cluster/host/state"
)

func config(t *testing.T) Config {
	t.Helper()
	return Config{
		Dir:         state.Dir{Name: "test", Path: filepath.Join(t.TempDir(), "test")},
		Kubernetes:  "/cache/kubernetes",
		Pause:       Image{Name: "pause:v1", File: "/cache/pause.tar"},
		CNIPlugins:  "/plugins",
		Snapshotter: "overlayfs",
		Settings: Settings{
			HPASyncPeriod:          2 * time.Second,
			KubeProxyMinSyncPeriod: 20 * time.Millisecond,
			FeatureGates:           map[string]bool{"B": false, "A": true},
			Arguments:              map[string][]string{"kube-apiserver": {"--v=4", "--event-ttl=5m"}, "etcd": {"--max-txn-ops=9"}},
		},
	}
}

func TestUsersArgumentsComeLast(t *testing.T) {
	c := config(t)
	args := c.apiServer().args
	if got := args[len(args)-3:]; !slices.Equal(got, []string{"--feature-gates=A=true,B=false", "--v=4", "--event-ttl=5m"}) {
		t.Errorf("API server: %v", got)
	}
	if args := c.etcd().args; args[len(args)-1] != "--max-txn-ops=9" {
		t.Errorf("etcd: %v", args)
	}
	if args := c.kubelet().args; args[len(args)-1] != "--feature-gates=A=true,B=false" {
		t.Errorf("kubelet: %v", args)
	}
}

// Without root, processes cannot change their groups.
func TestAPIServerHasGroupOfItsOwnWithNetworkPolicies(t *testing.T) {
	c := config(t)
	if attributes := c.apiServer().command(nil).SysProcAttr; attributes != nil {
		t.Errorf("without: %v", attributes)
	}
	c.NetworkPolicies = true
	if attributes := c.apiServer().command(nil).SysProcAttr; attributes == nil || attributes.Credential.Gid != networkpolicy.APIServerGroup {
		t.Errorf("with: %v", attributes)
	}
}

func TestSettingsReachTheirComponents(t *testing.T) {
	c := config(t)
	if !slices.Contains(c.controllerManager().args, "--horizontal-pod-autoscaler-sync-period=2s") {
		t.Errorf("controller manager: %v", c.controllerManager().args)
	}
	if err := c.Write(); err != nil {
		t.Fatal(err)
	}
	for file, wants := range map[string][]string{
		"kube-proxy.yaml":     {"minSyncPeriod: 20ms", "mode: nftables", "  A: true\n  B: false"},
		"kubelet.yaml":        {"cgroupRoot: ", "clusterDNS: [10.96.0.10]", c.Dir.PKI("kubelet.crt")},
		"containerd.toml":     {`sandbox_image = "pause:v1"`, `bin_dir = "/plugins"`, `root = "` + c.Dir.Containerd() + `"`},
		"cni/bridge.conflist": {`"subnet": "10.244.0.0/24"`},
	} {
		content, err := os.ReadFile(c.Dir.Components(file))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(string(content), want) {
				t.Errorf("%s lacks %q:\n%s", file, want, content)
			}
		}
		if strings.Contains(string(content), "<no value>") {
			t.Errorf("%s has an empty template value:\n%s", file, content)
		}
		if filepath.Ext(file) == ".conflist" && !json.Valid(content) {
			t.Errorf("%s is not JSON:\n%s", file, content)
		}
	}
}

func TestConfigRoundTrips(t *testing.T) {
	c := config(t)
	if err := c.Write(); err != nil {
		t.Fatal(err)
	}
	read, err := Read(c.Dir)
	if err != nil {
		t.Fatal(err)
	}
	want, _ := json.Marshal(c)
	if got, _ := json.Marshal(read); string(got) != string(want) {
		t.Errorf("read %s\nwant %s", got, want)
	}
}

// exec and port-forward close one direction and continue with the other.
func TestForwardForwardsTheEndOfOneDirection(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		connection, err := server.Accept()
		if err != nil {
			return
		}
		defer connection.Close()
		request, _ := io.ReadAll(connection) // returns only after the client's end was forwarded
		_, _ = connection.Write(append([]byte("got "), request...))
	}()
	host, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	go func() { _ = forward(host, server.Addr().String()) }()
	client, err := net.Dial("tcp", host.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_ = client.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := client.Write([]byte("this")); err != nil {
		t.Fatal(err)
	}
	if err := client.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if response, err := io.ReadAll(client); err != nil || string(response) != "got this" {
		t.Errorf("%q %v", response, err)
	}
}
