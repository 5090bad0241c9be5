//go:build linux && (amd64 || arm64)

package trace

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file is for services alone (see Control); a test is traced without it.
//
// To attach to a process, the tracer first stops all of its threads. New threads of a thread that is traced are traced, except
// one that is being made just now. So all threads are known when all have stopped and a further look finds no new one. Then the
// tracer writes breakpoints where the memory is that of the file, and all threads go on.

// Attach traces a program that runs already for opt.Control, and returns when it has ended or opt.Control.Leave was called. After
// Leave the program goes on without breakpoints; if the tracer is killed, they stay, and the program dies of the next one. Functions
// that it executed before, and processes that it started before, aren't known: the trace says so, and Result.Idle is nil.
func Attach(pid int, opt Options, started func()) (r *Result, err error) {
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

// attachable returns why a process can't be attached to, or nil.
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
	p := &process{pid: x.main}
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
		for _, t := range x.threads { // some are new
			_ = ptrace(unix.PTRACE_INTERRUPT, t.tid, 0, 0)
		}
		x.loop()
	}
	return err
}

// stopAll stops all threads of a process, and returns how each of them has stopped, or ended. After an error the caller lets go
// of the threads that have stopped.
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

// arrive sets the breakpoints of a process that has stopped. It returns why it can't, or "".
func (x *tracer) arrive(p *process) (why string) {
	aux := auxv(p.pid)
	if len(aux) == 0 {
		return noProc
	}
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
	x.rewriteAll(p, true)
	list, _ := regions(p.pid, aux[atBase])
	for _, r := range codeOf(list, aux[atBase]) {
		x.watch(p, r, 0)
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

// resting reports whether all threads are stopped with their groups.
func (x *tracer) resting() bool {
	found := false
	for _, t := range x.threads {
		if t.p.pid == x.main {
			if !t.rests {
				return false
			}
			found = true
		}
	}
	return found
}

// woken fulfils requests, and reports whether a SIGSTOP is one of wake's. Another process's SIGSTOP may have taken its place.
func (x *tracer) woken(t *thread) bool {
	if x.opt.Control == nil {
		return false
	}
	served := x.opt.Control.serve(x)
	var info siginfo
	if ptrace(unix.PTRACE_GETSIGINFO, t.tid, 0, uintptr(unsafe.Pointer(&info))) != nil {
		return served
	}
	return info.code == siUser && (int(info.pid) == os.Getpid() || x.attached && info.pid == 0) // 0 from another namespace
}

// wake makes a tracer look for requests. A thread of the program stops for SIGSTOP, which can't be blocked, and the tracer
// doesn't deliver it.
func wake(pid int) { _ = unix.Kill(pid, unix.SIGSTOP) }

// restart sets all breakpoints again.
func (x *tracer) restart(outside bool) {
	for _, t := range x.texts() {
		if outside {
			addCounts(t.outside, t.counts)
		} else {
			addCounts(t.inside, t.counts)
		}
		clear(t.counts)
	}
	done := map[*process]bool{}
	for _, t := range x.threads {
		if !done[t.p] && !t.p.left {
			done[t.p] = true
			x.rewriteAll(t.p, true)
		}
	}
}

// collected returns the functions that were entered since restart, or outside of intervals.
func (x *tracer) collected() *Result {
	for _, t := range x.texts() {
		own := t.counts
		t.counts = maps.Clone(own)
		addCounts(t.counts, t.outside)
		defer func() { t.counts = own }()
	}
	r := x.trace()
	r.Stats = x.result.Stats
	return r
}
