package objfile

import (
	"bytes"
	"debug/elf"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/symname"
)

// place is a section of a part: a place in it, or where in a linked file it may be.
type place struct {
	file *file
	sec  int    // as symbol.sec
	at   uint64 // offset, value (absolute) or number (common) of a symbol; or address
	// Of a symbol:
	local bool
	typ   elf.SymType
}

// comparison is of the content of a linked file with that of its parts.
type comparison struct {
	*linked
	tls     uint64 // address that values of thread-local symbols are relative to
	thread  uint64 // address that the thread pointer of x86-64 stands for
	content map[*elf.Section][]byte
	named   map[definedAt]bool
	relocs  map[uint64]dynamicReloc // by address
	written []uint64                // their addresses, in order
	agreed  map[spot]partSection    // what is there
	placed  map[partSection]uint64  // the other way round
}

// partSection is a section of a part.
type partSection struct {
	file *file
	sec  int
}

// spot is an address, of thread-local variables or others.
type spot struct {
	addr uint64
	tls  bool
}

func (q place) spot() spot { return spot{q.at, q.file.sections[q.sec].flags&elf.SHF_TLS != 0} }

// same tells whether two symbols are at one place.
func (q place) same(p place) bool { return q.file == p.file && q.sec == p.sec && q.at == p.at }

func (q place) section() partSection { return partSection{q.file, q.sec} }

// forget gives up what follow has taken for granted.
func (c *comparison) forget(queue []place) {
	for _, q := range queue {
		delete(c.agreed, q.spot())
		delete(c.placed, q.section())
	}
}

type definedAt struct {
	addr uint64
	name string
}

func (l *linked) compare(syms []elf.Symbol, defined func(elf.Symbol) []place) (*comparison, error) {
	c := &comparison{linked: l, content: map[*elf.Section][]byte{}, named: map[definedAt]bool{}, relocs: map[uint64]dynamicReloc{}, agreed: map[spot]partSection{}, placed: map[partSection]uint64{}}
	for _, p := range l.Progs {
		if p.Type == elf.PT_TLS {
			c.tls = p.Vaddr
			c.thread = p.Vaddr + p.Memsz
			if p.Align > 0 {
				c.thread += -c.thread & (p.Align - 1)
			}
		}
	}
	for _, s := range syms {
		// The address of a library's function can be one in the executable: an undefined symbol with a value.
		own := false // to one of the parts
		if elf.ST_BIND(s.Info) == elf.STB_LOCAL {
			places := defined(s)
			own = len(places) > 0 && !slices.ContainsFunc(places, func(p place) bool { return !p.local })
		}
		if !own && elf.ST_TYPE(s.Info) != elf.STT_FILE && (s.Section != elf.SHN_UNDEF || s.Value != 0) {
			c.named[definedAt{c.address(s), bare(symname.Printable(s.Name))}] = true
		}
	}
	relocs, err := l.dynamicRelocs()
	for _, r := range relocs {
		c.relocs[r.offset] = r
		c.written = append(c.written, r.offset)
	}
	slices.Sort(c.written)
	return c, err
}

// known tells whether it is settled that the section of place p is where a symbol of the linked file says.
func (c *comparison) known(sym elf.Symbol, p place) bool {
	if p.sec <= 0 {
		return false
	}
	where, ok := c.placed[p.section()]
	return ok && where == c.address(sym)-p.at
}

// address is that of a symbol of the linked file, of a thread-local one in what its variables begin as.
func (c *comparison) address(sym elf.Symbol) uint64 {
	if elf.ST_TYPE(sym.Info) == elf.STT_TLS {
		return sym.Value + c.tls
	}
	return sym.Value
}

// has tells whether a symbol of the linked file is what is at place p.
func (c *comparison) has(sym elf.Symbol, p place) bool {
	addr := c.address(sym)
	typ := elf.ST_TYPE(sym.Info)
	likely := typ == p.typ || typ == elf.STT_NOTYPE || p.typ == elf.STT_NOTYPE || p.typ == elf.STT_COMMON || typ == elf.STT_FUNC && p.typ == sttGNUIFunc
	switch {
	case !likely, p.local && elf.ST_BIND(sym.Info) != elf.STB_LOCAL:
		return false
	case p.sec == secAbsolute:
		return sym.Section == elf.SHN_ABS && sym.Value == p.at
	case sym.Section >= elf.SHN_LORESERVE:
		return false
	case p.sec == secCommon:
		b, ok := c.bytes(addr, sym.Size, 0)
		return ok && zero(b)
	}
	return c.leads(p, addr)
}

