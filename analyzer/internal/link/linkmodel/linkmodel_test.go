package linkmodel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
)

// The reference: the rules of the package's comments, as plainly as they can be
// written, by names, maps and searching again and again.

const (
	dfault    = manifest.Visibility_VISIBILITY_DEFAULT
	internal  = manifest.Visibility_VISIBILITY_INTERNAL
	hidden    = manifest.Visibility_VISIBILITY_HIDDEN
	protected = manifest.Visibility_VISIBILITY_PROTECTED
)

type plainFile struct {
	entries         []Entry
	bsymbolic       bool
	complete        bool
	linker          Linker
	taken           []int32
	vague, computed bool
}

type reference struct {
	units []*manifest.Manifest
	files []*plainFile
	needs []string
}

func base(name string) string {
	b, _, _ := strings.Cut(name, "@")
	return b
}

// mention is one of a symbol in a file that is linked.
type mention struct {
	file, unit, instance int
	component            int // -1 for a reference
	binding              manifest.Binding
	vis                  manifest.Visibility
	group                string
	weak                 bool
}

// mentions returns all of a symbol in a file, by unit: definitions, then
// references.
func (r *reference) mentions(file int, name string) (l []mention) {
	instance := 0
	for _, f := range r.files[:file] {
		instance += len(f.taken)
	}
	for _, u := range r.files[file].taken {
		m := r.units[u]
		for i, c := range m.Components {
			for _, d := range c.Definitions {
				if base(d.Name) == name {
					l = append(l, mention{file, int(u), instance, i, d.Binding, d.Visibility, c.Group, false})
				}
			}
		}
		for _, x := range m.Units[0].References {
			if base(x.Name) == name {
				l = append(l, mention{file, int(u), instance, -1, 0, x.Visibility, "", x.Weak})
			}
		}
		instance++
	}
	return l
}

// kept says whether a group of an instance is the first of its signature in a
// file.
func (r *reference) kept(file, instance int, group string) bool {
	before := 0
	for _, f := range r.files[:file] {
		before += len(f.taken)
	}
	for _, u := range r.files[file].taken[:instance-before] {
		for _, c := range r.units[u].Components {
			if c.Group == group && (len(c.Definitions) > 0 || c.Root != "") {
				return false
			}
		}
	}
	return true
}

// decision is what a file makes of a symbol.
type decision struct {
	winners             []mention
	vis                 manifest.Visibility
	common, unique, own bool // of the winners
	discarded, unusual  bool
}

