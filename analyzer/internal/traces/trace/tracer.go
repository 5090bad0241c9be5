//go:build linux && (amd64 || arm64)

package trace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	options = unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK | unix.PTRACE_O_TRACECLONE |
		unix.PTRACE_O_TRACEEXEC | unix.PTRACE_O_TRACEEXIT | unix.PTRACE_O_EXITKILL

	eventStop    = 128
	syscallStop  = unix.SIGTRAP | 0x80
	siUser       = 0
	pageSize     = 4096 // in which copies are written; any multiple of the processor's does
	maskOfSignal = 1 << (unix.SIGTRAP - 1)
)

// mmapCall is a call of mmap by the loader.
type mmapCall struct {
	result, length, prot, offset uint64
	fd                           int32
}

// tracer traces the threads of a program. One thread of this process makes all of its calls of ptrace:
// the kernel allows no other.
type tracer struct {
	opt     Options
	main    int
	threads map[int]*thread
	// early has threads that stopped before their parents' PTRACE_EVENT was seen. They may have ended.
	early   map[int]bool
	files   map[identity]*loaded
	loaders map[identity]*image
	reasons map[string]bool
	result  *Result
	// attached is set if the program ran before it was traced. Then it goes on afterwards.
	attached bool
	ended    bool // the program was waited for
	// system is the path of the program if it isn't traced itself.
	system string
	clock  caseClock
}

// identity identifies a file of this machine.
type identity struct {
	dev, ino    uint64
	size, mtime int64
}

// loaded is a file that was mapped.
type loaded struct {
	*image
	file *os.File
	name string
	own  bool
	runs []pages
}

// pages is a range of pages with breakpoints.
type pages struct {
	text     *text
	from, to uint64
}

type thread struct {
	tid  int
	p    *process
	step uint64 // where an instruction is executed without its breakpoint, or 0
	// counted is the entry whose step was cut short, or 0. Its breakpoint is met once more.
	counted uint64
	// rests is set during a group-stop, until SIGCONT ends it.
	rests bool
	// resumed is set until the SIGCONT comes that ends the first stop. The program mustn't see it.
	resumed bool
}

// process is a thread group. A child of vfork is one of its own, with the same mappings as its parent.
type process struct {
	pid      int
	mem      *os.File // nil before it is needed, or if it can't be opened
	maps     []mapping
	specials map[uint64]special
	live     int  // threads without a PTRACE_EVENT_EXIT
	forked   bool // and hasn't executed another program
	follow   bool // stop at its system calls, until its loader has finished
	left     bool // its breakpoints are gone, and its threads are detached as they stop
	looked   bool // look was called, or can't be
}

// mapping is code of a file in memory.
type mapping struct {
	start, end, offset uint64
	f                  *loaded
	t                  *text
}

// mapped returns the mappings of a file's code in a region: one for each segment that it has a part of.
func (f *loaded) mapped(start, end, offset uint64) (list []mapping) {
	for _, t := range f.texts {
		if offset < t.offset+uint64(len(t.code)) && t.offset < offset+end-start {
			list = append(list, mapping{start, end, offset, f, t})
		}
	}
	return list
}

// special is a breakpoint in the loader, or at the program's entry point.
type special struct {
	kind specialKind
	code []byte // in its place
}

type specialKind int

const (
	behindMmap specialKind = iota
	entry
	changed // libraries of a loader that can't be followed
)

func ptrace(request, tid int, addr, data uintptr) error {
	if _, _, e := unix.RawSyscall6(unix.SYS_PTRACE, uintptr(request), uintptr(tid), addr, data, 0, 0); e != 0 {
		return e
	}
	return nil
}

func run(cmd *exec.Cmd, opt Options, started func()) (r *Result, err error) {
	if why := privileged(cmd.Path); why != "" {
		return untraced(cmd, opt, started, why)
	}
	onOwnThread(func() {
		x := newTracer(opt, 0)
		r, err = x.run(cmd, started)
	})
	return r, err
}

func newTracer(opt Options, pid int) *tracer {
	if opt.Own == nil {
		opt.Own = NotOfSystem
	}
	return &tracer{
		opt: opt, main: pid, threads: map[int]*thread{}, early: map[int]bool{}, files: map[identity]*loaded{}, loaders: map[identity]*image{},
		reasons: map[string]bool{}, result: &Result{},
	}
}

// onOwnThread calls f on a thread of the system that has no children: a tracer waits for all of its
// thread, and would take the end of a command away from who has started it there.
func onOwnThread(f func()) {
	found := make(chan struct{})
	defer close(found)
	for done := false; !done; {
		next := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			// Where that can't be asked, the thread has to do.
			if err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL|unix.WNOTHREAD, nil); err == nil {
				close(next)
				<-found // or it would be the next one, too
				return
			}
			defer close(next)
			f()
			done = true
		}()
		<-next
	}
}

// privileged returns why a program would have fewer rights under a tracer, or "".
func privileged(file string) string {
	info, err := os.Stat(file)
	if err != nil {
		return ""
	}
	if info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
		return fmt.Sprintf("%s is run with other rights than its caller's (setuid)", filepath.Base(file))
	}
	if n, err := unix.Getxattr(file, "security.capability", nil); err == nil && n > 0 {
		return fmt.Sprintf("%s is run with more rights than its caller's (file capabilities)", filepath.Base(file))
	}
	return ""
}

