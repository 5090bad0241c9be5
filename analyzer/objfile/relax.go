package objfile

import (
	"bytes"
	"debug/elf"
)

// Instructions of x86-64 that linkers replace by shorter ways. Source: System V ABI, AMD64
// Architecture Processor Supplement, B.2, and "ELF Handling For Thread-Local Storage", 5.5.

var (
	loadThread = []byte{0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0} // mov %fs:0, %rax
	addSlot    = []byte{0x48, 0x03, 0x05}                         // add x@gottpoff(%rip), %rax
	addOffset  = []byte{0x48, 0x8d, 0x80}                         // lea x@tpoff(%rax), %rax
)

// toRegister returns an instruction with an immediate operand (opcode, digit) in the place of one that
// has a register and an operand in memory: REX or 0, opcode, ModRM.
func toRegister(rex, modrm, opcode, digit byte) [3]byte {
	return [3]byte{rex&^4 | rex>>2&1, opcode, 0xc0 | digit<<3 | modrm>>3&7}
}

// relaxed tells whether got may be what a linker makes of the instruction want, the bytes in front of the
// field of a relocation of type typ: a prefix REX, if the relocation says that there is one, opcode and ModRM.
func relaxed(typ elf.R_X86_64, want, got []byte) bool {
	if bytes.Equal(want, got) {
		return true
	}
	rex, op, modrm := byte(0), want[len(want)-2], want[len(want)-1]
	var gotRex byte
	if len(want) == 3 {
		rex, gotRex = want[0], got[0]
	}
	is := func(x [3]byte) bool { return x == [3]byte{gotRex, got[len(got)-2], got[len(got)-1]} }
	switch {
	case len(want) == 2 && op == 0xff && modrm == 0x15: // call *x(%rip)
		return bytes.Equal(got, []byte{0x67, 0xe8}) || got[0] == 0xe8
	case len(want) == 2 && op == 0xff && modrm == 0x25: // jmp *x(%rip)
		return got[0] == 0xe9
	case typ == elf.R_X86_64_TLSDESC_CALL: // call *(%rax); nop
		return bytes.Equal(got, []byte{0x66, 0x90})
	case modrm&0xc7 != 5: // relative to %rip
		return false
	case typ == elf.R_X86_64_GOTPC32_TLSDESC:
		return op == 0x8d && (is([3]byte{rex, 0x8b, modrm}) || is(toRegister(rex, modrm, 0xc7, 0)))
	case op == 0x8b && is(toRegister(rex, modrm, 0xc7, 0)), op == 0x8b && is(toRegister(rex&^8, modrm, 0xc7, 0)): // mov
		return true
	case typ == elf.R_X86_64_GOTTPOFF:
		r := modrm >> 3 & 7
		return op == 0x03 && (is(toRegister(rex, modrm, 0x81, 0)) || is([3]byte{rex | rex>>2&1, 0x8d, 0x80 | r<<3 | r}))
	case op == 0x8b: // lea
		return is([3]byte{rex, 0x8d, modrm})
	case op == 0x85: // test
		return is(toRegister(rex, modrm, 0xf7, 0))
	}
	// add, or, ..., cmp
	return op&0xc7 == 0x03 && is(toRegister(rex, modrm, 0x81, op>>3&7))
}

// relaxedCall tells whether got may be what a linker makes of the instruction of a relocation of type
// R_X86_64_TLSGD or R_X86_64_TLSLD and of the call of __tls_get_addr behind it: what leads to the variable are the
// last four bytes, a distance to a slot or an offset; of R_X86_64_TLSLD nothing.
func relaxedCall(typ elf.R_X86_64, got []byte) (slot, ok bool) {
	if typ == elf.R_X86_64_TLSLD {
		return false, bytes.HasSuffix(got, loadThread) && len(bytes.TrimLeft(got[:len(got)-len(loadThread)], "\x66")) == 0
	}
	rest, ok := bytes.CutPrefix(got, loadThread)
	slot = bytes.HasPrefix(rest, addSlot)
	return slot, ok && len(rest) == len(addSlot)+4 && (slot || bytes.HasPrefix(rest, addOffset))
}
