package witness

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sort"
	"strings"
	"unicode"
)

// Object is a relocatable ELF file cut into units.
type Object struct {
	Units map[string]*Unit

	owners map[string][]*Unit // by symbol and label
	users  map[*Unit][]*Unit
}

func newObject(units map[string]*Unit) *Object {
	o := &Object{Units: units, owners: map[string][]*Unit{}, users: map[*Unit][]*Unit{}}
	for _, u := range units {
		for _, s := range append(u.Labels, u.Symbol, u.Name) {
			if !slices.Contains(o.owners[s], u) {
				o.owners[s] = append(o.owners[s], u)
			}
		}
	}
	for _, u := range units {
		for _, r := range u.Refs {
			for _, v := range o.owners[r] {
				o.users[v] = append(o.users[v], u)
			}
		}
	}
	return o
}

// entries returns where a program can begin that gets to u: the visible symbols,
// and "" for what runs without being called.
func (o *Object) entries(u *Unit) map[string]bool {
	out := map[string]bool{}
	if u == nil {
		return out
	}
	from := reach([]*Unit{u}, func(u *Unit) []*Unit { return o.users[u] })
	if u.Everywhere {
		for _, v := range o.Units {
			from[v] = true
		}
	}
	for v := range from {
		if v.Root {
			out[""] = true
		}
		for _, s := range v.visible() {
			out[s] = true
		}
	}
	return out
}

// visible returns the symbols by which other objects can refer to u.
func (u *Unit) visible() []string {
	if u.Symbol == "" || u.Local {
		return u.Labels
	}
	return append(u.Labels[:len(u.Labels):len(u.Labels)], u.Symbol)
}

// reach returns what is connected to start by next, start included.
func reach[T comparable](start []T, next func(T) []T) map[T]bool {
	seen := map[T]bool{}
	work := slices.Clone(start)
	for len(work) > 0 {
		i := work[len(work)-1]
		work = work[:len(work)-1]
		if !seen[i] {
			seen[i] = true
			work = append(work, next(i)...)
		}
	}
	return seen
}

// Unit is what one symbol, or a section without symbols, contributes to the
// program.
type Unit struct {
	// Name is the symbol, or "section NAME".
	Name string
	// Symbol is the linker's symbol, "" for a section.
	Symbol string
	// Local is true if no symbol of the unit is visible outside the object.
	Local bool
	// Weak is true if the symbol is.
	Weak bool
	// Root is true if it runs or is found without a reference: initialisers, and
	// everything in sections with names that compilers don't choose.
	Root bool
	// Everywhere is true of a message to the linker about the whole object.
	Everywhere bool
	// Labels are the visible symbols in a section that have no extent.
	Labels []string
	// Text is the canonical description of everything emitted for the unit.
	// Names of local symbols are left out of it: they are in Locals.
	Text []byte
	// Locals are the local symbols that Text refers to, in order.
	Locals []string
	// Refs are the names of all symbols referred to, also through data without
	// a name, without repetition.
	Refs []string

	literals []literal
}

// A literal is what gcc has put among others into a section, where it ends at the
// next one that anything refers to: so that one which nothing refers to any more
// makes the one before it longer.
type literal struct {
	from, to int    // in Text
	place    string // the section with all its content, and where in it
}

// placed is Text with the places of literals instead of their contents.
func (u *Unit) placed() []byte {
	var b []byte
	end := 0
	for _, l := range u.literals {
		b = append(append(b, u.Text[end:l.from]...), l.place...)
		end = l.to
	}
	return append(b, u.Text[end:]...)
}

// ErrObject is returned for a file that isn't an object that this package can read.
var ErrObject = errors.New("want a relocatable 64-bit little-endian ELF file: compile with -c for an ELF target")

// reloc is a relocation of a section.
type reloc struct {
	off    uint64
	typ    uint32
	sym    int // index into symbols; 0 is none
	addend int64
	// bias is what the addend lacks because it is relative to the end of the
	// field, as in instructions, rather than to the field.
	bias int64
}

type objReader struct {
	f      *elf.File
	data   [][]byte
	relocs [][]reloc
	syms   []elf.Symbol // syms[0] is the null symbol
	bySec  [][]int      // sized symbols of each section, by value
	group  []string     // COMDAT signature of each section
	folded []bool       // sections whose content went into a unit
	starts map[int][]uint64
	units  map[string]*Unit
}

