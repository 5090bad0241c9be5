package linkmodel

import (
	"slices"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
)

// # Members of archives
//
// A linker reads its line from left to right. A strong reference to what isn't
// defined wants a member that defines it; a weak one wants nothing. What a shared
// library on the line defines needs no member, unless the reference has another
// visibility than the default one; what it needs itself is wanted as well.
//
// GNU ld searches an archive where it stands, again and again until nothing is
// taken any more, and the archives of a group one after the other, again and
// again. Units are linked in the order in which they are taken.
//
// lld remembers what archives define, the first of several definitions. A member
// is taken as soon as its definition and the reference are both known, with what
// it wants itself at once: in the order of the references in the object.
//
// Both have ways of their own to take a member for what is common so far.

// search decides which entries of a program's files are linked.
type search struct {
	*Linked
	p     *Program
	taken [][]int32 // units of each file
	done  []bool    // of each file
	seen  []uint32  // of each unit

	// Of one linker and one file.
	epoch uint32
	out   []int32
	in    []bool
	sure  []bool // of entries in the file: no library of the system has what they are taken for
}

// mark is what is known of a symbol at a place of the line.
type mark struct {
	epoch  uint32
	state  uint8
	hidden bool  // no shared library can define it
	entry  int32 // lld: the first member that defines it
	// perhaps: a library wants it, of which a linker may have dropped what does.
	perhaps bool
}

const (
	unknown = iota
	wantedWeakly
	wanted
	archived // and not wanted
	shared
	tentative
	defined
)

// file finds the units of a file, in the order of the link.
func (s *search) file(file int32) {
	if s.done[file] {
		return // a library that needs itself has no archives
	}
	s.done[file] = true
	f := &s.p.Files[file]
	if s.Unusual == "" && slices.ContainsFunc(f.Entries, func(e Entry) bool { return e.Lazy }) {
		for _, e := range f.Entries {
			if e.Library != 0 {
				s.file(e.Library)
			}
		}
		if taken, known := s.archives(f, file); known {
			s.taken[file] = slices.Clone(taken)
			return
		}
	}
	s.everything(file)
}

// everything takes all units of a file, each once: an archive may be on the line twice, and so may what is in it.
func (s *search) everything(file int32) {
	s.epoch = s.tick()
	s.taken[file] = nil
	for _, e := range s.p.Files[file].Entries {
		if e.Library == 0 && s.first(e.Unit) {
			s.taken[file] = append(s.taken[file], e.Unit)
		}
	}
}

// first reports whether it is called for the first time in an epoch for a unit.
func (s *search) first(unit int32) bool {
	for len(s.seen) <= int(unit) {
		s.seen = append(s.seen, 0)
	}
	first := s.seen[unit] != s.epoch
	s.seen[unit] = s.epoch
	return first
}

// archives returns the units that the linker takes from a line with archives, or reports that they may be all of
// them. Any doubt is unusual.
func (s *search) archives(f *File, file int32) (taken []int32, known bool) {
	t := s.Table
	for _, e := range f.Entries {
		if e.Library == 0 && !t.units[e.Unit].Exact && !t.units[e.Unit].Library {
			var lazy []Entry
			for _, e := range f.Entries {
				if e.Lazy {
					lazy = append(lazy, e)
				}
			}
			if matters(t, s.p, lazy) {
				s.odd("the references of a unit aren't known before it is compiled, and they decide which members of archives are linked")
			}
			return nil, false
		}
	}
	switch f.Linker {
	case GNU, Gold:
		taken = s.gnu(f, file)
	case LLD:
		taken = s.lld(f, file)
	case Mold:
		s.lld(f, file)
		for i, e := range f.Entries {
			if s.in[i] {
				taken = append(taken, e.Unit)
			}
		}
		s.shadows(f)
	default:
		taken = slices.Clone(s.gnu(f, file))
		sure := slices.Clone(s.sure)
		if !slices.Equal(taken, s.lld(f, file)) {
			s.odd("linkers don't agree which members of archives they take, or in which order")
		}
		i := 0
		for _, e := range f.Entries {
			if i < len(taken) && e.Library == 0 && e.Unit == taken[i] {
				i++
			}
		}
		if i < len(taken) {
			s.odd("linkers don't agree in which order they link members of archives")
		}
		for i := range s.sure {
			s.sure[i] = s.sure[i] && sure[i]
		}
	}
	var left []Entry // that a library of the system may have a linker take
	for i, e := range f.Entries {
		if !e.Lazy {
			continue
		}
		may := false
		for _, d := range t.units[e.Unit].Defs {
			name, m := t.Name(d.Symbol), s.at(d.Symbol)
			foreign := slices.Contains(s.p.Foreign, d.Symbol)
			switch {
			case s.in[i] && m.perhaps:
				s.odd("a library needs " + name + " of a member of an archive, unless its linker has dropped what does")
			case s.in[i] && t.isCopy(d) && s.sure[i]:
				// It would be taken as well if the library of C++ in front defined this.
			case s.in[i] && (e.BehindSystem && foreign || slices.Contains(startFiles, name)):
				s.odd("something else may define " + name + ", which a member of an archive defines as well")
			case !s.in[i] && m.state == tentative && rank(d.Binding) != common:
				s.odd("a member of an archive defines what is a tentative definition elsewhere: " + name)
			case !s.in[i] && m.state <= archived && foreign:
				// A shared library of C++ has its own copies, so that it doesn't want others. LLD takes the
				// first copy on the line for an archive of it, and GNU ld one behind it.
				may = may || !t.isCopy(d) || (f.CxxInside || slices.Contains(f.CxxWants, d.Symbol)) && (f.Linker != GNU || e.BehindSystem)
			}
		}
		if may {
			left = append(left, e)
		}
	}
	if len(left) > 0 && matters(t, s.p, left) {
		s.odd("a library of the system may need a member of an archive")
	}
	return taken, true
}