// run starts the program, and returns when it has ended.
func (x *tracer) run(cmd *exec.Cmd, started func()) (*Result, error) {
	saved, attr := *cmd, syscall.SysProcAttr{}
	if cmd.SysProcAttr != nil {
		attr = *cmd.SysProcAttr
	}
	attr.Ptrace = true
	cmd.SysProcAttr = &attr
	err := cmd.Start()
	cmd.SysProcAttr = saved.SysProcAttr
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		*cmd = saved
		return untraced(cmd, x.opt, started, "ptrace isn't permitted here")
	}
	if err != nil {
		return nil, err
	}
	x.main = cmd.Process.Pid
	started()
	x.seize()
	if c := x.opt.Control; c != nil {
		if t := x.threads[x.main]; t != nil && !t.p.left {
			c.begin(x.main)
		}
		defer c.end(errEnded)
	}
	x.loop()
	_ = cmd.Wait() // finds no child any more, and ends copies of its output
	return x.finish(), nil
}

// seize traces the program by PTRACE_SEIZE. So far it is stopped by PTRACE_TRACEME, which has no
// group-stops. In between, a SIGSTOP keeps the program from its first instruction.
func (x *tracer) seize() {
	var ws unix.WaitStatus
	if !await(x.main, &ws) || !ws.Stopped() {
		x.exited(x.main, ws)
		return
	}
	err := ptrace(unix.PTRACE_DETACH, x.main, 0, uintptr(unix.SIGSTOP))
	if err == nil {
		err = ptrace(unix.PTRACE_SEIZE, x.main, 0, options)
	}
	if err != nil {
		x.giveUp("ptrace isn't permitted here")
		_ = unix.Kill(x.main, unix.SIGCONT)
		return
	}
	if !await(x.main, &ws) || !ws.Stopped() {
		x.exited(x.main, ws)
		return
	}
	t := &thread{tid: x.main, p: &process{pid: x.main, live: 1}, resumed: true}
	x.threads[x.main] = t
	x.result.Stats.Processes++
	x.result.Stats.Threads++
	keep := x.load(t.p)
	_ = unix.Kill(x.main, unix.SIGCONT)
	if !keep {
		x.leave(t.p)
	}
	x.resume(t, 0)
}

func await(pid int, ws *unix.WaitStatus) bool {
	for {
		n, err := unix.Wait4(pid, ws, unix.WALL|unix.WNOTHREAD, nil)
		if err != unix.EINTR {
			return err == nil && n == pid
		}
	}
}

// exited notes how the program ended.
func (x *tracer) exited(pid int, ws unix.WaitStatus) {
	if pid == x.main && (ws.Exited() || ws.Signaled()) {
		x.ended = true
		x.result.Status = syscall.WaitStatus(ws)
	}
}

func (x *tracer) giveUp(format string, args ...any) { x.reasons[fmt.Sprintf(format, args...)] = true }

func (x *tracer) loop() {
	var ws unix.WaitStatus
	for !x.ended && !x.attached || len(x.threads) > 0 {
		// Other threads of this process have children of their own.
		options := unix.WALL | unix.WNOTHREAD
		if x.opt.Control != nil && x.resting() {
			options |= unix.WNOHANG // wake reaches nobody
		}
		tid, err := unix.Wait4(-1, &ws, options, nil)
		if err == unix.EINTR {
			continue
		}
		if err == nil && tid == 0 {
			x.opt.Control.serve(x)
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if err != nil {
			if !x.ended && !x.attached {
				x.result.Void = "the tracer has lost sight of it"
			}
			return
		}
		if !ws.Stopped() {
			x.exited(tid, ws)
			if t := x.threads[tid]; t != nil {
				// A killed process doesn't stop at its exit.
				t.p.looked = t.p.looked || ws.Signaled() && ws.Signal() == unix.SIGKILL
				x.remove(t)
			}
			if tid == x.main {
				for _, t := range slices.Collect(maps.Values(x.threads)) {
					if t.p.live > 0 && t.p.pid != x.main {
						x.giveUp("processes go on when the program has ended")
					}
					x.leave(t.p)
				}
			}
			continue
		}
		x.result.Stats.Stops++
		t := x.threads[tid]
		if t == nil {
			t = x.born(tid)
		}
		if t.rests {
			t.rests = false
			x.opt.Control.serve(x) // SIGCONT takes the signal of wake away
		}
		x.stopped(t, ws)
	}
}

func (x *tracer) remove(t *thread) {
	delete(x.threads, t.tid)
	for _, other := range x.threads {
		if other.p == t.p {
			return
		}
	}
	if !t.p.looked && !t.p.left {
		x.giveUp("the end of a process wasn't seen")
	}
	t.p.close()
}

func (p *process) close() {
	p.mem.Close()
	p.mem = nil
}

// born adds a thread that stopped before its parent's PTRACE_EVENT was seen.
func (x *tracer) born(tid int) *thread {
	x.early[tid] = true
	status := procStatus(tid)
	tgid, _ := strconv.Atoi(status["Tgid"])
	ppid, _ := strconv.Atoi(status["PPid"])
	if tgid != tid {
		if leader := x.ofProcess(tgid); leader != nil {
			return x.add(tid, leader.p)
		}
	}
	return x.add(tid, x.child(tid, x.ofProcess(ppid)))
}

func (x *tracer) ofProcess(pid int) *thread {
	if t := x.threads[pid]; t != nil {
		return t
	}
	for _, t := range x.threads {
		if t.p.pid == pid {
			return t
		}
	}
	return nil
}

func (x *tracer) add(tid int, p *process) *thread {
	t := &thread{tid: tid, p: p}
	p.live++
	x.threads[tid] = t
	x.result.Stats.Threads++
	return t
}

// child returns a process with a copy of its parent's memory.
func (x *tracer) child(pid int, parent *thread) *process {
	x.result.Stats.Processes++
	p := &process{pid: pid, forked: true}
	if parent == nil {
		x.giveUp("a process has no parent that is traced")
		return p
	}
	p.maps, p.specials, p.follow = slices.Clip(parent.p.maps), parent.p.specials, parent.p.follow
	if parent.p.left {
		x.leave(p)
	}
	return p
}

func procStatus(tid int) map[string]string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	m := map[string]string{}
	for line := range strings.Lines(string(b)) {
		k, v, _ := strings.Cut(line, ":")
		m[k] = strings.TrimSpace(v)
	}
	return m
}