// ReadObject cuts the object file in b into units.
func ReadObject(b []byte) (*Object, error) {
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("%w (%v)", ErrObject, err)
	}
	defer f.Close()
	if f.Type != elf.ET_REL || f.Class != elf.ELFCLASS64 || f.ByteOrder != binary.LittleEndian {
		return nil, ErrObject
	}
	r := &objReader{f: f, units: map[string]*Unit{}}
	if err := r.load(); err != nil {
		return nil, fmt.Errorf("%w (%v)", ErrObject, err)
	}
	r.cut()
	return newObject(r.units), nil
}

func (r *objReader) load() error {
	n := len(r.f.Sections)
	r.data, r.relocs, r.bySec = make([][]byte, n), make([][]reloc, n), make([][]int, n)
	r.group, r.folded = make([]string, n), make([]bool, n)
	syms, err := r.f.Symbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return err
	}
	r.syms = append([]elf.Symbol{{}}, syms...)
	for i, s := range r.f.Sections {
		if s.Type == elf.SHT_NOBITS || s.Type == elf.SHT_NULL {
			continue
		}
		if r.data[i], err = s.Data(); err != nil {
			return err
		}
	}
	for i, s := range r.f.Sections {
		b := r.data[i]
		switch {
		case s.Type == elf.SHT_RELA && int(s.Info) < n:
			for ; len(b) >= 24; b = b[24:] {
				info := binary.LittleEndian.Uint64(b[8:])
				x := reloc{off: binary.LittleEndian.Uint64(b), typ: uint32(info), sym: int(info >> 32), addend: int64(binary.LittleEndian.Uint64(b[16:]))}
				if r.f.Machine == elf.EM_X86_64 && pcRelative[x.typ] && r.f.Sections[s.Info].Flags&elf.SHF_EXECINSTR != 0 {
					x.bias = 4
				}
				if x.sym >= len(r.syms) {
					return fmt.Errorf("section %s: relocation against symbol %d of %d", s.Name, x.sym, len(r.syms))
				}
				r.relocs[s.Info] = append(r.relocs[s.Info], x)
			}
		case s.Type == elf.SHT_REL:
			return fmt.Errorf("section %s: relocations without addends", s.Name)
		case s.Type == elf.SHT_GROUP && len(b) >= 4:
			sig := ""
			if int(s.Info) < len(r.syms) {
				sig = r.syms[s.Info].Name
			}
			for b = b[4:]; len(b) >= 4; b = b[4:] {
				if j := binary.LittleEndian.Uint32(b); int(j) < n {
					r.group[j] = sig
				}
			}
		}
	}
	for i := range r.relocs {
		sort.SliceStable(r.relocs[i], func(a, b int) bool { return r.relocs[i][a].off < r.relocs[i][b].off })
	}
	for i, s := range r.syms {
		if r.sized(s) {
			r.bySec[s.Section] = append(r.bySec[s.Section], i)
		}
	}
	for _, l := range r.bySec {
		sort.SliceStable(l, func(a, b int) bool { return r.syms[l[a]].Value < r.syms[l[b]].Value })
	}
	return nil
}

func typeOf(s elf.Symbol) elf.SymType { return elf.ST_TYPE(s.Info) }

func bindOf(s elf.Symbol) elf.SymBind { return elf.ST_BIND(s.Info) }

// private reports a name that the assembler makes up for the compiler's own
// labels.
func private(name string) bool { return name == "" || strings.HasPrefix(name, ".L") }

// sized reports a symbol that defines a unit: it has a name and an extent.
func (r *objReader) sized(s elf.Symbol) bool {
	switch typeOf(s) {
	case elf.STT_FUNC, elf.STT_OBJECT, elf.STT_TLS, elf.STT_GNU_IFUNC, elf.STT_NOTYPE:
	default:
		return false
	}
	if int(s.Section) == 0 || int(s.Section) >= len(r.f.Sections) || private(s.Name) {
		return false
	}
	// An empty struct has a size of 0 and is alone in its section.
	return s.Size > 0 || typeOf(s) == elf.STT_OBJECT
}

// text builds the description of a unit.
type text struct {
	bytes.Buffer
	locals []string
	refs   []string
	seen   map[string]bool
	stack  []string // private content being described, against cycles

	literals []literal
}

func (t *text) ref(name string) {
	if !t.seen[name] {
		t.seen[name] = true
		t.refs = append(t.refs, name)
	}
}

// symbol writes a name; local ones are masked.
func (t *text) symbol(name string, local bool) {
	if local {
		t.locals = append(t.locals, name)
		t.WriteByte(0)
		return
	}
	fmt.Fprintf(t, "%q", name)
}

