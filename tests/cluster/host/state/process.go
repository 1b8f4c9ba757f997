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

// Process is a process that can be told from a later one of the same pid by when it started.
type Process struct {
	PID int `json:"pid"`
	// Start is in clock ticks since the machine's boot, as the kernel tells it.
	Start uint64 `json:"start"`
}

// Record is what a supervisor started, for those who come after it.
type Record struct {
	// Init is pid 1 of the cluster, as seen from the host: all of the cluster dies with it.
	Init Process `json:"init"`
	// Address is where the API server is reached from the host.
	Address string `json:"address"`
	// Ready tells that the start has ended well.
	Ready bool `json:"ready"`
}

// Identify returns the process that has the pid now.
func Identify(pid int) (Process, error) {
	start, _, err := stat(pid)
	if err != nil {
		return Process{}, fmt.Errorf("identify process %d: %w", pid, err)
	}
	return Process{PID: pid, Start: start}, nil
}

// Alive tells whether this very process is still there. One that has ended and waits to be reaped is not.
func (p Process) Alive() bool {
	start, status, err := stat(p.PID)
	return err == nil && p.PID > 0 && start == p.Start && status != "Z" && status != "X"
}

// Kill ends the process if it is still the one that was identified, and waits for its end.
func (p Process) Kill(patience time.Duration) error {
	for deadline := time.Now().Add(patience); p.Alive(); time.Sleep(5 * time.Millisecond) {
		if err := unix.Kill(p.PID, unix.SIGKILL); err != nil && err != unix.ESRCH {
			return fmt.Errorf("kill process %d: %w", p.PID, err)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("process %d did not end within %s of being killed", p.PID, patience)
		}
	}
	return nil
}

// stat returns when the process started and its one-letter state.
func stat(pid int) (start uint64, status string, err error) {
	content, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, "", err
	}
	// The second field is the program's name in parentheses and may hold anything: count from its end. What follows
	// starts with field 3, the state; field 22 is the start.
	fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
	if len(fields) < 20 {
		return 0, "", fmt.Errorf("short stat of process %d", pid)
	}
	start, err = strconv.ParseUint(fields[19], 10, 64)
	return start, fields[0], err
}

// Children returns the processes that the given one started and that still run: name (how the program was called) to pid.
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

// InPIDNamespace returns the processes that live in the same pid namespace as the given one, that one included.
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

// ReadRecord returns what the last supervisor wrote, or a zero Record when there is none.
func (d Dir) ReadRecord() Record {
	var record Record
	if content, err := os.ReadFile(d.Record()); err == nil {
		_ = json.Unmarshal(content, &record) // a torn file tells as little as none
	}
	return record
}

// WriteRecord replaces the record in one step, so that no reader sees half of it.
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
