package linkmodel

import (
	"slices"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
)

// # Members of archives
//
// A linker reads its line from left to right. A strong reference to an undefined symbol asks for a member that defines
// it; a weak reference asks for nothing. If a shared library on the line defines the symbol, no member is needed, unless
// the reference is hidden. The undefined symbols of shared libraries ask for members as well.
//
// GNU ld searches an archive at its place on the line, again and again until nothing is taken any more. The archives of
// a group are searched one after the other, again and again. Units are linked in the order in which they are taken.
//
// LLD remembers which member is the first to define a symbol. It takes the member as soon as it has seen both the
// definition and a reference, and then at once the members that this member needs, in the order of its references.
//
// They also differ in how a member replaces a tentative definition.

// search decides which entries of a program's files are linked.
type search struct {
	*Linked
	p     *Program
	taken [][]int32 // units of each file
	done  []bool    // of each file
	seen  []uint32  // of each unit: the last epoch in which takeAll took it

	// State of one linker and one file:
	stamp uint32 // of marks
	out   []int32
	in    []bool // of each entry: it is linked
	sure  []bool // of each entry: it is linked, even if a library of the system defines the symbol
}

// mark is the state of a symbol at a place of the line.
type mark struct {
	epoch  uint32
	state  uint8
	hidden bool  // no shared library can define it
	entry  int32 // LLD: the first member that defines it
	// collectable is set if a shared library refers to it that was linked with --gc-sections: its linker may have dropped
	// the reference.
	collectable bool
}

// States of a symbol. Their order matters.
const (
	unknown = iota
	wantedWeakly
	wanted
	archived // LLD: a member defines it, and nothing refers to it
	shared   // a shared library defines it
	tentative
	defined
)

// searchFile finds the units of a file, in the order of its link, after those of the libraries on its line.
func (s *search) searchFile(file int32) {
	if s.done[file] {
		return // a library that needs itself has no archives
	}
	s.done[file] = true
	f := &s.p.Files[file]
	if s.Unusual == "" && slices.ContainsFunc(f.Entries, func(e Entry) bool { return e.Lazy }) {
		for _, e := range f.Entries {
			if e.Library != 0 {
				s.searchFile(e.Library)
			}
		}
		if taken, known := s.searchArchives(f, file); known {
			s.taken[file] = slices.Clone(taken)
			return
		}
	}
	s.takeAll(file)
}

// takeAll takes each unit of a file once: an archive may be on the line twice.
func (s *search) takeAll(file int32) {
	epoch := s.newEpoch()
	s.taken[file] = nil
	for _, e := range s.p.Files[file].Entries {
		if e.Library == 0 && s.seen[e.Unit] != epoch {
			s.seen[e.Unit] = epoch
			s.taken[file] = append(s.taken[file], e.Unit)
		}
	}
}

// searchArchives returns the units that the linker takes from a line with archives, or known=false if they may be all of
// the units. Any doubt that matters is unusual.
func (s *search) searchArchives(f *File, file int32) (taken []int32, known bool) {
	if slices.ContainsFunc(f.Entries, func(e Entry) bool {
		return e.Library == 0 && !s.Table.units[e.Unit].Exact && !s.Table.units[e.Unit].Library
	}) {
		if makesDifference(s.Table, s.p, slices.DeleteFunc(slices.Clone(f.Entries), func(e Entry) bool { return !e.Lazy })) {
			s.markUnusual("the references of a unit aren't known before it is compiled, and they decide which members of archives are linked")
		}
		return nil, false
	}
	switch f.Linker {
	case GNU, Gold:
		taken = s.searchGNU(f, file)
	case LLD:
		taken = s.searchLLD(f, file)
	case Mold:
		s.searchLLD(f, file)
		for i, e := range f.Entries {
			if s.in[i] {
				taken = append(taken, e.Unit)
			}
		}
		s.checkShadowed(f)
	default:
		taken = s.searchBoth(f, file)
	}
	s.checkMembers(f)
	return taken, true
}

// searchBoth searches as GNU ld and as LLD. If they disagree, or a linker that keeps the order of the line, as mold does,
// would disagree, the program is unusual. See link-order/archive-pull-order.
func (s *search) searchBoth(f *File, file int32) []int32 {
	taken := slices.Clone(s.searchGNU(f, file))
	sure := slices.Clone(s.sure)
	if !slices.Equal(taken, s.searchLLD(f, file)) {
		s.markUnusual("linkers don't agree which members of archives they take, or in which order")
	}
	inOrder := 0
	for _, e := range f.Entries {
		if inOrder < len(taken) && e.Library == 0 && e.Unit == taken[inOrder] {
			inOrder++
		}
	}
	if inOrder < len(taken) {
		s.markUnusual("linkers don't agree in which order they link members of archives")
	}
	for i := range s.sure {
		s.sure[i] = s.sure[i] && sure[i]
	}
	return taken
}