// cut makes the units.
func (r *objReader) cut() {
	for sec, s := range r.f.Sections {
		if s.Name == ".eh_frame" {
			r.folded[sec] = true
		}
		if s.Flags&elf.SHF_ALLOC == 0 {
			continue
		}
		for _, i := range r.bySec[sec] {
			r.unit(sec, i)
		}
	}
	for i, s := range r.syms {
		if private(s.Name) || i == 0 {
			continue
		}
		switch s.Section {
		case elf.SHN_COMMON:
			r.simple(s, fmt.Sprintf("common size %d align %d", s.Size, s.Value))
		case elf.SHN_ABS:
			if typeOf(s) != elf.STT_FILE {
				r.simple(s, fmt.Sprintf("absolute %d", s.Value))
			}
		}
	}
	r.unwind()
	for sec := range r.f.Sections {
		r.rest(sec)
	}
}

// addresses returns the sized symbols of a section, those with equal address
// together.
func (r *objReader) addresses(sec int) [][]int {
	var out [][]int
	for _, i := range r.bySec[sec] {
		if n := len(out); n > 0 && r.syms[out[n-1][0]].Value == r.syms[i].Value {
			out[n-1] = append(out[n-1], i)
		} else {
			out = append(out, []int{i})
		}
	}
	return out
}

// add registers a unit under the first of its names that is free.
func (r *objReader) add(u *Unit) {
	if r.units[u.Name] != nil {
		// Local symbols of several scopes may share a name.
		for k := 1; ; k++ {
			if name := fmt.Sprintf("%s#%d", u.Name, k); r.units[name] == nil {
				u.Name = name
				break
			}
		}
	}
	r.units[u.Name] = u
}

func (r *objReader) simple(s elf.Symbol, desc string) {
	t := text{seen: map[string]bool{}}
	u := &Unit{Name: s.Name, Symbol: s.Name, Local: bindOf(s) == elf.STB_LOCAL, Weak: bindOf(s) == elf.STB_WEAK}
	r.describeSymbol(&t, s)
	t.WriteString(desc)
	u.Text, u.Locals = t.Bytes(), t.locals
	r.add(u)
}

// describeSymbol writes what the linker is told about a defined symbol. Local
// and global are alike: the manifest's linkage tells them apart, and
// composition decides.
func (r *objReader) describeSymbol(t *text, s elf.Symbol) {
	t.WriteString("symbol ")
	t.symbol(s.Name, bindOf(s) == elf.STB_LOCAL)
	bind := bindOf(s).String()
	if bindOf(s) <= elf.STB_GLOBAL {
		bind = "strong"
	}
	fmt.Fprintf(t, " %s %s %s other=%d size=%d\n", bind, typeOf(s), elf.ST_VISIBILITY(s.Other), s.Other>>2, s.Size)
}

func (r *objReader) unit(sec, symbol int) {
	s, x := r.f.Sections[sec], r.syms[symbol]
	t := text{seen: map[string]bool{}}
	u := &Unit{Name: x.Name, Symbol: x.Name, Local: bindOf(x) == elf.STB_LOCAL, Weak: bindOf(x) == elf.STB_WEAK, Root: runs(s.SectionHeader)}
	r.describeSymbol(&t, x)
	// -ffunction-sections names a section after one of the symbols in it. Where
	// the linker puts code that is rarely run doesn't count.
	name := s.Name
	for _, p := range []string{".text.unlikely.", ".text.hot.", ".text.startup.", ".text.exit."} {
		if rest, ok := strings.CutPrefix(name, p); ok {
			name = ".text." + rest
		}
	}
	for _, i := range r.bySec[sec] {
		if prefix, ok := strings.CutSuffix(name, "."+r.syms[i].Name); ok && r.syms[i].Value == x.Value {
			name = prefix + ".*"
			break
		}
	}
	fmt.Fprintf(&t, "section %q %s %s align=%d entsize=%d comdat=", name, s.Type, s.Flags&^elf.SHF_GROUP, s.Addralign, s.Entsize)
	if r.group[sec] != "" {
		t.symbol(r.group[sec], u.Local)
	}
	t.WriteByte('\n')
	r.content(&t, sec, x.Value, x.Value+x.Size)
	u.Text, u.Locals, u.Refs, u.literals = t.Bytes(), t.locals, t.refs, t.literals
	r.add(u)
}

