package state

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Process identifies a process by pid and start time, because pids are reused.
type Process struct {
	PID int `json:"pid"`
	// Start is the start time in clock ticks since boot.
	Start uint64 `json:"start"`
}

// Record describes the processes of a supervisor, for later commands.
type Record struct {
	// Init is pid 1 of the cluster, with its pid on the host. The kernel kills all other processes
	// with it.
	Init Process `json:"init"`
	// Address is the address of the API server on the host.
	Address string `json:"address"`
	// Ready is set after a successful start.
	Ready bool `json:"ready"`
}

// Identify returns the process that currently has the pid.
func Identify(pid int) (Process, error) {
	start, _, err := stat(pid)
	if err != nil {
		return Process{}, fmt.Errorf("identify process %d: %w", pid, err)
	}
	return Process{PID: pid, Start: start}, nil
}

// Alive reports whether this process still runs. A zombie does not count.
func (p Process) Alive() bool {
	start, status, err := stat(p.PID)
	return err == nil && p.PID > 0 && start == p.Start && status != "Z" && status != "X"
}

// Kill kills the process if it is still the identified one, and waits for its end.
func (p Process) Kill(timeout time.Duration) error {
	for deadline := time.Now().Add(timeout); p.Alive(); time.Sleep(5 * time.Millisecond) {
		if err := unix.Kill(p.PID, unix.SIGKILL); err != nil && err != unix.ESRCH {
			return fmt.Errorf("kill process %d: %w", p.PID, err)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("process %d did not end within %s after SIGKILL", p.PID, timeout)
		}
	}
	return nil
}

// stat returns the start time of a process and its one-letter state.
func stat(pid int) (start uint64, status string, err error) {
	content, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, "", err
	}
	// The second field is the program's name in parentheses, with any characters, so parsing begins
	// after its end: field 3 is the state, field 22 the start time.
	fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
	if len(fields) < 20 {
		return 0, "", fmt.Errorf("short stat of process %d", pid)
	}
	start, err = strconv.ParseUint(fields[19], 10, 64)
	return start, fields[0], err
}

// Children returns the running children of a process: argv[0] to pid.
func Children(parent int) map[string]int {
	children := map[string]int{}
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	for _, task := range tasks {
		content, _ := os.ReadFile(task)
		for _, field := range strings.Fields(string(content)) {
			pid, _ := strconv.Atoi(field)
			line, err := os.ReadFile(filepath.Join("/proc", field, "cmdline"))
			if err != nil || len(line) == 0 {
				continue
			}
			name, _, _ := strings.Cut(string(line), "\x00")
			children[filepath.Base(name)] = pid
		}
	}
	return children
}

// InPIDNamespace returns the processes in the pid namespace of the given one, including that one.
func InPIDNamespace(pid int) []int {
	namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	if err != nil {
		return nil
	}
	var pids []int
	links, _ := filepath.Glob("/proc/[0-9]*/ns/pid")
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && target == namespace {
			if pid, err := strconv.Atoi(strings.Split(link, "/")[2]); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	sort.Ints(pids)
	return pids
}

// ReadRecord returns the record of the last supervisor, or a zero Record.
func (d Dir) ReadRecord() Record {
	var record Record
	if content, err := os.ReadFile(d.Record()); err == nil {
		_ = json.Unmarshal(content, &record) // an incomplete file counts as none
	}
	return record
}

// WriteRecord replaces the record atomically.
func (d Dir) WriteRecord(record Record) error {
	content, err := json.Marshal(record)
	if err != nil {
		return err
	}
	next := d.Record() + ".next"
	if err := os.WriteFile(next, content, 0o644); err != nil {
		return fmt.Errorf("write the cluster's record: %w", err)
	}
	return os.Rename(next, d.Record())
}