// message returns the message of a PTRACE_EVENT, such as the ID of a new thread.
func message(tid int) int {
	n, _ := unix.PtraceGetEventMsg(tid)
	return int(n)
}

// stopped handles a stop of a thread, and continues the thread.
func (x *tracer) stopped(t *thread, ws unix.WaitStatus) {
	sig, event := ws.StopSignal(), int(uint32(ws)>>16)
	if sig != unix.SIGTRAP || event != 0 && event != unix.PTRACE_EVENT_EXEC {
		x.rearm(t) // something came in between
	}
	switch {
	case event == unix.PTRACE_EVENT_FORK, event == unix.PTRACE_EVENT_VFORK, event == unix.PTRACE_EVENT_CLONE:
		if tid := message(t.tid); x.early[tid] {
			delete(x.early, tid)
		} else if x.threads[tid] == nil {
			if event == unix.PTRACE_EVENT_CLONE && unix.Access(fmt.Sprintf("/proc/%d/task/%d", t.p.pid, tid), unix.F_OK) == nil {
				x.add(tid, t.p)
			} else {
				x.add(tid, x.child(tid, t))
			}
		}
		x.resume(t, 0)
	case event == unix.PTRACE_EVENT_EXEC:
		x.executes(t)
	case event == unix.PTRACE_EVENT_EXIT:
		if t.p.live--; t.p.live == 0 && !t.p.left {
			x.look(t)
		}
		_ = ptrace(unix.PTRACE_CONT, t.tid, 0, 0)
	case event == eventStop:
		stopping := sig == unix.SIGSTOP || sig == unix.SIGTSTP || sig == unix.SIGTTIN || sig == unix.SIGTTOU
		switch {
		case t.p.left && !pendingTrap(t.tid):
			if interrupted(t.tid) { // by leave
				_ = restart(t.tid, true)
			}
			x.detach(t, 0)
		case t.p.left:
			_ = ptrace(unix.PTRACE_CONT, t.tid, 0, 0) // it stops at once for the breakpoint that it has met
		case stopping && !t.p.left && !t.resumed:
			t.rests = true
			_ = ptrace(unix.PTRACE_LISTEN, t.tid, 0, 0)
		default:
			x.resume(t, 0)
		}
	case event != 0:
		x.resume(t, 0)
	case sig == syscallStop:
		x.called(t)
	case sig == unix.SIGTRAP:
		x.trapped(t)
	case sig == unix.SIGCONT && t.resumed:
		t.resumed = false
		x.resume(t, 0)
	case sig == unix.SIGSTOP && x.woken(t):
		if interrupted(t.tid) {
			_ = restart(t.tid, false)
		}
		x.resume(t, 0) // see wake
	case sig == unix.SIGSTOP && t.p.left && !t.resumed:
		// Somebody stops it as it is let go: leave may have undone that.
		x.detach(t, 0)
		_ = unix.Kill(t.p.pid, unix.SIGSTOP)
	default:
		x.signalled(t, sig)
	}
}

// resume continues a thread, with a signal if sig isn't 0.
func (x *tracer) resume(t *thread, sig unix.Signal) {
	if t.p.left && !t.resumed {
		x.detach(t, sig)
		return
	}
	request := unix.PTRACE_CONT
	if t.p.follow {
		request = unix.PTRACE_SYSCALL
	}
	_ = ptrace(request, t.tid, 0, uintptr(sig)) // it may have been killed
}

// signalled delivers a signal. Without a tracer, an ignored signal doesn't interrupt a system call.
// With one it does, so the call is restarted.
func (x *tracer) signalled(t *thread, sig unix.Signal) {
	if interrupted(t.tid) {
		caught, ignored := disposition(t.p.pid, sig)
		byDefault := sig == unix.SIGCHLD || sig == unix.SIGURG || sig == unix.SIGWINCH || sig == unix.SIGCONT
		if !caught && (ignored || byDefault) {
			_ = restart(t.tid, false)
		}
	}
	x.resume(t, sig)
}

// disposition reports whether a process catches or ignores a signal.
func disposition(pid int, sig unix.Signal) (caught, ignored bool) {
	return statusBit(pid, "SigCgt", int(sig)-1), statusBit(pid, "SigIgn", int(sig)-1)
}

// statusBit returns a bit of a mask in /proc/PID/status.
func statusBit(tid int, key string, bit int) bool {
	mask, _ := strconv.ParseUint(procStatus(tid)[key], 16, 64)
	return mask>>bit&1 != 0
}

// pendingTrap reports whether a thread has met a breakpoint and not stopped for it yet.
func pendingTrap(tid int) bool { return statusBit(tid, "SigPnd", int(unix.SIGTRAP)-1) }

// pending reports whether a signal is pending for a whole process.
func pending(pid int, sig unix.Signal) bool { return statusBit(pid, "ShdPnd", int(sig)-1) }

// siginfo is the beginning of struct siginfo_t.
type siginfo struct {
	signo, errno, code, _ int32
	pid                   int32 // of who has sent it, if code says so
	_                     [108]byte
}

