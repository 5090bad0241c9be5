package objfile

import (
	"encoding/binary"
)

// flow says where control goes after an instruction.
type flow uint8

const (
	flowNext  flow = iota // to the next one, or there and elsewhere
	flowCall              // to the next one, if what is called returns
	flowJump              // to its target only
	flowAway              // jmp through a register or memory
	flowStop              // ret, hlt, ud2, int3
	flowBreak             // int3: a trap, also used as padding
)

// inst is what an instruction tells about references.
type inst struct {
	size    int
	flow    flow
	ret     bool // it returns
	branch  bool // rel is the target of a branch
	rel     int  // offset of a field relative to the end of the instruction, or 0
	relSize int  // 1 or 4
	lea     bool // computes an address instead of accessing it
	nop     bool
}

// One bit for each opcode.
type opcodes [4]uint64

func (o *opcodes) has(b byte) bool { return o[b>>6]>>(b&63)&1 != 0 }

func ops(ranges ...byte) (o opcodes) {
	for i := 0; i < len(ranges); i += 2 {
		for b := int(ranges[i]); b <= int(ranges[i+1]); b++ {
			o[b>>6] |= 1 << (b & 63)
		}
	}
	return o
}

var (
	// One-byte opcodes: those without meaning in 64-bit mode (or with a new one
	// that isn't known here), with ModRM, with an immediate of 1 byte, and with
	// one of the operand's size up to 4 bytes.
	x86Bad = ops(0x06, 0x07, 0x0e, 0x0e, 0x16, 0x17, 0x1e, 0x1f, 0x27, 0x27, 0x2f, 0x2f, 0x37, 0x37, 0x3f, 0x3f,
		0x60, 0x61, 0x82, 0x82, 0x9a, 0x9a, 0xce, 0xce, 0xd4, 0xd6, 0xea, 0xea)
	x86ModRM = ops(0x00, 0x03, 0x08, 0x0b, 0x10, 0x13, 0x18, 0x1b, 0x20, 0x23, 0x28, 0x2b, 0x30, 0x33, 0x38, 0x3b,
		0x63, 0x63, 0x69, 0x69, 0x6b, 0x6b, 0x80, 0x8f, 0xc0, 0xc1, 0xc6, 0xc7, 0xd0, 0xd3, 0xd8, 0xdf, 0xf6, 0xf7, 0xfe, 0xff)
	x86Imm8 = ops(0x04, 0x04, 0x0c, 0x0c, 0x14, 0x14, 0x1c, 0x1c, 0x24, 0x24, 0x2c, 0x2c, 0x34, 0x34, 0x3c, 0x3c,
		0x6a, 0x6b, 0x80, 0x80, 0x83, 0x83, 0xa8, 0xa8, 0xb0, 0xb7, 0xc0, 0xc1, 0xc6, 0xc6, 0xc8, 0xc8, 0xcd, 0xcd, 0xe4, 0xe7)
	x86ImmZ = ops(0x05, 0x05, 0x0d, 0x0d, 0x15, 0x15, 0x1d, 0x1d, 0x25, 0x25, 0x2d, 0x2d, 0x35, 0x35, 0x3d, 0x3d,
		0x68, 0x69, 0x81, 0x81, 0xa9, 0xa9, 0xc7, 0xc7)
	// The same for opcodes after 0f.
	x86Bad0F     = ops(0x04, 0x04, 0x0a, 0x0a, 0x0c, 0x0c, 0x24, 0x27, 0x36, 0x36, 0x39, 0x39, 0x3b, 0x3f)
	x86NoModRM0F = ops(0x05, 0x09, 0x0b, 0x0b, 0x0e, 0x0e, 0x30, 0x37, 0x77, 0x77, 0x80, 0x8f, 0xa0, 0xa2, 0xa8, 0xaa, 0xc8, 0xcf)
	x86Imm80F    = ops(0x0f, 0x0f, 0x70, 0x73, 0xa4, 0xa4, 0xac, 0xac, 0xba, 0xba, 0xc2, 0xc2, 0xc4, 0xc6)
)