// content writes the bytes and relocations of a part of a section.
func (r *objReader) content(t *text, sec int, begin, end uint64) {
	if b := r.data[sec]; r.f.Sections[sec].Type == elf.SHT_NOBITS {
		fmt.Fprintf(t, "zero %d\n", end-begin)
	} else if end <= uint64(len(b)) {
		fmt.Fprintf(t, "bytes %x\n", r.near(t, sec, begin, end))
	}
	rel := r.relocs[sec]
	i := sort.Search(len(rel), func(i int) bool { return rel[i].off >= begin })
	for ; i < len(rel) && rel[i].off < end; i++ {
		fmt.Fprintf(t, "at %d type %d ", rel[i].off-begin, rel[i].typ)
		r.target(t, rel[i])
		t.WriteByte('\n')
	}
}

// near returns the bytes of a function without the distances of its x86-64
// calls and jumps to other functions of its section, which it writes by name:
// the assembler leaves no relocations for them. Where one starts isn't known,
// but a distance that leads exactly to the start of another function is no
// accident.
func (r *objReader) near(t *text, sec int, begin, end uint64) []byte {
	b := r.data[sec][begin:end]
	if r.f.Machine != elf.EM_X86_64 || r.f.Sections[sec].Flags&elf.SHF_EXECINSTR == 0 || len(r.bySec[sec]) < 2 {
		return b
	}
	rel := r.relocs[sec]
	b = bytes.Clone(b)
	for i := 0; i+1 < len(b); i++ {
		size, distance := 1, int64(int8(b[i+1]))
		switch {
		case b[i] == 0xeb:
		case (b[i] == 0xe8 || b[i] == 0xe9) && i+5 <= len(b):
			size, distance = 4, int64(int32(binary.LittleEndian.Uint32(b[i+1:])))
		default:
			continue
		}
		field := begin + uint64(i) + 1
		k := sort.Search(len(rel), func(k int) bool { return rel[k].off >= field })
		to := int64(field) + int64(size) + distance
		if k < len(rel) && rel[k].off < field+uint64(size) || to >= int64(begin) && to < int64(end) {
			continue
		}
		for _, s := range r.bySec[sec] {
			if x := r.syms[s]; int64(x.Value) == to && typeOf(x) == elf.STT_FUNC {
				name, _, local := r.unitAt(sec, to)
				t.ref(name)
				fmt.Fprintf(t, "near %d ", i)
				t.symbol(name, local)
				t.WriteByte('\n')
				clear(b[i+1 : i+1+size])
				i += size
				break
			}
		}
	}
	return b
}

// pcRelative lists the x86-64 relocations whose addend is relative to the end
// of the field, if they are in code.
var pcRelative = map[uint32]bool{2: true, 4: true, 9: true, 19: true, 20: true, 22: true, 24: true, 41: true, 42: true}

// target writes what a relocation refers to.
func (r *objReader) target(t *text, x reloc) {
	s := r.syms[x.sym]
	switch {
	case x.sym == 0:
		fmt.Fprintf(t, "nothing%+d", x.addend)
	case s.Section == elf.SHN_UNDEF:
		t.ref(s.Name)
		fmt.Fprintf(t, "%q undefined %s %s %s%+d", s.Name, bindOf(s), elf.ST_VISIBILITY(s.Other), typeOf(s), x.addend)
	case int(s.Section) >= len(r.f.Sections) || typeOf(s) != elf.STT_SECTION && !private(s.Name):
		t.ref(s.Name)
		t.symbol(s.Name, bindOf(s) == elf.STB_LOCAL)
		fmt.Fprintf(t, "%+d", x.addend)
	default:
		r.anonymous(t, x, s)
	}
}