// trapped handles a SIGTRAP: by a breakpoint, by a step, or by the program itself.
func (x *tracer) trapped(t *thread) {
	if t.step == 0 && !t.p.follow {
		// Where nobody has been yet the breakpoint is still there: it can't be another trap.
		pc, err := counter(t.tid)
		if err != nil {
			return // it was killed
		}
		if m, off := t.p.function(pc - native.behind); m != nil && m.t.counts[off] == 0 {
			x.entered(t, m, pc-native.behind, off)
			return
		}
	}
	var info siginfo
	if ptrace(unix.PTRACE_GETSIGINFO, t.tid, 0, uintptr(unsafe.Pointer(&info))) != nil {
		return // it was killed
	}
	if info.code&0xff == int32(unix.SIGTRAP) && info.code>>8 == unix.PTRACE_EVENT_EXIT {
		return // it was killed, and stops once more at its end
	}
	if t.step != 0 && info.code > siUser && info.code != breakpointCode {
		at := t.step
		if pc, err := counter(t.tid); err == nil && pc == at { // a repeated instruction
			_ = ptrace(unix.PTRACE_SINGLESTEP, t.tid, 0, 0)
			return
		}
		x.rearm(t)
		t.counted = 0
		keepBlocked(t.tid)
		x.resume(t, 0)
		return
	}
	x.rearm(t)
	pc, err := counter(t.tid)
	if err != nil {
		return
	}
	at := pc - native.behind
	if info.code == breakpointCode {
		if s, ok := t.p.specials[at]; ok {
			x.special(t, at, s)
			return
		}
		if t.p.find(at) == nil {
			x.refresh(t.p, t.tid)
		}
		if m, off := t.p.function(at); m != nil {
			x.entered(t, m, at, off)
			return
		}
	}
	x.foreign(t)
}

// foreign delivers a SIGTRAP that isn't of a breakpoint. A handler of it is lost if a breakpoint is
// met while SIGTRAP is blocked, as in the handler. So that is the last thing to be seen of the process.
func (x *tracer) foreign(t *thread) {
	if caught, ignored := disposition(t.p.pid, unix.SIGTRAP); caught || ignored {
		x.giveUp("it uses SIGTRAP itself")
		x.leave(t.p)
	} else {
		x.result.Void = "it was sent SIGTRAP, which breakpoints may have unblocked"
	}
	x.resume(t, unix.SIGTRAP)
}

// entered counts an entry of a function.
func (x *tracer) entered(t *thread, m *mapping, at, off uint64) {
	x.result.Stats.Entries++
	if t.counted != at {
		m.t.counts[off]++
		x.clock.entered(m.t, off, func() bool { return x.isAlone(t) })
	}
	t.counted = 0
	code := m.t.code[off : off+uint64(len(native.trap))]
	if bytes.Equal(code, native.trap) { // its own
		x.foreign(t)
		return
	}
	// A second restoration does no harm: two threads may trap at once, and a child's copy of the memory may
	// be older than t.
	if !x.write(t.p, at, code) || setCounter(t.tid, at) != nil {
		return
	}
	keepBlocked(t.tid)
	if m.t.first[off] > 0 && !x.clock.broken {
		x.clock.spent = append(x.clock.spent, breakpoint{t.p, at, code})
	} else if m.t.markers[off] == caseEnds {
		x.rearmSpent(t)
	}
	if (x.opt.Naive || m.t.markers[off] != "") && !t.p.left {
		t.step = at
		_ = ptrace(unix.PTRACE_SINGLESTEP, t.tid, 0, 0)
		return
	}
	x.resume(t, 0)
}

// isAlone reports whether no other thread runs code of the program.
func (x *tracer) isAlone(t *thread) bool {
	for _, o := range x.threads {
		if o.p != t.p {
			return false
		}
	}
	return t.p.live == 1
}

// rearmSpent puts the breakpoints of a case back that has ended, where code is still what it was.
func (x *tracer) rearmSpent(t *thread) {
	for _, b := range x.clock.spent {
		if b.p == t.p && !t.p.left && bytes.Equal(x.read(t.p, b.at, uint64(len(b.code))), b.code) {
			x.write(t.p, b.at, native.trap)
		}
	}
	for _, b := range x.clock.spent { // a child of vfork has removed it for both
		x.clock.broken = x.clock.broken || b.p != t.p && bytes.Equal(x.read(t.p, b.at, uint64(len(b.code))), b.code)
	}
	x.clock.spent = x.clock.spent[:0]
}

// keepBlocked blocks SIGTRAP again, which the kernel unblocks to deliver that of a breakpoint. If all other signals are
// blocked, it was blocked, too.
func keepBlocked(tid int) {
	var mask uint64
	if ptrace(unix.PTRACE_GETSIGMASK, tid, 8, uintptr(unsafe.Pointer(&mask))) != nil {
		return
	}
	const all = (1<<31 - 1) &^ (1<<(unix.SIGKILL-1) | 1<<(unix.SIGSTOP-1) | maskOfSignal)
	if mask&all == all && mask&maskOfSignal == 0 {
		mask |= maskOfSignal
		_ = ptrace(unix.PTRACE_SETSIGMASK, tid, 8, uintptr(unsafe.Pointer(&mask)))
	}
}

// rearm puts a breakpoint back after a step.
func (x *tracer) rearm(t *thread) {
	if t.step == 0 {
		return
	}
	if !t.p.left {
		x.write(t.p, t.step, native.trap)
	}
	t.counted = t.step
	t.step = 0
}