// shadows finds symbols that members of archives and libraries define: mold takes the first on the line of them, LLD the library's.
func (s *search) shadows(f *File) {
	shared := map[Symbol]bool{}
	for _, e := range f.Entries {
		if e.Library != 0 {
			for _, u := range s.taken[e.Library] {
				for _, d := range s.Table.units[u].Defs {
					shared[d.Symbol] = shared[d.Symbol] || !hides(d.Visibility)
				}
			}
		}
	}
	for _, e := range f.Entries {
		if e.Lazy && slices.ContainsFunc(s.Table.units[e.Unit].Defs, func(d Def) bool { return shared[d.Symbol] }) {
			s.odd("a library and a member of an archive define the same")
		}
	}
}

// startFiles are symbols that the files define which drivers put in front of all others.
var startFiles = []string{"_start", "_init", "_fini", "_IO_stdin_used", "__data_start", "__dso_handle", "__TMC_END__", "_dl_relocate_static_pie", "data_start"}

// start begins the search of one linker.
func (s *search) start(f *File, file int32) {
	s.epoch = s.tick()
	s.out = s.out[:0]
	for _, l := range []*[]bool{&s.in, &s.sure} {
		*l = slices.Grow((*l)[:0], len(f.Entries))[:len(f.Entries)]
		clear(*l)
	}
	if file == 0 {
		for _, x := range s.p.Needs {
			s.want(f, x, false, false)
		}
	}
}

func (s *search) at(x Symbol) *mark {
	m := &s.marks[x]
	if m.epoch != s.epoch {
		*m = mark{epoch: s.epoch}
	}
	return m
}

// take makes an entry's unit part of the file.
func (s *search) take(f *File, i int32) {
	s.in[i] = true
	e := f.Entries[i]
	s.out = append(s.out, e.Unit)
	u := s.Table.units[e.Unit]
	for _, d := range u.Defs {
		m := s.at(d.Symbol)
		m.hidden = m.hidden || d.Visibility != manifest.Visibility_VISIBILITY_DEFAULT
		if rank(d.Binding) != common {
			m.state = defined
		} else if m.state != defined {
			m.state = tentative
		}
	}
	for _, r := range u.Refs {
		s.want(f, r.Symbol, r.Weak, r.Visibility != manifest.Visibility_VISIBILITY_DEFAULT)
	}
}

