// Package bazel is how this project talks to Bazel: it starts commands, knows
// which flags a command takes, reads build events, and answers as a persistent
// worker.
//
// Nothing here parses what Bazel prints for people. Bazel tells programs what it
// knows in four ways, all of them stable: the build event protocol
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
	return b.run(ctx, s, b.Startup, command, args)
}

func (b *Bazel) run(ctx context.Context, s Streams, startup []string, command string, args []string) (int, error) {
	argv := append(append(append([]string{}, startup...), command), args...)
	cmd := exec.CommandContext(ctx, b.Program, argv...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = b.Dir, s.In, s.Out, s.Err
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	// A terminal sends an interrupt to the whole process group; whoever else does, and a
	// CI system its SIGTERM, to this process alone.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		var path *fs.PathError
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) && errors.As(err, &path) && path.Op != "chdir" {
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
	err := cmd.Wait()
	close(done)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() >= 0 {
		return exit.ExitCode(), nil
	}
	if err != nil {
		return 0, fmt.Errorf("bazel %s: %w", command, err)
	}
	return ExitOK, nil
}

// inForeground tells whether a terminal sends its interrupts to this process and to those that
// it has started. (Who else sends one there, as a container's engine, isn't told apart.)
func inForeground() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// RunRC is Run with the lines of a bazelrc file that counts after all others.
func (b *Bazel) RunRC(ctx context.Context, s Streams, rc, command string, args ...string) (code int, err error) {
	return b.run(ctx, s, b.startup(rc), command, args)
}

func (b *Bazel) startup(rc string) []string { return append(slices.Clone(b.Startup), "--bazelrc="+rc) }

// Output runs a command and returns its standard output. An exit code other than
// 0 is an error that holds the end of Bazel's messages.
func (b *Bazel) Output(ctx context.Context, command string, args ...string) ([]byte, error) {
	return b.output(ctx, b.Startup, command, args)
}

func (b *Bazel) output(ctx context.Context, startup []string, command string, args []string) ([]byte, error) {
	var out, messages bytes.Buffer
	code, err := b.run(ctx, Streams{Out: &out, Err: &messages}, startup, command, args)
	if err == nil && code != ExitOK {
		err = fmt.Errorf("bazel %s: exit code %d", command, code)
	}
	if err != nil {
		lines := strings.Split(strings.TrimSpace(messages.String()), "\n")
		return nil, fmt.Errorf("%w\n%s", err, strings.Join(lines[max(0, len(lines)-20):], "\n"))
	}
	return out.Bytes(), nil
}
