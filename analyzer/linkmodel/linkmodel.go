// Package linkmodel says which definition a reference is bound to: in a linked
// file as the linker chooses, among the files of a process as the loader does.
//
// # What is modelled
//
// A program is a list of linked files in the order in which the loader searches
// them: the executable, then its shared libraries, breadth first. Each is made of
// units (objects, members of archives) in the order of its link.
//
// Within a file (System V gABI, chapter 4, "Symbol Table"; ld's manual): of the
// definitions of a symbol, a global one wins over unique ones, these over common
// ones, these over weak ones, and of weak or unique ones the first; of the COMDAT
// groups of one signature the first is kept, as a whole. The most constraining
// visibility that any unit of the file gives to a symbol is that of the file.
// Members of archives: see archives.go.
//
// Among files (ld.so(8), gABI chapter 5): the first file that exports the symbol
// wins, weak or not. A file's own references don't go through the loader if its
// definition is hidden, internal or protected, or if it is linked with
// -Bsymbolic.
//
// # What isn't decided
//
// Where the line of a link has something that this package doesn't model (a
// version script, --wrap, an unknown flag), where symbols have versions, where
// several common definitions are merged, all definitions count, in their
// order. Which of them wins is then a function of these, of the flags and of the
// files they are in, so whoever hashes all of that is on the safe side.
//
// A symbol can be Doubtful even with one definition: whether others see it, or
// how many copies of it there are, depends on what isn't referred to from here.
//
// If even the units that are linked can't be told (units whose references aren't
// exactly known, linkers that disagree), Linked.Unknown has the reason, and
// everything that may be linked has to count.
package linkmodel

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
)

// Program is a list of linked files, in the order of the loader's search. The
// first one is the executable.
type Program struct {
	Files []File
	// Foreign are symbols that files without units, those of the system, may
	// refer to.
	Foreign []Symbol
}

// File is a linked file.
type File struct {
	// Name is for explanations.
	Name string
	// Collects says that the linker drops sections that nothing refers to, and with them what
	// they refer to. LLD does so before it decides which libraries the file needs, and what it
	// exports for them.
	Collects bool
	// Entries are the units on the line of the link, in its order.
	Entries []Entry
	// Bsymbolic binds the file's references to its own definitions.
	Bsymbolic bool
	// Uncertain is why which definition wins in the file, or which of its
	// definitions others see, can't be told; or empty.
	Uncertain string
	// Linker is the linker that decides which members of archives are taken.
	Linker Linker
	// Needs are symbols that the link needs beside those of its units: main, and
	// what -u names.
	Needs []Symbol
	// Entry is the symbol at which a flag has the file begin, if any. LLD takes a member of an
	// archive for it when it has read its line.
	Entry []Symbol
	// Doubted are symbols that flags may define, or give to others.
	Doubted []Symbol
	// Unwanted are those of Needs, and others that flags name, of which it isn't certain that
	// the link needs them.
	Unwanted []Symbol
	// Foreign is why files without units on the line may need any symbol, or
	// empty.
	Foreign string
	// CxxInside says that archives of the C++ library are linked into the file, or may be.
	CxxInside bool
	// Complete says that its references have to be defined in it, or in the
	// libraries on its line: of executables, and with -z defs.
	Complete bool
	// Unsure is why it can't be told whether the file is loaded at all, or
	// empty: --as-needed. It counts unless the executable surely needs the file.
	Unsure string
	// Line tells files apart whose lines say different things.
	Line string
	// Brings says that loading the file may do more than load its units: its line has flags
	// or libraries of the system that the executable's doesn't have.
	Brings bool
}

// Entry is a unit or a shared library on the line of a link.
type Entry struct {
	Unit int32
	// Library is the number of the file of the program that stands here in the
	// place of a unit, or 0.
	Library int32
	// AsNeeded says that the library is left out if the file may do without it.
	AsNeeded bool
	// Lazy says that the linker takes the unit only if it is needed.
	Lazy bool
	// BehindSystem says that a library of the system is in front of it on the line.
	BehindSystem bool
	// Archive numbers the archives of a line, from 1. The members of one are
	// adjacent.
	Archive int
	// From is the name by which flags know the archive, or empty.
	From string
	// Group numbers the groups (--start-group) of a line, from 1, or is 0. The
	// entries of one are adjacent.
	Group int
}

// A Linker differs from others in how it searches archives.
type Linker int