// checkMembers marks the program as unusual if a member of an archive may or may not be linked, because of libraries of the
// system, start files, tentative definitions, or shared libraries that were linked with --gc-sections.
func (s *search) checkMembers(f *File) {
	t := s.Table
	var unsure []Entry // for which a library of the system may ask
	for i, e := range f.Entries {
		if !e.Lazy {
			continue
		}
		asked := false
		for _, d := range t.units[e.Unit].Defs {
			name, m := t.Name(d.Symbol), s.markOf(d.Symbol)
			foreign := slices.Contains(s.p.Overrides, d.Symbol)
			switch {
			case s.in[i] && m.collectable: // see link-state/gc-library-wants-member
				s.markUnusual("a library needs " + name + " of a member of an archive, unless its linker has dropped what does")
			case s.in[i] && t.isCopy(d) && s.sure[i]:
				// The member would be taken even if the C++ library in front of it defined this.
			case s.in[i] && (e.BehindSystem && foreign || slices.Contains(startFiles, name)):
				// See link-archives/archive-after-libm and link-archives/archive-start-symbol.
				s.markUnusual("something else may define " + name + ", which a member of an archive defines as well")
			case !s.in[i] && m.state == tentative && rank(d.Binding) != common: // see link-symbols/common-pulls-member
				s.markUnusual("a member of an archive defines what is a tentative definition elsewhere: " + name)
			case !s.in[i] && m.state <= archived && foreign:
				// A shared C++ library has its own copies and asks for no others. For a static one, LLD takes the first
				// copy on the line, and GNU ld one behind it. See link-libcxx/copy-in-archive.
				asked = asked || !t.isCopy(d) || (f.CxxInside || slices.Contains(f.CxxWants, d.Symbol)) && (f.Linker != GNU || e.BehindSystem)
			}
		}
		if asked {
			unsure = append(unsure, e)
		}
	}
	if len(unsure) > 0 && makesDifference(t, s.p, unsure) {
		s.markUnusual("a library of the system may need a member of an archive")
	}
}

// checkShadowed finds symbols that both a shared library and a member of an archive define. Mold takes the first definition on
// the line, LLD the library's.
func (s *search) checkShadowed(f *File) {
	shared := map[Symbol]bool{}
	for _, e := range f.Entries {
		if e.Library != 0 {
			for _, u := range s.taken[e.Library] {
				for _, d := range s.Table.units[u].Defs {
					shared[d.Symbol] = shared[d.Symbol] || !isHidden(d.Visibility)
				}
			}
		}
	}
	for _, e := range f.Entries {
		if e.Lazy && slices.ContainsFunc(s.Table.units[e.Unit].Defs, func(d Def) bool { return shared[d.Symbol] }) {
			s.markUnusual("a library and a member of an archive define the same")
		}
	}
}

// startFiles are symbols of the start files (crt1.o, crtbegin.o), which drivers put in front of all units.
var startFiles = []string{"_start", "_init", "_fini", "_IO_stdin_used", "__data_start", "__dso_handle", "__TMC_END__", "_dl_relocate_static_pie", "data_start"}

// begin begins the search of one linker.
func (s *search) begin(f *File, file int32) {
	s.stamp = s.newEpoch()
	s.out = s.out[:0]
	for _, l := range []*[]bool{&s.in, &s.sure} {
		*l = slices.Grow((*l)[:0], len(f.Entries))[:len(f.Entries)]
		clear(*l)
	}
	if file == 0 {
		for _, x := range s.p.Needs {
			s.refer(f, x, false, false)
		}
	}
}

func (s *search) markOf(x Symbol) *mark {
	m := &s.symbols[x].mark
	if m.epoch != s.stamp {
		*m = mark{epoch: s.stamp}
	}
	return m
}

// take links an entry's unit into the file.
func (s *search) take(f *File, i int32) {
	s.in[i] = true
	e := f.Entries[i]
	s.out = append(s.out, e.Unit)
	u := s.Table.units[e.Unit]
	for _, d := range u.Defs {
		m := s.markOf(d.Symbol)
		m.hidden = m.hidden || d.Visibility != manifest.Visibility_VISIBILITY_DEFAULT
		if rank(d.Binding) != common {
			m.state = defined
		} else if m.state != defined {
			m.state = tentative
		}
	}
	for _, r := range u.Refs {
		s.refer(f, r.Symbol, r.Weak, r.Visibility != manifest.Visibility_VISIBILITY_DEFAULT)
	}
}

// refer records a reference. For LLD, it takes the member that is known to define the symbol.
func (s *search) refer(f *File, x Symbol, weak, hidden bool) {
	m := s.markOf(x)
	m.hidden = m.hidden || hidden
	switch {
	case m.state == shared && hidden:
		m.state = unknown
	case m.state == archived && !weak:
		m.state = wanted
		s.sure[m.entry] = s.isSure(f, m.entry, x)
		s.take(f, m.entry)
		return
	}
	switch {
	case m.state == unknown && weak:
		m.state = wantedWeakly
	case m.state <= wantedWeakly && !weak:
		m.state = wanted
	}
}

