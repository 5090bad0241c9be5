package objfile

import "bytes"

// flow is where control goes after an instruction.
type flow uint8

const (
	flowNext     flow = iota // to the next instruction, or there and elsewhere
	flowCall                 // to the next instruction, if the callee returns
	flowJump                 // to its target only
	flowIndirect             // jmp through a register or memory
	flowStop                 // ret, hlt, ud2
	flowTrap                 // int3, which is padding as well
)

// inst is the length of an instruction, its control flow, and its relative field.
type inst struct {
	size    int
	flow    flow
	ret     bool // it is a return
	branch  bool // rel is the target of a branch
	rel     int  // offset of a field that counts from the end of the instruction, or 0
	relSize int  // 1 or 4
	lea     bool // it computes an address instead of accessing it
	nop     bool
}

// opcodes is a set of opcodes.
type opcodes [4]uint64

func (o *opcodes) has(b byte) bool { return o[b>>6]>>(b&63)&1 != 0 }

// ops returns the set of the opcodes in ranges, each given by its first and last one.
func ops(ranges ...byte) (o opcodes) {
	for i := 0; i < len(ranges); i += 2 {
		for b := int(ranges[i]); b <= int(ranges[i+1]); b++ {
			o[b>>6] |= 1 << (b & 63)
		}
	}
	return o
}

var (
	// One-byte opcodes: invalid in 64-bit mode (or REX2 and the like, which aren't known here), with a
	// ModRM byte, with an immediate of 1 byte, and with one of the operand size up to 4 bytes.
	x86Bad = ops(0x06, 0x07, 0x0e, 0x0e, 0x16, 0x17, 0x1e, 0x1f, 0x27, 0x27, 0x2f, 0x2f, 0x37, 0x37, 0x3f, 0x3f,
		0x60, 0x61, 0x82, 0x82, 0x9a, 0x9a, 0xce, 0xce, 0xd4, 0xd6, 0xea, 0xea)
	x86ModRM = ops(0x00, 0x03, 0x08, 0x0b, 0x10, 0x13, 0x18, 0x1b, 0x20, 0x23, 0x28, 0x2b, 0x30, 0x33, 0x38, 0x3b,
		0x63, 0x63, 0x69, 0x69, 0x6b, 0x6b, 0x80, 0x8f, 0xc0, 0xc1, 0xc6, 0xc7, 0xd0, 0xd3, 0xd8, 0xdf, 0xf6, 0xf7, 0xfe, 0xff)
	x86Imm8 = ops(0x04, 0x04, 0x0c, 0x0c, 0x14, 0x14, 0x1c, 0x1c, 0x24, 0x24, 0x2c, 0x2c, 0x34, 0x34, 0x3c, 0x3c,
		0x6a, 0x6b, 0x80, 0x80, 0x83, 0x83, 0xa8, 0xa8, 0xb0, 0xb7, 0xc0, 0xc1, 0xc6, 0xc6, 0xc8, 0xc8, 0xcd, 0xcd, 0xe4, 0xe7)
	x86ImmZ = ops(0x05, 0x05, 0x0d, 0x0d, 0x15, 0x15, 0x1d, 0x1d, 0x25, 0x25, 0x2d, 0x2d, 0x35, 0x35, 0x3d, 0x3d,
		0x68, 0x69, 0x81, 0x81, 0xa9, 0xa9, 0xc7, 0xc7)
	// The same for opcodes behind 0f.
	x86Bad0F     = ops(0x04, 0x04, 0x0a, 0x0a, 0x0c, 0x0c, 0x24, 0x27, 0x36, 0x36, 0x39, 0x39, 0x3b, 0x3f)
	x86NoModRM0F = ops(0x05, 0x09, 0x0b, 0x0b, 0x0e, 0x0e, 0x30, 0x37, 0x77, 0x77, 0x80, 0x8f, 0xa0, 0xa2, 0xa8, 0xaa, 0xc8, 0xcf)
	x86Imm80F    = ops(0x0f, 0x0f, 0x70, 0x73, 0xa4, 0xa4, 0xac, 0xac, 0xba, 0xba, 0xc2, 0xc2, 0xc4, 0xc6)
)

// maxX86 is the length of the longest instruction.
const maxX86 = 15

// decodeX86 decodes the instruction of 64-bit mode at the beginning of b. It knows the lengths of all
// encodings up to AVX-512 and XOP, because the opcode maps are regular, but not their meaning. It fails
// for others (APX, or data).
func decodeX86(b []byte) (inst, bool) {
	var d decoderX86
	n := copy(d.b[:maxX86], b)
	if !d.prefixes() || !d.opcode() || d.modRM && !d.operand() {
		return inst{}, false
	}
	d.at += d.imm
	d.in.size = d.at
	return d.in, d.at <= n
}

