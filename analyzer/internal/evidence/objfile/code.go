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

// class says how sure it is that the place that a relocation leads to is in what
// the source refers to. Of a reference to arr[i-1] a compiler makes an
// instruction that takes the address arr-4, and an assembler makes of that the
// section and an offset: in what is in front of arr.
type class uint8

const (
	useUnknown class = iota
	// The place is in it or, if it is a variable, at its end.
	useExact
	// The place is accessed: it is in it.
	useDirect
	// The place is the beginning of a calculation.
	useFolded
	// The field holds a distance to a place that isn't known, in the same
	// section: jump tables of position-independent code.
	useTable
)

// use is what the bytes around a relocation say about it.
type use struct {
	class  class
	bias   int8 // what the addend lacks because it counts from another place than the relocated one
	branch bool // control goes there
}

// site is a reference that the assembler resolved: a field of 1 or 4 bytes that
// holds the distance to another place in the section.
type site struct {
	at     uint64
	width  int
	target uint64
}

// extent is a range of a section that symbols with a size cover.
type extent struct {
	start, end    uint64
	local, global bool // has local, has global names
	// Of code:
	exits    []exit // ways to run over its end
	padTraps bool   // what follows, traps
	returns  bool   // it may
}

// exit is a way to run over the end of a function, at its last instruction or
// with a jump. Compilers make them of calls of functions that don't return. (A
// jump without a call to what begins right there is one to another function.)
type exit struct {
	at       uint64 // the jump, or what is behind the last instruction
	call     uint64 // the field of the call, if it has one
	withCall bool
}

// extents returns the ranges of section k that symbols cover, in order; ranges
// that overlap are one. It fails if a symbol doesn't say what it covers.
func (r *reader) extents(k int) ([]extent, string) {
	s := &r.sections[k]
	var all []extent
	var points []int
	for _, i := range slices.Concat(s.locals, s.globals) {
		sym := &r.syms[i]
		switch sym.typ() {
		case elf.STT_FUNC, elf.STT_OBJECT, elf.STT_NOTYPE, elf.STT_TLS, sttGNUIFunc:
		default:
			return nil, fmt.Sprintf("%s is a symbol of type %v", sym.name, sym.typ())
		}
		if sym.typ() == elf.STT_OBJECT && s.code() {
			return nil, sym.name + " is data among code" // whose bytes may look like anything
		}
		if sym.value > s.size || sym.size > s.size-sym.value {
			return nil, sym.name + " reaches over the end of the section"
		}
		if sym.size == 0 {
			if !sym.local() && !s.code() {
				return nil, sym.name + " has no size" // it may be the end of what is in front of it
			}
			points = append(points, i)
			continue
		}
		end := sym.value + sym.size
		if strings.HasPrefix(sym.name, "__cfi_") && end < s.size {
			end++ // what is in front of a function for its callers (-fsanitize=kcfi) is a part of it
		}
		all = append(all, extent{start: sym.value, end: end, local: sym.local(), global: !sym.local()})
	}
	slices.SortFunc(all, func(a, b extent) int {
		if a.start != b.start {
			return cmp.Compare(a.start, b.start)
		}
		return cmp.Compare(a.end, b.end)
	})
	n := 0
	for _, e := range all {
		if n > 0 && e.start < all[n-1].end {
			p := &all[n-1]
			if !s.code() && (p.global || e.global) {
				return nil, "two symbols are at one place" // one may stand for the end of what is in front
			}
			p.end, p.local, p.global = max(p.end, e.end), p.local || e.local, p.global || e.global
			continue
		}
		all[n] = e
		n++
	}
	all = all[:n]
	for _, i := range points {
		sym := &r.syms[i]
		e := covering(all, sym.value)
		if e < 0 {
			return nil, sym.name + " has no size"
		}
		all[e].local, all[e].global = all[e].local || sym.local(), all[e].global || !sym.local()
	}
	return all, ""
}

// covering returns the index of the extent that at is in, or -1.
func covering(all []extent, at uint64) int {
	i, ok := slices.BinarySearchFunc(all, at, func(e extent, at uint64) int { return cmp.Compare(e.start, at) })
	if ok {
		return i
	}
	if i == 0 || at >= all[i-1].end {
		return -1
	}
	return i - 1
}

// code is what decoding a section of instructions found.
type code struct {
	starts  bitset // where instructions begin
	targets bitset // where jumps lead to
	sites   []site // in order
}

