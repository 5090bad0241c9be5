package runner

import (
	"os"
	"syscall"
	"unsafe"
)

// procAttr has the test killed if the runner is: Bazel, which kills the runner,
// must not be left with a test that still runs.
func procAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// die ends this process by sig, as the test ended. It writes no core: the test
// has written its own.
func die(sig syscall.Signal) {
	const prSetDumpable = 4
	syscall.RawSyscall(syscall.SYS_PRCTL, prSetDumpable, 0, 0)
	// os/signal can't restore the default of signals that Go's runtime handles
	// itself. An all-zero struct sigaction is SIG_DFL.
	var dfl [64]byte
	syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&dfl)), 0, 8, 0, 0)
	syscall.Kill(os.Getpid(), sig)
	// Delivery may take a moment; a signal that doesn't kill never arrives.
	for range 100 {
		syscall.Select(0, nil, nil, nil, &syscall.Timeval{Usec: 10_000})
	}
	os.Exit(128 + int(sig))
}

// machine returns the architecture as in uname -m.
func machine() (string, error) {
	var uts syscall.Utsname
	if err := syscall.Uname(&uts); err != nil {
		return "", err
	}
	var s []byte
	for _, c := range uts.Machine {
		if c == 0 {
			break
		}
		s = append(s, byte(c))
	}
	return string(s), nil
}