func (r *reference) decide(file int, name string) (d decision) {
	f := r.files[file]
	order := []manifest.Visibility{dfault, protected, hidden, internal}
	for _, m := range r.mentions(file, name) {
		if slices.Index(order, m.vis) > slices.Index(order, d.vis) {
			d.vis = m.vis
		}
	}
	var candidates []mention
	keptIn := ""
	for _, m := range r.mentions(file, name) {
		switch {
		case m.component < 0:
		case m.group == "" || r.kept(file, m.instance, m.group):
			candidates = append(candidates, m)
			if m.group != "" {
				keptIn = m.group
			}
		case keptIn != m.group:
			d.discarded = true
		case m.binding == manifest.Binding_BINDING_GLOBAL && !slices.ContainsFunc(candidates, func(c mention) bool { return c.binding == manifest.Binding_BINDING_GLOBAL }):
			d.discarded = true // lld has taken the name before it sees the group
		}
	}
	with := func(b manifest.Binding) (l []mention) {
		for _, m := range candidates {
			if m.binding == b {
				l = append(l, m)
			}
		}
		return l
	}
	if f.linker == GNU { // two tentative definitions before what is stronger
		commons := 0
		for _, m := range candidates {
			if m.binding == manifest.Binding_BINDING_GLOBAL || m.binding == manifest.Binding_BINDING_UNIQUE {
				break
			}
			if m.binding == manifest.Binding_BINDING_COMMON {
				commons++
			}
		}
		d.unusual = commons > 1
	}
	global, common := with(manifest.Binding_BINDING_GLOBAL), with(manifest.Binding_BINDING_COMMON)
	weak, unique := with(manifest.Binding_BINDING_WEAK), with(manifest.Binding_BINDING_UNIQUE)
	switch {
	case len(global) > 0 && f.linker == GNU:
		d.winners = global[:1]
	case f.linker != GNU:
		// For lld, the first of weak and unique ones wins, and a common one wins
		// over a weak one only. If it may be another linker, it isn't decided.
		for _, m := range candidates {
			switch {
			case len(d.winners) == 0:
				d.winners = []mention{m}
			case d.winners[0].binding == manifest.Binding_BINDING_WEAK && m.binding == manifest.Binding_BINDING_UNIQUE && f.linker == AnyLinker:
				d.unusual = true
			case m.binding == manifest.Binding_BINDING_GLOBAL && d.winners[0].binding != manifest.Binding_BINDING_GLOBAL,
				d.winners[0].binding == manifest.Binding_BINDING_WEAK && m.binding == manifest.Binding_BINDING_COMMON,
				d.winners[0].binding == manifest.Binding_BINDING_COMMON && m.binding == manifest.Binding_BINDING_UNIQUE:
				d.winners = []mention{m}
			case d.winners[0].binding == manifest.Binding_BINDING_COMMON && m.binding == manifest.Binding_BINDING_COMMON:
				d.unusual = true
			}
		}
		if len(d.winners) > 0 {
			d.common = d.winners[0].binding == manifest.Binding_BINDING_COMMON
			d.unique = d.winners[0].binding == manifest.Binding_BINDING_UNIQUE
		}
	case len(unique) > 0:
		d.winners, d.unique = unique[:1], true
	case len(common) > 0:
		d.winners, d.common = common[:1], true
	case len(weak) > 0:
		d.winners = weak[:1]
	}
	return d
}

// ambiguous are the reasons for which it can't be told where a symbol is found.
func (r *reference) ambiguous(name string) bool {
	var decisions []decision
	executable := len(r.mentions(0, name)) > 0 && slices.ContainsFunc(r.mentions(0, name), func(m mention) bool { return m.component < 0 })
	unique, own := false, false
	for i, f := range r.files {
		d := r.decide(i, name)
		if d.discarded {
			return true
		}
		hides := d.vis == hidden || d.vis == internal
		if len(d.winners) == 0 {
			if d.vis == dfault {
				continue
			}
			if f.linker == AnyLinker {
				return true
			}
			d.own = true
		} else {
			d.own = hides || d.vis == protected || f.bsymbolic
			if i > 0 && d.own && !hides && executable {
				return true // a copy of a variable
			}
		}
		decisions = append(decisions, d)
		unique, own = unique || d.unique, own || d.own
	}
	return len(decisions) > 1 && unique && own
}

// unusual reports whether the program isn't modelled.
func (r *reference) unusual() bool {
	for i, f := range r.files {
		on := map[int32]bool{0: true, int32(i): true}
		for _, e := range f.entries {
			on[e.Library] = true
			if e.Library == 0 && slices.ContainsFunc(r.units[e.Unit].Components, func(c *manifest.Component) bool {
				return slices.ContainsFunc(c.Definitions, func(d *manifest.Definition) bool { return base(d.Name) != d.Name })
			}) || e.Library == 0 && slices.ContainsFunc(r.units[e.Unit].Units[0].References, func(x *manifest.Reference) bool { return base(x.Name) != x.Name }) {
				return true
			}
		}
		libraries := i == 0 || slices.ContainsFunc(f.entries, func(e Entry) bool { return e.Library != 0 })
		if f.vague || f.complete && libraries && len(on) < len(r.files) {
			return true
		}
	}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		defined, common := 0, false
		for i := range r.files {
			d := r.decide(i, name)
			if d.unusual {
				return true
			}
			if len(d.winners) > 0 || d.vis != dfault && len(r.mentions(i, name)) > 0 {
				defined, common = defined+1, common || d.common
			}
		}
		if common && defined > 1 {
			return true
		}
	}
	return false
}