// decode reads the instructions of section k, fills in where its extents lead
// to, and says what each relocation is used for. It fails, with a reason, unless
// everything fits together: each branch leads to an instruction, each relocation
// belongs to a field. Data among the instructions would hardly pass.
func (r *reader) decode(k int, all []extent, uses []use) (*code, string) {
	s := &r.sections[k]
	if s.data == nil || len(all) == 0 {
		return nil, "no symbol covers it"
	}
	c := &code{starts: newBitset(s.size), targets: newBitset(s.size)}
	at := uint64(0)
	for i := range all {
		e := &all[i]
		if why := r.padding(s, at, e.start, all, i); why != "" {
			return nil, why
		}
		why := r.decodeX86(s, e, c, uses, i+1 < len(all) && all[i+1].start == e.end)
		if why != "" {
			return nil, why
		}
		at = e.end
	}
	if why := r.padding(s, at, s.size, all, len(all)); why != "" {
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
				x.withCall = false // there are other ways to get there
			}
		}
	}
	for _, x := range c.sites {
		if covering(all, x.target) < 0 {
			return nil, fmt.Sprintf("the code at %#x refers to bytes that no symbol covers", x.at)
		}
	}
	return c, ""
}

// padding says whether nothing is between two functions.
func (r *reader) padding(s *section, from, to uint64, all []extent, next int) string {
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

// firstReloc returns the index of the first relocation from an offset on, and
// whether there is one before end.
func firstReloc(l []reloc, from, end uint64) (int, bool) {
	i, _ := slices.BinarySearchFunc(l, from, func(r reloc, at uint64) int { return cmp.Compare(r.offset, at) })
	return i, i < len(l) && l[i].offset < end
}

func (r *reader) decodeX86(s *section, e *extent, c *code, uses []use, adjacent bool) string {
	i, _ := firstReloc(s.relocs, e.start, e.end)
	b := s.data[:e.end]
	var last flow
	var call, done uint64 // the field of the last instruction, and its end
	called := false       // if it is a call
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
					x.target = e.start // in it, in a way
				} else {
					c.targets.set(x.target)
				}
			}
			if x.target < e.start || x.target >= e.end {
				c.sites = append(c.sites, x)
				e.returns = e.returns || in.branch && in.flow != flowCall
			}
		} else if relocated && in.branch && in.flow != flowCall {
			e.returns = true // whatever the other function does
		}
		e.returns = e.returns || in.ret || in.flow == flowAway
		if !in.nop {
			last, called, call, done = in.flow, in.flow == flowCall, field, next
		}
		at = next
	}
	e.runsOver(last, call, done)
	return ""
}

// runsOver notes what the last instruction does at the end. After it only
// no-operations may follow it, from an offset on.
func (e *extent) runsOver(last flow, field, from uint64) {
	if from == e.end {
		from = math.MaxUint64
	}
	if last == flowNext || last == flowCall {
		e.exits = append(e.exits, exit{from, field, last == flowCall})
	}
}

// useX86 says what an instruction does with the address that a relocation
// stores in it.
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

// useData says what a relocation of data stores: compilers don't calculate in
// initial values.
func useData(typ elf.R_X86_64) use {
	switch typ {
	case elf.R_X86_64_NONE, elf.R_X86_64_64, elf.R_X86_64_32:
		return use{class: useExact}
	case elf.R_X86_64_PC32, elf.R_X86_64_PC64, elf.R_X86_64_PLT32:
		return use{class: useTable}
	}
	return use{}
}

// neverReturns says whether control doesn't come back from a function of that
// name: compilers emit nothing behind calls of these. For all others, a function
// that ends in a call is taken to run into the next one.
func neverReturns(name string) bool {
	return noReturn[name] || strings.HasPrefix(name, "_ZSt") && strings.Contains(name, "__throw_")
}

var noReturn = words.Set(`_Unwind_Resume __cxa_throw __cxa_rethrow __cxa_bad_cast __cxa_bad_typeid __cxa_throw_bad_array_new_length
	__cxa_throw_bad_array_length __cxa_call_unexpected __cxa_call_terminate __cxa_pure_virtual __cxa_deleted_virtual __clang_call_terminate
	_ZSt9terminatev _ZSt17rethrow_exceptionNSt15__exception_ptr13exception_ptrE __stack_chk_fail __stack_chk_fail_local
	__chk_fail __fortify_fail __assert_fail __assert_perror_fail __assert __assert_rtn abort exit _exit _Exit quick_exit thrd_exit pthread_exit
	longjmp _longjmp siglongjmp __longjmp_chk __builtin_unreachable __libc_fatal err errx verr verrx`)
