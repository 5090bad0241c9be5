// Package linkmodel decides which definition a reference is bound to: within a linked file as the static linker does,
// among the files of a process as the dynamic loader does.
//
// # Input and output
//
// The input is a Program: the linked files in the order in which the loader searches them, which is the executable and
// then its shared libraries, breadth first. Each file is made of units (objects, members of archives) in the order of its
// command line. A Table holds what all units define and refer to. The output is a Linked: the units that are linked
// into each file, and for a file and a symbol the definition that a reference is bound to.
//
// # Example
//
//	main.o      main refers to f and w, defines w weakly
//	libone.so   defines f, which refers to w; defines w
//
// Both references to w are bound to the executable's weak definition: the loader takes the first file that exports
// the symbol and doesn't look at bindings. Were libone.so linked with -Bsymbolic, or its w hidden or protected, f would
// refer to the library's own w.
//
// # Rules
//
// Within a file (System V gABI, chapter 4, "Symbol Table"; the manual of ld):
//   - A global definition wins over STB_GNU_UNIQUE ones, these over common ones, and these over weak ones. Among several
//     weak or unique definitions, the first one wins.
//   - The first COMDAT group of a signature is kept as a whole. All others are discarded.
//   - The visibility of a symbol is the most constraining one that any unit of the file gives to it.
//   - Members of archives are linked on demand: see archives.go.
//
// Among files (ld.so(8); gABI, chapter 5):
//   - The first file that exports the symbol wins, whether its definition is weak or not.
//   - A file's own references don't go through the loader if its definition is hidden, internal or protected, or if
//     it is linked with -Bsymbolic.
//
// # What isn't decided
//
// If linkers disagree, or a command line has something that isn't modelled here, Linked.Unusual has the reason. All units
// that may be linked are then part of the key, in their order, so it doesn't matter what a reference is bound to.
//
// A symbol can be Ambiguous: which definition is taken depends on something outside of the reference, such as who refers to
// the symbol first. Then all its definitions are part of the key, and so is every file that offers one.
package linkmodel

import (
	"math"
	"slices"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
)

// Program is a list of linked files in the order in which the loader searches them. The first one is the executable.
type Program struct {
	Files []File
	// Overrides are the symbols that libraries of the system may define or refer to.
	Overrides []Symbol
	// Needs are the symbols to which start files refer: main.
	Needs []Symbol
	// Unusual is why the program isn't modelled, or empty.
	Unusual string
}

// File is a linked file.
type File struct {
	// Name is for explanations.
	Name string
	// Entries are the units and libraries on the command line of the link, in its order.
	Entries []Entry
	// Bsymbolic is set by -Bsymbolic: the file's references are bound to its own definitions.
	Bsymbolic bool
	// Linker is the linker that searches archives.
	Linker Linker
	// GCSections is set by --gc-sections. LLD drops sections before it computes DT_NEEDED and the dynamic symbol table, GNU ld
	// after that.
	GCSections bool
	// CxxInside is set if the C++ library is linked statically and its references aren't known. If they are known, CxxWants
	// has them.
	CxxInside bool
	CxxWants  []Symbol
	// Complete is set if undefined symbols are errors: for executables, and with -z defs.
	Complete bool
	// Line identifies the command line, Code its flags for code, System the files of the system that it takes.
	Line, Code, System string
}

// Entry is a unit or a shared library on the command line of a link.
type Entry struct {
	Unit int32
	// Library is the index in Program.Files of the shared library at this place, or 0 for a unit.
	Library int32
	// AsNeeded is set by --as-needed: the linker leaves an unneeded library out.
	AsNeeded bool
	// Lazy is set for a member of an archive: the linker links it only on demand.
	Lazy bool
	// BehindSystem is set if a library of the system precedes the entry.
	BehindSystem bool
	// Archive numbers the archives of a line from 1. The members of one are adjacent.
	Archive int
	// From is the archive's name for --exclude-libs, or empty.
	From string
	// Group numbers the groups (--start-group) of a line from 1. It is 0 outside of groups. The entries of one are adjacent.
	Group int
}

