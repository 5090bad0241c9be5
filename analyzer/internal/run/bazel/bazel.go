// Package bazel is the interface to Bazel: it starts commands, lists
// the flags of a command, reads build events, and answers as a persistent
// worker.
//
// Nothing here parses Bazel's messages for people. Bazel has four stable
// interfaces for programs: the build event protocol
// (build_event_stream.proto, here as JSON), `help flags-as-proto`
// (bazel_flags.proto), requests to workers (worker_protocol.proto), and exit codes.
package bazel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Exit codes of bazel (ExitCode.java), as far as they matter here.
const (
	ExitOK          = 0
	ExitBuildFailed = 1
	ExitUsage       = 2
	ExitTestsFailed = 3
	ExitNoTests     = 4
	ExitInterrupted = 8
)

// Bazel runs Bazel in a workspace.
type Bazel struct {
	// Program is Bazel's path or name.
	Program string
	// Dir is a directory in the workspace, empty for the current one.
	Dir string
	// Startup holds startup options.
	Startup []string
	// Cache is a directory where Flags are kept, or empty.
	Cache string

	version func() string // see Version
}

// Streams are where a command reads and writes. A nil writer discards.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Run runs a command and returns Bazel's exit code. An error means that Bazel
// couldn't be started or was killed. Signals that end this process are left to
// Bazel, which then ends with ExitInterrupted.
func (b *Bazel) Run(ctx context.Context, s Streams, command string, args ...string) (code int, err error) {
	cmd := exec.CommandContext(ctx, b.Program, slices.Concat(b.Startup, []string{command}, args)...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = b.Dir, s.In, s.Out, s.Err
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	// A terminal sends an interrupt to the whole process group; whoever else does, and a
	// CI system its SIGTERM, to this process alone.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		path, ok := errors.AsType[*fs.PathError](err)
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) && ok && path.Op != "chdir" {
			return 0, fmt.Errorf("bazel: %w; say --bazel=PATH where it is", err)
		}
		return 0, fmt.Errorf("bazel: %w", err)
	}
	done := make(chan struct{})
	go func() {
		var last time.Time
		for {
			select {
			case sig := <-signals:
				// At the third interrupt Bazel's client kills its server: what reaches all processes of
				// a group is passed on once.
				if sig == syscall.SIGTERM || !inForeground() && time.Since(last) > time.Second {
					last = time.Now()
					cmd.Process.Signal(os.Interrupt)
				}
			case <-done:
				return
			}
		}
	}()
	err = cmd.Wait()
	close(done)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() >= 0 {
		return exit.ExitCode(), nil
	}
	if err != nil {
		return 0, fmt.Errorf("bazel %s: %w", command, err)
	}
	return ExitOK, nil
}

// inForeground reports whether a terminal sends its interrupts to this process and its children, as may
// a container's engine.
func inForeground() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// WithRC returns a Bazel that also reads a bazelrc file, after all others.
func (b *Bazel) WithRC(file string) *Bazel {
	with := *b
	with.Startup = append(slices.Clone(b.Startup), "--bazelrc="+file)
	return &with
}

// Output runs a command and returns its standard output. An exit code other than
// 0 is an error that holds the end of Bazel's messages.
func (b *Bazel) Output(ctx context.Context, command string, args ...string) ([]byte, error) {
	var out, messages bytes.Buffer
	code, err := b.Run(ctx, Streams{Out: &out, Err: &messages}, command, args...)
	if err == nil && code != ExitOK {
		err = fmt.Errorf("bazel %s: exit code %d", command, code)
	}
	if err != nil {
		lines := strings.Split(strings.TrimSpace(messages.String()), "\n")
		return nil, fmt.Errorf("%w\n%s", err, strings.Join(lines[max(0, len(lines)-20):], "\n"))
	}
	return out.Bytes(), nil
}
