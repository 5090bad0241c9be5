//go:build !linux

package runner

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

func procAttr() *syscall.SysProcAttr { return nil }

// Die ends this process by sig, or with the exit code that a shell would give.
func Die(sig syscall.Signal) {
	signal.Reset(sig)
	syscall.Kill(os.Getpid(), sig)
	time.Sleep(time.Second)
	os.Exit(128 + int(sig))
}

func findSetupScript() (setupScript, bool) { return setupScript{}, false }