// A Linker is an implementation of ld. They differ in how they search archives.
type Linker int

const (
	// AnyLinker is a linker that isn't known: only what GNU ld and LLD have in common is certain.
	AnyLinker Linker = iota
	// GNU ld searches an archive at its place on the line.
	GNU
	// LLD takes members for all references on the line.
	LLD
	// Gold searches archives as GNU ld does.
	Gold
	// Mold takes the members that LLD takes, and links them in the order of the line.
	Mold
)

// LinkedUnit is a unit in a linked file. A unit that is linked into two files is two of them.
type LinkedUnit struct {
	File int32
	Unit int32
}

// Definition is a definition of a symbol in a linked file.
type Definition struct {
	In        int32 // index in Linked.Units
	Component int32
}

// Linked is a program after its link. It is valid until the next call of Link.
type Linked struct {
	Table *Table
	// Units are the units that are linked, by file, each file's in the order of its link. If Unusual isn't empty, they are
	// all that may be linked.
	Units []LinkedUnit
	// Unusual is why the program isn't modelled, or empty.
	Unusual string
	// Duplicates are symbols with several global definitions in one file, which most linkers refuse.
	Duplicates []Symbol

	epoch       uint32
	program     uint32    // the epoch in which the current program began
	index       []int32   // of each unit: index in Units, notLinked or inSeveral
	symbols     []state   // of each symbol
	touched     []Symbol  // those whose slot belongs to the current file
	scopes      [][]Scope // of each symbol, by file
	scoped      []Symbol  // those with scopes
	ownBindings []bool    // of each file: see HasOwnBindings
	discarded   map[discard]bool
	ambiguous   []uint32 // of each symbol: the last program in which it was ambiguous
	anyInDoubt  bool     // some symbol of the current program is ambiguous
}

const (
	notLinked = -1
	inSeveral = -2 // files
)

// A Scope is the role of a symbol in one file, which defines or restricts it.
type Scope struct {
	File int32
	// Definition is the file's definition, if Defined is set. If it isn't, the file refers to the symbol with hidden
	// visibility, and nothing may define it.
	Definition Definition
	Defined    bool
	// Own is set if the file's own references are bound to the definition, Exported if those of other files may be.
	Own, Exported bool

	common, unique bool // the definition's binding
}

// state is the state of a symbol while a program is linked.
type state struct {
	slot   slot
	owner  owner // as the signature of a COMDAT group
	mark   mark
	needed uint32 // the last program whose executable refers to it
}

// owner is the unit whose COMDAT group is kept in a file.
type owner struct {
	epoch uint32
	in    int32 // index in Linked.Units
}

type discard struct {
	in    int32 // index in Linked.Units
	group Symbol
}

// slot is the state of a symbol in the file that is being linked.
type slot struct {
	epoch      uint32
	rank       uint8 // of the definition that wins so far
	visibility manifest.Visibility
	unique     bool
	kept       Symbol // signature of a kept group with a definition of it
	globals    int    // global and unique definitions, of which there should be one
	discarded  bool   // a definition was discarded, and its group's winner has none, or a weaker one
	definition Definition
}

// Ranks of definitions. The highest one wins.
const (
	weak = 1 + iota
	common
	unique
	strong
)

func rank(b manifest.Binding) uint8 {
	switch b {
	case manifest.Binding_BINDING_GLOBAL:
		return strong
	case manifest.Binding_BINDING_UNIQUE:
		return unique
	case manifest.Binding_BINDING_COMMON:
		return common
	}
	return weak
}

// NewLinked returns a Linked for programs made of the units of t, one program after the other.
func NewLinked(t *Table) *Linked {
	return &Linked{Table: t, discarded: map[discard]bool{}}
}