// anonymous writes what a relocation against a section or a private label
// refers to: the unit there, or the content of what has no name.
func (r *objReader) anonymous(t *text, x reloc, s elf.Symbol) {
	sec := int(s.Section)
	sh := r.f.Sections[sec]
	off := int64(s.Value)
	if typeOf(s) == elf.STT_SECTION {
		off = x.addend + x.bias
	}
	switch {
	case sh.Flags&elf.SHF_MERGE != 0 && len(r.bySec[sec]) == 0:
		r.folded[sec] = true
		rest := x.addend
		if typeOf(s) == elf.STT_SECTION {
			rest = -x.bias
		}
		t.WriteString("content ")
		r.merged(t, sec, off)
		fmt.Fprintf(t, "%+d", rest)
	case len(r.bySec[sec]) > 0:
		name, value, local := r.unitAt(sec, off)
		t.ref(name)
		if !local {
			t.WriteString("own ") // whoever else defines it
		}
		t.symbol(name, local)
		fmt.Fprintf(t, "%+d", x.addend+int64(s.Value)-int64(value))
	default:
		r.folded[sec] = true
		key := fmt.Sprint(sec, off)
		if slices.Contains(t.stack, key) {
			fmt.Fprintf(t, "cycle %d%+d", len(t.stack)-slices.Index(t.stack, key), x.addend+int64(s.Value))
			return
		}
		t.stack = append(t.stack, key)
		begin, end := r.extent(sec, off)
		from := t.Len()
		fmt.Fprintf(t, "anonymous %s %s align=%d{\n", sh.Type, sh.Flags&^elf.SHF_GROUP, r.alignmentOf(sec, begin, end))
		r.content(t, sec, begin, end)
		fmt.Fprintf(t, "}%+d", x.addend+int64(s.Value)-int64(begin))
		t.stack = t.stack[:len(t.stack)-1]
		if sh.Name == ".rodata" && len(r.relocs[sec]) == 0 {
			t.literals = append(t.literals, literal{from, t.Len(), fmt.Sprintf("in %x at %d", sha256.Sum256(r.data[sec]), off)})
		}
	}
}

// alignmentOf returns how what is from begin to end in a section without symbols is
// aligned: as the section, which in .rodata is that of the constant that needs most; a
// text there needs none, and eight bytes need no more than that.
func (r *objReader) alignmentOf(sec int, begin, end uint64) uint64 {
	sh, b := r.f.Sections[sec], r.data[sec]
	other := func(c rune) bool { return c > unicode.MaxASCII || !unicode.IsPrint(c) && !unicode.IsSpace(c) }
	if sh.Name == ".rodata" && len(r.relocs[sec]) == 0 && begin < end && end < uint64(len(b)) && b[end] == 0 && !bytes.ContainsFunc(b[begin:end], other) {
		return 1
	}
	next := sh.Size
	if i, _ := slices.BinarySearch(r.starts[sec], begin+1); i < len(r.starts[sec]) {
		next = min(next, r.starts[sec][i])
	}
	if sh.Name == ".rodata" && next-begin <= 8 {
		return min(sh.Addralign, 8)
	}
	return sh.Addralign
}

// extent returns what is at off in a section without symbols. clang gives each
// constant and table a section; gcc puts those of all functions into .rodata,
// where every place that anything refers to begins another one. So do both with
// the addresses of type information for exception handlers.
func (r *objReader) extent(sec int, off int64) (begin, end uint64) {
	size := r.f.Sections[sec].Size
	if name := r.f.Sections[sec].Name; name != ".rodata" && name != ".data" && name != ".data.rel.ro" && name != ".data.rel.ro.local" || off < 0 {
		return 0, size
	}
	if r.starts == nil {
		r.starts = map[int][]uint64{}
		for _, list := range r.relocs {
			for _, x := range list {
				s := r.syms[x.sym]
				if x.sym == 0 || int(s.Section) >= len(r.f.Sections) || typeOf(s) != elf.STT_SECTION && !private(s.Name) {
					continue
				}
				at := int64(s.Value)
				if typeOf(s) == elf.STT_SECTION {
					at = x.addend + x.bias
				}
				if at >= 0 {
					r.starts[int(s.Section)] = append(r.starts[int(s.Section)], uint64(at))
				}
			}
		}
		for _, l := range r.starts {
			slices.Sort(l)
		}
	}
	end = size
	for _, at := range r.starts[sec] {
		if at <= uint64(off) {
			begin = at
		} else {
			end = min(end, at)
			break
		}
	}
	// What follows may be aligned. Bytes with relocations are zero as well.
	limit := end
	for b := r.data[sec]; end > begin && end <= uint64(len(b)) && b[end-1] == 0; {
		end--
	}
	for _, x := range r.relocs[sec] {
		if x.off >= begin && x.off < limit {
			end = max(end, x.off+8)
		}
	}
	return begin, min(end, size)
}