func (x *tracer) special(t *thread, at uint64, s special) {
	switch s.kind {
	case behindMmap:
		var r regs
		if r.read(t.tid) == nil {
			x.mapped(t, r.mmap())
		}
	case entry:
		t.p.follow = false
	case changed:
		if t.p.follow {
			break
		}
		x.giveUp("libraries are loaded later, by a loader that can't be followed")
	}
	if !x.write(t.p, at, s.code) || setCounter(t.tid, at) != nil {
		return
	}
	keepBlocked(t.tid)
	if s.kind == entry || t.p.left {
		if m, off := t.p.function(at); m != nil {
			m.t.counts[off]++
		}
		x.resume(t, 0)
		return
	}
	t.step = at
	_ = ptrace(unix.PTRACE_SINGLESTEP, t.tid, 0, 0)
}

// called looks at system calls of a loader that has no breakpoints.
func (x *tracer) called(t *thread) {
	var r regs
	if r.read(t.tid) == nil && r.number() == sysMmap {
		x.mapped(t, r.mmap()) // when it is called as well, which maps nothing yet
	}
	x.resume(t, 0)
}

// mapped sets the breakpoints of a library.
func (x *tracer) mapped(t *thread, c mmapCall) {
	const maxErrno = 4095
	if c.prot&unix.PROT_EXEC == 0 || c.fd < 0 || -c.result <= maxErrno || c.result == 0 {
		return
	}
	fd := fmt.Sprintf("/proc/%d/fd/%d", t.p.pid, c.fd)
	file, err := os.Readlink(fd)
	if err != nil || !x.own(fd, file) {
		return
	}
	f := x.open(fd, file, true)
	if f == nil {
		return
	}
	x.arm(t.p, f, c.result, c.result+c.length, c.offset)
	if f.debugs != "" {
		x.giveUp("%s can't run under a tracer: %s", f.name, f.debugs)
		x.leave(t.p)
	}
}

// find returns the mapping that an address is in: of several, if segments share pages, the one with its code.
func (p *process) find(at uint64) (found *mapping) {
	for i := range p.maps {
		m := &p.maps[i]
		switch {
		case at-m.start >= m.end-m.start:
		case at-m.start+m.offset-m.t.offset < uint64(len(m.t.code)):
			return m
		case found == nil:
			found = m
		}
	}
	return found
}

// function returns where a function with a breakpoint begins, or nil.
func (p *process) function(at uint64) (*mapping, uint64) {
	if m := p.find(at); m != nil {
		if off := at - m.start + m.offset - m.t.offset; m.t.isArmed(off, native.trap) {
			return m, off
		}
	}
	return nil, 0
}

// region is a line of /proc/PID/maps.
type region struct {
	start, end, offset uint64
	inode              uint64 // 0 for memory of no file
	perm, path         string
}

// regions returns the executable memory of a process, and the region that an address is in. There is none if the process is
// about to end. It is an error if the kernel doesn't list them.
func regions(pid int, also uint64) (list []region, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(b)) {
		var r region
		var device string
		// START-END PERM OFFSET DEV INODE [PATH]
		n, _ := fmt.Sscanf(line, "%x-%x %s %x %s %d", &r.start, &r.end, &r.perm, &r.offset, &device, &r.inode)
		if n < 6 || !strings.Contains(r.perm, "x") && (also < r.start || also >= r.end) {
			continue
		}
		if i := strings.IndexAny(line, "/["); i > 0 {
			r.path = strings.TrimSuffix(line[i:], "\n")
		}
		list = append(list, r)
	}
	return list, nil
}

// codeOf returns the code of the loader that is mapped at base: none if base is 0.
func codeOf(list []region, base uint64) (code []*region) {
	i := slices.IndexFunc(list, func(r region) bool { return base != 0 && base-r.start < r.end-r.start })
	for k := range list {
		if r := &list[k]; i >= 0 && r.path == list[i].path && strings.Contains(r.perm, "x") {
			code = append(code, r)
		}
	}
	return code
}

// refresh brings up to date which files are mapped where.
func (x *tracer) refresh(p *process, tid int) {
	var list []mapping
	all, _ := regions(tid, 0)
	for _, r := range all {
		if r.inode == 0 {
			continue
		}
		own := x.opt.Own(r.path)
		known := func(m mapping) bool { return m.start == r.start && m.offset == r.offset }
		if i := slices.IndexFunc(p.maps, known); i >= 0 && (x.attached || !own) {
			list = append(list, p.maps[i]) // its file may have been replaced
		} else if !own {
			continue
		} else if f := x.open(x.file(p, &r), r.path, true); f != nil {
			list = append(list, f.mapped(r.start, r.end, r.offset)...)
		}
	}
	p.maps = list
}

// executes follows an exec.
func (x *tracer) executes(t *thread) {
	if former := message(t.tid); former != t.tid {
		delete(x.threads, former) // this one has taken the place of the first thread
	}
	for _, o := range x.threads {
		if o.p == t.p && o != t {
			delete(x.threads, o.tid)
		}
	}
	t.p.close()
	t.p = &process{pid: t.tid, live: 1, left: t.p.left}
	t.step, t.counted = 0, 0
	if !t.p.left && !x.load(t.p) {
		x.leave(t.p)
	}
	x.resume(t, 0)
}

// load sets the breakpoints of a program that was loaded. It returns false if that must
// not be traced.
func (x *tracer) load(p *process) bool {
	x.result.Stats.Programs++
	aux := auxv(p.pid)
	link := fmt.Sprintf("/proc/%d/exe", p.pid)
	exe, err := os.Readlink(link)
	if err != nil || len(aux) == 0 {
		x.giveUp(noProc)
		return false
	}
	if !x.capable() {
		if why := privileged(exe); why != "" {
			x.giveUp("%s", why)
			x.result.Void = why
			return false
		}
	}
	var loader *region
	own := x.own(link, exe)
	if x.result.Stats.Programs == 1 && !own {
		x.system = exe
	}
	list, _ := regions(p.pid, aux[atBase])
	for _, r := range codeOf(list, aux[atBase]) {
		loader = r
	}
	f := x.open(link, exe, own)
	if f == nil {
		return true // of another kind; its children may be traced
	}
	if f.debugs != "" {
		x.giveUp("%s can't run under a tracer: %s", f.name, f.debugs)
		return false
	}
	armed := false
	for i := range list {
		if r := &list[i]; r.path == exe && strings.Contains(r.perm, "x") {
			switch {
			case own:
				x.arm(p, f, r.start, r.end, r.offset)
				armed = true
			case aux[atBase] == 0 && f.isLoader():
				x.watch(p, r, 0) // it loads the program itself
			}
		}
	}
	if own && !armed {
		x.giveUp("%s was loaded unnoticed", f.name)
	}
	if loader != nil {
		x.watch(p, loader, aux[atEntry])
	}
	return true
}