// Link links p.
func (l *Linked) Link(p *Program) {
	l.reset(p)
	if l.Unusual == "" {
		l.Unusual = unusualLines(l.Table, p)
	}
	s := &search{
		Linked: l, p: p, taken: make([][]int32, len(p.Files)), done: make([]bool, len(p.Files)), seen: make([]uint32, len(l.Table.units)),
	}
	for i := range p.Files {
		s.searchFile(int32(i))
	}
	unsure := l.Unusual != ""
	start := make([]int, len(p.Files)+1)
	for i := range p.Files {
		if unsure {
			s.takeAll(int32(i))
		}
		for _, u := range s.taken[i] {
			l.add(int32(i), u)
		}
		start[i+1] = len(l.Units)
	}
	for i := range p.Files {
		l.bind(&p.Files[i], int32(i), l.Units[start[i]:start[i+1]], int32(start[i]))
	}
	l.compareFiles()
}

// reset forgets the previous program.
func (l *Linked) reset(p *Program) {
	for len(l.index) < len(l.Table.units) {
		l.index = append(l.index, notLinked)
	}
	for _, x := range l.Units {
		l.index[x.Unit] = notLinked
	}
	for _, s := range l.scoped {
		l.scopes[s] = l.scopes[s][:0]
	}
	if n := l.Table.Len(); len(l.symbols) < n {
		l.symbols = append(l.symbols, make([]state, n-len(l.symbols))...)
		l.scopes = append(l.scopes, make([][]Scope, n-len(l.scopes))...)
		l.ambiguous = append(l.ambiguous, make([]uint32, n-len(l.ambiguous))...)
	}
	if l.epoch > math.MaxUint32-1<<20 { // no program has as many files and archives
		clear(l.symbols)
		clear(l.ambiguous)
		l.epoch = 0
	}
	l.Units, l.Unusual, l.Duplicates = l.Units[:0], p.Unusual, nil
	l.scoped, l.anyInDoubt = l.scoped[:0], false
	l.ownBindings = slices.Grow(l.ownBindings[:0], len(p.Files))[:len(p.Files)]
	clear(l.ownBindings)
	clear(l.discarded)
	l.program = l.newEpoch()
}

// newEpoch begins a new epoch: everything with the stamp of an earlier one is forgotten.
func (l *Linked) newEpoch() uint32 {
	l.epoch++
	return l.epoch
}

// markUnusual records why the program isn't modelled. The first reason stays.
func (l *Linked) markUnusual(why string) {
	if l.Unusual == "" {
		l.Unusual = why
	}
}

// unusualLines returns why the libraries that are loaded, or the symbols that linkers export for them, aren't known, or "".
func unusualLines(t *Table, p *Program) string {
	for by, f := range p.Files {
		on := make([]bool, len(p.Files))
		libraries := by == 0
		for i, e := range f.Entries {
			// See link-load/as-needed-gc and link-needed/as-needed-first-definer.
			if e.Library != 0 && e.AsNeeded && !surelyNeeds(t, p, by, i) {
				return "--as-needed decides whether " + p.Files[e.Library].Name + " is loaded"
			}
			// See link-symbols/symver-reference and link-unreached/symver-dead.
			if e.Library == 0 && t.units[e.Unit].Versioned {
				return "a symbol has a version"
			}
			on[e.Library], libraries = true, libraries || e.Library != 0
		}
		on[0], on[by] = true, true
		// A linker exports from an executable what the libraries on its line refer to. See link-needed/indirect-collected.
		if k := slices.Index(on, false); k >= 0 && libraries && f.Complete {
			return p.Files[k].Name + " isn't on the line of " + f.Name
		}
	}
	return ""
}