// resolve returns what a reference in a file is bound to: instances and
// components.
func (r *reference) resolve(file int, name string) (out []Definition) {
	ambiguous := r.ambiguous(name)
	add := func(l []mention) {
		for _, m := range l {
			if p := (Definition{int32(m.instance), int32(m.component)}); !slices.Contains(out, p) {
				out = append(out, p)
			}
		}
	}
	f := r.files[file]
	d := r.decide(file, name)
	switch restricted := d.vis == hidden || d.vis == internal; {
	case len(d.winners) == 0 && d.vis != dfault:
		if !slices.ContainsFunc(r.mentions(file, name), func(m mention) bool { return m.component >= 0 || m.vis != dfault }) {
			break
		}
		return nil
	case len(d.winners) > 0 && (restricted || d.vis == protected || f.bsymbolic):
		add(d.winners)
		if restricted || !ambiguous {
			return out
		}
	}
	for i := range r.files {
		d := r.decide(i, name)
		if len(d.winners) > 0 && d.vis != hidden && d.vis != internal {
			add(d.winners)
			if !ambiguous {
				break
			}
		}
	}
	return out
}

// take decides which units are linked into a file.
func (r *reference) take(file int32) {
	f := r.files[file]
	if f.computed {
		return
	}
	f.computed = true
	lazy := false
	for _, e := range f.entries {
		lazy = lazy || e.Lazy
	}
	everything := func() {
		f.taken = nil
		for _, e := range f.entries {
			if e.Library == 0 && !(e.Lazy && slices.Contains(f.taken, e.Unit)) {
				f.taken = append(f.taken, e.Unit)
			}
		}
	}
	if !lazy {
		everything()
		return
	}
	certain := true
	for _, e := range f.entries {
		if e.Library != 0 {
			r.take(e.Library)
			certain = certain && !r.files[e.Library].vague
		}
	}
	var left []int
	var commons map[string]bool
	switch f.linker {
	case GNU:
		f.taken, left, commons = r.gnu(f)
	default:
		var ok bool
		f.taken, left, commons, ok = r.lld(f)
		certain = certain && ok
		if f.linker == AnyLinker {
			other, _, _ := r.gnu(f)
			at := 0
			for _, u := range other {
				n := slices.IndexFunc(f.entries[at:], func(e Entry) bool { return e.Library == 0 && e.Unit == u })
				certain = certain && n >= 0
				at += n + 1
			}
			certain = certain && slices.Equal(f.taken, other)
		}
	}
	for _, i := range left {
		for _, c := range r.units[f.entries[i].Unit].Components {
			for _, d := range c.Definitions {
				certain = certain && !(commons[base(d.Name)] && d.Binding != manifest.Binding_BINDING_COMMON)
			}
		}
	}
	if f.vague = !certain; f.vague {
		everything()
	}
}

// line is the state of a line while it is read.
type line struct {
	r                            *reference
	defined, common, shared      map[string]bool
	wanted, restricted, archived map[string]bool
	first                        map[string]int // entry of the member that defines it, for lld
	taken                        []int32
	in                           map[int]bool
	lld                          bool
	f                            *plainFile
}

func (r *reference) line(f *plainFile, lld bool) *line {
	l := &line{r, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]int{}, nil, map[int]bool{}, lld, f}
	if f == r.files[0] {
		for _, n := range r.needs {
			l.refer(n, false, dfault)
		}
	}
	return l
}

func (l *line) refer(name string, weak bool, vis manifest.Visibility) {
	if vis != dfault {
		l.restricted[name] = true
		delete(l.shared, name)
	}
	if weak || l.defined[name] || l.common[name] || l.shared[name] {
		return
	}
	l.wanted[name] = true
	if l.archived[name] {
		delete(l.archived, name)
		l.link(l.first[name])
	}
}