// library reads a shared library on the line.
func (s *search) library(f *File, file int32) {
	type use struct{ defined, hidden, strong bool }
	uses := map[Symbol]*use{}
	var order []Symbol
	of := func(id Symbol) *use {
		if uses[id] == nil {
			uses[id] = new(use)
			order = append(order, id)
		}
		return uses[id]
	}
	for _, u := range s.taken[file] {
		for _, d := range s.Table.units[u].Defs {
			x := of(d.Symbol)
			x.defined, x.hidden = true, x.hidden || isHidden(d.Visibility)
		}
		for _, r := range s.Table.units[u].Refs {
			x := of(r.Symbol)
			x.hidden, x.strong = x.hidden || isHidden(r.Visibility), x.strong || !r.Weak
		}
	}
	// In dynamic symbol tables, undefined symbols come first.
	before, wants := len(s.out), 0
	for _, id := range order {
		if x := uses[id]; !x.hidden && !x.defined {
			m := s.markOf(id)
			if x.strong && m.state == archived {
				wants++
			}
			if x.strong && m.state != wanted && m.state != defined && s.p.Files[file].GCSections {
				m.collectable = true
			}
			s.refer(f, id, !x.strong, false)
		}
	}
	for _, id := range order {
		if x, m := uses[id], s.markOf(id); !x.hidden && x.defined && m.state <= archived && !m.hidden {
			m.state = shared
		}
	}
	if wants > 1 && len(s.out) > before+1 {
		s.markUnusual("the order in which a linker takes members of archives for " + s.p.Files[file].Name + " isn't known")
	}
}

// searchGNU takes members as GNU ld does.
func (s *search) searchGNU(f *File, file int32) []int32 {
	s.begin(f, file)
	for i := 0; i < len(f.Entries); {
		end := i + 1
		for g := f.Entries[i].Group; g > 0 && end < len(f.Entries) && f.Entries[end].Group == g; {
			end++
		}
		if end == i+1 && f.Entries[i].Lazy {
			end = endOfArchive(f.Entries, i)
		}
		// A library of a group may need a member of an archive in front of it: hence at least two passes.
		for pass, n := 0, -1; pass < 2 || n != len(s.out); pass++ {
			n = len(s.out)
			for k := i; k < end; {
				switch e := f.Entries[k]; {
				case e.Lazy:
					next := min(endOfArchive(f.Entries, k), end)
					s.searchArchive(f, k, next)
					k = next
					continue
				case pass > 0:
				case e.Library != 0:
					s.library(f, e.Library)
				default:
					s.take(f, int32(k))
				}
				k++
			}
		}
		i = end
	}
	return s.out
}

func endOfArchive(entries []Entry, i int) int {
	k := i + 1
	for k < len(entries) && entries[k].Lazy && entries[k].Archive == entries[i].Archive {
		k++
	}
	return k
}

// searchArchive takes members of one archive, until there are none to take.
func (s *search) searchArchive(f *File, start, end int) {
	for n := -1; n != len(s.out); {
		n = len(s.out)
		for k := start; k < end; k++ {
			if !s.in[k] && s.isWanted(f, int32(k)) {
				s.take(f, int32(k))
			}
		}
	}
}

// isWanted reports whether the unit of an entry defines a wanted symbol, and sets s.sure.
func (s *search) isWanted(f *File, i int32) (is bool) {
	for _, d := range s.Table.units[f.Entries[i].Unit].Defs {
		if s.markOf(d.Symbol).state == wanted {
			is = true
			s.sure[i] = s.sure[i] || s.isSure(f, i, d.Symbol)
		}
	}
	return is
}

// isSure reports whether an entry is taken for certain if x is wanted: no library of the system in front of it may define
// x.
func (s *search) isSure(f *File, i int32, x Symbol) bool {
	return !f.Entries[i].BehindSystem || !slices.Contains(s.p.Overrides, x)
}

// searchLLD takes members as LLD does.
func (s *search) searchLLD(f *File, file int32) []int32 {
	s.begin(f, file)
	for i, e := range f.Entries {
		switch {
		case e.Library != 0:
			s.library(f, e.Library)
		case !e.Lazy || s.isWanted(f, int32(i)):
			s.take(f, int32(i))
		default:
			for _, d := range s.Table.units[e.Unit].Defs {
				if m := s.markOf(d.Symbol); m.state <= wantedWeakly {
					m.state, m.entry = archived, int32(i)
				}
			}
		}
	}
	return s.out
}

// makesDifference reports whether linking entries may change the program: one of their units has a root, defines a symbol
// that another unit defines too, or one to which there is a weak reference.
func makesDifference(t *Table, p *Program, entries []Entry) bool {
	definers, weak := map[Symbol]int{}, map[Symbol]bool{}
	for i := range p.Files {
		for _, e := range p.Files[i].Entries {
			if e.Library != 0 {
				continue
			}
			for _, d := range t.units[e.Unit].Defs {
				definers[d.Symbol]++
			}
			for _, r := range t.units[e.Unit].Refs {
				if r.Weak {
					weak[r.Symbol] = true
				}
			}
		}
	}
	return slices.ContainsFunc(entries, func(e Entry) bool {
		u := t.units[e.Unit]
		return u.Roots || slices.ContainsFunc(u.Defs, func(d Def) bool { return definers[d.Symbol] > 1 || weak[d.Symbol] })
	})
}