// decoderX86 is the state of decoding one instruction.
type decoderX86 struct {
	b  [2 * maxX86]byte // the instruction, and zeros behind it
	at int              // the next byte

	// Prefixes: 66, f3, f2, 40 to 4f, that with the bit W, any that VEX, EVEX and XOP don't allow.
	opSize, rep, repne, rex, rexW, legacy bool

	table int // opcode map: 0, 1 (0f), 2 (0f 38), 3 (0f 3a); 8 and more of VEX, EVEX and XOP
	op    byte
	modRM bool // a ModRM byte follows
	imm   int  // bytes of immediates
	in    inst
}

func (d *decoderX86) next() byte {
	d.at++
	return d.b[d.at-1]
}

// immZ returns the size of an immediate of the operand size up to 4 bytes.
func (d *decoderX86) immZ() int {
	if d.opSize && !d.rexW {
		return 2
	}
	return 4
}

// branch notes that the distance to a branch target follows.
func (d *decoderX86) branch(size int) {
	d.in.branch, d.in.rel, d.in.relSize, d.imm = true, d.at, size, size
}

func (d *decoderX86) prefixes() bool {
	for ; d.at < maxX86; d.at++ {
		switch c := d.b[d.at]; {
		case c&0xf0 == 0x40: // REX is the last one
			d.rex, d.rexW, d.legacy = true, c&8 != 0, true
			d.at++
			return !isPrefixX86(d.b[d.at])
		case !isPrefixX86(c):
			return true
		case c == 0x66:
			d.opSize, d.legacy = true, true
		case c == 0xf3:
			d.rep, d.repne, d.legacy = true, false, true
		case c == 0xf2:
			d.rep, d.repne, d.legacy = false, true, true
		case c == 0xf0:
			d.legacy = true
		}
	}
	return false
}

// isPrefixX86 reports whether c is a prefix: of segment, operand size, address size, lock, repetition, or REX.
func isPrefixX86(c byte) bool {
	switch c {
	case 0x2e, 0x36, 0x3e, 0x26, 0x64, 0x65, 0x66, 0x67, 0xf0, 0xf2, 0xf3:
		return true
	}
	return c&0xf0 == 0x40
}

func (d *decoderX86) opcode() bool {
	d.op = d.next()
	switch {
	case d.op == 0x62 || d.op == 0xc4 || d.op == 0xc5 || d.op == 0x8f && d.b[d.at]&0x38 != 0:
		return d.vex(d.op)
	case d.op == 0x0f:
		return d.twoByte()
	}
	return !x86Bad.has(d.op) && d.oneByte()
}

// vex reads the opcode behind the first byte of a VEX (c4, c5), EVEX (62) or XOP (8f) prefix.
func (d *decoderX86) vex(escape byte) bool {
	size, table := 1, byte(1)
	if escape != 0xc5 {
		size, table = 2, d.b[d.at]&0x1f
	}
	if escape == 0x62 {
		if d.b[d.at]&8 != 0 || d.b[d.at+1]&4 == 0 {
			return false
		}
		size, table = 3, table&7
	}
	d.at += size
	d.op, d.modRM, d.table = d.next(), true, 8+int(table)
	switch {
	case d.legacy:
		return false
	case escape == 0x8f && table == 8:
		d.imm = 1
	case escape == 0x8f && table == 9:
	case escape == 0x8f && table == 10:
		d.imm = 4
	case escape == 0x8f || table == 0 || table == 4 || table == 7 || table > 3 && escape != 0x62:
		return false
	case table == 1:
		if x86Imm80F.has(d.op) {
			d.imm = 1
		}
		d.modRM = d.op != 0x77
	case table == 3:
		d.imm = 1
	}
	return true
}

// twoByte reads the opcode behind 0f.
func (d *decoderX86) twoByte() bool {
	d.table, d.op = 1, d.next()
	switch op := d.op; {
	case op == 0x38 || op == 0x3a:
		d.table, d.modRM = 2, true
		if op == 0x3a {
			d.table, d.imm = 3, 1
		}
		d.op = d.next()
		return true
	case x86Bad0F.has(op) || op == 0xb8 && !d.rep:
		return false
	case op == 0x78 && (d.opSize || d.repne):
		d.modRM, d.imm = true, 2
	case op >= 0x80 && op <= 0x8f:
		if d.immZ() != 4 {
			return false // processors differ
		}
		d.branch(4)
	default:
		d.modRM = !x86NoModRM0F.has(op)
		if x86Imm80F.has(op) {
			d.imm = 1
		}
	}
	switch d.op {
	case 0x07, 0x0b, 0x35, 0xb9, 0xff: // sysret, ud2, sysexit, ud1, ud0; syscall and sysenter return
		d.in.flow = flowStop
	case 0x1f:
		d.in.nop = true
	}
	return true
}