func (l *line) link(i int) {
	l.in[i] = true
	u := l.f.entries[i].Unit
	l.taken = append(l.taken, u)
	m := l.r.units[u]
	for _, c := range m.Components {
		for _, d := range c.Definitions {
			n := base(d.Name)
			if d.Visibility != dfault {
				l.restricted[n] = true
			}
			delete(l.wanted, n)
			delete(l.shared, n)
			delete(l.archived, n)
			if d.Binding != manifest.Binding_BINDING_COMMON {
				l.defined[n] = true
				delete(l.common, n)
			} else if !l.defined[n] {
				l.common[n] = true
			}
		}
	}
	for _, x := range m.Units[0].References {
		l.refer(base(x.Name), x.Weak, x.Visibility)
	}
}

func (l *line) wants(i int) bool {
	for _, c := range l.r.units[l.f.entries[i].Unit].Components {
		for _, d := range c.Definitions {
			if l.wanted[base(d.Name)] {
				return true
			}
		}
	}
	return false
}

// library reads a shared library. It isn't known in which order it needs
// something.
func (l *line) library(file int32) (sure bool) {
	var names []string
	defines, hides, needs := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, u := range l.r.files[file].taken {
		m := l.r.units[u]
		see := func(name string, v manifest.Visibility) string {
			if name = base(name); !slices.Contains(names, name) {
				names = append(names, name)
			}
			hides[name] = hides[name] || v == hidden || v == internal
			return name
		}
		for _, c := range m.Components {
			for _, d := range c.Definitions {
				defines[see(d.Name, d.Visibility)] = true
			}
		}
		for _, x := range m.Units[0].References {
			if n := see(x.Name, x.Visibility); !x.Weak {
				needs[n] = true
			}
		}
	}
	before, wants := len(l.taken), 0
	for _, n := range names { // undefined ones first
		if !hides[n] && !defines[n] {
			if l.archived[n] && needs[n] {
				wants++
			}
			l.refer(n, !needs[n], dfault)
		}
	}
	for _, n := range names {
		if !hides[n] && defines[n] && !l.defined[n] && !l.common[n] && !l.restricted[n] {
			delete(l.wanted, n)
			delete(l.archived, n)
			l.shared[n] = true
		}
	}
	return wants < 2 || len(l.taken) < before+2
}

func (l *line) left() (left []int) {
	for i, e := range l.f.entries {
		if e.Lazy && !l.in[i] {
			left = append(left, i)
		}
	}
	return left
}

func (r *reference) gnu(f *plainFile) ([]int32, []int, map[string]bool) {
	l := r.line(f, false)
	archive := func(i int) {
		for again := true; again; {
			again = false
			for k := i; k < len(f.entries) && f.entries[k].Lazy && f.entries[k].Archive == f.entries[i].Archive; k++ {
				if !l.in[k] && l.wants(k) {
					l.link(k)
					again = true
				}
			}
		}
	}
	begins := func(i int) bool {
		return f.entries[i].Lazy && (i == 0 || !f.entries[i-1].Lazy || f.entries[i-1].Archive != f.entries[i].Archive)
	}
	for i, e := range f.entries {
		switch {
		case e.Library != 0:
			l.library(e.Library)
		case !e.Lazy:
			l.link(i)
		case begins(i):
			archive(i)
		}
		// At the end of a group, its archives are searched again.
		if e.Group != 0 && (i+1 == len(f.entries) || f.entries[i+1].Group != e.Group) {
			for n := -1; n != len(l.taken); {
				n = len(l.taken)
				for k := range i + 1 {
					if f.entries[k].Group == e.Group && begins(k) {
						archive(k)
					}
				}
			}
		}
	}
	return l.taken, l.left(), l.common
}

