package component

import (
	"io"
	"os"
	"syscall"
)

// widen makes room in a pipe. clang writes a dump in pieces of 4 KiB; with more
// of them in the pipe at a time, reader and writer wake each other less often.
// A pipe that can't grow works as well.
func widen(pipe io.Reader) {
	const fSetPipeSize, size = 1031, 1 << 20 // fcntl(2); what every user may have
	f, ok := pipe.(*os.File)
	if !ok {
		return
	}
	if c, err := f.SyscallConn(); err == nil {
		_ = c.Control(func(fd uintptr) { _, _, _ = syscall.Syscall(syscall.SYS_FCNTL, fd, fSetPipeSize, size) })
	}
}