// own reports whether a file is traced that the program has at a path. The program may have mounted something else in the
// place of a file of the system.
func (x *tracer) own(file, path string) bool {
	if x.opt.Own(path) {
		return true
	}
	here, err := os.Stat(path)
	there, err2 := os.Stat(file)
	return err2 == nil && (err != nil || !os.SameFile(here, there))
}

// isLoader reports whether a file is a loader of programs, by its name.
func (f *loaded) isLoader() bool {
	return strings.HasPrefix(f.soname, "ld-") || strings.HasPrefix(f.soname, "ld.") || strings.HasPrefix(f.soname, "libc.")
}

// capable reports whether programs keep their rights under this tracer.
func (x *tracer) capable() bool {
	return statusBit(os.Getpid(), "CapEff", unix.CAP_SYS_PTRACE)
}

const (
	atBase, atEntry = 7, 9 // in the auxiliary vector
	noProc          = "/proc says nothing about processes"
)

// auxv returns the auxiliary vector of a process, empty if /proc doesn't say it.
func auxv(pid int) map[uint64]uint64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", pid))
	m := map[uint64]uint64{}
	for ; len(b) >= 16; b = b[16:] {
		m[binary.NativeEndian.Uint64(b)] = binary.NativeEndian.Uint64(b[8:])
	}
	return m
}

// watch sets the breakpoints of a loader.
func (x *tracer) watch(p *process, r *region, start uint64) {
	f, err := x.loader(x.file(p, r))
	if err != nil {
		x.giveUp("the loader %s can't be read: %v", filepath.Base(r.path), err)
		return
	}
	p.specials = map[uint64]special{}
	set := func(at uint64, kind specialKind, code []byte) {
		code = code[:len(native.trap)]
		if x.attached && !bytes.Equal(x.read(p, at, uint64(len(code))), code) {
			return
		}
		p.specials[at] = special{kind, code}
		x.write(p, at, native.trap)
	}
	for _, t := range f.texts {
		if x.opt.withoutPattern {
			break
		}
		for _, off := range native.behindMmap(t.code) {
			set(r.start-r.offset+t.offset+off, behindMmap, t.code[off:])
		}
	}
	if len(p.specials) > 0 {
		return
	}
	if x.attached || start == 0 {
		x.giveUp("libraries that are loaded from now on aren't seen: the loader %s can't be followed", filepath.Base(r.path))
		return
	}
	// It is followed until it starts the program.
	p.follow = true
	code := x.read(p, start, uint64(len(native.trap)))
	if code == nil {
		x.giveUp("the program's first instruction can't be read")
		return
	}
	if m := p.find(start); m != nil {
		copy(code, m.t.code[start-m.start+m.offset-m.t.offset:])
	}
	set(start, entry, code)
	if t, off := f.symbolNamed("_dl_debug_state"); t != nil && off+uint64(len(native.trap)) <= uint64(len(t.code)) {
		set(r.start-r.offset+t.offset+off, changed, t.code[off:])
	} else {
		x.giveUp("the loader %s says nothing about libraries", filepath.Base(r.path))
	}
}

func fileIdentity(info fs.FileInfo) identity {
	st := info.Sys().(*syscall.Stat_t)
	return identity{uint64(st.Dev), st.Ino, st.Size, st.Mtim.Nano()}
}

func (x *tracer) loader(file string) (*image, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	id := fileIdentity(info)
	if m := x.loaders[id]; m != nil {
		return m, nil
	}
	m, f, err := openFile(file, native, contents, nil)
	if err != nil {
		return nil, err
	}
	x.loaders[id] = m
	return m, f.Close()
}

// open returns a file that is mapped, or nil if it isn't one that can be executed. Its name is for people and traces.
func (x *tracer) open(file, name string, own bool) *loaded {
	info, err := os.Stat(file)
	if err != nil {
		x.giveUp("%s can't be read", filepath.Base(name))
		return nil
	}
	id := fileIdentity(info)
	if f, ok := x.files[id]; ok && (f == nil || f.own || !own) {
		return f
	}
	d := glance
	if own {
		d = breakpoints
	}
	m, f, err := openFile(file, native, d, x.opt.Entered)
	l := &loaded{image: m, file: f, name: path.Base(name), own: own}
	switch {
	case err != nil && own:
		x.giveUp("%s can't be traced: %v", l.name, err)
		l = nil
	case err != nil:
		l = nil
	case len(x.files) == 0:
		l.name = Executable
	case m.soname != "" && m.soname != ".":
		l.name = m.soname
	}
	x.files[id] = l
	if l != nil && own {
		if m.opaque != "" {
			x.giveUp("%s can't be traced: %s", l.name, m.opaque)
		}
		l.runs = m.runs()
	}
	return l
}