func (r *reference) lld(f *plainFile) ([]int32, []int, map[string]bool, bool) {
	l, sure := r.line(f, true), true
	for i, e := range f.entries {
		switch {
		case e.Library != 0:
			sure = l.library(e.Library) && sure
		case !e.Lazy || l.wants(i):
			l.link(i)
		default:
			for _, c := range r.units[e.Unit].Components {
				for _, d := range c.Definitions {
					n := base(d.Name)
					if !l.defined[n] && !l.common[n] && !l.shared[n] && !l.archived[n] {
						l.archived[n], l.first[n] = true, i
					}
				}
			}
		}
	}
	return l.taken, l.left(), l.common, sure
}

// newReference makes a random program.
func newReference(choose func(n int) int) *reference {
	one := func(n int) bool { return choose(n) == 0 }
	names := []string{"a", "b", "c", "d", "e"}
	r := new(reference)
	unit := func() int32 {
		m := &manifest.Manifest{Units: []*manifest.Unit{{Exact: true}}}
		for _, n := range names {
			mentioned := n
			if one(100) {
				mentioned += "@V"
			}
			vis := dfault
			if one(5) {
				vis = manifest.Visibility(1 + choose(3))
			}
			switch choose(6) {
			case 0, 1:
				d := &manifest.Definition{Name: mentioned, Binding: manifest.Binding(1 + choose(3)), Visibility: vis}
				if one(15) {
					d.Binding = manifest.Binding_BINDING_COMMON
				}
				c := &manifest.Component{Definitions: []*manifest.Definition{d}}
				if d.Binding != manifest.Binding_BINDING_COMMON && one(3) {
					c.Group = n
					if one(8) {
						c.Group = names[choose(len(names))]
					}
				}
				m.Components = append(m.Components, c)
			case 2, 3:
				x := &manifest.Reference{Name: mentioned, Weak: one(4), Visibility: vis}
				l := &m.Units[0].References
				*l = slices.Insert(*l, choose(len(*l)+1), x)
			}
		}
		if one(4) {
			c := &manifest.Component{Root: "constructor"}
			if one(2) {
				c.Group = names[choose(len(names))]
			}
			m.Components = append(m.Components, c)
		}
		r.units = append(r.units, m)
		return int32(len(r.units) - 1)
	}
	n := 1 + choose(4)
	for i := range n {
		f := &plainFile{bsymbolic: i > 0 && one(4), complete: one(4), linker: Linker(choose(3))}
		archive, group, open := 0, 0, 0
		for range 1 + choose(5) {
			if one(5) {
				if open = 1 - open; open == 1 {
					group++
				}
			}
			switch choose(5) {
			case 0, 1:
				archive++
				for range 1 + choose(3) {
					f.entries = append(f.entries, Entry{Unit: unit(), Lazy: true, Archive: archive, Group: open * group})
				}
			case 2:
				if i+1 < n {
					f.entries = append(f.entries, Entry{Library: int32(i + 1 + choose(n-i-1)), Group: open * group})
				}
			case 3:
				if k := choose(len(r.units) + 1); k > 0 && !slices.ContainsFunc(f.entries, func(e Entry) bool { return e.Unit == int32(k-1) && e.Library == 0 }) {
					f.entries = append(f.entries, Entry{Unit: int32(k - 1), Group: open * group})
				}
			default:
				f.entries = append(f.entries, Entry{Unit: unit(), Group: open * group})
			}
		}
		r.files = append(r.files, f)
	}
	if one(3) {
		r.needs = []string{names[choose(len(names))]}
	}
	return r
}

func (r *reference) String() string {
	var b strings.Builder
	for i, f := range r.files {
		fmt.Fprintf(&b, "file %d: bsymbolic %v, complete %v, linker %d, {unit library lazy archive group} %v, taken %v\n", i, f.bsymbolic, f.complete, f.linker, f.entries, f.taken)
	}
	for i, m := range r.units {
		fmt.Fprintf(&b, "unit %d: %v\n", i, m)
	}
	return b.String()
}

type linkStats struct{ programs, unusual, references, decided, ambiguous int }

