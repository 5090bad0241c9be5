package objfile

import "debug/elf"

// decodeARM64 tells what the instruction w has to do with its place: a branch or
// an address relative to it (displacement and the bits that hold it), and where
// control goes. All others of the architecture refer to nothing by themselves.
func decodeARM64(w uint32) (disp int64, mask uint32, f flow, ret bool) {
	field := func(at, bits uint) int64 {
		mask = (1<<bits - 1) << at
		return int64(w>>at&(1<<bits-1)) << (64 - bits) >> (64 - bits) * 4
	}
	switch {
	case w&0x7c000000 == 0x14000000: // b, bl
		if f = flowJump; w>>31 != 0 {
			f = flowCall
		}
		return field(0, 26), mask, f, false
	case w&0xff000000 == 0x54000000, // b.cond, bc.cond
		w&0x7e000000 == 0x34000000: // cbz, cbnz
		return field(5, 19), mask, flowNext, false
	case w&0x3b000000 == 0x18000000: // ldr, ldrsw, prfm (literal)
		return field(5, 19), mask, flowNext, false
	case w&0x7e000000 == 0x36000000: // tbz, tbnz
		return field(5, 14), mask, flowNext, false
	case w&0x7e000000 == 0x74000000: // cb<cc>
		return field(5, 9), mask, flowNext, false
	case w&0x1f000000 == 0x10000000: // adr, adrp
		mask = 0x60ffffe0
		disp = int64(w>>5&0x7ffff<<2|w>>29&3) << 43 >> 43
		if w>>31 != 0 {
			disp <<= 12
		}
		return disp, mask, flowNext, false
	case w&0xfe000000 == 0xd6000000: // branch to register
		switch w >> 21 & 7 {
		case 1: // blr, blraa
			return 0, 0, flowCall, false
		case 0: // br, braa
			return 0, 0, flowAway, false
		}
		return 0, 0, flowStop, true
	case w&0xffe0001f == 0xd4200000: // brk
		return 0, 0, flowBreak, false
	case w>>16 == 0: // udf
		return 0, 0, flowStop, false
	}
	return 0, 0, flowNext, false
}

const nopARM64 = 0xd503201f

// useARM64 says what a relocation of an instruction does with the address.
func useARM64(typ uint32) use {
	switch elf.R_AARCH64(typ) {
	case elf.R_AARCH64_ABS64, elf.R_AARCH64_ABS32, elf.R_AARCH64_CALL26, elf.R_AARCH64_JUMP26, elf.R_AARCH64_CONDBR19, elf.R_AARCH64_TSTBR14:
		return use{class: useExact}
	case elf.R_AARCH64_LDST8_ABS_LO12_NC, elf.R_AARCH64_LDST16_ABS_LO12_NC, elf.R_AARCH64_LDST32_ABS_LO12_NC,
		elf.R_AARCH64_LDST64_ABS_LO12_NC, elf.R_AARCH64_LDST128_ABS_LO12_NC, elf.R_AARCH64_LD_PREL_LO19,
		// The instruction that adds the rest of the address decides.
		elf.R_AARCH64_ADR_PREL_PG_HI21, elf.R_AARCH64_ADR_PREL_PG_HI21_NC,
		elf.R_AARCH64_ADR_GOT_PAGE, elf.R_AARCH64_LD64_GOT_LO12_NC:
		return use{class: useDirect}
	case elf.R_AARCH64_ADD_ABS_LO12_NC, elf.R_AARCH64_ADR_PREL_LO21:
		return use{class: useFolded}
	}
	return use{}
}
