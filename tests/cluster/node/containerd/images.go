// Package containerd imports images into a cluster's containerd, with its command line client ctr.
package containerd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"

	"rouse.dev/cluster/build/image"
)

// Images is the image store of the kubelet.
type Images struct {
	// Socket is the socket of containerd. A path through /proc/PID/root reaches another mount
	// namespace.
	Socket string
}

// Import returns the command that imports an image tarball. pid 1 runs it through its reaper.
func (i Images) Import(tarball string) *exec.Cmd {
	return i.client(context.Background(), "images", "import", tarball)
}

// Load imports an image tarball, unless its name already refers to the same image. It returns
// whether it imported.
func (i Images) Load(ctx context.Context, tarball string) (bool, error) {
	if present, err := i.present(ctx, tarball); err != nil || present {
		return false, err
	}
	return true, run(i.client(ctx, "images", "import", tarball))
}

// present compares ids. containerd keeps a second reference to each image, named by the id. It has
// the same digest as the name if and only if the name refers to that image.
func (i Images) present(ctx context.Context, tarball string) (bool, error) {
	name, id, err := image.Identify(tarball)
	if errors.Is(err, image.ErrSeveral) {
		return false, nil // importing it again is harmless
	}
	if err != nil {
		return false, err
	}
	command := i.client(ctx, "images", "list")
	var list bytes.Buffer
	command.Stdout = &list
	if err := run(command); err != nil {
		return false, err
	}
	var byName, byID string
	for line := range strings.Lines(list.String()) {
		fields := strings.Fields(line)
		if len(fields) < 3 {
			continue
		}
		switch reference, digest := fields[0], fields[2]; {
		case reference == id:
			byID = digest
		// containerd prefixes a short name with a registry.
		case reference == name || strings.HasSuffix(reference, "/"+name):
			byName = digest
		}
	}
	return byName != "" && byName == byID, nil
}

func (i Images) client(ctx context.Context, args ...string) *exec.Cmd {
	// The kubelet uses the namespace k8s.io.
	command := exec.CommandContext(ctx, "ctr", append([]string{"--address", i.Socket, "--namespace", "k8s.io"}, args...)...)
	// Without its parent ctr would wait for a containerd that has ended, for ever.
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return command
}

func run(command *exec.Cmd) error {
	var stderr bytes.Buffer
	command.Stderr = &stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(command.Args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return nil
}
