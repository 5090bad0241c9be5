//go:build !linux || !(amd64 || arm64)

package trace

import (
	"errors"
	"os/exec"
)

func run(cmd *exec.Cmd, opt Options, started func()) (*Result, error) {
	return untraced(cmd, opt, started, "functions are traced on Linux on x86-64 and arm64 only")
}

// Attach traces a program that runs already.
func Attach(int, Options, func()) (*Result, error) {
	return nil, errors.New("functions are traced on Linux on x86-64 and arm64 only")
}

func wake(int) {}