func (d *decoderX86) oneByte() bool {
	op := d.op
	d.modRM = x86ModRM.has(op)
	if x86Imm8.has(op) {
		d.imm = 1
	} else if x86ImmZ.has(op) {
		d.imm = d.immZ()
	}
	switch {
	case op >= 0xb8 && op <= 0xbf:
		d.imm = d.immZ()
		if d.rexW {
			d.imm = 8
		}
	case op >= 0xa0 && op <= 0xa3:
		d.imm = 8
		if bytes.IndexByte(d.b[:d.at], 0x67) >= 0 {
			d.imm = 4
		}
	case op == 0xc8:
		d.imm = 3
	case op == 0xc2 || op == 0xca:
		d.imm, d.in.flow, d.in.ret = 2, flowStop, true
	case op == 0xc3 || op == 0xcb || op == 0xcf:
		d.in.flow, d.in.ret = flowStop, true
	case op == 0xf4:
		d.in.flow = flowStop
	case op == 0xcc:
		d.in.flow = flowTrap
	case op >= 0x70 && op <= 0x7f || op >= 0xe0 && op <= 0xe3:
		d.branch(1)
	case op == 0xeb:
		d.branch(1)
		d.in.flow = flowJump
	case op == 0xe8 || op == 0xe9:
		d.branch(4)
		d.in.flow = flowCall
		if op == 0xe9 {
			d.in.flow = flowJump
		}
		return d.immZ() == 4
	case op == 0x90:
		d.in.nop = !d.rep && !d.rex // pause; xchg
	case op == 0x8d:
		d.in.lea = true
	}
	return true
}

// operand reads the ModRM byte, the SIB byte and the displacement.
func (d *decoderX86) operand() bool {
	m := d.next()
	mod, reg, rm := m>>6, m>>3&7, m&7
	if d.table == 0 {
		switch op := d.op; {
		case op == 0xf6 && reg < 2:
			d.imm = 1
		case op == 0xf7 && reg < 2:
			d.imm = d.immZ()
		case op == 0xff && (reg == 2 || reg == 3):
			d.in.flow = flowCall
		case op == 0xff && (reg == 4 || reg == 5):
			d.in.flow = flowIndirect
		case op == 0xc7 && m == 0xf8: // xbegin
			d.branch(4)
			return d.immZ() == 4
		case op == 0x8d && mod == 3:
			return false
		}
	}
	// Moves of control and debug registers have no memory operand, whatever mod says.
	if mod == 3 || d.table == 1 && d.op >= 0x20 && d.op <= 0x23 {
		return true
	}
	disp := 0
	switch {
	case mod == 1:
		disp = 1
	case mod == 2:
		disp = 4
	case rm == 5:
		disp, d.in.rel, d.in.relSize = 4, d.at, 4
	}
	if rm == 4 {
		if mod == 0 && d.b[d.at]&7 == 5 {
			disp = 4
		}
		d.at++
	}
	d.at += disp
	return true
}

// isPaddingX86 reports whether b is padding between functions, which is instructions without effect, or traps.
func isPaddingX86(b []byte) (ok, traps bool) {
	for i := 0; i < len(b); {
		if b[i] == 0xcc {
			traps = true
			i++
			continue
		}
		in, ok := decodeX86(b[i:])
		if !ok || !in.nop {
			return false, false
		}
		i += in.size
	}
	return true, traps
}

// relative returns the signed number in the first n bytes of b: 1 or 4.
func relative(b []byte, n int) int64 {
	if n == 1 {
		return int64(int8(b[0]))
	}
	return int64(int32(order.Uint32(b)))
}

// bitset has a bit for each byte of a section.
type bitset []uint64

func newBitset(n uint64) bitset { return make(bitset, n/64+1) }

func (s bitset) set(i uint64) { s[i>>6] |= 1 << (i & 63) }

func (s bitset) has(i uint64) bool { return i>>6 < uint64(len(s)) && s[i>>6]>>(i&63)&1 != 0 }
