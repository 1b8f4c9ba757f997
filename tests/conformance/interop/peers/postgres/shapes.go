package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"rouse.dev/interop/check"
)

const rows = 200_000

// Shapes of psql and pgbench.
func Shapes() []check.Shape {
	return []check.Shape{
		{Name: "session", Breaks: "databases", Run: session},
		{Name: "no password", Breaks: "their data: each client would be a superuser", Run: withoutPassword},
		{Name: "COPY in and out", Breaks: "imports and dumps", Run: copyBothWays},
		{Name: "large result", Breaks: "reports", Run: largeResult},
		{Name: "cancel a query", Breaks: "control: a query without a client goes on", Run: cancelQuery},
		{Name: "100 connections", Breaks: "apps without a connection pool", Run: manyConnections},
		{Name: "silent session", Breaks: "connection pools", Long: true, Run: silentSession},
		{Name: "killed in a query", Breaks: "errors: clients wait without end", Run: killedInQuery},
		{Name: "killed in a COPY", Breaks: "errors: half a dump is taken for a whole one", Run: killedInCopy},
	}
}

func session(ctx context.Context, address string, _ check.App) error {
	got, err := psql(ctx, address, `
		create temporary table words (word text);
		begin; insert into words values ('one'), ('two'); savepoint s; delete from words; rollback to s; commit;
		prepare all_words as select string_agg(word, ' ') from words; execute all_words;`)
	return errors.Join(err, check.Equal("result", got, "one two"))
}

func withoutPassword(ctx context.Context, address string, _ check.App) error {
	command := client(ctx, address, "--command", "select 1")
	command.Env = append(os.Environ(), "PGSSLMODE=disable")
	output, err := command.CombinedOutput()
	if err == nil {
		return fmt.Errorf("a client without a password is let in: %s", output)
	}
	return check.Equal("the server asks for a password", strings.Contains(string(output), "no password supplied"), true)
}

func copyBothWays(ctx context.Context, address string, _ check.App) error {
	var lines bytes.Buffer
	for row := range rows {
		fmt.Fprintf(&lines, "%d\tthe row with the number %d\n", row, row)
	}
	input := client(ctx, address, "--command", "drop table if exists copied; create table copied (id int, text text)",
		"--command", `\copy copied from pstdin`)
	input.Stdin = bytes.NewReader(lines.Bytes())
	if output, err := input.CombinedOutput(); err != nil {
		return fmt.Errorf("copy in: %w: %s", err, output)
	}
	output, err := client(ctx, address, "--command", `\copy (select * from copied order by id) to stdout`).Output()
	return errors.Join(err, check.Equal("what comes out is what went in", bytes.Equal(output, lines.Bytes()), true))
}

func largeResult(ctx context.Context, address string, _ check.App) error {
	output, err := client(ctx, address, "--command", "select repeat('x', 1000000) from generate_series(1, 32)").Output()
	return errors.Join(err, check.Equal("length", len(output), 32*1_000_001))
}

// cancelQuery interrupts psql, which sends a request to cancel on a second connection.
func cancelQuery(ctx context.Context, address string, _ check.App) error {
	command := client(ctx, address, "--command", `\echo begun`, "--command", "select pg_sleep(600)")
	var failure bytes.Buffer
	command.Stderr = &failure
	output, err := check.StartPiped(command)
	if err != nil {
		return err
	}
	if _, err := output.Read(make([]byte, 16)); err != nil {
		return errors.Join(err, command.Wait())
	}
	asleep := func() error {
		count, err := psql(ctx, address, "select count(*) from pg_stat_activity where wait_event = 'PgSleep'")
		return errors.Join(err, check.Equal("sleeping queries", count, "1"))
	}
	if err := check.Eventually(ctx, asleep); err != nil {
		return err
	}
	command.Process.Signal(os.Interrupt)
	_ = command.Wait()
	return check.Equal("the query is cancelled", strings.Contains(failure.String(), "due to user request"), true)
}

// manyConnections makes a connection for each transaction.
func manyConnections(ctx context.Context, address string, _ check.App) error {
	host, port, _ := net.SplitHostPort(address)
	file, err := os.CreateTemp("", "interop-pgbench-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	if _, err := io.WriteString(file, "select 1;"); err != nil {
		return err
	}
	file.Close()
	command := exec.CommandContext(ctx, program("pgbench"), "--host", host, "--port", port, "--username", "postgres",
		"--no-vacuum", "--connect", "--client", "10", "--transactions", "10", "--file", file.Name(), "postgres")
	command.Env = append(os.Environ(), "PGPASSWORD="+password, "PGSSLMODE=disable")
	output, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	return check.Equal("all succeed", strings.Contains(string(output), "100/100"), true)
}

// recovered waits until the server accepts connections after the shape before.
func recovered(ctx context.Context, app check.App) error {
	return check.Eventually(ctx, func() error {
		_, err := psql(ctx, net.JoinHostPort(app.Host, fmt.Sprint(app.Port)), "select 1")
		return err
	})
}

func silentSession(ctx context.Context, address string, app check.App) error {
	if err := recovered(ctx, app); err != nil {
		return err
	}
	sleep := fmt.Sprintf(`\! sleep %d`, int(check.Silence/time.Second))
	output, err := client(ctx, address, "--command", "create temporary table kept (id int)", "--command", sleep,
		"--command", "select count(*) from kept").CombinedOutput()
	return errors.Join(err, check.Equal("result", strings.TrimSpace(string(output)), "0"))
}

func killedInQuery(ctx context.Context, address string, app check.App) error {
	return killed(ctx, app, client(ctx, address, "--command", `\echo begun`, "--command", "select 1",
		"--command", `\echo connected`, "--command", "select pg_sleep(600)"), len("begun\n1\nconnected\n"))
}

// killedInCopy has a COPY that is larger than all buffers.
func killedInCopy(ctx context.Context, address string, app check.App) error {
	return killed(ctx, app, client(ctx, address, "--command",
		`\copy (select repeat('x', 1000), generate_series(1, 1000000000)) to stdout`), 1<<20)
}

// killed kills the server's process after some output of a client, which must report an error.
func killed(ctx context.Context, app check.App, command *exec.Cmd, after int) error {
	if err := recovered(ctx, app); err != nil {
		return err
	}
	output, err := check.StartPiped(command)
	if err != nil {
		return err
	}
	defer command.Process.Kill()
	if _, err := io.ReadFull(output, make([]byte, after)); err != nil {
		return fmt.Errorf("no output: %w", err)
	}
	if err := app.Kill(); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, output)
	// psql exits with 2 if it lost its connection.
	_ = command.Wait()
	return errors.Join(ctx.Err(), check.Equal("exit code of psql", command.ProcessState.ExitCode(), 2))
}