// decodeX86 reads the instruction of 64-bit mode at the beginning of b: its
// length, and whatever in it is relative to its place. It knows the encodings
// up to AVX-512 and XOP, not their meaning: for lengths the opcode maps are
// regular. It fails for what it doesn't know (APX, or what isn't code).
func decodeX86(b []byte) (in inst, ok bool) {
	if len(b) > 15 {
		b = b[:15]
	}
	var osize, rep, repne, rex, rexW bool
	vexAllowed := true // these encodings take no prefix but for segment and address size
	i := 0
prefixes:
	for ; ; i++ {
		if i >= len(b) {
			return in, false
		}
		switch c := b[i]; {
		case c == 0x66:
			osize, vexAllowed = true, false
		case c == 0xf3:
			rep, repne, vexAllowed = true, false, false
		case c == 0xf2:
			rep, repne, vexAllowed = false, true, false
		case c == 0xf0:
			vexAllowed = false
		case isSegmentX86(c) || c == 0x67:
		case c&0xf0 == 0x40:
			rex, rexW, vexAllowed = true, c&8 != 0, false
			i++
			break prefixes
		default:
			break prefixes
		}
	}
	if i >= len(b) {
		return in, false
	}
	op := b[i]
	i++
	if rex && (op&0xf0 == 0x40 || op == 0x66 || op == 0x67 || op == 0xf0 || op == 0xf2 || op == 0xf3 || isSegmentX86(op)) {
		return in, false
	}
	immZ := 4
	if osize && !rexW {
		immZ = 2
	}
	table, modrm, imm := 0, false, 0
	switch {
	case op == 0x62 || op == 0xc4 || op == 0xc5 || op == 0x8f && i < len(b) && b[i]&0x38 != 0:
		if !vexAllowed {
			return in, false
		}
		n, vexMap := 1, byte(1)
		if op != 0xc5 {
			n = 2
			if i >= len(b) {
				return in, false
			}
			vexMap = b[i] & 0x1f
		}
		if op == 0x62 {
			n = 3
			if i+1 >= len(b) || b[i]&8 != 0 || b[i+1]&4 == 0 {
				return in, false
			}
			vexMap &= 7
		}
		if i+n >= len(b) {
			return in, false
		}
		i += n
		last := op
		op = b[i]
		i++
		modrm, table = true, int(vexMap)
		switch {
		case last == 0x8f && vexMap == 8:
			imm = 1
		case last == 0x8f && vexMap == 9:
		case last == 0x8f && vexMap == 10:
			imm = 4
		case last == 0x8f || vexMap == 0 || vexMap == 4 || vexMap == 7 || vexMap > 3 && last != 0x62:
			return in, false
		case vexMap == 1:
			if x86Imm80F.has(op) {
				imm = 1
			}
			modrm = op != 0x77
		case vexMap == 3:
			imm = 1
		}
		table += 8 // no map of the old instructions
	case op == 0x0f:
		if i >= len(b) {
			return in, false
		}
		table, op = 1, b[i]
		i++
		switch {
		case op == 0x38 || op == 0x3a:
			if i >= len(b) {
				return in, false
			}
			table, modrm = 2, true
			if op == 0x3a {
				table, imm = 3, 1
			}
			op = b[i]
			i++
		case x86Bad0F.has(op) || op == 0xb8 && !rep:
			return in, false
		case op == 0x78 && (osize || repne):
			modrm, imm = true, 2
		case op >= 0x80 && op <= 0x8f:
			if osize && !rexW {
				return in, false // processors differ
			}
			in.branch, in.rel, in.relSize = true, i, 4
			imm = 4
		default:
			modrm = !x86NoModRM0F.has(op)
			if x86Imm80F.has(op) {
				imm = 1
			}
		}
		switch {
		case table == 1 && (op == 0x0b || op == 0xb9 || op == 0xff):
			in.flow = flowStop
		case table == 1 && op == 0x1f:
			in.nop = true
		case table == 1 && (op == 0x05 || op == 0x34): // syscall returns
		case table == 1 && (op == 0x07 || op == 0x35):
			in.flow = flowStop
		}
	case x86Bad.has(op):
		return in, false
	default:
		modrm = x86ModRM.has(op)
		if x86Imm8.has(op) {
			imm = 1
		} else if x86ImmZ.has(op) {
			imm = immZ
		}
		switch {
		case op >= 0xb8 && op <= 0xbf:
			imm = immZ
			if rexW {
				imm = 8
			}
		case op >= 0xa0 && op <= 0xa3:
			imm = 8
			for _, c := range b[:i] {
				if c == 0x67 {
					imm = 4
				}
			}
		case op == 0xc8:
			imm = 3
		case op == 0xc2 || op == 0xca:
			imm, in.flow, in.ret = 2, flowStop, true
		case op == 0xc3 || op == 0xcb || op == 0xcf:
			in.flow, in.ret = flowStop, true
		case op == 0xf4:
			in.flow = flowStop
		case op == 0xcc:
			in.flow = flowBreak
		case op >= 0x70 && op <= 0x7f || op >= 0xe0 && op <= 0xe3 || op == 0xeb:
			in.branch, in.rel, in.relSize, imm = true, i, 1, 1
			if op == 0xeb {
				in.flow = flowJump
			}
		case op == 0xe8 || op == 0xe9:
			if osize && !rexW {
				return in, false
			}
			in.branch, in.rel, in.relSize, imm = true, i, 4, 4
			in.flow = flowCall
			if op == 0xe9 {
				in.flow = flowJump
			}
		case op == 0x90:
			in.nop = !rep && !rex // pause; xchg
		case op == 0x8d:
			in.lea = true
		}
	}
	if modrm {
		if i >= len(b) {
			return in, false
		}
		m := b[i]
		i++
		mod, reg, rm := m>>6, m>>3&7, m&7
		if table == 0 {
			switch {
			case (op == 0xf6 || op == 0xf7) && reg < 2:
				imm = 1
				if op == 0xf7 {
					imm = immZ
				}
			case op == 0xff && (reg == 2 || reg == 3):
				in.flow = flowCall
			case op == 0xff && (reg == 4 || reg == 5):
				in.flow = flowAway
			case op == 0xc7 && m == 0xf8: // xbegin
				if immZ != 4 {
					return in, false
				}
				in.branch, in.rel, in.relSize = true, i, 4
			case op == 0x8d && mod == 3:
				return in, false
			}
		}
		// Moves of control and debug registers have no memory operand whatever
		// mod says.
		if mod != 3 && !(table == 1 && op >= 0x20 && op <= 0x23) {
			disp := 0
			switch {
			case mod == 1:
				disp = 1
			case mod == 2:
				disp = 4
			case rm == 5:
				disp, in.rel, in.relSize = 4, i, 4
			}
			if rm == 4 {
				if i >= len(b) {
					return in, false
				}
				if mod == 0 && b[i]&7 == 5 {
					disp = 4
				}
				i++
			}
			i += disp
		}
	}
	i += imm
	if i > len(b) {
		return in, false
	}
	in.size = i
	return in, true
}

// isSegmentX86 says whether c is a segment prefix.
func isSegmentX86(c byte) bool {
	return c == 0x2e || c == 0x36 || c == 0x3e || c == 0x26 || c == 0x64 || c == 0x65
}

// isPaddingX86 says whether b is what assemblers fill gaps between functions
// with: nothing that does anything when it runs, or traps.
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

// relative returns the signed field of n bytes.
func relative(b []byte, n int) int64 {
	if n == 1 {
		return int64(int8(b[0]))
	}
	return int64(int32(binary.LittleEndian.Uint32(b)))
}

// bitset has a bit for each byte of a section.
type bitset []uint64

func newBitset(n uint64) bitset    { return make(bitset, n/64+1) }
func (s bitset) set(i uint64)      { s[i>>6] |= 1 << (i & 63) }
func (s bitset) has(i uint64) bool { return i>>6 < uint64(len(s)) && s[i>>6]>>(i&63)&1 != 0 }