// leads tells whether what is at place p may be at the address, with all that it
// leads to within its object.
func (c *comparison) leads(p place, addr uint64) bool {
	queue, ok := c.follow(nil, p, addr)
	for i := 0; ok && i < len(queue); i++ {
		q := queue[i]
		s := &q.file.sections[q.sec]
		queue, ok = c.equal(queue, q.file, s, 0, s.size, q.at)
	}
	if !ok {
		c.forget(queue)
	}
	return ok
}

// follow is a step of leads: it adds to queue the section that then has to be compared.
func (c *comparison) follow(queue []place, p place, addr uint64) ([]place, bool) {
	s := &p.file.sections[p.sec]
	switch {
	case !s.loaded() || s.name == ".eh_frame" || s.size == 0:
		return queue, true
	case s.flags&elf.SHF_MERGE != 0 && s.entsize > 0 && s.entsize <= uint64(len(s.data)): // each element is somewhere
		if p.at > uint64(len(s.data)) {
			return queue, false
		}
		n := s.entsize - p.at%s.entsize
		if s.flags&elf.SHF_STRINGS != 0 {
			for n = 0; p.at+n+s.entsize <= uint64(len(s.data)); {
				n += s.entsize
				if zero(s.data[p.at+n-s.entsize : p.at+n]) {
					break
				}
			}
		}
		return c.equal(queue, p.file, s, p.at, min(p.at+n, s.size), addr)
	}
	q := place{file: p.file, sec: p.sec, at: addr - p.at}
	if known, ok := c.agreed[q.spot()]; ok {
		return queue, known == q.section() // else the linker has made two sections one
	}
	if _, elsewhere := c.placed[q.section()]; elsewhere || s.align > 1 && q.at%s.align != 0 {
		return queue, false
	}
	c.agreed[q.spot()], c.placed[q.section()] = q.section(), q.at
	return append(queue, q), true
}

// equal tells whether the linked file has, at an address, the bytes of a section of
// a part, apart from what relocations change, and adds to queue what they lead to.
func (c *comparison) equal(queue []place, f *file, s *section, from, to, addr uint64) ([]place, bool) {
	got, ok := c.bytes(addr, to-from, s.flags)
	if !ok {
		return queue, false
	}
	first := sort.Search(len(s.relocs), func(i int) bool { return s.relocs[i].offset >= from })
	// What a loader writes there, a relocation of the part has to ask for.
	// (At the addresses of .tbss, of which there is one for each thread, are others.)
	i, _ := slices.BinarySearch(c.written, addr)
	for ; (got != nil || s.flags&elf.SHF_TLS == 0) && i < len(c.written) && c.written[i]-addr < to-from; i++ {
		at := c.written[i] - addr + from
		if k := sort.Search(len(s.relocs), func(k int) bool { return s.relocs[k].offset >= at }); k == len(s.relocs) || s.relocs[k].offset != at {
			return queue, false
		}
	}
	if got == nil && s.data != nil {
		got = make([]byte, to-from)
	}
	if s.data == nil {
		return queue, zero(got)
	}
	pos := from
	same := func(end uint64) bool { return end <= pos || bytes.Equal(got[pos-from:end-from], s.data[pos:end]) }
	for _, r := range s.relocs[first:] {
		if r.offset >= to {
			break
		}
		before, after := changeable(f.machine, r.typ)
		before = min(before, r.offset-from)
		if !same(r.offset - before) {
			return queue, false
		}
		if r.offset >= pos { // not in a sequence that is replaced
			x := field{reloc: r, addr: addr - from + r.offset, bytes: got[r.offset-from:], want: s.data[r.offset-before:], got: got[r.offset-before-from:], before: int(before)}
			if after, ok = c.target(&queue, f, x, after); !ok {
				return queue, false
			}
		}
		pos = max(pos, min(r.offset+after, to))
	}
	return queue, same(to)
}