// surelyNeeds reports whether every linker keeps the library at an entry in spite of --as-needed: a unit in front of it
// has a reference, reached or not, that is bound to the library. GNU ld reads references before --gc-sections, LLD after it.
func surelyNeeds(t *Table, p *Program, by, at int) bool {
	f := &p.Files[by]
	if f.GCSections && f.Linker != GNU {
		return false
	}
	provides := map[Symbol]bool{} // symbols that the library exports and that nothing in front of it defines
	define := func(file int32, value bool) {
		for _, e := range p.Files[file].Entries {
			if e.Library == 0 && !(value && e.Lazy) {
				for _, d := range t.units[e.Unit].Defs {
					provides[d.Symbol] = value
				}
			}
		}
	}
	define(f.Entries[at].Library, true)
	for _, e := range p.Files[f.Entries[at].Library].Entries {
		if e.Library == 0 {
			for _, d := range t.units[e.Unit].Defs {
				provides[d.Symbol] = provides[d.Symbol] && !isHidden(d.Visibility)
			}
			for _, r := range t.units[e.Unit].Refs {
				provides[r.Symbol] = provides[r.Symbol] && !isHidden(r.Visibility)
			}
		}
	}
	define(int32(by), false)
	for _, e := range f.Entries[:at] {
		if e.Library != 0 {
			define(e.Library, false)
		}
	}
	// Start files are in front of all other units, and refer to main.
	return by == 0 && slices.ContainsFunc(p.Needs, func(s Symbol) bool { return provides[s] }) || slices.ContainsFunc(f.Entries[:at], func(e Entry) bool {
		return e.Library == 0 && !e.Lazy && t.units[e.Unit].Exact &&
			slices.ContainsFunc(t.units[e.Unit].Refs, func(r Ref) bool {
				return !r.Weak && provides[r.Symbol] && !slices.Contains(p.Overrides, r.Symbol) // else a library of the system may define it first
			})
	})
}

// markAmbiguous makes s ambiguous on a condition.
func (l *Linked) markAmbiguous(s Symbol, condition bool) {
	if condition {
		l.ambiguous[s], l.anyInDoubt = l.program, true
	}
}

// Ambiguous reports whether it can't be decided what s is bound to, even if Resolve returns one definition or none.
func (l *Linked) Ambiguous(s Symbol) bool { return l.anyInDoubt && l.ambiguous[s] == l.program }

// add links a unit into a file.
func (l *Linked) add(file, unit int32) {
	if l.index[unit] == notLinked {
		l.index[unit] = int32(len(l.Units))
	} else {
		l.index[unit] = inSeveral
	}
	l.Units = append(l.Units, LinkedUnit{file, unit})
}

// constrain returns the more constraining of two visibilities: STV_INTERNAL, STV_HIDDEN, STV_PROTECTED and STV_DEFAULT, in
// this order. The last one is zero.
func constrain(a, b manifest.Visibility) manifest.Visibility {
	if a == manifest.Visibility_VISIBILITY_DEFAULT || b == manifest.Visibility_VISIBILITY_DEFAULT {
		return max(a, b)
	}
	return min(a, b)
}

// slotOf returns the slot of a symbol for the current file.
func (l *Linked) slotOf(s Symbol) *slot {
	x := &l.symbols[s].slot
	if x.epoch != l.epoch {
		*x = slot{epoch: l.epoch, kept: None}
		l.touched = append(l.touched, s)
	}
	return x
}

// keepsGroup reports whether the current file keeps the COMDAT group of a unit: the first one of its signature.
func (l *Linked) keepsGroup(group Symbol, in int32) bool {
	x := &l.symbols[group].owner
	if x.epoch != l.epoch {
		*x = owner{l.epoch, in}
	}
	return x.in == in
}

