package objfile

import (
	"cmp"
	"debug/elf"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/words"
)

// class is how certainly a relocation leads into the variable that the source refers to. For arr[i-1] a compiler
// emits the address arr-4. The assembler turns it into the section symbol and an offset, which is in the variable
// in front of arr. See code-data/biased-array.
type class uint8

const (
	useUnknown class = iota
	// The place is in the variable, or at its end.
	useExact
	// The instruction accesses the place, which is in the variable.
	useDirect
	// The address is only computed (lea, immediate). The access may be in another variable.
	useFolded
	// The field holds the distance from an unknown place of its section: jump tables of
	// position-independent code.
	useTable
)

// use is how an instruction uses the target of a relocation.
type use struct {
	class  class
	bias   int8 // from the field to the origin of the addend
	branch bool // it is a jump or call
}

// site is a reference that the assembler has resolved: a field of 1 or 4 bytes with the distance to
// another place of the section.
type site struct {
	at     uint64
	width  int
	target uint64
}

// extent is a range of a section that sized symbols cover.
type extent struct {
	start, end    uint64
	local, global bool // it has local, global symbols
	// Of code:
	exits    []exit // ways to run over its end
	padTraps bool   // the padding behind it traps
	returns  bool   // it has a return, or a jump elsewhere
}

// exit is a way to run over the end of a function: its last instruction, or a jump to the end. Compilers
// emit it where a call doesn't return. (A jump without a call to the adjacent function is a tail call.)
type exit struct {
	at       uint64 // the jump, or the end of the last instruction
	call     uint64 // the field of the call in front of it
	withCall bool   // there is such a call
}

// extents returns the ranges of section k that symbols cover, in order; overlapping ones are merged. It
// fails, with the reason, if a symbol has no size, or a type or range that compilers don't give it.
func (r *cutter) extents(k int) ([]extent, string) {
	s := &r.sections[k]
	var all []extent
	for _, i := range slices.Concat(s.locals, s.globals) {
		sym := &r.syms[i]
		switch sym.typ() {
		case elf.STT_FUNC, elf.STT_OBJECT, elf.STT_NOTYPE, elf.STT_TLS, elf.STT_GNU_IFUNC:
		default:
			return nil, fmt.Sprintf("%s is a symbol of type %v", sym.name, sym.typ())
		}
		if sym.typ() == elf.STT_OBJECT && s.executable() {
			return nil, sym.name + " is data among code" // its bytes may decode as anything; see code-asm/object-in-text
		}
		if sym.value > s.size || sym.size > s.size-sym.value {
			return nil, sym.name + " reaches over the end of the section"
		}
		if sym.size == 0 {
			return nil, sym.name + " has no size" // it may be the end of a variable; see code-torn/blob-end
		}
		end := sym.value + sym.size
		if strings.HasPrefix(sym.name, "__cfi_") && end < s.size {
			end++ // the type in front of a function (-fsanitize=kcfi) is part of it; see link-moved/kcfi-type
		}
		all = append(all, extent{start: sym.value, end: end, local: sym.local(), global: !sym.local()})
	}
	slices.SortFunc(all, func(a, b extent) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end))
	})
	n := 0
	for _, e := range all {
		if n > 0 && e.start < all[n-1].end {
			p := &all[n-1]
			if !s.executable() && (p.global || e.global) {
				return nil, "two symbols are at one place" // one may be the end of the variable in front; see code-torn/set-end
			}
			p.end, p.local, p.global = max(p.end, e.end), p.local || e.local, p.global || e.global
			continue
		}
		all[n] = e
		n++
	}
	return all[:n], ""
}

// extentAt returns the index of the extent that contains an offset, or -1.
func extentAt(all []extent, at uint64) int {
	i, ok := slices.BinarySearchFunc(all, at, func(e extent, at uint64) int { return cmp.Compare(e.start, at) })
	if ok {
		return i
	}
	if i == 0 || at >= all[i-1].end {
		return -1
	}
	return i - 1
}

// code is the result of decoding a section.
type code struct {
	starts  bitset // starts of instructions
	targets bitset // targets of branches
	sites   []site // in order
}