const (
	// AnyLinker stands for a linker that isn't known: only what GNU ld and
	// lld have in common is certain.
	AnyLinker Linker = iota
	// GNU ld searches an archive where it stands on the line. So does gold.
	GNU
	// LLD takes members for all references on the line.
	LLD
)

// Place is a definition in a linked file.
type Place struct {
	Instance  int32 // index in Linked.Instances
	Component int32
}

// Instance is a unit in a linked file.
type Instance struct {
	File int32
	Unit int32
}

// Linked is a program after its link. It is valid until the next call of Link.
type Linked struct {
	Table *Table
	// Instances are the units that are linked, by file, in order.
	Instances []Instance
	// Unknown is why it isn't certain which units are linked, or empty: then
	// Instances are all that may be.
	Unknown string
	// Duplicates are symbols with several global definitions in one file: an
	// error of most links.
	Duplicates []Symbol
	// Collected says that what an executable exports depends on which sections of a
	// library are dropped (File.Collects).
	Collected bool

	epoch     uint32
	program   uint32    // epoch of the current program
	instance  []int32   // of each unit: its only instance, -1 for none, -2 for several
	slots     []slot    // of each symbol
	touched   []Symbol  // those with a slot in the current file
	scopes    [][]scope // of each symbol, by file
	scoped    []Symbol  // those with scopes
	places    []Place   // of scopes
	special   []bool    // of each file: it binds some symbol in its own way
	owners    []owner   // of each signature
	discarded map[discard]bool
	versioned map[Symbol]bool
	doubtful  []uint32 // of each symbol: the program in which it is
	doubts    bool     // any
	needed    []uint32 // of each symbol: the program whose executable refers to it
	marks     []mark   // of each symbol, while archives are searched
}

// scope is what a file says about a symbol that it defines.
type scope struct {
	file           int32
	start, end     int32 // of its definitions in places
	own, ownSure   bool  // the file's references are bound to them, and to nothing else
	exported, sure bool  // those of others are, and to nothing behind
	common, unique bool  // one of them is
}

// owner is the instance whose COMDAT group of a signature is kept in a file.
type owner struct {
	epoch    uint32
	instance int32
}

type discard struct {
	instance int32
	group    Symbol
}

// slot is what is known of a symbol in the file that is being linked.
type slot struct {
	epoch      uint32
	rank       uint8
	visibility manifest.Visibility
	unique     bool   // one of list is
	split      bool   // linkers disagree
	kept       Symbol // signature of a group that one of list is in
	globals    int    // definitions of which there has to be one only
	discarded  bool   // there was one that isn't kept, and what is kept of its group doesn't define it, or more weakly
	list       []Place
}

// Ranks of definitions.
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

// NewLinked returns room for the programs of a table, one after the other.
func NewLinked(t *Table) *Linked {
	return &Linked{Table: t, discarded: map[discard]bool{}, versioned: map[Symbol]bool{}}
}

// Link links p.
func (l *Linked) Link(p *Program) {
	t := l.Table
	for len(l.instance) < len(t.units) {
		l.instance = append(l.instance, -1)
	}
	for _, x := range l.Instances {
		l.instance[x.Unit] = -1
	}
	for _, s := range l.scoped {
		l.scopes[s] = l.scopes[s][:0]
	}
	if n := t.Len(); len(l.slots) < n {
		l.slots = append(l.slots, make([]slot, n-len(l.slots))...)
		l.owners = append(l.owners, make([]owner, n-len(l.owners))...)
		l.scopes = append(l.scopes, make([][]scope, n-len(l.scopes))...)
		l.doubtful = append(l.doubtful, make([]uint32, n-len(l.doubtful))...)
		l.needed = append(l.needed, make([]uint32, n-len(l.needed))...)
		l.marks = append(l.marks, make([]mark, n-len(l.marks))...)
	}
	l.Instances, l.Unknown, l.Duplicates = l.Instances[:0], "", nil
	l.scoped, l.places, l.doubts = l.scoped[:0], l.places[:0], false
	l.special = slices.Grow(l.special[:0], len(p.Files))[:len(p.Files)]
	clear(l.special)
	l.Collected = false
	clear(l.discarded)
	clear(l.versioned)
	l.program = l.tick()

	s := &search{Linked: l, p: p, taken: make([][]int32, len(p.Files)), state: make([]uint8, len(p.Files)), vague: make([]string, len(p.Files))}
	start := make([]int, len(p.Files)+1)
	for i := range p.Files {
		for _, u := range s.file(int32(i)) {
			l.add(int32(i), u)
		}
		start[i+1] = len(l.Instances)
	}
	for _, in := range l.Instances {
		for _, s := range t.units[in.Unit].Versioned {
			l.versioned[s] = true
		}
	}
	l.indirect(p)
	for _, f := range p.Files {
		for _, s := range f.Doubted {
			l.doubt(s, true)
		}
	}
	for i := range p.Files {
		l.bind(&p.Files[i], int32(i), l.Instances[start[i]:start[i+1]], int32(start[i]))
	}
	l.disputes()
}

