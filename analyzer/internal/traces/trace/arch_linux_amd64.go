package trace

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

var native = &amd64

// breakpointCode is the si_code of a SIGTRAP by a breakpoint.
const breakpointCode = 0x80 // SI_KERNEL

// regs are the registers of a stopped thread.
type regs struct{ unix.PtraceRegs }

func (r *regs) read(tid int) error {
	return ptrace(unix.PTRACE_GETREGS, tid, 0, uintptr(unsafe.Pointer(&r.PtraceRegs)))
}

// mmap returns the result and the arguments of a call of mmap that has just returned.
func (r *regs) mmap() mmapCall {
	return mmapCall{result: r.Rax, length: r.Rsi, prot: r.Rdx, fd: int32(r.R8), offset: r.R9}
}

// number is that of the system call that a thread is stopped in.
func (r *regs) number() uint64 { return r.Orig_rax }

const (
	sysMmap = unix.SYS_MMAP

	userRIP     = 16 * 8 // in struct user_regs_struct
	userRAX     = 10 * 8
	userORIGRAX = 15 * 8
)

func peekUser(tid int, at uintptr) (x uint64, err error) {
	err = ptrace(unix.PTRACE_PEEKUSR, tid, at, uintptr(unsafe.Pointer(&x)))
	return x, err
}

func counter(tid int) (uint64, error) { return peekUser(tid, userRIP) }

func setCounter(tid int, pc uint64) error {
	return ptrace(unix.PTRACE_POKEUSR, tid, userRIP, uintptr(pc))
}

// interrupted reports whether a thread at a signal is about to return EINTR from a system call.
func interrupted(tid int) bool {
	ax, err := peekUser(tid, userRAX)
	if err != nil || int64(ax) != -int64(unix.EINTR) {
		return false
	}
	number, err := peekUser(tid, userORIGRAX)
	return err == nil && int64(number) >= 0
}

// restart has the kernel call it again: unless a handler of a signal is called, if asked for.
func restart(tid int, unlessHandled bool) error {
	const restartNoInterrupt, restartNoHandler = 513, 514 // ERESTARTNOINTR, ERESTARTNOHAND
	ax := int64(-restartNoInterrupt)
	if unlessHandled {
		ax = -restartNoHandler
	}
	return ptrace(unix.PTRACE_POKEUSR, tid, userRAX, uintptr(ax))
}