// decode decodes the instructions of section k, completes its extents, and sets the use of each
// relocation. It fails, with the reason, unless everything fits: each branch leads to an instruction,
// and each relocation is that of a field. Data among instructions would hardly pass.
func (r *cutter) decode(k int, all []extent, uses []use) (*code, string) {
	s := &r.sections[k]
	if s.data == nil || len(all) == 0 {
		return nil, "no symbol covers it"
	}
	c := &code{starts: newBitset(s.size), targets: newBitset(s.size)}
	at := uint64(0)
	for i := range all {
		e := &all[i]
		if why := r.checkPadding(s, at, e.start, all, i); why != "" {
			return nil, why
		}
		why := r.decodeFunction(s, e, c, uses, i+1 < len(all) && all[i+1].start == e.end)
		if why != "" {
			return nil, why
		}
		at = e.end
	}
	if why := r.checkPadding(s, at, s.size, all, len(all)); why != "" {
		return nil, why
	}
	for i, w := range c.targets {
		if w &^= c.starts[i]; w != 0 {
			return nil, fmt.Sprintf("a jump leads into an instruction or out of all functions, to %#x", 64*i+bits.TrailingZeros64(w))
		}
	}
	for i := range all {
		for j := range all[i].exits {
			if x := &all[i].exits[j]; c.targets.has(x.at) {
				x.withCall = false // there is another way than behind the call
			}
		}
	}
	for _, x := range c.sites {
		if extentAt(all, x.target) < 0 {
			return nil, fmt.Sprintf("the code at %#x refers to bytes that no symbol covers", x.at)
		}
	}
	return c, ""
}

// checkPadding returns an error text unless the bytes between two functions are padding.
func (r *cutter) checkPadding(s *section, from, to uint64, all []extent, next int) string {
	b := s.data[from:to]
	if len(b) == 0 {
		return ""
	}
	ok, traps := isPaddingX86(b)
	if _, hit := firstReloc(s.relocs, from, to); !ok || hit {
		return fmt.Sprintf("no symbol covers the bytes at %#x", from)
	}
	if next > 0 {
		all[next-1].padTraps = traps
	}
	return ""
}

// firstReloc returns the index of the first relocation at or behind from, and reports whether it is in
// front of end.
func firstReloc(l []reloc, from, end uint64) (int, bool) {
	i, _ := slices.BinarySearchFunc(l, from, func(r reloc, at uint64) int { return cmp.Compare(r.offset, at) })
	return i, i < len(l) && l[i].offset < end
}

// relocsIn returns the indices of the relocations in a range.
func relocsIn(l []reloc, from, to uint64) (first, end int) {
	first, _ = firstReloc(l, from, to)
	end, _ = firstReloc(l, to, to)
	return first, end
}

// decodeFunction decodes one extent. adjacent is set if another one begins where it ends.
func (r *cutter) decodeFunction(s *section, e *extent, c *code, uses []use, adjacent bool) string {
	i, _ := firstReloc(s.relocs, e.start, e.end)
	b := s.data[:e.end]
	var last flow
	var call, done uint64 // the field and the end of the last instruction that isn't a nop
	called := false       // that one is a call
	for at := e.start; at < e.end; {
		in, ok := decodeX86(b[at:])
		if !ok {
			return fmt.Sprintf("unknown instruction at %#x", at)
		}
		c.starts.set(at)
		next := at + uint64(in.size)
		field := at + uint64(in.rel)
		relocated := false
		for ; i < len(s.relocs) && s.relocs[i].offset < next; i++ {
			rel := &s.relocs[i]
			u, ok := useX86(rel, &in, at)
			if !ok {
				return fmt.Sprintf("the relocation at %#x isn't that of an instruction", rel.offset)
			}
			uses[i] = u
			relocated = relocated || in.rel > 0 && rel.offset == field && rel.typ != elf.R_X86_64_NONE
		}
		if in.rel > 0 && !relocated {
			target := int64(next) + relative(b[field:], in.relSize)
			if target < 0 || uint64(target) >= s.size && (uint64(target) != e.end || !in.branch || in.flow == flowCall) {
				return fmt.Sprintf("the instruction at %#x refers to a place out of the section", at)
			}
			x := site{field, in.relSize, uint64(target)}
			if in.branch {
				if x.target == e.end && in.flow != flowCall && (called || !adjacent) {
					e.exits = append(e.exits, exit{at, call, called})
					x.target = e.start // no reference to another function
				} else {
					c.targets.set(x.target)
				}
			}
			if x.target < e.start || x.target >= e.end {
				c.sites = append(c.sites, x)
				e.returns = e.returns || in.branch && in.flow != flowCall
			}
		} else if relocated && in.branch && in.flow != flowCall {
			e.returns = true // a tail call: the callee may return
		}
		e.returns = e.returns || in.ret || in.flow == flowIndirect
		if !in.nop {
			last, called, call, done = in.flow, in.flow == flowCall, field, next
		}
		at = next
	}
	if last == flowNext || last == flowCall {
		at := done
		if at == e.end {
			at = math.MaxUint64 // jumps to the end lead to another function
		}
		e.exits = append(e.exits, exit{at, call, last == flowCall})
	}
	return ""
}

