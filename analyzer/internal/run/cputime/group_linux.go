package cputime

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

type cgroup struct {
	dir string // of the new group
	own string // v1: where this process is
}

// NewGroup makes a control group below that of this process. An error means that
// it may not.
func NewGroup(name string) (Group, error) {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(b)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, path, _ := strings.Cut(rest, ":")
		g, file := new(cgroup), "cpuacct.usage"
		switch {
		case controllers == "" && exists("/sys/fs/cgroup/cgroup.controllers"):
			g.dir, file = filepath.Join("/sys/fs/cgroup", path, name), "cpu.stat"
		case strings.Contains(","+controllers+",", ",cpuacct,"):
			if g.own = filepath.Join("/sys/fs/cgroup", controllers, path); !exists(g.own) {
				g.own = filepath.Join("/sys/fs/cgroup/cpuacct", path)
			}
			g.dir = filepath.Join(g.own, name)
		default:
			continue
		}
		e := tryGroup(g.dir, file)
		if e == nil {
			return g, nil
		}
		err = errors.Join(err, e)
	}
	return nil, errors.Join(errors.New("no control group can be made"), err)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func tryGroup(dir, file string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if !exists(filepath.Join(dir, file)) {
		_ = os.Remove(dir)
		return fmt.Errorf("%s has no %s", dir, file)
	}
	return nil
}

func (g *cgroup) Start(cmd *exec.Cmd) error {
	if g.own == "" {
		f, err := os.Open(g.dir)
		if err != nil {
			return err
		}
		defer f.Close()
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(f.Fd())}
		return cmd.Start()
	}
	// In v1 threads can be in different groups, and a child is where the thread is
	// that starts it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	id := []byte(strconv.Itoa(syscall.Gettid()))
	if err := os.WriteFile(filepath.Join(g.dir, "tasks"), id, 0o644); err != nil {
		return err
	}
	err := cmd.Start()
	return errors.Join(err, os.WriteFile(filepath.Join(g.own, "tasks"), id, 0o644))
}

func (g *cgroup) CPU() (time.Duration, error) {
	file, key, unit := "cpuacct.usage", "", time.Nanosecond
	if g.own == "" {
		file, key, unit = "cpu.stat", "usage_usec ", time.Microsecond
	}
	b, err := os.ReadFile(filepath.Join(g.dir, file))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), key); ok {
			x, err := strconv.ParseInt(n, 10, 64)
			return time.Duration(x) * unit, err
		}
	}
	return 0, fmt.Errorf("%s/%s: no CPU time", g.dir, file)
}

func (g *cgroup) Close() error { return os.Remove(g.dir) }
