package state

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

func TestNames(t *testing.T) {
	t.Setenv("CLUSTER_STATE", t.TempDir())
	for name, fine := range map[string]bool{
		"rouse": true, "a": true, "ci-42": true,
		"": false, "..": false, "a/b": false, "A": false, "-a": false, "a-": false,
	} {
		if _, err := Of(name); (err == nil) != fine {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// A removal needs no confirmation, so it must never affect another directory.
func TestClusterDirectoryIsNeverAnExistingOne(t *testing.T) {
	t.Setenv("CLUSTER_STATE", "/")
	dir, err := Of("home")
	if err != nil || dir.Path != "/rouse-cluster/home" {
		t.Errorf("%v %v", dir, err)
	}
	if dir.Environment() != "CLUSTER_STATE=/" {
		t.Errorf("environment %s", dir.Environment())
	}
}

func TestLockReportsTheRunningSupervisor(t *testing.T) {
	t.Setenv("CLUSTER_STATE", t.TempDir())
	dir, err := Of("a")
	if err != nil {
		t.Fatal(err)
	}
	if pid := dir.Supervisor(); pid != 0 {
		t.Errorf("process %d holds a cluster that does not exist", pid)
	}
	if err := os.MkdirAll(dir.Path, 0o755); err != nil {
		t.Fatal(err)
	}
	held, err := dir.Hold()
	if err != nil {
		t.Fatal(err)
	}
	if pid := dir.Supervisor(); pid != os.Getpid() {
		t.Errorf("held by %d", pid)
	}
	if _, err := dir.Hold(); !errors.Is(err, ErrHeld) {
		t.Errorf("held twice: %v", err)
	}
	held.Close()
	if pid := dir.Supervisor(); pid != 0 {
		t.Errorf("the pid in the file, %d, counts without a held lock", pid)
	}
}

func TestExclusiveRemovesAnEmptyBase(t *testing.T) {
	t.Setenv("CLUSTER_STATE", t.TempDir())
	release, err := Exclusive()
	if err != nil {
		t.Fatal(err)
	}
	second := make(chan error, 1)
	go func() {
		release, err := Exclusive()
		if err == nil {
			release()
		}
		second <- err
	}()
	select {
	case err := <-second:
		t.Fatalf("not exclusive (%v)", err)
	case <-time.After(50 * time.Millisecond):
	}
	release()
	if err := <-second; err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(Base()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("base is left: %v", err)
	}
}

func TestProcess(t *testing.T) {
	// A name with a parenthesis and spaces, to test the parser of the stat file.
	program := filepath.Join(t.TempDir(), "a) b (")
	if err := os.Symlink("/bin/sleep", program); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program, "60")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = command.Wait() }()
	process, err := Identify(command.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	other := Process{PID: process.PID, Start: process.Start + 1}
	if !process.Alive() || other.Alive() || (Process{}).Alive() {
		t.Error("a process of the same pid and another start time counts as the same")
	}
	if err := other.Kill(time.Second); err != nil || !process.Alive() {
		t.Errorf("killed another process: %v", err)
	}
	if err := process.Kill(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	if process.Alive() {
		t.Error("alive after its end")
	}
}
