package check

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"
)

// StartTime is longer than a start takes on a busy machine.
const StartTime = 60 * time.Second

// Ports below those that the kernel gives to clients: one of these could be taken meanwhile.
const (
	firstPort = 12_000
	lastPort  = 32_000
)

// Concurrent runs begin at different ports.
var nextPort atomic.Int64

func init() { nextPort.Store(firstPort + int64(os.Getpid()*37%(lastPort-firstPort))) }

// FreePort is a port that no process listens on, and that no other caller gets soon.
func FreePort(t testing.TB) int {
	t.Helper()
	for range lastPort - firstPort {
		port := int(firstPort + nextPort.Add(1)%(lastPort-firstPort))
		listener, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err == nil {
			listener.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

// HostAddress is an address of this machine that is not loopback, as a pod has one. No packet is
// sent.
func HostAddress(t testing.TB) string {
	t.Helper()
	connection, err := net.Dial("udp4", "192.0.2.1:9")
	if err != nil {
		t.Fatalf("this machine has no route, as a pod would have: %v", err)
	}
	defer connection.Close()
	return connection.LocalAddr().(*net.UDPAddr).IP.String()
}

// Loopback is the address of a port here.
func Loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// WaitForPort waits until a process listens on a port. It makes no connection, which would wake a
// workload in TCP mode.
func WaitForPort(t testing.TB, port int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), StartTime)
	defer cancel()
	// The port, no peer, and the state.
	listening := [][]byte{
		fmt.Appendf(nil, ":%04X 00000000:0000 0A", port),
		fmt.Appendf(nil, ":%04X 00000000000000000000000000000000:0000 0A", port),
	}
	err := Eventually(ctx, func() error {
		for at, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
			sockets, err := os.ReadFile(file)
			if err == nil && bytes.Contains(sockets, listening[at]) {
				return nil
			}
		}
		return fmt.Errorf("no process listens on port %d", port)
	})
	if err != nil {
		t.Fatal(err)
	}
}