// changeable says how many bytes linkers may change in front of the offset of a
// relocation, where instructions are replaced by shorter ways, and from there on.
func changeable(machine elf.Machine, typ uint32) (before, after uint64) {
	switch machine {
	case elf.EM_X86_64:
		switch t := elf.R_X86_64(typ); t {
		case elf.R_X86_64_NONE:
			return 0, 0
		case elf.R_X86_64_8, elf.R_X86_64_PC8:
			return 0, 1
		case elf.R_X86_64_16, elf.R_X86_64_PC16:
			return 0, 2
		case elf.R_X86_64_64, elf.R_X86_64_DTPMOD64, elf.R_X86_64_DTPOFF64, elf.R_X86_64_TPOFF64, elf.R_X86_64_PC64, elf.R_X86_64_GOTOFF64,
			elf.R_X86_64_GOT64, elf.R_X86_64_GOTPCREL64, elf.R_X86_64_GOTPC64, elf.R_X86_64_GOTPLT64, elf.R_X86_64_PLTOFF64, elf.R_X86_64_SIZE64:
			return 0, 8
		case elf.R_X86_64_TLSDESC_CALL:
			return 0, 2
		case elf.R_X86_64_GOTPCREL, elf.R_X86_64_GOTPCRELX:
			return 2, 4
		case elf.R_X86_64_REX_GOTPCRELX, elf.R_X86_64_GOTTPOFF, elf.R_X86_64_GOTPC32_TLSDESC:
			return 3, 4
		case elf.R_X86_64_TLSLD:
			return 3, 10
		case elf.R_X86_64_TLSGD:
			return 4, 12
		default:
			if t > elf.R_X86_64_REX_GOTPCRELX { // the same of APX, with longer prefixes
				return 6, 4
			}
		}
		return 0, 4
	case elf.EM_AARCH64:
		switch elf.R_AARCH64(typ) {
		case elf.R_AARCH64_NONE, elf.R_AARCH64_NULL:
			return 0, 0
		case elf.R_AARCH64_ABS16, elf.R_AARCH64_PREL16:
			return 0, 2
		case elf.R_AARCH64_ABS64, elf.R_AARCH64_PREL64:
			return 0, 8
		}
		return 0, 4
	case elf.EM_386:
		switch t := elf.R_386(typ); {
		case t == elf.R_386_NONE:
			return 0, 0
		case t == elf.R_386_8 || t == elf.R_386_PC8:
			return 0, 1
		case t == elf.R_386_16 || t == elf.R_386_PC16:
			return 0, 2
		case t == elf.R_386_GOT32 || t == elf.R_386_GOT32X:
			return 4, 4
		case t >= elf.R_386_TLS_TPOFF && t <= elf.R_386_TLS_DESC:
			return 4, 12
		}
		return 0, 4
	}
	return 4, 8
}

// field is where a relocation of a part is in the linked file.
type field struct {
	reloc
	addr      uint64 // of the field
	bytes     []byte // of it, and all that is behind it
	want, got []byte // of the part and of the linked file, from where linkers may change something
	before    int    // how much of it is in front of the field
}

// kept tells whether the instruction is as it was.
func (x *field) kept() bool { return bytes.Equal(x.want[:x.before], x.got[:x.before]) }

// number is what is in a field of one of the types that ordinary code has.
func (x *field) number(typ elf.R_X86_64, f *file) (v uint64, ok bool) {
	switch typ {
	case elf.R_X86_64_64, elf.R_X86_64_PC64, elf.R_X86_64_TPOFF64:
		if len(x.bytes) >= 8 {
			return f.order.Uint64(x.bytes), true
		}
	case elf.R_X86_64_PC32, elf.R_X86_64_PLT32, elf.R_X86_64_32, elf.R_X86_64_32S, elf.R_X86_64_TPOFF32, elf.R_X86_64_DTPOFF32, elf.R_X86_64_TLSGD, elf.R_X86_64_TLSLD,
		elf.R_X86_64_GOTPCREL, elf.R_X86_64_GOTPCRELX, elf.R_X86_64_REX_GOTPCRELX, elf.R_X86_64_GOTTPOFF, elf.R_X86_64_GOTPC32_TLSDESC:
		if len(x.bytes) >= 4 {
			return uint64(relative(x.bytes, 4)), true
		}
	case elf.R_X86_64_16:
		if len(x.bytes) >= 2 {
			return uint64(f.order.Uint16(x.bytes)), true
		}
	case elf.R_X86_64_8:
		if len(x.bytes) >= 1 {
			return uint64(x.bytes[0]), true
		}
	}
	return 0, false
}