// indirect finds the symbols of which it isn't certain that the loader sees the
// executable's definition, or that the executable is bound to any: those that
// only libraries mention which weren't on its line. A linker exports from an
// executable what the libraries on its line mention.
func (l *Linked) indirect(p *Program) {
	const direct, other = 1, 2
	var kind []uint8
	for i := range p.Files {
		for _, e := range p.Files[i].Entries {
			if e.Library == 0 {
				continue
			}
			if kind == nil {
				kind = make([]uint8, len(p.Files))
			}
			if i == 0 {
				kind[e.Library] = direct
			} else if kind[e.Library] == 0 {
				kind[e.Library] = other
			}
		}
	}
	if !slices.Contains(kind, other) {
		return
	}
	t := l.Table
	epoch := l.tick()            // of slots of what direct libraries mention
	perhaps := map[Symbol]bool{} // mentioned, if what does isn't dropped
	for file := range p.Files {
		if file == 0 || kind[file] == other {
			continue
		}
		hidden := map[Symbol]bool{} // not for the executable to see
		for _, mark := range []bool{false, true} {
			mention := func(s Symbol, v manifest.Visibility) {
				if hides(v) {
					hidden[s] = true
				} else if mark && !hidden[s] {
					l.slots[s].epoch = epoch
				}
			}
			for _, in := range l.Instances {
				if in.File == int32(file) {
					for _, d := range t.units[in.Unit].Defs {
						mention(d.Symbol, d.Visibility)
					}
					for _, r := range t.units[in.Unit].Refs {
						if mark && p.Files[file].Collects {
							perhaps[r.Symbol] = true
						} else {
							mention(r.Symbol, r.Visibility)
						}
					}
				}
			}
		}
	}
	doubt := func(s Symbol) {
		yes := l.slots[s].epoch != epoch
		l.doubt(s, yes)
		l.Collected = l.Collected || yes && perhaps[s]
	}
	for _, in := range l.Instances {
		if kind[in.File] == other {
			for _, d := range t.units[in.Unit].Defs {
				doubt(d.Symbol)
			}
			for _, r := range t.units[in.Unit].Refs {
				doubt(r.Symbol)
			}
		}
	}
}

func (l *Linked) doubt(s Symbol, yes bool) {
	if yes {
		l.doubtful[s], l.doubts = l.program, true
	}
}

// Doubtful says that it can't be told where s is found, even if Resolve returns
// one definition only, or none.
func (l *Linked) Doubtful(s Symbol) bool { return l.doubts && l.doubtful[s] == l.program }

// Open says that what s stands for is open somewhere: it is doubtful, has versions, or is
// defined or restricted in a file of which it isn't known what it makes of that.
func (l *Linked) Open(s Symbol) bool {
	return l.Doubtful(s) || slices.ContainsFunc(l.scopes[s], func(x scope) bool { return !x.sure })
}

// tick returns a number that no slot has yet. Those of a program's files follow
// that of the program.
func (l *Linked) tick() uint32 {
	if l.epoch > math.MaxUint32-1<<20 {
		clear(l.slots)
		clear(l.owners)
		clear(l.doubtful)
		clear(l.needed)
		clear(l.marks)
		l.epoch = 0
	}
	l.epoch++
	return l.epoch
}

// add makes a unit part of a file.
func (l *Linked) add(file, unit int32) {
	switch l.instance[unit] {
	case -1:
		l.instance[unit] = int32(len(l.Instances))
	default:
		l.instance[unit] = -2
	}
	l.Instances = append(l.Instances, Instance{file, unit})
}

