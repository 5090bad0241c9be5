//go:build !linux

package cputime

import (
	"errors"
	"os/exec"
	"time"
)

// Group is a control group, which only Linux has.
type Group struct{}

// NewGroup returns an error.
func NewGroup(string) (*Group, error) { return nil, errors.ErrUnsupported }

// Start isn't called.
func (*Group) Start(cmd *exec.Cmd) error { return cmd.Start() }

// CPU isn't called.
func (*Group) CPU() (time.Duration, error) { return 0, errors.ErrUnsupported }

// Close isn't called.
func (*Group) Close() error { return nil }
