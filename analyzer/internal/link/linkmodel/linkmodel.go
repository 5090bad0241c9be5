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
// Where the linkers and their lines have something that isn't modelled here, Linked.Unusual has the
// reason, and all that may be linked counts, in its order: then it doesn't matter what a reference is
// bound to.
//
// A symbol can be Doubtful: whether others see its definition, or how many copies of it there are, depends on what
// isn't referred to from here. Then all definitions count, and who offers them.
package linkmodel

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
)

// Program is a list of linked files, in the order of the loader's search. The
// first one is the executable.
type Program struct {
	Files []File
	// Foreign are symbols that files without units, those of the system, may
	// refer to.
	Foreign []Symbol
	// Needs are symbols that the link of the executable needs beside those of its units: main.
	Needs []Symbol
	// Unusual is why the program isn't modelled, or empty.
	Unusual string
}

// File is a linked file.
type File struct {
	// Name is for explanations.
	Name string
	// Entries are the units on the line of the link, in its order.
	Entries []Entry
	// Bsymbolic binds the file's references to its own definitions.
	Bsymbolic bool
	// Linker is the linker that decides which members of archives are taken.
	Linker Linker
	// Collects says that the linker drops sections that nothing refers to, and with them what
	// they refer to. LLD does so before it decides which libraries the file needs, and what it
	// exports for them.
	Collects bool
	// CxxInside says that archives of the C++ library are linked into the file, and that it isn't known what they want. Else
	// that is in CxxWants.
	CxxInside bool
	CxxWants  []Symbol
	// Complete says that its references have to be defined in it, or in the
	// libraries on its line: of executables, and with -z defs.
	Complete bool
	// Line tells files apart whose lines say different things, Code those whose lines have different flags
	// for code, System those that take different things from the system.
	Line, Code, System string
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
	// GNU ld searches an archive where it stands on the line.
	GNU
	// LLD takes members for all references on the line.
	LLD
	// Gold searches archives as GNU ld does.
	Gold
	// Mold takes the members that LLD takes, and links them in the order of the line.
	Mold
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
	// Unusual is why the program isn't modelled, or empty. If it isn't certain which units are linked, Instances are
	// all that may be.
	Unusual string
	// Duplicates are symbols with several global definitions in one file: an
	// error of most links.
	Duplicates []Symbol

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
	doubtful  []uint32 // of each symbol: the program in which it is
	doubts    bool     // any
	needed    []uint32 // of each symbol: the program whose executable refers to it
	marks     []mark   // of each symbol, while archives are searched
}

// scope is what a file says about a symbol that it defines.
type scope struct {
	file           int32
	start, end     int32 // of its definition in places, if there is one
	own, exported  bool  // the file's references are bound to them, those of others are
	common, unique bool  // it is
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
	unique     bool
	kept       Symbol // signature of a group that the definition is in
	globals    int    // definitions of which there has to be one only
	discarded  bool   // there was one that isn't kept, and what is kept of its group doesn't define it, or more weakly
	place      Place
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
	return &Linked{Table: t, discarded: map[discard]bool{}}
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
	l.Instances, l.Unusual, l.Duplicates = l.Instances[:0], p.Unusual, nil
	l.scoped, l.places, l.doubts = l.scoped[:0], l.places[:0], false
	l.special = slices.Grow(l.special[:0], len(p.Files))[:len(p.Files)]
	clear(l.special)
	clear(l.discarded)
	l.program = l.tick()

	if l.Unusual == "" {
		l.Unusual = oddLines(t, p)
	}
	s := &search{Linked: l, p: p, taken: make([][]int32, len(p.Files)), done: make([]bool, len(p.Files))}
	for i := range p.Files {
		s.file(int32(i))
	}
	unsure := l.Unusual != ""
	start := make([]int, len(p.Files)+1)
	for i := range p.Files {
		if unsure {
			s.everything(int32(i))
		}
		for _, u := range s.taken[i] {
			l.add(int32(i), u)
		}
		start[i+1] = len(l.Instances)
	}
	for i := range p.Files {
		l.bind(&p.Files[i], int32(i), l.Instances[start[i]:start[i+1]], int32(start[i]))
	}
	l.disputes()
}

// odd notes why the program isn't modelled.
func (l *Linked) odd(why string) {
	if l.Unusual == "" {
		l.Unusual = why
	}
}

// oddLines says why it can't be told from the lines, and the names of symbols, which libraries are loaded, and what linkers
// export for them, or returns "".
func oddLines(t *Table, p *Program) string {
	for by, f := range p.Files {
		on := make([]bool, len(p.Files))
		libraries := by == 0
		for i, e := range f.Entries {
			if e.Library != 0 && e.AsNeeded && !needs(t, p, by, i) {
				return "--as-needed decides whether " + p.Files[e.Library].Name + " is loaded"
			}
			if e.Library == 0 && t.units[e.Unit].Versioned {
				return "a symbol has a version"
			}
			on[e.Library], libraries = true, libraries || e.Library != 0
		}
		on[0], on[by] = true, true
		// A linker exports from an executable what the libraries on its line mention.
		if k := slices.Index(on, false); k >= 0 && libraries && f.Complete {
			return p.Files[k].Name + " isn't on the line of " + f.Name
		}
	}
	return ""
}

