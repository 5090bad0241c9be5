package cputime

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Group is a control group for processes whose CPU time is counted.
type Group interface {
	// Start starts a command in the group.
	Start(cmd *exec.Cmd) error
	// CPU returns the CPU time that the group has used.
	CPU() (time.Duration, error)
	// Close removes the group, if all of its processes have ended.
	Close() error
}

// Meter measures commands that start a Bazel, or talk to its server.
type Meter struct {
	group Group // nil if none can be made
	base  string
}

// NewMeter returns a meter of the Bazel with an output base. No server of it may be
// running, since that wouldn't be in the control group. Name is the name of the control group and must be
// unique.
func NewMeter(name, outputBase string) *Meter {
	group, _ := NewGroup(name)
	return &Meter{group, outputBase}
}

// Method returns how CPU time is measured: "control group" or "process tree".
func (m *Meter) Method() string {
	if m.group == nil {
		return "process tree"
	}
	return "control group"
}

// Run runs a command to its end, and returns the CPU time that the group or Bazel's
// server used meanwhile. The error is that of the command, or of the measurement.
func (m *Meter) Run(cmd *exec.Cmd) (time.Duration, error) {
	before, err := m.used()
	if err != nil {
		return 0, err
	}
	start := cmd.Start
	if m.group != nil {
		start = func() error { return m.group.Start(cmd) }
	}
	if err := start(); err != nil {
		return 0, err
	}
	ended := cmd.Wait()
	after, err := m.used()
	if err != nil {
		return 0, err
	}
	if m.group != nil {
		return after - before, ended
	}
	// The server may have been started anew.
	return max(0, after-before) + cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), ended
}

// Close removes the control group. The server has been shut down.
func (m *Meter) Close() error {
	if m.group == nil {
		return nil
	}
	return m.group.Close()
}

// used returns the CPU time so far, of the control group or of Bazel's server.
func (m *Meter) used() (time.Duration, error) {
	if m.group != nil {
		return m.group.CPU()
	}
	pid, ok := Server(m.base)
	if !ok {
		return 0, nil // there is none yet
	}
	tree, err := Tree(pid)
	return Sum(tree), err
}

// Server returns the process of the Bazel server with an output base, if one has been started.
func Server(outputBase string) (pid int, ok bool) {
	b, err := os.ReadFile(filepath.Join(outputBase, "server", "server.pid.txt"))
	if err != nil {
		return 0, false
	}
	pid, err = strconv.Atoi(strings.TrimSpace(string(b)))
	return pid, err == nil
}