// unitAt returns the name and the address of the unit at off, or the nearest
// before it: the addend of an instruction with an immediate operand points a
// few bytes before its target.
func (r *objReader) unitAt(sec int, off int64) (name string, value uint64, local bool) {
	list := r.bySec[sec]
	best := list[0]
	for _, i := range list {
		if int64(r.syms[i].Value) <= off && r.syms[i].Value > r.syms[best].Value {
			best = i
		}
	}
	// Of several symbols with one address, the local one: references to others
	// are by name.
	for _, i := range list {
		x, b := r.syms[i], r.syms[best]
		if x.Value != b.Value {
			continue
		}
		if lx, lb := bindOf(x) == elf.STB_LOCAL, bindOf(b) == elf.STB_LOCAL; lx && !lb || lx == lb && x.Name < b.Name {
			best = i
		}
	}
	b := r.syms[best]
	return b.Name, b.Value, bindOf(b) == elf.STB_LOCAL
}

// merged writes an element of a section of mergeable strings or constants.
func (r *objReader) merged(t *text, sec int, off int64) {
	sh, b := r.f.Sections[sec], r.data[sec]
	if off < 0 || off > int64(len(b)) {
		fmt.Fprintf(t, "outside %d", off)
		return
	}
	size := int64(max(sh.Entsize, 1))
	end := off
	if sh.Flags&elf.SHF_STRINGS != 0 {
		for end+size <= int64(len(b)) && len(bytes.Trim(b[end:end+size], "\x00")) > 0 {
			end += size
		}
	}
	end = min(end+size, int64(len(b)))
	fmt.Fprintf(t, "%d:%x align=%d", size, b[off:end], sh.Addralign)
	for _, x := range r.relocs[sec] {
		if int64(x.off) >= off && int64(x.off) < end {
			t.WriteByte(' ')
			r.target(t, x)
		}
	}
}

// unwind gives each function its frame description entry with the common
// entry that it uses.
func (r *objReader) unwind() {
	for sec, s := range r.f.Sections {
		if s.Name != ".eh_frame" {
			continue
		}
		b := r.data[sec]
		for off := uint64(0); off+8 <= uint64(len(b)); {
			n := uint64(binary.LittleEndian.Uint32(b[off:]))
			id := uint64(binary.LittleEndian.Uint32(b[off+4:]))
			end := off + 4 + n
			if n < 4 || end > uint64(len(b)) {
				break
			}
			if id != 0 && id <= off+4 {
				r.frame(sec, off, end, off+4-id)
			}
			off = end
		}
	}
}

func (r *objReader) frame(sec int, off, end, cie uint64) {
	var first *reloc
	for i := range r.relocs[sec] {
		if r.relocs[sec][i].off == off+8 {
			first = &r.relocs[sec][i]
		}
	}
	if first == nil {
		return
	}
	s := r.syms[first.sym]
	address := int64(s.Value) + first.addend
	if int(s.Section) >= len(r.bySec) {
		return
	}
	for _, i := range r.bySec[s.Section] {
		if u := r.units[r.syms[i].Name]; u != nil && int64(r.syms[i].Value) == address {
			r.addFrame(u, sec, off, end, cie)
		}
	}
}

func (r *objReader) addFrame(u *Unit, sec int, off, end, cie uint64) {
	t := text{seen: map[string]bool{}, locals: u.Locals, refs: u.Refs, literals: u.literals}
	for _, x := range u.Refs {
		t.seen[x] = true
	}
	t.Write(u.Text)
	t.WriteString("frame\n")
	// Entries are padded with DW_CFA_nop, which is 0, depending on where they
	// are.
	b, limit := r.data[sec], end
	for end > off+16 && b[end-1] == 0 {
		end--
	}
	for _, x := range r.relocs[sec] {
		if x.off > off+16 && x.off < limit {
			end = max(end, min(x.off+8, limit))
		}
	}
	r.content(&t, sec, off+16, min(end, uint64(len(b))))
	cieEnd := cie + 4 + uint64(binary.LittleEndian.Uint32(r.data[sec][cie:]))
	if cieEnd <= uint64(len(r.data[sec])) {
		t.WriteString("common\n")
		r.content(&t, sec, cie, cieEnd)
	}
	u.Text, u.Locals, u.Refs, u.literals = t.Bytes(), t.locals, t.refs, t.literals
}

// linkerReads lists the sections without memory that change what is linked.
func linkerReads(name string) bool {
	return name == ".deplibs" || name == ".linker-options" || name == ".note.GNU-stack" || name == ".note.gnu.property"
}