// needs reports whether a file surely needs a library on its line: a unit in front of it has a reference that is bound to it,
// reached or not. GNU ld looks at references before it drops sections, LLD after that.
func needs(t *Table, p *Program, by, at int) bool {
	f := &p.Files[by]
	if f.Collects && f.Linker != GNU {
		return false
	}
	exports := map[Symbol]bool{}
	library := func(file int32, exported bool) {
		for _, e := range p.Files[file].Entries {
			if e.Library == 0 && !(exported && e.Lazy) {
				for _, d := range t.units[e.Unit].Defs {
					exports[d.Symbol] = exported
				}
			}
		}
	}
	library(f.Entries[at].Library, true)
	for _, e := range p.Files[f.Entries[at].Library].Entries {
		if e.Library == 0 {
			for _, d := range t.units[e.Unit].Defs {
				exports[d.Symbol] = exports[d.Symbol] && !hides(d.Visibility)
			}
			for _, r := range t.units[e.Unit].Refs {
				exports[r.Symbol] = exports[r.Symbol] && !hides(r.Visibility)
			}
		}
	}
	library(int32(by), false)
	for _, e := range f.Entries[:at] {
		if e.Library != 0 {
			library(e.Library, false)
		}
	}
	// Start files are in front of all, and refer to main.
	return by == 0 && slices.ContainsFunc(p.Needs, func(s Symbol) bool { return exports[s] }) || slices.ContainsFunc(f.Entries[:at], func(e Entry) bool {
		return e.Library == 0 && !e.Lazy && t.units[e.Unit].Exact &&
			slices.ContainsFunc(t.units[e.Unit].Refs, func(r Ref) bool {
				return !r.Weak && exports[r.Symbol] && !slices.Contains(p.Foreign, r.Symbol) // else the system's may come first
			})
	})
}

func (l *Linked) doubt(s Symbol, yes bool) {
	if yes {
		l.doubtful[s], l.doubts = l.program, true
	}
}

// Doubtful says that it can't be told where s is found, even if Resolve returns
// one definition only, or none.
func (l *Linked) Doubtful(s Symbol) bool { return l.doubts && l.doubtful[s] == l.program }

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
			*x = slot{epoch: epoch, kept: None}
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
		return x.instance == id
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
			if l.plain(d.Symbol, in.Unit) && !f.Bsymbolic {
				continue
			}
			// What isn't kept is a reference with this visibility.
			x := at(d.Symbol)
			x.visibility = Constrain(x.visibility, d.Visibility)
			if kept {
				l.define(x, d, id, f)
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
		if x.rank == 0 && x.visibility == manifest.Visibility_VISIBILITY_DEFAULT {
			continue
		}
		if x.globals > 1 {
			l.Duplicates = append(l.Duplicates, s)
		}
		y := scope{file: file, start: int32(len(l.places)), exported: true, common: x.rank == common, unique: x.unique}
		if x.rank > 0 {
			l.places = append(l.places, x.place)
		}
		y.end = int32(len(l.places))
		switch {
		case x.rank == 0:
			y.own, y.exported = true, false // weak, and nothing
			l.doubt(s, f.Linker != GNU && f.Linker != LLD)
		case hides(x.visibility):
			y.own, y.exported = true, false
		case x.visibility == manifest.Visibility_VISIBILITY_PROTECTED, f.Bsymbolic:
			y.own = true
		}
		if y.own {
			l.special[file] = true
		}
		if file > 0 && x.rank > 0 && y.own && y.exported && l.needed[s] == l.program {
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
		if common && l.Table.Name(s) != asanMark { // see define
			l.odd("a library may define " + l.Table.Name(s) + " in the place of a tentative definition")
		}
		// The loader has one unique symbol for all files: that for which it is asked
		// first, by the file that is relocated first.
		l.doubt(s, unique && own)
	}
}

// plain says that the only definition of s, in a unit, is all that anything is
// bound to that refers to s.
func (l *Linked) plain(s Symbol, unit int32) bool {
	return l.Table.plain(s) && l.instance[unit] >= 0
}

// asanMark is a hidden tentative definition of eight bytes that clang's address sanitizer puts into each unit.
const asanMark = "___asan_globals_registered"

// define makes a further definition that a file has the one that a symbol stands for, or not.
func (l *Linked) define(x *slot, d Def, instance int32, f *File) {
	r := rank(d.Binding)
	if r >= unique {
		x.globals++
	}
	if !d.Mark && l.Table.Name(d.Symbol) == asanMark {
		l.odd("it defines " + asanMark)
	}
	switch {
	case r == unique && x.rank == weak && f.Linker != GNU && f.Linker != LLD:
		l.odd("linkers don't agree which definition of " + l.Table.Name(d.Symbol) + " they take")
		return
	case r == unique && x.rank == weak && f.Linker == LLD:
		return // the first of them wins
	case r == common && x.rank == common && !d.Mark:
		l.odd("several tentative definitions of " + l.Table.Name(d.Symbol) + " become one")
		return
	case r <= x.rank:
		return
	}
	x.place, x.rank, x.unique = Place{instance, d.Component}, r, r == unique
}

// Resolve appends what a reference to s in a file is bound to, in the order of
// preference: nothing if no unit defines it, one definition, or several if it
// is Doubtful.
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
		if out = append(out, l.places[x.start:x.end]...); !doubtful || !x.exported {
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
			if !doubtful {
				break
			}
		}
	}
	return out
}

// Scope is what a file says about a symbol that it defines.
type Scope struct {
	File int32
	// Definitions has what it stands for there, or nothing if others must not define it, either.
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
