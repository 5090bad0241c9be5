//go:build !linux

package component

import "io"

func widen(io.Reader) {}
