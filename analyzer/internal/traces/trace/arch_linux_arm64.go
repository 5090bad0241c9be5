package trace

import (
	"golang.org/x/sys/unix"
)

var native = &arm64

// breakpointCode is the si_code of a SIGTRAP by a breakpoint.
const breakpointCode = 1 // TRAP_BRKPT

// regs are the registers of a stopped thread.
type regs struct{ unix.PtraceRegsArm64 }

const ntPRStatus = 1

func (r *regs) read(tid int) error {
	return unix.PtraceGetRegSetArm64(tid, ntPRStatus, &r.PtraceRegsArm64)
}

func (r *regs) write(tid int) error {
	return unix.PtraceSetRegSetArm64(tid, ntPRStatus, &r.PtraceRegsArm64)
}

// mmap returns the result and the arguments of a call of mmap that has just returned.
func (r *regs) mmap() mmapCall {
	return mmapCall{result: r.Regs[0], length: r.Regs[1], prot: r.Regs[2], fd: int32(r.Regs[4]), offset: r.Regs[5]}
}

// number is that of the system call that a thread is stopped in.
func (r *regs) number() uint64 { return r.Regs[8] }

const sysMmap = unix.SYS_MMAP

func counter(tid int) (uint64, error) {
	var r regs
	err := r.read(tid)
	return r.Pc, err
}

func setCounter(tid int, pc uint64) error {
	var r regs
	if err := r.read(tid); err != nil {
		return err
	}
	if r.Pc == pc {
		return nil
	}
	r.Pc = pc
	return r.write(tid)
}

// interrupted is for x86-64: here the kernel has decided before the tracer is asked.
func interrupted(int) bool { return false }

func restart(int, bool) error { return nil }
