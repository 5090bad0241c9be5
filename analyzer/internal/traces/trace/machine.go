package trace

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
)

// machine is what has to be known about a processor, wherever that is read.
type machine struct {
	elf  elf.Machine
	trap []byte // the breakpoint
	// behind is how far the program counter is behind the trap when that was met.
	behind  uint64
	aligned func(address uint64) bool
	// padding reports whether code between functions is never executed.
	padding func(code []byte) bool
	// mmap is how loaders call the kernel's mmap.
	mmap []byte
}

var (
	amd64 = machine{
		elf:     elf.EM_X86_64,
		trap:    []byte{0xcc}, // int3
		behind:  1,
		aligned: func(uint64) bool { return true },
		padding: paddingAMD64,
		mmap:    []byte{0xb8, 9, 0, 0, 0, 0x0f, 0x05}, // mov $9, %eax; syscall
	}
	arm64 = machine{
		elf:     elf.EM_AARCH64,
		trap:    []byte{0x00, 0x00, 0x20, 0xd4}, // brk #0
		aligned: func(address uint64) bool { return address%4 == 0 },
		padding: paddingARM64,
		mmap:    []byte{0xc8, 0x1b, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4}, // mov x8, #222; svc #0
	}
)

// behindMmap returns the offsets in a loader's code behind its calls of mmap: there a
// library has been mapped, and nothing of it executed.
func (m *machine) behindMmap(code []byte) (list []uint64) {
	for at := 0; ; {
		i := bytes.Index(code[at:], m.mmap)
		if i < 0 {
			return list
		}
		at += i + len(m.mmap)
		if at+len(m.trap) <= len(code) && m.aligned(uint64(at)) {
			list = append(list, uint64(at))
		}
	}
}

// paddingAMD64 knows what compilers, assemblers and linkers fill with: int3, zeros, and
// instructions that do nothing, maybe with a jump over them.
func paddingAMD64(b []byte) bool {
	for len(b) > 0 {
		switch {
		case b[0] == 0xcc:
			b = b[1:]
			continue
		case len(bytes.TrimLeft(b, "\x00")) == 0:
			return true
		case b[0] == 0xeb && len(b) >= 2 && int(b[1]) == len(b)-2:
			return true
		case b[0] == 0xe9 && len(b) >= 5 && uint64(binary.LittleEndian.Uint32(b[1:])) == uint64(len(b)-5):
			return true
		}
		n := 0
		for n < len(b) && (b[n] == 0x66 || b[n] == 0x2e) {
			n++
		}
		switch {
		case n < len(b) && b[n] == 0x90: // nop
			n++
		case n+3 <= len(b) && b[n] == 0x0f && b[n+1] == 0x1f: // nop with an operand
			mod, rm := b[n+2]>>6, b[n+2]&7
			n += 3
			if mod != 3 && rm == 4 {
				n++
			}
			switch {
			case mod == 1:
				n++
			case mod == 2, mod == 0 && rm == 5:
				n += 4
			}
		default:
			return false
		}
		if n > len(b) {
			return false
		}
		b = b[n:]
	}
	return true
}

func paddingARM64(b []byte) bool {
	const nop, udf = 0xd503201f, 0
	for len(b) >= 4 {
		if w := binary.LittleEndian.Uint32(b); w != nop && w != udf {
			return false
		}
		b = b[4:]
	}
	return len(bytes.Trim(b, "\x00")) == 0
}