// bind makes the scopes of a file: one for each symbol with several definitions, or with a visibility other than the
// default. All other symbols are isPlain. The file's units start at the index base of Linked.Units.
func (l *Linked) bind(f *File, file int32, units []LinkedUnit, base int32) {
	l.newEpoch()
	l.touched = l.touched[:0]
	for i, u := range units {
		l.define(f, l.Table.units[u.Unit], u.Unit, base+int32(i))
	}
	for _, u := range units {
		if file > 0 && !l.Table.units[u.Unit].restricts {
			continue
		}
		for _, r := range l.Table.units[u.Unit].Refs {
			if r.Visibility != manifest.Visibility_VISIBILITY_DEFAULT {
				x := l.slotOf(r.Symbol)
				x.visibility = constrain(x.visibility, r.Visibility)
			}
			if file == 0 {
				l.symbols[r.Symbol].needed = l.program
			}
		}
	}
	for _, s := range l.touched {
		x := &l.symbols[s].slot
		l.markAmbiguous(s, x.discarded)
		if x.rank == 0 && x.visibility == manifest.Visibility_VISIBILITY_DEFAULT {
			continue
		}
		if x.globals > 1 {
			l.Duplicates = append(l.Duplicates, s)
		}
		l.addScope(f, file, s, x)
	}
}

// define enters the definitions of a unit into the slots of its file.
func (l *Linked) define(f *File, u *Unit, unit, in int32) {
	for _, g := range u.Groups {
		if !l.keepsGroup(g, in) {
			l.discarded[discard{in, g}] = true
		}
	}
	for _, d := range u.Defs {
		kept := d.Group == None || l.keepsGroup(d.Group, in)
		if l.isPlain(d.Symbol, unit) && !f.Bsymbolic {
			continue
		}
		// A discarded definition still is a reference with its visibility.
		x := l.slotOf(d.Symbol)
		x.visibility = constrain(x.visibility, d.Visibility)
		if kept {
			l.compete(f, x, d, in)
			if d.Group != None {
				x.kept = d.Group
			}
		} else if r := rank(d.Binding); x.kept != d.Group || r == strong && x.rank < r {
			// The kept group lacks this symbol, or linkers disagree: LLD resolves symbols before it discards groups. See
			// link-cxx/comdat-missing-symbol and link-cxx/strong-in-linkonce-and-comdat.
			x.discarded = true
		}
	}
}

// asanMark is a hidden tentative definition of eight bytes that clang's address sanitizer puts into each unit.
const asanMark = "___asan_globals_registered"

// compete decides whether a further definition of a file wins over the previous ones.
func (l *Linked) compete(f *File, x *slot, d Def, in int32) {
	r := rank(d.Binding)
	if r >= unique {
		x.globals++
	}
	if !d.Mark && l.Table.Name(d.Symbol) == asanMark {
		l.markUnusual("it defines " + asanMark)
	}
	switch {
	case r == unique && x.rank == weak && f.Linker != GNU && f.Linker != LLD:
		l.markUnusual("linkers don't agree which definition of " + l.Table.Name(d.Symbol) + " they take")
		return
	case r == unique && x.rank == weak && f.Linker == LLD:
		return // for LLD, both are weak
	case r == common && x.rank == common && !d.Mark:
		// The size and alignment of the result are those of the largest. See link-symbols/common-largest.
		l.markUnusual("several tentative definitions of " + l.Table.Name(d.Symbol) + " become one")
		return
	case r <= x.rank:
		return
	}
	x.definition, x.rank, x.unique = Definition{in, d.Component}, r, r == unique
}

// addScope adds a file to the scopes of a symbol.
func (l *Linked) addScope(f *File, file int32, s Symbol, x *slot) {
	y := Scope{File: file, Definition: x.definition, Defined: x.rank > 0, Exported: true, common: x.rank == common, unique: x.unique}
	switch {
	case !y.Defined:
		y.Own, y.Exported = true, false
		// A hidden weak reference stays undefined for GNU ld and LLD.
		l.markAmbiguous(s, f.Linker != GNU && f.Linker != LLD)
	case isHidden(x.visibility):
		y.Own, y.Exported = true, false
	case x.visibility == manifest.Visibility_VISIBILITY_PROTECTED, f.Bsymbolic:
		y.Own = true
	}
	l.ownBindings[file] = l.ownBindings[file] || y.Own
	// If the executable isn't position independent, it may have a copy relocation: all files but this one are bound to the
	// copy. See link-symbols/copy-relocation-protected and link-load/protected-copy.
	l.markAmbiguous(s, file > 0 && y.Own && y.Exported && l.symbols[s].needed == l.program)
	if len(l.scopes[s]) == 0 {
		l.scoped = append(l.scoped, s)
	}
	l.scopes[s] = append(l.scopes[s], y)
}