// target tells whether a field of the linked file leads to what its relocation says, and how many bytes from there
// on are compared so.
func (c *comparison) target(queue *[]place, f *file, x field, after uint64) (uint64, bool) {
	sym, add := &f.syms[x.sym], uint64(x.addend)
	typ := elf.R_X86_64(x.typ)
	switch {
	case f.class != elf.ELFCLASS64:
		return after, true
	case f.machine == elf.EM_AARCH64 && x.typ == uint32(elf.R_AARCH64_ABS64):
		typ = elf.R_X86_64_64
	case f.machine != elf.EM_X86_64: // it takes several instructions to see
		return after, true
	case typ == elf.R_X86_64_NONE:
		return after, true
	case typ == elf.R_X86_64_TLSDESC_CALL:
		return after, len(x.want) >= 2 && len(x.got) >= 2 && relaxed(typ, x.want[:2], x.got[:2])
	}
	v, ok := x.number(typ, f)
	if !ok {
		return after, false
	}
	to := func(addr uint64) (ok bool) {
		*queue, ok = c.is(*queue, f, sym, x.reloc, addr)
		return ok
	}
	dest := x.addr + v - add // where a distance leads
	switch typ {
	case elf.R_X86_64_PC32, elf.R_X86_64_PLT32, elf.R_X86_64_PC64:
		return after, to(dest)
	case elf.R_X86_64_32:
		return after, to(v&0xffffffff - add)
	case elf.R_X86_64_8, elf.R_X86_64_16, elf.R_X86_64_32S:
		return after, to(v - add)
	case elf.R_X86_64_64:
		return after, c.value(f, x.addr, x.bytes, sym, add, to)
	case elf.R_X86_64_TPOFF32, elf.R_X86_64_TPOFF64:
		return after, to(c.thread + v - add)
	case elf.R_X86_64_DTPOFF32:
		if int64(v-add) < 0 { // in an executable
			return after, to(c.thread + v - add)
		}
		return after, to(c.tls + v - add)
	case elf.R_X86_64_GOTPCREL, elf.R_X86_64_GOTPCRELX, elf.R_X86_64_REX_GOTPCRELX:
		if !x.kept() {
			return after, x.before >= 2 && relaxed(typ, x.want[:x.before], x.got[:x.before]) && c.withoutSlot(x, v, to)
		}
		slot, ok := c.bytes(dest, 8, 0)
		return after, ok && slot != nil && dest%8 == 0 && c.value(f, dest, slot, sym, 0, to)
	case elf.R_X86_64_GOTTPOFF, elf.R_X86_64_GOTPC32_TLSDESC:
		return after, c.access(x, typ, v, dest, sym, to)
	case elf.R_X86_64_TLSGD, elf.R_X86_64_TLSLD:
		if !x.kept() {
			return c.relaxedAccess(x, typ, after, sym, to)
		}
		r, ok := c.relocs[dest]
		if typ == elf.R_X86_64_TLSLD {
			return 4, r.name == "" && c.module(dest, r, ok)
		}
		return 4, c.module(dest, r, ok) && (r.name == "" || !sym.local() && bare(r.name) == bare(sym.name)) && c.offset(dest+8, c.tls, sym, to)
	}
	return after, false // what a type without a case means isn't known
}

// access tells whether an instruction that reads where a thread-local variable is, or what a linker makes of it, leads to
// the one that it led to.
func (c *comparison) access(x field, typ elf.R_X86_64, v, dest uint64, sym *symbol, to func(uint64) bool) bool {
	if x.before < 3 || !relaxed(typ, x.want[:x.before], x.got[:x.before]) {
		return false
	}
	op := x.got[x.before-2]
	switch {
	case typ == elf.R_X86_64_GOTPC32_TLSDESC && x.kept():
		r, ok := c.relocs[dest]
		return ok && c.threadLocal(r, sym, to)
	case op == 0x03 || op == 0x8b:
		return c.offset(dest, c.thread, sym, to)
	}
	return to(c.thread + v)
}

// relaxedAccess is target for a call of __tls_get_addr that isn't there any more.
func (c *comparison) relaxedAccess(x field, typ elf.R_X86_64, after uint64, sym *symbol, to func(uint64) bool) (uint64, bool) {
	n := 16
	if typ == elf.R_X86_64_TLSLD {
		n = 12
		if x.before+4 < len(x.want) && x.want[x.before+4] == 0xff { // through a slot
			n = 13
		}
	}
	if len(x.got) < n {
		return after, false
	}
	after = uint64(n - x.before)
	slot, ok := relaxedCall(typ, x.got[:n])
	v := uint64(relative(x.got[n-4:], 4))
	switch at := x.addr + after - 4; {
	case !ok || typ == elf.R_X86_64_TLSLD:
		return after, ok
	case slot:
		return after, c.offset(at+4+v, c.thread, sym, to)
	}
	return after, to(c.thread + v)
}