// runs returns the pages with breakpoints.
func (m *image) runs() (list []pages) {
	for _, t := range m.texts {
		n := uint64(len(t.armed))
		for at := uint64(0); at < n; {
			// Pages of the file, not of the segment.
			end := min(n, (t.offset+at)/pageSize*pageSize+pageSize-t.offset)
			if !bytes.Equal(t.armed[at:end], t.code[at:end]) {
				if k := len(list) - 1; k >= 0 && list[k].text == t && list[k].to == at {
					list[k].to = end
				} else {
					list = append(list, pages{t, at, end})
				}
			}
			at = end
		}
	}
	return list
}

// arm writes the breakpoints of a file's mapping.
func (x *tracer) arm(p *process, f *loaded, start, end, offset uint64) {
	p.maps = slices.DeleteFunc(slices.Clone(p.maps), func(m mapping) bool { return m.start < end && start < m.end })
	p.maps = append(p.maps, f.mapped(start, end, offset)...)
	for i := range p.maps {
		m := &p.maps[i]
		if m.f != f {
			continue
		}
		for lo, hi := range m.runs() {
			at, code, armed := m.part(lo, hi)
			switch now := x.read(p, at, hi-lo); {
			case bytes.Equal(now, armed): // by an earlier call
			case bytes.Equal(now, code):
				x.write(p, at, armed)
			default: // another file may have had the same identity
				x.giveUp("%s isn't what it was", f.name)
			}
		}
	}
}

// runs yields the ranges of offsets in the file that are mapped and have breakpoints.
func (m *mapping) runs() iter.Seq2[uint64, uint64] {
	return func(yield func(lo, hi uint64) bool) {
		for _, r := range m.f.runs {
			// What is mapped may be a part of it.
			lo, hi := max(r.from+r.text.offset, m.offset), min(r.to+r.text.offset, m.offset+m.end-m.start)
			if r.text == m.t && lo < hi && !yield(lo, hi) {
				return
			}
		}
	}
}

// part returns where a range of offsets in the file is in memory, and its code without and with breakpoints.
func (m *mapping) part(lo, hi uint64) (at uint64, code, armed []byte) {
	from, to := lo-m.t.offset, hi-m.t.offset
	return m.start + lo - m.offset, m.t.code[from:to], m.t.armed[from:to]
}

// rewriteAll writes the pages with breakpoints of all files that are still there.
func (x *tracer) rewriteAll(p *process, armed bool) {
	for i := range p.maps {
		m := &p.maps[i]
		for lo, hi := range m.runs() {
			for ; lo < hi; lo += min(hi-lo, pageSize-lo%pageSize) {
				x.rewrite(p, m, lo, min(hi, lo/pageSize*pageSize+pageSize), armed)
			}
		}
	}
}

// rewrite writes a page of a file, or a part of one, by its offsets, if it is still what was loaded: libraries are closed, and
// something else may be in their place. Code that has changed has its breakpoints taken out one by one, and is a reason to give up.
func (x *tracer) rewrite(p *process, m *mapping, lo, hi uint64, armed bool) {
	at, code, trapped := m.part(lo, hi)
	now := x.read(p, at, hi-lo)
	if now == nil {
		return
	}
	changed := false
	for i, c := range now {
		changed = changed || c != code[i] && c != trapped[i]
	}
	switch {
	case !changed && armed:
		x.write(p, at, trapped)
	case !changed:
		x.write(p, at, code)
	case p.executes(at):
		x.giveUp("%s isn't in memory as it was loaded", m.f.name)
		for i, c := range now {
			if !armed && c == trapped[i] && c != code[i] {
				x.write(p, at+uint64(i), code[i:i+1])
			}
		}
	}
}

// executes reports whether there is executable memory at an address.
func (p *process) executes(at uint64) bool {
	list, _ := regions(p.pid, 0)
	return slices.ContainsFunc(list, func(r region) bool { return at-r.start < r.end-r.start })
}

// read returns n bytes of a process's memory, or nil if they aren't all there.
func (x *tracer) read(p *process, at, n uint64) []byte {
	b := make([]byte, n)
	if _, err := x.memory(p).ReadAt(b, int64(at)); err != nil {
		return nil
	}
	return b
}

// memory returns the file with the memory of a process, or nil, whose methods fail.
func (x *tracer) memory(p *process) *os.File {
	open := func(tid int) { p.mem, _ = os.OpenFile(fmt.Sprintf("/proc/%d/mem", tid), os.O_RDWR, 0) }
	if p.mem == nil {
		open(p.pid)
	}
	for tid, t := range x.threads {
		if p.mem == nil && t.p == p && tid != p.pid { // the first one may have ended
			open(tid)
		}
	}
	return p.mem
}

// write changes memory of a process. If that fails while it lives there is no way on.
func (x *tracer) write(p *process, at uint64, b []byte) bool {
	_, err := x.memory(p).WriteAt(b, int64(at))
	if err == nil {
		return true
	}
	if e := new(fs.PathError); errors.As(err, &e) {
		err = e.Err // without the number of the process
	}
	// A process without memory is about to end. Of one that has given up being looked at (PR_SET_DUMPABLE), children can't be changed.
	list, unknown := regions(p.pid, 0)
	switch {
	case x.attached:
		x.giveUp("memory of the program couldn't be changed: %v", err)
	case len(list) > 0 || unknown != nil:
		x.result.Void = "memory of the program couldn't be changed"
		x.giveUp("memory of the program couldn't be changed: %v", err)
		_ = unix.Kill(p.pid, unix.SIGKILL)
	}
	return false
}

