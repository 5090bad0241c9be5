package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// childVariable makes this program run as tasting. Its value is the file for
// the process's usage at its end, or "-" for none.
const childVariable = "TASTING_BENCH_CHILD"

// usage is what a process that runs as tasting has used itself, and what its
// children have.
type usage struct {
	CPU, Children float64 // seconds
	MemoryMB      float64 // its own peak
}

func writeUsage(file string) error {
	if file == "-" {
		return nil
	}
	peak, err := peakMB()
	if err != nil {
		return err
	}
	b, err := json.Marshal(usage{cpuOf(syscall.RUSAGE_SELF).Seconds(), cpuOf(syscall.RUSAGE_CHILDREN).Seconds(), peak})
	if err != nil {
		return err
	}
	return os.WriteFile(file, b, 0o666)
}

// cpuOf returns the processor time of this process so far, or of its children that have ended.
func cpuOf(who int) time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(who, &r) // fails only for another who
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// peakMB returns the most memory that this process had at any time. It is not
// ru_maxrss, which is at least that of the process that started this one.
func peakMB() (float64, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmHWM:" {
			kb, err := strconv.ParseFloat(f[1], 64)
			return kb / 1024, err
		}
	}
	return 0, errors.New("the kernel doesn't tell the peak memory of a process (VmHWM in /proc/self/status)")
}

// Times are the times of one command over all its repetitions, in seconds.
type Times struct {
	CPU        float64 `json:"cpu"`  // the least, of the process and its children
	Wall       float64 `json:"wall"` // the least
	MedianWall float64 `json:"median_wall"`

	walls []float64
}

func (t *Times) add(cpu, wall float64) {
	if len(t.walls) == 0 || cpu < t.CPU {
		t.CPU = cpu
	}
	t.walls = append(t.walls, wall)
	t.Wall, t.MedianWall = slices.Min(t.walls), medianOf(t.walls)
}

// execute runs a command, adds its times to t and returns its output. It fails
// if the command does.
func execute(t *Times, env []string, argv ...string) (output string, err error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	start := time.Now()
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, out.String())
	}
	t.add((cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), time.Since(start).Seconds())
	return out.String(), nil
}

// tasting runs tasting, and returns what the process itself has used.
func tasting(t *Times, report string, args ...string) (*usage, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if out, err := execute(t, []string{childVariable + "=" + report}, append([]string{self}, args...)...); err != nil {
		return nil, err
	} else if strings.Contains(out, "falls back") {
		return nil, errors.New(out) // then something else was measured
	}
	b, err := os.ReadFile(report)
	if err != nil {
		return nil, err
	}
	u := new(usage)
	return u, json.Unmarshal(b, u)
}
