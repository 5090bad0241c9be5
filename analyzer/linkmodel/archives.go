package linkmodel

import (
	"cmp"
	"slices"

	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
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
	state []uint8   // of each file: 0, busy, done
	vague []string  // of each file: why it isn't certain which units are taken
	why   []string  // reasons for doubt about the file in work
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

// file returns the units of a file in the order of the link.
func (s *search) file(file int32) []int32 {
	const busy, done = 1, 2
	if s.state[file] != 0 {
		return s.taken[file] // a library that needs itself has no archives
	}
	s.state[file] = busy
	f := &s.p.Files[file]
	if f.Unsure != "" && matters(s.Table, s.p, f.Entries) && !needed(s.Table, s.p, file) {
		s.Unknown = f.Unsure
	}
	if slices.ContainsFunc(f.Entries, func(e Entry) bool { return e.Lazy }) {
		for _, e := range f.Entries {
			if e.Library != 0 {
				s.file(e.Library)
			}
		}
		s.why = nil
		taken, ok := s.archives(f)
		if len(s.why) > 0 {
			s.Unknown, s.vague[file] = s.why[0], s.why[0]
		}
		if ok && len(s.why) == 0 {
			s.taken[file], s.state[file] = slices.Clone(taken), done
			return taken
		}
	}
	// Everything. An archive may be on the line twice, and so may what is in it.
	s.epoch = s.tick()
	for _, e := range f.Entries {
		if e.Library == 0 && s.first(e.Unit) {
			s.taken[file] = append(s.taken[file], e.Unit)
		}
	}
	s.state[file] = done
	return s.taken[file]
}

// first says whether it is called for the first time in an epoch for a unit.
func (s *search) first(unit int32) bool {
	for len(s.seen) <= int(unit) {
		s.seen = append(s.seen, 0)
	}
	first := s.seen[unit] != s.epoch
	s.seen[unit] = s.epoch
	return first
}

func (s *search) doubt(why string) { s.why = append(s.why, why) }

// archives returns the units that the linker takes from a line with archives, or
// that they may be all of them.
func (s *search) archives(f *File) (taken []int32, ok bool) {
	t := s.Table
	if f.Uncertain != "" {
		s.doubt(f.Uncertain)
		return nil, false
	}
	for _, e := range f.Entries {
		switch {
		case e.Library != 0:
			if why := cmp.Or(s.p.Files[e.Library].Uncertain, s.vague[e.Library]); why != "" {
				s.doubt(why)
			}
		case !t.units[e.Unit].Exact && !t.units[e.Unit].Library:
			if !harmless(t, s.p, f) {
				s.doubt("the references of a unit aren't known before it is compiled, and they decide which members of archives are linked")
			}
			return nil, false
		}
	}
	switch f.Linker {
	case GNU:
		taken = s.gnu(f)
	case LLD:
		taken = s.lld(f)
	default:
		taken = slices.Clone(s.gnu(f))
		sure := slices.Clone(s.sure)
		if !slices.Equal(taken, s.lld(f)) {
			s.doubt("which linker it is isn't known, and they take different members of archives, or in another order")
		}
		for i := range sure {
			s.sure[i] = s.sure[i] && sure[i]
		}
		// Others link what is taken in the order of the line.
		i := 0
		for _, e := range f.Entries {
			if i < len(taken) && e.Library == 0 && e.Unit == taken[i] {
				i++
			}
		}
		if i < len(taken) {
			s.doubt("which linker it is isn't known, and they link members of archives in another order")
		}
	}
	for i, e := range f.Entries {
		if !e.Lazy {
			continue
		}
		for _, d := range t.units[e.Unit].Defs {
			switch {
			case slices.Contains(t.units[e.Unit].Versioned, d.Symbol):
				s.doubt("a member of an archive defines a version of " + t.Name(d.Symbol) + ", which is another symbol")
			case !s.in[i]:
			case s.at(d.Symbol).perhaps:
				s.doubt("a library needs " + t.Name(d.Symbol) + " of a member of an archive, unless its linker has dropped what does")
			case t.isCopy(d) && f.Foreign == "" && s.sure[i]:
				// It would be taken as well if the library of C++ in front defined this.
			case slices.Contains(f.Unwanted, d.Symbol), e.BehindSystem && (f.Foreign != "" || slices.Contains(s.p.Foreign, d.Symbol)), slices.Contains(startFiles, t.Name(d.Symbol)):
				s.doubt("something else may define " + t.Name(d.Symbol) + ", which a member of an archive defines as well, or nothing needs it")
			}
		}
	}
	var left []Entry // that may be taken after all
	why := f.Foreign
	for i, e := range f.Entries {
		if !e.Lazy || s.in[i] {
			continue
		}
		may := f.Foreign != ""
		for _, d := range t.units[e.Unit].Defs {
			m := s.at(d.Symbol)
			if m.state == tentative && rank(d.Binding) != common {
				s.doubt("a member of an archive defines what is a tentative definition elsewhere: " + t.Name(d.Symbol))
			}
			// A shared library of C++ has its own copies, so that it doesn't want others. LLD takes the
			// first copy on the line for an archive of it, and GNU ld one behind it.
			own := t.isCopy(d) && !(f.CxxInside && (f.Linker != GNU || e.BehindSystem))
			if m.state <= archived && !own && slices.Contains(s.p.Foreign, d.Symbol) {
				may, why = true, "a library of the system may need "+t.Name(d.Symbol)+", which a member of an archive defines"
			}
		}
		if may {
			left = append(left, e)
		}
	}
	if len(left) > 0 && matters(t, s.p, left) {
		s.doubt(why)
	}
	return taken, true
}

// startFiles are symbols that the files define which drivers put in front of all others.
var startFiles = []string{"_start", "_init", "_fini", "_IO_stdin_used", "__data_start", "__dso_handle", "__TMC_END__", "_dl_relocate_static_pie", "data_start"}

// start begins the search of one linker.
func (s *search) start(f *File) {
	s.epoch = s.tick()
	s.out = s.out[:0]
	for _, l := range []*[]bool{&s.in, &s.sure} {
		*l = slices.Grow((*l)[:0], len(f.Entries))[:len(f.Entries)]
		clear(*l)
	}
	for _, x := range f.Needs {
		s.want(f, x, false, false)
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
		s.doubt("the order in which a linker takes members of archives for " + s.p.Files[file].Name + " isn't known")
	}
}

// gnu takes members as GNU ld does.
func (s *search) gnu(f *File) []int32 {
	s.start(f)
	for _, x := range f.Entry {
		s.want(f, x, false, false)
	}
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
	return !f.Entries[i].BehindSystem || f.Foreign == "" && !slices.Contains(s.p.Foreign, x)
}

// lld takes members as lld does.
func (s *search) lld(f *File) []int32 {
	s.start(f)
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
	for _, x := range f.Entry {
		s.want(f, x, false, false)
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

// needed says whether the executable has a reference that is bound to a file: no
// --as-needed can leave it out.
func needed(t *Table, p *Program, file int32) bool {
	if p.Files[0].Collects && p.Files[0].Linker != GNU {
		return false
	}
	exports := map[Symbol]bool{}
	for _, e := range p.Files[file].Entries {
		if e.Lazy || e.Library != 0 {
			continue
		}
		for _, d := range t.units[e.Unit].Defs {
			exports[d.Symbol] = true
		}
	}
	for _, e := range p.Files[file].Entries {
		if e.Library == 0 {
			for _, d := range t.units[e.Unit].Defs {
				if hides(d.Visibility) {
					delete(exports, d.Symbol)
				}
			}
			for _, r := range t.units[e.Unit].Refs {
				if hides(r.Visibility) {
					delete(exports, r.Symbol)
				}
			}
		}
	}
	for i := range p.Files[:file] {
		for _, e := range p.Files[i].Entries {
			if e.Library == 0 {
				for _, d := range t.units[e.Unit].Defs {
					delete(exports, d.Symbol)
				}
			}
		}
	}
	return slices.ContainsFunc(p.Files[0].Entries, func(e Entry) bool {
		if e.Lazy || e.Library != 0 {
			return false
		}
		u := t.units[e.Unit]
		return u.Exact && slices.ContainsFunc(u.Refs, func(r Ref) bool { return !r.Weak && exports[r.Symbol] })
	})
}

// harmless says whether nothing depends on which lazy units of a file are
// linked.
func harmless(t *Table, p *Program, f *File) bool {
	var lazy []Entry
	for _, e := range f.Entries {
		if e.Lazy {
			lazy = append(lazy, e)
		}
	}
	return !matters(t, p, lazy)
}
