//go:build !linux

package syslib

import "runtime"

// Machine returns the architecture.
func Machine() (string, error) { return runtime.GOARCH, nil }
