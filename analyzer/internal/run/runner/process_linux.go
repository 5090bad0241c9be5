package runner

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// procAttr has the test killed if the runner is: Bazel, which kills the runner,
// must not be left with a test that still runs.
func procAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// Die ends this process by sig, as the test ended. It writes no core: the test
// has written its own.
func Die(sig syscall.Signal) {
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

// findSetupScript finds Bazel's set-up script among the processes that this one descends from.
func findSetupScript() (s setupScript, ok bool) {
	pid := os.Getppid()
	for range 10 {
		if pid <= 1 {
			break
		}
		dir := fmt.Sprintf("/proc/%d", pid)
		b, err := os.ReadFile(dir + "/cmdline")
		if err != nil {
			break
		}
		argv := strings.Split(strings.TrimRight(string(b), "\x00"), "\x00")
		for i := range min(len(argv)-1, 3) {
			if path.Base(argv[i]) == "test-setup.sh" {
				s.command = argv[i+1]
				// tasting test starts all tests, and traces some.
				if rest := argv[i+2:]; slices.Contains(rest[:min(len(rest), 3)], "--under_bazel") {
					if k := slices.Index(rest, "--"); k >= 0 && k+1 < len(rest) {
						s.command = rest[k+1]
					}
				}
				return s, true
			}
		}
		if s.parent == "" {
			s.parent = cmp.Or(argv[0], "another program")
		}
		b, _ = os.ReadFile(dir + "/status")
		_, rest, _ := strings.Cut(string(b), "\nPPid:\t") // the kernel escapes line ends in names
		parent, _, _ := strings.Cut(rest, "\n")
		pid, _ = strconv.Atoi(parent) // 0 if the process has ended
	}
	return s, false
}
