//go:build linux && (amd64 || arm64)

package trace

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// # Attaching
//
// A process that runs already is stopped as a whole: who is known has its new threads traced, but for one that is being made
// just now, so that all are known when all have stopped and none is new. Then breakpoints are written, where the memory is what
// the file has, and everybody goes on. If the tracer is killed the process stays, with its breakpoints.

func attach(pid int, opt Options, started func()) (r *Result, err error) {
	onOwnThread(func() {
		x := newTracer(opt, pid)
		x.attached = true
		if err = x.attach(); err != nil {
			return
		}
		started()
		x.loop()
		opt.Control.end(errEnded)
		r = x.finish()
	})
	return r, err
}

// attachable says why a process can't be attached to.
func attachable(pid int) error {
	status := procStatus(pid)
	switch {
	case len(status) == 0:
		return fmt.Errorf("there is no process %d", pid)
	case status["Tgid"] != strconv.Itoa(pid):
		return fmt.Errorf("%d is a thread of process %s: name that", pid, status["Tgid"])
	case pid == os.Getpid():
		return errors.New("this program can't trace itself")
	case status["TracerPid"] != "0":
		return fmt.Errorf("process %d has a tracer already, process %s", pid, status["TracerPid"])
	}
	if _, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err != nil {
		return fmt.Errorf("process %d has no program that can be read: %w", pid, err)
	}
	return nil
}

func (x *tracer) attach() error {
	if err := attachable(x.main); err != nil {
		return err
	}
	p := &process{pid: x.main, mem: -1}
	x.result.Stats.Processes++
	stops, err := x.stopAll(p)
	switch {
	case err != nil:
		p.left = true
	case len(x.threads) == 0:
		return fmt.Errorf("process %d has ended", x.main)
	default:
		x.giveUp("it was attached to: what it had executed before isn't known")
		x.opt.Control.begin(x.main)
		if why := x.arrive(p); why != "" {
			x.giveUp("%s", why)
			x.leave(p)
		}
	}
	for tid, ws := range stops {
		if t := x.threads[tid]; ws.Stopped() && t != nil {
			x.stopped(t, ws)
		} else {
			x.remove(t)
		}
	}
	if err != nil {
		for _, t := range x.threads { // of those that are new meanwhile
			_ = ptrace(unix.PTRACE_INTERRUPT, t.tid, 0, 0)
		}
		x.loop()
	}
	return err
}

// stopAll stops all threads of a process, and returns how each of them has stopped, or ended. With an error, those that have
// stopped are to be let go.
func (x *tracer) stopAll(p *process) (map[int]unix.WaitStatus, error) {
	stops := map[int]unix.WaitStatus{}
	for found := true; found; {
		found = false
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", x.main))
		if err != nil {
			return stops, fmt.Errorf("process %d has ended", x.main)
		}
		for _, task := range tasks {
			tid, err := strconv.Atoi(task.Name())
			if err != nil || x.threads[tid] != nil {
				continue
			}
			// If this program is killed, the other one had better live on.
			err = ptrace(unix.PTRACE_SEIZE, tid, 0, options&^unix.PTRACE_O_EXITKILL)
			status := procStatus(tid)
			switch state := status["State"]; {
			case err == nil:
				x.add(tid, p)
				found = true
			case state == "" || strings.ContainsAny(state[:1], "ZX"): // it has ended
			case status["TracerPid"] == strconv.Itoa(unix.Gettid()): // of a thread that was seized just now; it will be heard of
				x.add(tid, p)
				x.early[tid] = true
				found = true
			default:
				return stops, fmt.Errorf("process %d can't be traced: %w (see /proc/sys/kernel/yama/ptrace_scope)", x.main, err)
			}
		}
		for tid := range x.threads {
			if _, ok := stops[tid]; ok {
				continue
			}
			_ = ptrace(unix.PTRACE_INTERRUPT, tid, 0, 0)
			ws, ok := stopOf(tid)
			if !ok {
				return stops, fmt.Errorf("process %d can't be stopped: its thread %d waits for something, as for a child of vfork; try again", x.main, tid)
			}
			if ws.Stopped() && interrupted(tid) {
				_ = restart(tid, true)
			}
			stops[tid] = ws
		}
	}
	return stops, nil
}

// maxStop is how long the threads of a process may stand still because one doesn't.
const maxStop = 2 * time.Second

// stopOf waits for a thread to stop or end.
func stopOf(tid int) (ws unix.WaitStatus, ok bool) {
	for end := time.Now().Add(maxStop); ; time.Sleep(100 * time.Microsecond) {
		n, err := unix.Wait4(tid, &ws, unix.WALL|unix.WNOTHREAD|unix.WNOHANG, nil)
		if n == tid || err != nil && err != unix.EINTR {
			return ws, true
		}
		if time.Now().After(end) { // not before it is tried: this process may have stood still, too
			return ws, false
		}
	}
}

// arrive sets the breakpoints of a process that has stopped, or says why it can't.
func (x *tracer) arrive(p *process) (why string) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", p.pid))
	if err != nil || len(b) == 0 {
		return "/proc says nothing about processes"
	}
	const atBase = 7
	base := auxv(b)[atBase]
	exe := fmt.Sprintf("/proc/%d/exe", p.pid)
	if name, err := os.Readlink(exe); err == nil {
		x.open(exe, name, x.opt.Own(name)) // first: that is the executable
	}
	x.refresh(p, p.pid)
	for _, m := range p.maps {
		if m.f.debugs != "" {
			p.maps = nil
			return fmt.Sprintf("%s can't run under a tracer: %s", m.f.name, m.f.debugs)
		}
	}
	x.writeRuns(p, nil, true)
	list := regions(p.pid, base)
	i := slices.IndexFunc(list, func(r region) bool { return base != 0 && base-r.start < r.end-r.start })
	if i < 0 {
		return ""
	}
	for k := range list {
		if r := &list[k]; r.path == list[i].path && strings.Contains(r.perm, "x") {
			x.watch(p, r, 0)
		}
	}
	return ""
}

// file returns where the file of a region can be opened: processes may have another root directory.
func (x *tracer) file(p *process, r *region) string {
	if !x.attached {
		return r.path
	}
	if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.pid)); err == nil && exe == r.path {
		return fmt.Sprintf("/proc/%d/exe", p.pid)
	}
	return fmt.Sprintf("/proc/%d/root%s", p.pid, r.path)
}

// leaveAll lets go of a program that was attached to.
func (x *tracer) leaveAll() {
	for _, t := range x.threads {
		x.leave(t.p)
	}
}