// useX86 returns how an instruction uses the address that a relocation stores in it. It fails if
// the relocation isn't that of a field.
func useX86(rel *reloc, in *inst, at uint64) (use, bool) {
	o := int(rel.offset - at)
	switch rel.typ {
	case elf.R_X86_64_NONE, elf.R_X86_64_TLSDESC_CALL:
		return use{class: useExact}, true
	case elf.R_X86_64_PC32, elf.R_X86_64_PLT32:
		if o != in.rel || in.relSize != 4 || in.rel == 0 {
			return use{}, o > 0 && o+4 <= in.size
		}
		u := use{class: useDirect, bias: int8(in.size - o)}
		if u.branch = in.branch; in.branch {
			u.class = useExact
		} else if in.lea {
			u.class = useFolded
		}
		return u, true
	case elf.R_X86_64_GOTPCREL, elf.R_X86_64_GOTPCRELX, elf.R_X86_64_REX_GOTPCRELX:
		return use{class: useExact, bias: int8(in.size - o)}, o > 0 && o+4 <= in.size
	case elf.R_X86_64_64:
		return use{class: useFolded}, o > 0 && o+8 <= in.size
	case elf.R_X86_64_32, elf.R_X86_64_32S:
		return use{class: useFolded}, o > 0 && o+4 <= in.size
	}
	return use{}, o > 0 && o < in.size
}

// useData returns the use of a relocation of data: compilers don't calculate in initial values.
func useData(typ elf.R_X86_64) use {
	switch typ {
	case elf.R_X86_64_NONE, elf.R_X86_64_64, elf.R_X86_64_32:
		return use{class: useExact}
	case elf.R_X86_64_PC32, elf.R_X86_64_PC64, elf.R_X86_64_PLT32:
		return use{class: useTable}
	}
	return use{}
}

// neverReturns reports whether compilers emit nothing behind a call of a function with that name. A
// function that ends in a call of any other one runs into the next. See code-closure/noreturn-chain.
func neverReturns(name string) bool {
	return noReturn[name] || strings.HasPrefix(name, "_ZSt") && strings.Contains(name, "__throw_")
}

var noReturn = words.Set(`_Unwind_Resume __cxa_throw __cxa_rethrow __cxa_bad_cast __cxa_bad_typeid __cxa_throw_bad_array_new_length
	__cxa_throw_bad_array_length __cxa_call_unexpected __cxa_call_terminate __cxa_pure_virtual __cxa_deleted_virtual __clang_call_terminate
	_ZSt9terminatev _ZSt17rethrow_exceptionNSt15__exception_ptr13exception_ptrE __stack_chk_fail __stack_chk_fail_local
	__chk_fail __fortify_fail __assert_fail __assert_perror_fail __assert __assert_rtn abort exit _exit _Exit quick_exit thrd_exit pthread_exit
	longjmp _longjmp siglongjmp __longjmp_chk __builtin_unreachable __libc_fatal err errx verr verrx`)