// withoutSlot tells whether an instruction that reads no table of addresses any more leads to what it led to.
func (c *comparison) withoutSlot(x field, v uint64, to func(uint64) bool) bool {
	switch op, next := x.got[x.before-2], x.got[x.before-1]; {
	case op == 0xe8 || op == 0xe9: // a shorter branch, and nop
		return x.bytes[3] == 0x90 && to(x.addr+3+uint64(relative(x.got[x.before-1:], 4)))
	case op == 0x8d || op == 0x67 && next == 0xe8: // lea; call
		return to(x.addr + v - uint64(x.addend))
	}
	return to(v) || to(v&0xffffffff) // an immediate operand
}

// module tells whether the slot at an address, with the relocation r if there is one, holds the number of a module.
func (c *comparison) module(addr uint64, r dynamicReloc, relocated bool) bool {
	if relocated {
		return elf.R_X86_64(r.typ) == elf.R_X86_64_DTPMOD64
	}
	slot, ok := c.bytes(addr, 8, 0)
	return ok && slot != nil && c.ByteOrder.Uint64(slot) == 1 // that of the program
}

// offset tells whether the slot at an address holds the offset of a symbol to the thread pointer, or to the beginning of
// its module's variables.
func (c *comparison) offset(addr, base uint64, sym *symbol, to func(uint64) bool) bool {
	if r, ok := c.relocs[addr]; ok {
		return c.threadLocal(r, sym, to)
	}
	slot, ok := c.bytes(addr, 8, 0)
	return ok && slot != nil && to(base+c.ByteOrder.Uint64(slot))
}

// threadLocal tells whether a relocation leads to a thread-local symbol.
func (c *comparison) threadLocal(r dynamicReloc, sym *symbol, to func(uint64) bool) bool {
	switch elf.R_X86_64(r.typ) {
	case elf.R_X86_64_TPOFF64, elf.R_X86_64_DTPOFF64, elf.R_X86_64_TLSDESC:
	default:
		return false
	}
	if r.name != "" {
		return !sym.local() && bare(r.name) == bare(sym.name) && r.addend == 0
	}
	return to(c.tls + uint64(r.addend))
}

// value tells whether the address at p, with the bytes b, is that of a symbol with an addend.
func (c *comparison) value(f *file, p uint64, b []byte, sym *symbol, add uint64, to func(uint64) bool) bool {
	r, ok := c.relocs[p]
	switch {
	case !ok: // as it is, or in .relr.dyn
		return to(c.ByteOrder.Uint64(b) - add)
	case f.machine == elf.EM_X86_64 && !slices.Contains(addresses[r.name != ""], elf.R_X86_64(r.typ)):
		return false
	case r.name != "":
		return !sym.local() && r.name == bare(sym.name) && uint64(r.addend) == add
	}
	return to(uint64(r.addend) - add)
}

// addresses are the dynamic relocations that write an address: of a symbol, or of a place.
var addresses = map[bool][]elf.R_X86_64{
	true:  {elf.R_X86_64_64, elf.R_X86_64_GLOB_DAT, elf.R_X86_64_JMP_SLOT},
	false: {elf.R_X86_64_RELATIVE, elf.R_X86_64_IRELATIVE},
}

// is tells whether a symbol of a part, to which r refers, has the address.
func (c *comparison) is(queue []place, f *file, sym *symbol, r reloc, addr uint64) ([]place, bool) {
	if sym.local() && sym.sec > 0 && sym.typ() != sttGNUIFunc {
		p := place{file: f, sec: sym.sec, at: sym.value}
		if sym.typ() == elf.STT_SECTION && f.sections[sym.sec].flags&elf.SHF_MERGE != 0 {
			p.at += uint64(r.addend)
			addr += uint64(r.addend)
		}
		return c.follow(queue, p, addr)
	}
	if sym.local() && sym.typ() != sttGNUIFunc { // a number
		return queue, addr == sym.value
	}
	name := bare(sym.name)
	if c.named[definedAt{addr, name}] || addr == 0 && sym.sec == secUndefined && sym.bind() == elf.STB_WEAK && (c.executable || elf.ST_VISIBILITY(sym.other) != elf.STV_DEFAULT) {
		return queue, true
	}
	// Through the table of the linker.
	if s := c.section(addr, 0); s != nil && (strings.HasPrefix(s.Name, ".plt") || s.Name == ".iplt") {
		b, _ := c.bytes(addr, min(16, s.Addr+s.Size-addr), 0)
		// endbr64, bnd; jmp *slot(%rip)
		i := len(b) - len(bytes.TrimPrefix(bytes.TrimPrefix(b, []byte{0xf3, 0x0f, 0x1e, 0xfa}), []byte{0xf2}))
		if bytes.HasPrefix(b[i:], []byte{0xff, 0x25}) && i+6 <= len(b) {
			r, ok := c.relocs[addr+uint64(i)+6+uint64(relative(b[i+2:], 4))]
			return queue, ok && (r.name == name || r.name == "" && c.named[definedAt{uint64(r.addend), name}])
		}
	}
	return queue, false
}

