// Package cputime measures the CPU time of Bazel: of a client that ends, of a
// server that stays, and of all that the server starts.
//
// A control group (cgroup v1 or v2) counts exactly, since descendants inherit it.
// If this process may not make one, the times in /proc are added up: of the server
// and its live descendants, each with the descendants that it has waited for. That
// misses a process that outlives its parent.
//
// A Meter chooses between the two, and runs the commands that are measured.
package cputime

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of times in /proc/PID/stat: USER_HZ, which is 100 on all
// architectures that Bazel runs on.
const tick = 10 * time.Millisecond

// Process is a live process.
type Process struct {
	PID int
	// CPU time, that of waited-for descendants included.
	CPU    time.Duration
	parent int
}

// Args returns the command line, or nil if the process has ended.
func (p Process) Args() []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
}

// Tree returns process pid and its live descendants. If there is no such process
// there are none.
func Tree(pid int) ([]Process, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(files) == 0 {
		return nil, errors.Join(errors.New("/proc has no processes: CPU time can't be measured on this system"), err)
	}
	all := map[int]Process{}
	below := map[int][]int{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended
		}
		if p, ok := parseStat(b); ok {
			all[p.PID] = p
			below[p.parent] = append(below[p.parent], p.PID)
		}
	}
	var tree []Process
	var walk func(pid int)
	walk = func(pid int) {
		p, ok := all[pid]
		if !ok {
			return
		}
		delete(all, pid)
		tree = append(tree, p)
		for _, child := range below[pid] {
			walk(child)
		}
	}
	walk(pid)
	return tree, nil
}

// Sum returns the CPU time of processes.
func Sum(l []Process) (sum time.Duration) {
	for _, p := range l {
		sum += p.CPU
	}
	return sum
}

// parseStat reads /proc/PID/stat (proc_pid_stat(5)).
func parseStat(b []byte) (p Process, ok bool) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')') // the name may hold both
	if open < 0 || end < open {
		return p, false
	}
	fields := strings.Fields(string(b[end+1:])) // from the third, the state
	if len(fields) < 15 {
		return p, false
	}
	var err error
	number := func(s string) int {
		n, e := strconv.Atoi(strings.TrimSpace(s))
		err = errors.Join(err, e)
		return n
	}
	p.PID, p.parent = number(string(b[:open])), number(fields[1])
	for _, f := range fields[11:15] { // utime, stime, cutime, cstime
		p.CPU += time.Duration(number(f)) * tick
	}
	return p, err == nil
}