// check compares. Linked may have been used for other programs.
func (r *reference) check(t testing.TB, table *Table, l *Linked, units []int32, stats *linkStats) {
	t.Helper()
	p := new(Program)
	for i, f := range r.files {
		r.take(int32(i))
		x := File{Bsymbolic: f.bsymbolic, Complete: f.complete, Linker: f.linker}
		for _, e := range f.entries {
			if e.Library == 0 {
				e.Unit = units[e.Unit]
			}
			x.Entries = append(x.Entries, e)
		}
		p.Files = append(p.Files, x)
	}
	for _, n := range r.needs {
		p.Needs = append(p.Needs, table.Symbol(n))
	}
	l.Link(p)
	stats.programs++
	var got, want []LinkedUnit
	for i, f := range r.files {
		for _, u := range f.taken {
			want = append(want, LinkedUnit{int32(i), units[u]})
		}
	}
	got = l.Units
	if unusual := r.unusual(); (l.Unusual != "") != unusual {
		t.Errorf("unusual: %q; want %v\n%s", l.Unusual, unusual, r)
		return
	} else if unusual {
		stats.unusual++
		return
	}
	if !slices.Equal(got, want) {
		t.Errorf("instances %v; want %v\n%s", got, want, r)
		return
	}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		s := table.Lookup(name)
		if s == None {
			continue
		}
		for i := range r.files {
			got, want := l.Resolve(nil, int32(i), s), r.resolve(i, name)
			stats.references++
			if len(want) < 2 {
				stats.decided++
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s in file %d is bound to %v, want %v\n%s", name, i, got, want, r)
				return
			}
		}
		// If nothing defines it, it isn't found, whatever the reason.
		if got, want := l.Ambiguous(s), r.ambiguous(name); got != want && len(l.Definitions(nil, s)) > 0 {
			t.Errorf("%s is ambiguous: %v, want %v\n%s", name, got, want, r)
			return
		} else if want {
			stats.ambiguous++
		}
	}
	for i, in := range l.Units {
		for _, c := range r.units[slices.Index(units, in.Unit)].Components {
			if c.Root != "" && c.Group != "" {
				got := l.IsDiscarded(int32(i), table.Symbol(c.Group))
				want := !r.kept(int(in.File), i, c.Group)
				if got != want {
					t.Errorf("root with group %s of instance %d is discarded: %v, want %v\n%s", c.Group, i, got, want, r)
				}
			}
		}
	}
}

func compareWithReference(t testing.TB, choose func(n int) int, programs int, stats *linkStats) {
	t.Helper()
	table := NewTable()
	var all []*reference
	var units [][]int32
	for range programs {
		r := newReference(choose)
		var u []int32
		for _, m := range r.units {
			var list []int32
			for i := range m.Components {
				list = append(list, int32(i))
			}
			u = append(u, table.Add(m, 0, list))
		}
		all, units = append(all, r), append(units, u)
	}
	l := NewLinked(table)
	for i, r := range all {
		if r.check(t, table, l, units[i], stats); t.Failed() {
			return
		}
	}
}

// The model agrees with the reference, whatever else is in the table, and
// whatever was linked before.
func TestReference(t *testing.T) {
	n := 25_000
	if testing.Short() {
		n = 2_500
	}
	r := rand.New(rand.NewPCG(11, 12))
	var stats linkStats
	for range n {
		if compareWithReference(t, r.IntN, 4, &stats); t.Failed() {
			return
		}
	}
	t.Logf("%+v", stats)
	if stats.unusual > stats.programs/2 || stats.decided < stats.references/2 || stats.ambiguous < stats.references/40 {
		t.Error("the programs don't cover what they are to cover")
	}
}

func FuzzLink(f *testing.F) {
	f.Add([]byte("012345678901234567890123456789"))
	f.Fuzz(func(t *testing.T, b []byte) {
		compareWithReference(t, func(n int) int {
			if len(b) == 0 {
				return 0
			}
			c := int(b[0]) % n
			b = b[1:]
			return c
		}, 1, new(linkStats))
	})
}