// runs reports a section that runs or can be found without a reference: all but
// those with names that compilers choose by themselves.
func runs(s elf.SectionHeader) bool {
	const retain = 1 << 21 // SHF_GNU_RETAIN
	if s.Flags&retain != 0 || s.Type == elf.SHT_INIT_ARRAY || s.Type == elf.SHT_FINI_ARRAY || s.Type == elf.SHT_PREINIT_ARRAY {
		return true
	}
	return !isSection(s.Name, ".text", ".data", ".rodata", ".bss", ".tdata", ".tbss", ".ltext", ".ldata", ".lrodata", ".lbss", ".gcc_except_table", ".note", ".comment") && !linkerReads(s.Name)
}

// ordered reports a section in which the order of its parts can be observed:
// tables of initialisers, and linker sets (__start_NAME, __stop_NAME exist for
// names that are C identifiers).
func ordered(name string) bool {
	return isSection(name, ".init_array", ".fini_array", ".preinit_array", ".ctors", ".dtors") || identifier.MatchString(name)
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// isSection reports whether a section has one of names, or one of them with a suffix behind a point.
func isSection(section string, names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return section == n || strings.HasPrefix(section, n+".") })
}

// rest makes a unit of what no symbol covers in a section.
func (r *objReader) rest(sec int) {
	s := r.f.Sections[sec]
	if r.folded[sec] || s.Flags&elf.SHF_ALLOC == 0 && !linkerReads(s.Name) || s.Flags&elf.SHF_MERGE != 0 && len(r.bySec[sec]) == 0 && !linkerReads(s.Name) {
		return
	}
	t := text{seen: map[string]bool{}}
	empty := true
	var labels []string
	label := func(begin, end uint64) {
		for i, x := range r.syms {
			if i > 0 && int(x.Section) == sec && typeOf(x) != elf.STT_SECTION && !private(x.Name) && !r.sized(x) && x.Value >= begin && x.Value <= end {
				fmt.Fprintf(&t, "label %d ", x.Value-begin)
				r.describeSymbol(&t, x)
				if bindOf(x) != elf.STB_LOCAL {
					labels = append(labels, x.Name)
				}
				empty = false
			}
		}
	}
	covered := uint64(0)
	part := func(end uint64, last bool) {
		size := end - covered
		padding := covered > 0 && !last && size < s.Addralign || covered > 0 && size == 0
		if !padding && (size > 0 || covered == 0) {
			if size > 0 {
				empty = false
			}
			r.content(&t, sec, covered, end)
		}
		label(covered, end)
	}
	var order []string
	for _, group := range r.addresses(sec) {
		x := r.syms[group[0]]
		if x.Value > covered || covered == 0 && x.Value > 0 {
			part(x.Value, false)
		}
		for _, i := range group {
			covered = max(covered, r.syms[i].Value+r.syms[i].Size)
			order = append(order, r.syms[i].Name)
		}
	}
	if covered < s.Size {
		part(s.Size, true)
	} else if len(order) == 0 {
		label(0, s.Size)
	}
	if ordered(s.Name) {
		for _, name := range order {
			local := true
			for _, i := range r.bySec[sec] {
				local = local && (r.syms[i].Name != name || bindOf(r.syms[i]) == elf.STB_LOCAL)
			}
			t.WriteString("then ")
			t.symbol(name, local)
			t.WriteByte('\n')
			t.ref(name)
		}
		empty = empty && len(order) < 2
	}
	// The type and the flags of an empty section still reach the linker.
	if empty && (len(order) > 0 || s.Name == ".text" || s.Name == ".data" || s.Name == ".bss") {
		return
	}
	head := fmt.Sprintf("section %s %s align=%d\n", s.Type, s.Flags&^elf.SHF_GROUP, s.Addralign)
	r.add(&Unit{
		Name: "section " + s.Name, Root: runs(s.SectionHeader), Everywhere: linkerReads(s.Name), Labels: labels,
		Text: append([]byte(head), t.Bytes()...), Locals: t.locals, Refs: t.refs,
	})
}

// Same reports whether u and v emit the same under the renaming of v's local
// symbols.
func (u *Unit) same(v *Unit, rename map[string]string) bool {
	if len(u.Locals) != len(v.Locals) || !bytes.Equal(u.Text, v.Text) && (len(u.literals) == 0 || !bytes.Equal(u.placed(), v.placed())) {
		return false
	}
	for i, x := range u.Locals {
		y := v.Locals[i]
		if n, ok := rename[y]; ok {
			y = n
		}
		if x != y {
			return false
		}
	}
	return true
}

