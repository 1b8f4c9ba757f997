// Package postgres has PostgreSQL as app, with the rules of its official image, and its own
// clients psql and pgbench.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"rouse.dev/interop/check"
)

const password = "secret"

// Each client of loopback is a superuser, as in the official image.
const trusted = `local all all trust
host all all 127.0.0.1/32 trust
host all all ::1/128 trust
host all all all scram-sha-256
`

const settings = `listen_addresses = '*'
fsync = off
max_connections = 40
`

// program is one of the newest PostgreSQL that Debian's packages installed.
func program(name string) string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(found) == 0 {
		return name
	}
	return found[len(found)-1]
}

// Version of the server.
func Version() string {
	output, err := exec.Command(program("postgres"), "--version").Output()
	fields := strings.Fields(string(output))
	if err != nil || len(fields) < 3 {
		return "is not installed"
	}
	return fields[2]
}

// Start starts a server with an empty database.
func Start(t testing.TB) check.App {
	t.Helper()
	dir, err := os.MkdirTemp("", "interop-postgres-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	data, secret := filepath.Join(dir, "data"), filepath.Join(dir, "password")
	if err := os.WriteFile(secret, []byte(password), 0o644); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		if err := os.Chown(dir, unprivileged, unprivileged); err != nil {
			t.Fatal(err)
		}
	}
	command := as(exec.Command(program("initdb"), "--pgdata", data, "--username", "postgres", "--no-sync",
		"--pwfile", secret, "--auth", "scram-sha-256"))
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v: %s", err, output)
	}
	for name, text := range map[string]string{"pg_hba.conf": trusted, "postgresql.auto.conf": settings} {
		if err := os.WriteFile(filepath.Join(data, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	port := check.FreePort(t)
	check.StartCommand(t, as(exec.Command(program("postgres"), "-D", data, "-p", strconv.Itoa(port), "-k", dir)))
	app := check.App{Host: check.HostAddress(t), Port: port, Kill: func() error { return killConnections(dir, port) }}
	waitForServer(t, app)
	return app
}

// A user without rights: PostgreSQL refuses to run as root.
const unprivileged = 65534

func as(command *exec.Cmd) *exec.Cmd {
	command.Dir = "/"
	command.SysProcAttr = &syscall.SysProcAttr{}
	if os.Getuid() == 0 {
		command.SysProcAttr.Credential = &syscall.Credential{Uid: unprivileged, Gid: unprivileged}
	}
	return command
}

func waitForServer(t testing.TB, app check.App) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), check.StartTime)
	defer cancel()
	if err := recovered(ctx, app); err != nil {
		t.Fatal(err)
	}
}

// killConnections kills the processes of all connections over TCP.
func killConnections(dir string, port int) error {
	command := exec.Command("psql", "--no-psqlrc", "--host", dir, "--port", strconv.Itoa(port), "--user", "postgres",
		"--tuples-only", "--no-align", "--command", "select pid from pg_stat_activity where client_addr is not null")
	output, err := command.Output()
	if err != nil {
		return fmt.Errorf("list connections: %w", err)
	}
	for _, line := range strings.Fields(string(output)) {
		id, parseErr := strconv.Atoi(line)
		if parseErr != nil {
			return parseErr
		}
		err = errors.Join(err, syscall.Kill(id, syscall.SIGKILL))
	}
	return err
}

// psql runs SQL with the password and returns the output.
func psql(ctx context.Context, address, sql string) (string, error) {
	output, err := client(ctx, address, "--command", sql).CombinedOutput()
	text := strings.TrimSpace(string(output))
	if err != nil {
		return text, fmt.Errorf("psql: %w: %s", err, text)
	}
	return text, nil
}

func client(ctx context.Context, address string, arguments ...string) *exec.Cmd {
	host, port, _ := net.SplitHostPort(address)
	arguments = append([]string{"--no-psqlrc", "--no-password", "--host", host, "--port", port, "--user", "postgres",
		"--quiet", "--tuples-only", "--no-align", "--set", "ON_ERROR_STOP=1"}, arguments...)
	command := exec.CommandContext(ctx, "psql", arguments...)
	command.Env = append(os.Environ(), "PGPASSWORD="+password, "PGSSLMODE=disable")
	return command
}