// leave removes all breakpoints of a process, and detaches its threads as they stop.
func (x *tracer) leave(p *process) {
	if p.left {
		return
	}
	p.left = true
	if c := x.opt.Control; c != nil && p.pid == x.main {
		c.end(errors.New("the service isn't traced, or not any more"))
		if !x.resting() && pending(p.pid, unix.SIGSTOP) {
			_ = unix.Kill(p.pid, unix.SIGCONT) // instead of a signal of wake's that nobody would take away
		}
	}
	x.rewriteAll(p, false)
	for at, s := range p.specials {
		x.write(p, at, s.code)
	}
	for _, t := range x.threads {
		if t.p == p {
			_ = ptrace(unix.PTRACE_INTERRUPT, t.tid, 0, 0) // fails if it is stopped or has ended
		}
	}
}

func (x *tracer) detach(t *thread, sig unix.Signal) {
	if ptrace(unix.PTRACE_DETACH, t.tid, 0, uintptr(sig)) != nil {
		return // it was killed; its end will be heard of
	}
	if x.ended {
		x.giveUp("processes go on when the program has ended")
	}
	x.remove(t)
}

// look checks that nothing was missed in a process whose last thread, t, is about to end. It reads that thread's maps: the
// leader may have ended, and have no memory.
func (x *tracer) look(t *thread) {
	p := t.p
	list, err := regions(t.tid, 0)
	if err != nil || len(list) == 0 {
		x.giveUp("the memory of a process can't be looked through")
	}
	p.looked = true
	for _, r := range list {
		switch {
		case r.inode == 0 && (r.path == "[vdso]" || r.path == "[vsyscall]"):
		case r.inode == 0 || strings.HasSuffix(r.path, " (deleted)") || strings.HasPrefix(r.path, "/memfd:"):
			x.giveUp("it executes code that is in no file")
		case !x.opt.Own(r.path):
		case strings.Contains(r.perm, "w"):
			x.giveUp("%s can't be traced: its code is writable", filepath.Base(r.path))
		default:
			noticed := false
			f := x.open(x.file(p, &r), r.path, true)
			for i := range p.maps {
				if m := &p.maps[i]; m.f == f && r.start-m.start < m.end-m.start && r.start-m.start == r.offset-m.offset {
					noticed = true
					x.compare(p, m, r)
				}
			}
			// A file that can't be read was named already. What has no code is the page in which a segment begins or ends.
			if !noticed && f != nil && len(f.mapped(r.start, r.end, r.offset)) > 0 {
				x.giveUp("%s was loaded unnoticed", filepath.Base(r.path))
			}
		}
	}
}

// compare finds code that changed itself, or was mapped from its file again. Either may have removed breakpoints.
func (x *tracer) compare(p *process, m *mapping, in region) {
	for lo, hi := range m.runs() {
		lo, hi = max(lo, in.offset), min(hi, in.offset+in.end-in.start)
		if lo >= hi {
			continue
		}
		at, code, armed := m.part(lo, hi)
		b := make([]byte, hi-lo)
		n, _ := x.memory(p).ReadAt(b, int64(at)) // none if it was unmapped
		if bytes.Equal(b[:n], armed[:n]) {
			continue
		}
		for i, c := range b[:n] {
			if c == code[i] && c != armed[i] && !m.t.entered(lo-m.t.offset+uint64(i), native.trap) {
				x.giveUp("%s takes its code from the file again", m.f.name)
				return
			}
			if c != code[i] && c != armed[i] {
				x.giveUp("%s changes its own code", m.f.name)
				x.result.Void = "it changes its own code"
				return
			}
		}
	}
}

// texts returns the code of all files that are traced.
func (x *tracer) texts() (list []*text) {
	for _, f := range x.files {
		if f != nil && f.own {
			list = append(list, f.texts...)
		}
	}
	return list
}

// addCounts adds numbers of entries to others.
func addCounts(to, more map[uint64]uint64) {
	for at, n := range more {
		to[at] += n
	}
}

// finish makes the result.
func (x *tracer) finish() *Result {
	for _, t := range x.texts() {
		addCounts(t.counts, t.outside)
		addCounts(t.counts, t.inside)
	}
	r := x.trace()
	for _, f := range x.files {
		if f != nil {
			f.file.Close()
		}
	}
	x.result.Trace, x.result.Idle, x.result.Cases, x.result.system = r.Trace, r.Idle, r.Cases, r.system
	return x.result
}

// trace returns the trace of the functions that were entered, and which functions are idle.
func (x *tracer) trace() *Result {
	t := &Trace{Naive: x.opt.Naive, Files: []File{}}
	names := map[string]int{} // see image.idle
	for _, f := range x.files {
		if f == nil || !f.own {
			continue
		}
		if f.opaque != "" {
			continue // as was said
		}
		// Names are noted of a file without any breakpoint, too: all of its functions may count as entered.
		executed := f.executed()
		f.idle(executed, names)
		if f.runs == nil && f.unseen == 0 {
			continue
		}
		id, err := f.id()
		if err != nil {
			x.giveUp("%s can't be read", f.name)
			continue
		}
		t.Files = append(t.Files, File{Name: f.name, ID: id, Functions: f.entries, Unseen: f.unseen, Executed: executed})
	}
	t.GaveUp = slices.Collect(maps.Keys(x.reasons))
	t.normalise()
	r := &Result{Trace: t, system: x.system}
	// Code without a name is that of no function with a name: a link that drops names has no key (package linkflags).
	if len(t.GaveUp) == 0 && x.result.Void == "" && x.system == "" {
		r.Idle, r.Cases = map[string]bool{}, &Cases{map[string]int{}, x.clock.last}
		for name, n := range names {
			switch n {
			case 0:
			case never:
				r.Idle[name] = true
			default:
				r.Cases.First[name] = n
			}
		}
		if x.clock.broken || x.clock.number > 0 || len(x.clock.last) == 0 {
			r.Cases = nil
		}
	}
	return r
}
