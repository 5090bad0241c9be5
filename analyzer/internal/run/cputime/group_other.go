//go:build !linux

package cputime

import "errors"

// NewGroup returns an error: only Linux has control groups.
func NewGroup(string) (Group, error) { return nil, errors.ErrUnsupported }