// Constrain returns the more constraining of two visibilities.
func Constrain(a, b manifest.Visibility) manifest.Visibility {
	const (
		d = manifest.Visibility_VISIBILITY_DEFAULT
		i = manifest.Visibility_VISIBILITY_INTERNAL
		h = manifest.Visibility_VISIBILITY_HIDDEN
	)
	switch {
	case a == d:
		return b
	case b == d || a == i:
		return a
	case b == i || b == h:
		return b
	}
	return a
}

// bind finds what each contested symbol stands for in a file, and for others
// that the file exports it to. Symbols that one unit defines need no decision.
func (l *Linked) bind(f *File, file int32, instances []Instance, base int32) {
	t := l.Table
	epoch := l.tick()
	l.touched = l.touched[:0]
	at := func(s Symbol) *slot {
		x := &l.slots[s]
		if x.epoch != epoch {
			*x = slot{epoch: epoch, list: x.list[:0], kept: None}
			l.touched = append(l.touched, s)
		}
		return x
	}
	// keep says whether the group with a signature is that of the instance.
	keep := func(group Symbol, id int32) bool {
		x := &l.owners[group]
		if x.epoch != epoch {
			*x = owner{epoch, id}
		}
		return x.instance == id || f.Uncertain != ""
	}
	for i, in := range instances {
		id := base + int32(i)
		u := t.units[in.Unit]
		for _, g := range u.Groups {
			if !keep(g, id) {
				l.discarded[discard{id, g}] = true
			}
		}
		for _, d := range u.Defs {
			kept := d.Group == None || keep(d.Group, id)
			if f.Uncertain != "" {
				l.doubt(d.Symbol, true)
			} else if l.plain(d.Symbol, in.Unit) && !f.Bsymbolic {
				continue
			}
			// What isn't kept is a reference with this visibility.
			x := at(d.Symbol)
			x.visibility = Constrain(x.visibility, d.Visibility)
			if kept {
				x.add(Place{id, d.Component}, rank(d.Binding), f)
				if d.Group != None {
					x.kept = d.Group
				}
			} else if r := rank(d.Binding); x.kept != d.Group || r == strong && x.rank < r {
				x.discarded = true
			}
		}
	}
	for _, in := range instances {
		if file > 0 && !t.units[in.Unit].restricts {
			continue
		}
		for _, r := range t.units[in.Unit].Refs {
			if r.Visibility != manifest.Visibility_VISIBILITY_DEFAULT {
				x := at(r.Symbol)
				x.visibility = Constrain(x.visibility, r.Visibility)
			}
			if file == 0 {
				l.needed[r.Symbol] = l.program
			}
		}
	}
	for _, s := range l.touched {
		x := &l.slots[s]
		l.doubt(s, x.discarded)
		if len(x.list) == 0 && x.visibility == manifest.Visibility_VISIBILITY_DEFAULT {
			continue
		}
		if x.globals > 1 {
			l.Duplicates = append(l.Duplicates, s)
		}
		y := scope{file: file, start: int32(len(l.places)), ownSure: true, exported: true, sure: true, common: x.rank == common, unique: x.unique}
		l.places = append(l.places, x.list...)
		y.end = int32(len(l.places))
		switch {
		case len(x.list) == 0 && f.Uncertain == "":
			y.own, y.exported = true, false // weak, and nothing
			l.doubt(s, f.Linker == AnyLinker)
		case f.Uncertain != "" || l.versioned[s]:
			y.own, y.ownSure, y.sure = true, false, false
		case hides(x.visibility):
			y.own, y.exported = true, false
		case x.visibility == manifest.Visibility_VISIBILITY_PROTECTED:
			y.own = true
		case f.Bsymbolic:
			y.own = true
		}
		if y.own {
			l.special[file] = true
		}
		if file > 0 && len(x.list) > 0 && y.own && y.exported && l.needed[s] == l.program {
			// If the executable isn't position independent, it has a copy of
			// the variable, which others are bound to, but not this file.
			l.doubt(s, true)
		}
		if len(l.scopes[s]) == 0 {
			l.scoped = append(l.scoped, s)
		}
		l.scopes[s] = append(l.scopes[s], y)
	}
}

// disputes finds the symbols of which linkers and loaders don't take the first.
func (l *Linked) disputes() {
	for _, s := range l.scoped {
		scopes := l.scopes[s]
		if len(scopes) < 2 {
			continue
		}
		common, unique, own := false, false, false
		for _, x := range scopes {
			common = common || x.common
			unique = unique || x.unique
			own = own || x.own
		}
		// A definition in a shared library may win over a tentative one. The
		// loader has one unique symbol for all files: that for which it is asked
		// first, by the file that is relocated first.
		l.doubt(s, common || unique && own)
	}
}