// compareFiles marks symbols as ambiguous whose first exported definition may not win.
func (l *Linked) compareFiles() {
	for _, s := range l.scoped {
		if len(l.scopes[s]) < 2 {
			continue
		}
		common, unique, own := false, false, false
		for _, x := range l.scopes[s] {
			common = common || x.common
			unique = unique || x.unique
			own = own || x.Own
		}
		// See link-symbols/common-and-defined.
		if common && l.Table.Name(s) != asanMark {
			l.markUnusual("a library may define " + l.Table.Name(s) + " in the place of a tentative definition")
		}
		// The loader has one STB_GNU_UNIQUE definition for the whole process: the one that the first relocation of the symbol
		// is bound to. See link-dead/unique-first-asked.
		l.markAmbiguous(s, unique && own)
	}
}

// isPlain reports whether s has one definition, which is in a unit, and all references to s are bound to it.
func (l *Linked) isPlain(s Symbol, unit int32) bool {
	return l.Table.isPlain(s) && l.index[unit] >= 0
}

// Resolve appends the definitions that a reference to s in a file is bound to: none if no unit defines it, one, or
// several, in the order of preference, if s is Ambiguous.
func (l *Linked) Resolve(out []Definition, file int32, s Symbol) []Definition {
	use := &l.Table.uses[s]
	if use.definitions == 0 {
		return out
	}
	scopes := l.scopes[s]
	if len(scopes) == 0 {
		if l.isPlain(s, use.unit) {
			out = append(out, Definition{l.index[use.unit], use.component})
		}
		return out
	}
	ambiguous := l.Ambiguous(s)
	if i, ok := slices.BinarySearchFunc(scopes, file, func(x Scope, file int32) int { return int(x.File - file) }); ok && scopes[i].Own {
		if scopes[i].Defined {
			out = append(out, scopes[i].Definition)
		}
		if !ambiguous || !scopes[i].Exported {
			return out
		}
	}
	for _, x := range scopes {
		if x.Exported {
			if !slices.Contains(out, x.Definition) {
				out = append(out, x.Definition)
			}
			if !ambiguous {
				break
			}
		}
	}
	return out
}

// Scopes returns the scopes of s, by file: of files that define it, or restrict it by hidden references. It returns none
// if all files are bound to one definition.
func (l *Linked) Scopes(s Symbol) []Scope { return l.scopes[s] }

// Definitions appends the definition of s in each file that defines it, whether or not other files see it.
func (l *Linked) Definitions(out []Definition, s Symbol) []Definition {
	if len(l.scopes[s]) == 0 {
		return l.Resolve(out, 0, s)
	}
	for _, x := range l.scopes[s] {
		if x.Defined {
			out = append(out, x.Definition)
		}
	}
	return out
}

// IsDiscarded reports whether the linker discards the COMDAT group of a linked unit, by its index in Units. Only groups
// with roots, or without definitions, are known.
func (l *Linked) IsDiscarded(in int32, group Symbol) bool {
	return len(l.discarded) > 0 && l.discarded[discard{in, group}]
}

// HasOwnBindings reports whether a file binds some symbol to its own definition, whatever other files define: by
// visibility or -Bsymbolic. In all other files, a symbol is bound to the same definition.
func (l *Linked) HasOwnBindings(file int32) bool { return l.ownBindings[file] }