// Difference is a unit whose emitted code or data differs.
type Difference struct {
	// Unit is its name in A, or in B if it is only there.
	Unit string `json:"unit"`
	// What differs: "bytes", "references", "properties", "alignment" and nothing
	// else, "only in A", "only in B".
	What string `json:"what"`
	a, b *Unit
}

// Compare lists the units that differ between two objects, sorted by name.
// Local symbols that were renamed consistently are no difference.
func Compare(a, b *Object) []Difference {
	rename := renaming(a, b)
	var out []Difference
	inB := make(map[string]*Unit, len(b.Units))
	for name, v := range b.Units {
		if n, ok := rename[name]; ok {
			name = n
		}
		inB[name] = v
	}
	for name, u := range a.Units {
		v := inB[name]
		delete(inB, name)
		switch {
		case v == nil:
			out = append(out, Difference{name, "only in A", u, nil})
		case !u.same(v, rename):
			out = append(out, Difference{name, kindOfDifference(u, v), u, v})
		}
	}
	for name, v := range inB {
		out = append(out, Difference{strings.TrimSuffix(name, " of B"), "only in B", nil, v})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Unit < out[j].Unit })
	return out
}

// aligned matches the alignment of a unit's section.
var aligned = regexp.MustCompile(`(?m)^(section .*) align=\d+ `)

func kindOfDifference(u, v *Unit) string {
	line := func(t []byte, prefix string) string {
		var out []string
		for _, l := range strings.Split(string(t), "\n") {
			if strings.HasPrefix(l, prefix) {
				out = append(out, l)
			}
		}
		return strings.Join(out, "\n")
	}
	switch {
	case bytes.Equal(aligned.ReplaceAll(u.Text, []byte("$1 ")), aligned.ReplaceAll(v.Text, []byte("$1 "))) && !bytes.Equal(u.Text, v.Text):
		return "alignment"
	case line(u.Text, "bytes ") != line(v.Text, "bytes "):
		return "bytes"
	case line(u.Text, "symbol ") != line(v.Text, "symbol ") || line(u.Text, "section ") != line(v.Text, "section "):
		return "properties"
	}
	return "references"
}

// renaming pairs local symbols of b with those of a: compilers number them, so
// that a new one may move the names of those behind it. What is the same
// together with the local symbols that it refers to is one symbol, if possible
// under one name; then what is the same by itself; then what has one name.
func renaming(a, b *Object) map[string]string {
	rename, taken := map[string]string{}, map[string]bool{}
	deepA, deepB := a.deep(), b.deep()
	pair := func(keyA, keyB func(name string) string) {
		free := map[string][]string{}
		for _, name := range sortedUnits(a) {
			if a.Units[name].Local && !taken[name] {
				k := keyA(name)
				free[k] = append(free[k], name)
			}
		}
		rest := []string{}
		use := func(name string, k string, i int) {
			l := free[k]
			rename[name], taken[l[i]] = l[i], true
			free[k] = slices.Delete(l, i, i+1)
		}
		for _, name := range sortedUnits(b) {
			if _, ok := rename[name]; ok || !b.Units[name].Local {
				continue
			}
			if i := slices.Index(free[keyB(name)], name); i >= 0 {
				use(name, keyB(name), i)
			} else {
				rest = append(rest, name)
			}
		}
		for _, name := range rest {
			if k := keyB(name); len(free[k]) > 0 {
				use(name, k, 0)
			}
		}
	}
	pair(deepA, deepB)
	pair(a.plain, b.plain)
	same := func(name string) string { return name }
	pair(same, same)
	for _, name := range sortedUnits(b) {
		// The name belongs to another symbol now.
		if _, ok := rename[name]; !ok && taken[name] {
			rename[name] = name + " of B"
		}
	}
	return rename
}

func (o *Object) plain(name string) string { return string(o.Units[name].Text) }

// deep returns a function that describes a unit with all local units that it
// refers to.
func (o *Object) deep() func(name string) string {
	done := map[string]string{}
	var describe func(name string) string
	describe = func(name string) string {
		u := o.Units[name]
		if u == nil || !u.Local {
			return name
		}
		if d, ok := done[name]; ok {
			return d
		}
		done[name] = "cycle"
		h := sha256.New()
		h.Write(u.Text)
		for _, l := range u.Locals {
			if l != name {
				fmt.Fprintf(h, "%q", describe(l))
			}
		}
		done[name] = string(h.Sum(nil))
		return done[name]
	}
	return describe
}

func sortedUnits(o *Object) []string { return slices.Sorted(maps.Keys(o.Units)) }