// section returns the section of the linked file that is loaded to an address.
func (c *comparison) section(addr uint64, flags elf.SectionFlag) *elf.Section {
	for _, s := range c.Sections {
		if s.Flags&elf.SHF_ALLOC != 0 && (s.Flags^flags)&elf.SHF_TLS == 0 && addr >= s.Addr && addr-s.Addr < s.Size {
			return s
		}
	}
	return nil
}

// bytes returns n bytes at an address, nil if they are zero without being in the file.
func (c *comparison) bytes(addr, n uint64, flags elf.SectionFlag) (b []byte, ok bool) {
	if n == 0 {
		return nil, true
	}
	s := c.section(addr, flags)
	const access = elf.SHF_WRITE | elf.SHF_EXECINSTR
	if s == nil || n > s.Size-(addr-s.Addr) || flags&access&^s.Flags != 0 {
		return nil, false
	}
	if s.Type == elf.SHT_NOBITS {
		return nil, true
	}
	b, ok = c.content[s]
	if !ok {
		b, _ = s.Data() // else it is too short
		c.content[s] = b
	}
	if addr -= s.Addr; addr+n > uint64(len(b)) {
		return nil, false
	}
	return b[addr : addr+n], true
}

// bare is the name of a symbol without its version.
func bare(name string) string {
	name, _, _ = strings.Cut(name, "@")
	return name
}

func zero(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }

// unlike returns why the linked file isn't made of the parts that define its symbols:
// what is in it isn't what is there, or is at one address and there at several.
func (c *comparison) unlike(syms []elf.Symbol, defined func(elf.Symbol) []place) string {
	folded := func(a, b elf.Symbol) string {
		return fmt.Sprintf("%s and %s have one address in it, but not in its known objects", symname.Printable(a.Name), symname.Printable(b.Name))
	}
	type position struct {
		section elf.SectionIndex
		value   uint64
	}
	seen := map[position]int{}
	var groups [][]elf.Symbol
	for _, s := range syms {
		at := position{s.Section, s.Value}
		if s.Size == 0 && strings.HasPrefix(s.Name, "$") { // says only whether code or data follow
			continue
		}
		alone := s.Size == 0 || slices.ContainsFunc(defined(s), func(p place) bool { return p.sec > 0 && p.file.sections[p.sec].flags&elf.SHF_MERGE != 0 })
		if i, ok := seen[at]; ok && !alone {
			if slices.ContainsFunc(groups[i], func(o elf.Symbol) bool { return o.Name == s.Name }) {
				return folded(s, s)
			}
			groups[i] = append(groups[i], s)
			continue
		}
		if !alone {
			seen[at] = len(groups)
		}
		groups = append(groups, []elf.Symbol{s})
	}
	// What is in one place only says where sections are: the others are seen in the light of that.
	sort.SliceStable(groups, func(i, k int) bool { return len(defined(groups[i][0])) == 1 && len(defined(groups[k][0])) > 1 })
	next := map[*place]int{} // static functions of one name are often in the order of the parts
	for _, g := range groups {
		places := defined(g[0])
		first, together := next[&places[0]], false
		if i := slices.IndexFunc(places, func(p place) bool { return c.known(g[0], p) }); i >= 0 {
			first = i
		}
		for i := range places {
			k := (first + i) % len(places)
			if slices.ContainsFunc(g[1:], func(s elf.Symbol) bool { return !slices.ContainsFunc(defined(s), places[k].same) }) {
				continue
			}
			together = true
			if c.has(g[0], places[k]) {
				next[&places[0]] = k + 1
				places = nil
				break
			}
		}
		switch {
		case places == nil:
		case !together:
			return folded(g[0], g[1])
		default:
			return fmt.Sprintf("%s is in it, but not as in its known objects", symname.Printable(g[0].Name))
		}
	}
	return ""
}