// plain says that the only definition of s, in a unit, is all that anything is
// bound to that refers to s.
func (l *Linked) plain(s Symbol, unit int32) bool {
	return l.Table.plain(s) && l.instance[unit] >= 0 && !l.Doubtful(s) && !(len(l.versioned) > 0 && l.versioned[s])
}

// add makes a further definition that a file has one of those that a symbol
// stands for, or the one, or none of them.
func (x *slot) add(p Place, r uint8, f *File) {
	if slices.Contains(x.list, p) {
		return
	}
	if r >= unique {
		x.globals++
	}
	switch {
	case len(x.list) == 0 || f.Uncertain != "":
		x.list = append(x.list, p)
	case x.split && r < strong:
		x.list = append(x.list, p)
	case r == unique && x.rank == weak && f.Linker != GNU:
		// For lld, the first of them wins.
		if f.Linker == LLD {
			return
		}
		x.list = append(x.list, p)
		x.split = true
	case r > x.rank:
		x.list = append(x.list[:0], p)
		x.unique, x.split = false, false
	case r == x.rank && (r == common || r == strong):
		x.list = append(x.list, p) // the largest gives the size; an error
	default:
		return
	}
	x.rank = max(x.rank, r)
	x.unique = x.unique || r == unique
}

// Resolve appends what a reference to s in a file is bound to, in the order of
// preference: nothing if no unit defines it, one definition, or several if it
// can't be told which.
func (l *Linked) Resolve(out []Place, file int32, s Symbol) []Place {
	t := l.Table
	if t.definers[s] == 0 {
		return out
	}
	scopes := l.scopes[s]
	if len(scopes) == 0 {
		if d := t.first[s]; l.plain(s, d.unit) {
			return append(out, Place{l.instance[d.unit], d.component})
		}
		return out
	}
	doubtful := l.Doubtful(s)
	// They are in the order of files.
	if i, ok := slices.BinarySearchFunc(scopes, file, func(x scope, file int32) int { return int(x.file - file) }); ok && scopes[i].own {
		x := &scopes[i]
		if out = append(out, l.places[x.start:x.end]...); x.ownSure && (!doubtful || !x.exported) {
			return out
		}
	}
	for _, x := range scopes {
		if x.exported {
			for _, p := range l.places[x.start:x.end] {
				if !slices.Contains(out, p) {
					out = append(out, p)
				}
			}
			if x.sure && !doubtful {
				break
			}
		}
	}
	return out
}

// Scope is what a file says about a symbol that it defines.
type Scope struct {
	File int32
	// Definitions are what it stands for there, one or, if that isn't decided,
	// more; none if others must not define it, either.
	Definitions []Place
	// Own says that the references in the file are bound to them, Exported that
	// those in others may be.
	Own, Exported bool
}

// Scopes yields the files that define s, or that restrict it to what they
// define. It has nothing about a symbol with one definition that is the same
// for all.
func (l *Linked) Scopes(s Symbol) iter.Seq[Scope] {
	return func(yield func(Scope) bool) {
		for _, x := range l.scopes[s] {
			if !yield(Scope{x.file, l.places[x.start:x.end], x.own, x.exported}) {
				return
			}
		}
	}
}

// All appends what s stands for in each file of the program that defines it,
// whether or not another one sees it.
func (l *Linked) All(out []Place, s Symbol) []Place {
	if len(l.scopes[s]) == 0 {
		return l.Resolve(out, 0, s)
	}
	for _, x := range l.scopes[s] {
		out = append(out, l.places[x.start:x.end]...)
	}
	return out
}

// Discarded says whether the linker drops the root with this COMDAT signature in
// an instance.
func (l *Linked) Discarded(instance int32, group Symbol) bool {
	return len(l.discarded) > 0 && l.discarded[discard{instance, group}]
}

func (x Place) String() string { return fmt.Sprintf("%d.%d", x.Instance, x.Component) }

// Scoped says whether a file binds some symbol in its own way.
func (l *Linked) Scoped(file int32) bool { return l.special[file] }

// Instance returns the index of the only instance of a unit: -1 if it isn't linked, -2 if it is in
// several files.
func (l *Linked) Instance(unit int32) int32 { return l.instance[unit] }