// want notes a reference. For lld, it takes a member that is known to define the
// symbol.
func (s *search) want(f *File, x Symbol, weak, hidden bool) {
	m := s.at(x)
	m.hidden = m.hidden || hidden
	switch {
	case m.state == shared && hidden:
		m.state = unknown
	case m.state == archived && !weak:
		m.state = wanted
		s.sure[m.entry] = s.certain(f, m.entry, x)
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

// library notes a shared library on the line.
func (s *search) library(f *File, file int32) {
	units := s.taken[file]
	type state struct{ defined, hidden, strong bool }
	symbols := map[Symbol]state{}
	var order []Symbol
	for _, u := range units {
		for _, d := range s.Table.units[u].Defs {
			x, ok := symbols[d.Symbol]
			if !ok {
				order = append(order, d.Symbol)
			}
			x.defined, x.hidden = true, x.hidden || hides(d.Visibility)
			symbols[d.Symbol] = x
		}
		for _, r := range s.Table.units[u].Refs {
			x, ok := symbols[r.Symbol]
			if !ok {
				order = append(order, r.Symbol)
			}
			x.hidden, x.strong = x.hidden || hides(r.Visibility), x.strong || !r.Weak
			symbols[r.Symbol] = x
		}
	}
	// In tables of dynamic symbols, undefined ones come first.
	before, wants := len(s.out), 0
	for _, id := range order {
		if x := symbols[id]; !x.hidden && !x.defined {
			m := s.at(id)
			if x.strong && m.state == archived {
				wants++
			}
			if x.strong && m.state != wanted && m.state != defined && s.p.Files[file].Collects {
				m.perhaps = true
			}
			s.want(f, id, !x.strong, false)
		}
	}
	for _, id := range order {
		if x, m := symbols[id], s.at(id); !x.hidden && x.defined && m.state <= archived && !m.hidden {
			m.state = shared
		}
	}
	if wants > 1 && len(s.out) > before+1 {
		s.odd("the order in which a linker takes members of archives for " + s.p.Files[file].Name + " isn't known")
	}
}

// gnu takes members as GNU ld does.
func (s *search) gnu(f *File, file int32) []int32 {
	s.start(f, file)
	for i := 0; i < len(f.Entries); {
		end := i + 1
		for g := f.Entries[i].Group; g > 0 && end < len(f.Entries) && f.Entries[end].Group == g; {
			end++
		}
		if end == i+1 && f.Entries[i].Lazy {
			end = endOfArchive(f.Entries, i)
		}
		// What a library of a group needs may be in an archive before it.
		for pass, n := 0, -1; pass < 2 || n != len(s.out); pass++ {
			n = len(s.out)
			for k := i; k < end; {
				switch e := f.Entries[k]; {
				case e.Lazy:
					next := min(endOfArchive(f.Entries, k), end)
					s.archive(f, k, next)
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

// archive takes members of one archive.
func (s *search) archive(f *File, start, end int) {
	for n := -1; n != len(s.out); {
		n = len(s.out)
		for k := start; k < end; k++ {
			if !s.in[k] && s.wants(f, int32(k)) {
				s.take(f, int32(k))
			}
		}
	}
}

// wants reports whether the unit of an entry defines something that is wanted.
func (s *search) wants(f *File, i int32) (wants bool) {
	for _, d := range s.Table.units[f.Entries[i].Unit].Defs {
		if s.at(d.Symbol).state == wanted {
			wants = true
			s.sure[i] = s.sure[i] || s.certain(f, i, d.Symbol)
		}
	}
	return wants
}

// certain reports whether an entry is surely taken if x is wanted: nothing of the system in front of
// it defines x.
func (s *search) certain(f *File, i int32, x Symbol) bool {
	return !f.Entries[i].BehindSystem || !slices.Contains(s.p.Foreign, x)
}

// lld takes members as lld does.
func (s *search) lld(f *File, file int32) []int32 {
	s.start(f, file)
	for i, e := range f.Entries {
		switch {
		case e.Library != 0:
			s.library(f, e.Library)
		case !e.Lazy:
			s.take(f, int32(i))
		case s.wants(f, int32(i)):
			s.take(f, int32(i))
		default:
			for _, d := range s.Table.units[e.Unit].Defs {
				if m := s.at(d.Symbol); m.state <= wantedWeakly {
					m.state, m.entry = archived, int32(i)
				}
			}
		}
	}
	return s.out
}

// matters says whether it makes a difference if entries are linked: something in
// them runs by itself, competes with another definition of the program, or is
// what may be missing.
func matters(t *Table, p *Program, entries []Entry) bool {
	type use struct {
		definers int
		weak     bool
	}
	uses := map[Symbol]use{}
	for i := range p.Files {
		for _, e := range p.Files[i].Entries {
			if e.Library != 0 {
				continue
			}
			for _, d := range t.units[e.Unit].Defs {
				x := uses[d.Symbol]
				x.definers++
				uses[d.Symbol] = x
			}
			for _, r := range t.units[e.Unit].Refs {
				if r.Weak {
					x := uses[r.Symbol]
					x.weak = true
					uses[r.Symbol] = x
				}
			}
		}
	}
	return slices.ContainsFunc(entries, func(e Entry) bool {
		if e.Library != 0 {
			return false
		}
		u := t.units[e.Unit]
		return u.Roots || slices.ContainsFunc(u.Defs, func(d Def) bool { return uses[d.Symbol].definers > 1 || uses[d.Symbol].weak })
	})
}
