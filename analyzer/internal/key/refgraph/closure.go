package refgraph

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/lazyregexp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/nameset"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/linkmodel"
)

// Roots says where the execution of a test starts, beside the components that
// their manifests call roots, and what is known of its link.
type Roots struct {
	// Symbols are roots if anything defines them: those to which the executable refers.
	Symbols []string
	// Overrides are symbols that libraries of the system define or refer to. The program's
	// definition of one is a root.
	Overrides []linkmodel.Symbol
	// Unusual is why the whole link counts by content, or empty.
	Unusual string
	// Opened says that other programs may open the libraries: everything in them counts.
	Opened bool
	// GarbageCollected says that a linker drops sections to which nothing refers (--gc-sections).
	GarbageCollected bool
	// StaticC says that the C library is linked statically: its members ask by weak
	// references which others are there.
	StaticC bool
	// System returns the library of the system that surely defines a symbol, "" for one that every
	// file needs, and the symbol if that isn't known. If it is nil, nothing is known.
	System func(symbol string) string
	// Idle has, if it isn't nil, the names of functions that an execution of the test didn't enter,
	// whichever of that name: a closure with them is that of a trace.
	Idle map[string]bool
}

// Defined returns the numbers of those of symbols that any unit defines.
func (p *Pool) Defined(symbols []string) []linkmodel.Symbol {
	var out []linkmodel.Symbol
	for _, s := range symbols {
		if id := p.Symbols.Lookup(s); p.Symbols.Defined(id) {
			out = append(out, id)
		}
	}
	return out
}

// Closure is what a set of roots reaches in a program. All but Hash is valid
// until the composer's next program.
type Closure struct {
	// Hash identifies the code of the program.
	//
	//	"tasting code 5"
	//	list of named roots: symbol, list of the numbers of its definitions
	//	list of the files with components that are roots by themselves, in the
	//	    order of the loader: whether it is the executable, list of their numbers
	//	the walk (Composer.walk)
	//	list of additions, each with its name and hash (shape.go)
	//
	// Equal hashes mean equal closures, up to the names of local components and
	// to the objects that definitions are in.
	Hash Hash
	// Additions are the parts of Hash that linkers, loaders or the program see beside what it reaches.
	Additions []Addition
	// Unusual is why the whole link counts by content, or empty.
	Unusual string
	// Unresolved are the symbols to which some linked unit refers and that none defines,
	// and Duplicates those that two units of a file define: what a linker might
	// complain about.
	Unresolved, Duplicates []string
	// SourceDoubt is why evidence by source doesn't say what linkers and loaders make of
	// the program, or empty.
	SourceDoubt string
	// Overridden are those of Roots.Overrides that the program defines, without
	// copies of templates of the C++ library, which do the same.
	Overridden []string
	// Idle are those of Roots.Idle that the closure has as stubs, sorted: all others don't matter.
	Idle []string
	// Entered are, of a trace, the other functions that it has and that could be stubs.
	Entered nameset.Set
	// Opaque is, of a trace, why executions may differ though its closure is the same, or empty.
	Opaque string

	c        *Composer
	program  *linkmodel.Program
	named    []named
	roots    []int32            // in order
	replaced []linkmodel.Symbol // Roots.Overrides that the program defines
	// undefined are Unresolved by file, weak the references that may stay undefined.
	undefined [][]linkmodel.Symbol
	weak      map[linkmodel.Symbol]bool
}

// An Addition is a named part of a closure's hash.
type Addition struct {
	Name string
	Hash Hash
}

type named struct {
	symbol, why string
	defs        []int32
}

// Compose links p and returns what roots and the components that are roots by
// themselves reach.
func (c *Composer) Compose(p *linkmodel.Program, roots Roots) *Closure {
	c.link(p)
	c.setIdle(roots.Idle)
	x := &Closure{c: c, program: p, Unusual: roots.Unusual}
	x.nameRoots(roots)
	slices.SortFunc(x.named, func(x, y named) int { return strings.Compare(x.symbol, y.symbol) })
	files, initialisers := x.initialisers()

	b := frame.New("tasting code 5")
	if c.idle != nil {
		b = frame.New("tasting trace 3")
	}
	refs := func(ids []int32) {
		b.Int(len(ids))
		for _, id := range ids {
			b.Int(int(c.visit(id)))
		}
	}
	b.Int(len(x.named))
	for _, n := range x.named {
		b.String(n.symbol)
		refs(n.defs)
	}
	b.Int(len(files))
	for i, file := range files {
		// A library's run before the C library has been told what ends the program, and before
		// the executable's addresses are in place.
		b.Flag(file == 0)
		refs(initialisers[i])
	}
	h := sha256.New()
	h.Write(b)
	c.walk(h)

	x.resolve()
	x.add(roots, files)
	b = b[:0]
	b.Int(len(x.Additions))
	for _, a := range x.Additions {
		b.String(a.Name)
		b.Bytes(a.Hash[:])
	}
	h.Write(b)
	h.Sum(x.Hash[:0])
	if c.idle != nil {
		x.trace(roots)
	}
	return x
}

// setIdle makes functions stubs in what is composed next, those of which all names are idle: of a weak one, the idle
// definition may be another one.
func (c *Composer) setIdle(names map[string]bool) {
	if names == nil {
		c.idle = nil
		return
	}
	c.idle = slices.Grow(c.idle[:0], len(c.pool.entryNames)+1)[:len(c.pool.entryNames)] // not nil, even if there is none
	clear(c.idle)
	for name := range names {
		for _, n := range c.pool.entries[name] { // of which it is the first name
			c.idle[n] = !slices.ContainsFunc(c.pool.entryNames[n], func(name string) bool { return !names[name] })
		}
	}
}

// trace notes which stubs there are, and why the closure isn't good for a trace.
func (x *Closure) trace(roots Roots) {
	c := x.c
	switch {
	case x.Unusual != "":
		x.Opaque = x.Unusual
	case c.sees&seesCode != 0:
		x.Opaque = "it may see where functions begin and end"
	case slices.ContainsFunc(x.Additions, func(a Addition) bool { return a.Name == Own }):
		x.Opaque = "it may read its own program"
	}
	seen := map[int32]bool{}
	x.Entered = nameset.Of(func(yield func(string) bool) {
		for _, id := range c.order {
			e := c.comp(id).entry
			switch {
			case e < 0:
			case !c.isStub(id):
				for _, name := range c.pool.entryNames[e] {
					if !roots.Idle[name] {
						yield(name)
					}
				}
			case !seen[e]:
				seen[e] = true
				x.Idle = append(x.Idle, c.pool.entryNames[e]...)
			}
		}
	})
	slices.Sort(x.Idle)
	x.Idle = slices.Compact(x.Idle)
}

// allocation matches operator new and delete.
var allocation = lazyregexp.New(`^_Z(n[wa]|d[la])[jmP]`)

// nameRoots finds the definitions of symbols that are roots.
func (x *Closure) nameRoots(roots Roots) {
	c := x.c
	t, l := c.pool.Symbols, c.linked
	for _, s := range roots.Symbols {
		if id := t.Lookup(s); id != linkmodel.None {
			if c.places = l.Resolve(c.places[:0], 0, id); len(c.places) == 0 {
				c.places = l.All(c.places, id) // hidden
			}
			x.name(s, s, c.nodesAt(c.places))
		}
	}
	for _, id := range roots.Overrides {
		c.places = l.All(c.places[:0], id)
		if len(c.places) == 0 {
			continue
		}
		x.replaced = append(x.replaced, id)
		s, nodes := t.Name(id), c.nodesAt(c.places)
		if copies := strings.HasPrefix(s, "_Z") && !allocation.MatchString(s); !copies {
			x.Overridden = append(x.Overridden, s)
		} else if strings.Contains(s, "I") && !slices.ContainsFunc(nodes, func(id int32) bool { return !c.isCopy(id) }) { // I begins arguments of templates
			continue // the library has one that does the same
		}
		defs := slices.DeleteFunc(nodes, func(id int32) bool { return c.comp(id).flags&flagRoot != 0 })
		x.name(s, "replaces "+s+" of a system library", defs)
	}
}

// ofCxx matches the signatures of COMDAT groups that the headers of a C++ library bring along.
var ofCxx = lazyregexp.New(`^(?:_Z(?:T[VIST]|GV|GR|TW|TH)?Z?(?:N[rVKRO]*)?(?:S[tabsiod]|9__gnu_cxx|10__cxxabiv1)|__clang_call_terminate$|DW\.ref\.__gxx_personality_v0$|_Z(?:nw|na|dl|da))`)

// isCopy reports whether a definition of a symbol of the C++ library may be a copy of the library's own: it is in a
// COMDAT group, and reaches nothing of the program but other copies and gcc's unoptimised literals. See
// link-cxx/copies-specialised and link-inside/copy-gnu.
//
// It is asked before the walk, of definitions that may be unreached. So it binds nothing: each definition of a symbol
// may be the one.
func (c *Composer) isCopy(id int32) bool {
	if c.comp(id).group == linkmodel.None {
		return false
	}
	list, seen := []int32{id}, map[int32]bool{id: true}
	add := func(to int32) bool {
		x := c.comp(to)
		switch {
		case seen[to] || c.copies[to]:
		case strings.Contains(x.name, ".rodata") && len(c.linksFrom(to)) == 0: // literals
		case x.group == linkmodel.None || !ofCxx.MatchString(c.pool.Symbols.Name(x.group)):
			return false
		default:
			seen[to] = true
			list = append(list, to)
		}
		return true
	}
	for i := 0; i < len(list); i++ {
		u, own := c.of(list[i])
		for _, l := range u.linksOf(own) {
			if l >= 0 {
				if !add(list[i] - own + l) {
					return false
				}
				continue
			}
			c.won = c.linked.All(c.won[:0], u.symbols[-1-l])
			if slices.ContainsFunc(c.won, func(p linkmodel.Place) bool { return !add(c.at(p.Instance, p.Component)) }) {
				return false
			}
		}
	}
	for _, x := range list {
		c.copies[x] = true
	}
	return true
}

// name makes the definitions of a symbol roots, if there are any and it isn't one of them yet.
func (x *Closure) name(symbol, why string, defs []int32) {
	if len(defs) > 0 && !x.Defines(symbol) {
		x.named = append(x.named, named{symbol, why, defs})
	}
}

// nodesAt returns the nodes at places, each once.
func (c *Composer) nodesAt(places []linkmodel.Place) (ids []int32) {
	for _, p := range places {
		if id := c.at(p.Instance, p.Component); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// initialisers finds what is a root by itself, and returns the files that have such
// components, with these. They run by file, and within a file in the order of the link.
func (x *Closure) initialisers() (files []int32, of [][]int32) {
	c, l := x.c, x.c.linked
	last := int32(-1)
	for i, in := range l.Instances {
		start := len(x.roots)
		for _, k := range c.pool.units[in.Unit].roots {
			if group := c.pool.units[in.Unit].comps[k].group; group == linkmodel.None || !l.Discarded(int32(i), group) {
				x.roots = append(x.roots, c.at(int32(i), k))
			}
		}
		// What depends on an order within a unit is one component.
		c.sort(x.roots[start:])
		if start == len(x.roots) {
			continue
		}
		if in.File != last {
			files, of, last = append(files, in.File), append(of, nil), in.File
		}
		of[len(of)-1] = append(of[len(of)-1], x.roots[start:]...)
	}
	return files, of
}

// hidden is the suffix of an undefined symbol of hidden visibility: no library of the system can define it.
const hidden = " (hidden)"

// resolve finds the symbols to which units refer and that nothing defines for them.
func (x *Closure) resolve() {
	c, p := x.c, x.program
	t, l := c.pool.Symbols, c.linked
	x.undefined, x.weak = make([][]linkmodel.Symbol, len(p.Files)), map[linkmodel.Symbol]bool{}
	file, on := int32(-1), make([]bool, len(p.Files))
	for _, in := range l.Instances {
		if in.File != file { // they are in the order of the files
			file = in.File
			c.passes++
			clear(on)
			on[file] = true
			for _, e := range p.Files[file].Entries {
				on[e.Library] = on[e.Library] || e.Library != 0
			}
		}
		for _, r := range t.Unit(in.Unit).Refs {
			if r.Visibility != manifest.Visibility_VISIBILITY_DEFAULT && !r.Weak && !c.linkersOwn(r.Symbol) {
				if c.places = l.All(c.places[:0], r.Symbol); len(c.places) == 0 {
					x.Unresolved = append(x.Unresolved, t.Name(r.Symbol)+hidden)
				}
			}
			if r.Weak {
				// Symbols that begin with _ZTH initialise variables of the program's own.
				if !x.weak[r.Symbol] && !strings.HasPrefix(t.Name(r.Symbol), "_ZTH") && !c.finds(file, r.Symbol, nil) {
					x.weak[r.Symbol] = true
				}
				continue
			}
			if x := &c.names[r.Symbol]; x.looked == c.passes {
				continue
			} else {
				x.looked = c.passes
			}
			complete := on
			if !p.Files[file].Complete {
				complete = nil
			}
			if !c.finds(file, r.Symbol, complete) {
				x.Unresolved = append(x.Unresolved, t.Name(r.Symbol))
				x.undefined[file] = append(x.undefined[file], r.Symbol)
			}
		}
	}
	for _, s := range l.Duplicates {
		x.Duplicates = append(x.Duplicates, t.Name(s))
	}
	for _, list := range []*[]string{&x.Unresolved, &x.Duplicates} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
}

// finds reports whether a file finds a definition of a symbol; on are the files in which it has to
// be, nil for any.
func (c *Composer) finds(file int32, s linkmodel.Symbol, on []bool) bool {
	if !c.linked.Scoped(file) {
		if id, certain := c.standsFor(s); certain {
			return id != nowhere && (on == nil || on[c.fileOf(id)])
		}
	}
	c.places = c.linked.Resolve(c.places[:0], file, s)
	if set, ok := c.pool.sets[s]; ok && len(c.places) == 0 {
		return len(c.setOf(file, set)) > 0 // the linker defines its bounds
	}
	return slices.ContainsFunc(c.places, func(p linkmodel.Place) bool { return on == nil || on[c.linked.Instances[p.Instance].File] })
}

// sort brings components into an order that doesn't depend on where they are, as far as their descriptions
// and names tell them apart.
func (c *Composer) sort(ids []int32) {
	slices.SortFunc(ids, func(x, y int32) int {
		a, b := c.comp(x), c.comp(y)
		return cmp.Or(
			bytes.Compare(c.pool.digests[a.description][:], c.pool.digests[b.description][:]),
			strings.Compare(a.name, b.name),
			cmp.Compare(x, y))
	})
}

// linkersOwn tells whether linkers or start-up files define a symbol.
func (c *Composer) linkersOwn(s linkmodel.Symbol) bool {
	set, ok := c.pool.sets[s]
	if ok {
		c.setOf(0, set) // of this program; others may have more
		ok = c.hasSet(set)
	}
	name := c.pool.Symbols.Name(s)
	return ok || slices.Contains(layoutSymbols, name) || name == "__dso_handle"
}

// Defines says whether symbol is among the roots, that is: defined.
func (x *Closure) Defines(symbol string) bool {
	return slices.ContainsFunc(x.named, func(n named) bool { return n.symbol == symbol })
}

// Member is a component in a closure.
type Member struct {
	Unit      int32    // its unit in the pool
	Component int32    // and number in the unit
	File      int      // in which it is linked
	Links     []int    // indices of members, without repetition
	Roots     []string // why it is a root; empty if it isn't one, "" for a component that is one by itself
}

// Members lists the components of the closure, roots first and each component
// before what only it refers to.
func (x *Closure) Members() []Member {
	c := x.c
	members := make([]Member, len(c.order))
	for i, id := range c.order {
		in := c.linked.Instances[c.within[id]]
		_, own := c.of(id)
		m := Member{Unit: in.Unit, Component: own, File: int(in.File)}
		seen := map[int32]bool{}
		for targets := range c.linksOf(id) {
			for _, to := range targets {
				if !seen[to] {
					seen[to] = true
					m.Links = append(m.Links, int(c.numbers[to]-1))
				}
			}
		}
		members[i] = m
	}
	why := func(id int32, reason string) {
		m := &members[c.numbers[id]-1]
		m.Roots = append(m.Roots, reason)
	}
	for _, n := range x.named {
		for _, id := range n.defs {
			why(id, n.why)
		}
	}
	for _, id := range x.roots {
		why(id, "")
	}
	return members
}

// Contest is a symbol of which several definitions are linked.
type Contest struct {
	Symbol string
	// Copies are the definitions, in the order of the link; of the first Winners
	// it can't be told which one is taken.
	Copies  []Copy
	Winners int
}

// Copy is a definition of a contested symbol.
type Copy struct {
	Unit, Component int32
	File            int
}

// Contests lists the symbols to which something in the closure refers and of
// which different definitions are linked, with the one that wins first.
func (x *Closure) Contests() []Contest {
	c := x.c
	t, l := c.pool.Symbols, c.linked
	type key struct {
		file   int32
		symbol linkmodel.Symbol
	}
	seen := map[key]bool{}
	var list []Contest
	for _, id := range c.order {
		in := l.Instances[c.within[id]]
		u := c.pool.units[in.Unit]
		for _, raw := range c.linksFrom(id) {
			if raw >= 0 {
				continue
			}
			s := u.symbols[-1-raw]
			k := key{-1, s}
			if l.Scoped(in.File) {
				k.file = in.File
			}
			if seen[k] {
				continue
			}
			seen[k] = true
			winners := l.Resolve(nil, in.File, s)
			if len(winners) == 0 {
				continue
			}
			all := slices.Clone(winners)
			for i, other := range l.Instances {
				for _, d := range t.Unit(other.Unit).Defs {
					p := linkmodel.Place{Instance: int32(i), Component: d.Component}
					if d.Symbol == s && !slices.Contains(all, p) {
						all = append(all, p)
					}
				}
			}
			describe := func(p linkmodel.Place) int32 {
				return c.pool.units[l.Instances[p.Instance].Unit].comps[p.Component].description
			}
			if !slices.ContainsFunc(all, func(p linkmodel.Place) bool { return describe(p) != describe(all[0]) }) {
				continue
			}
			x := Contest{Symbol: t.Name(s), Winners: len(winners)}
			for _, p := range all {
				o := l.Instances[p.Instance]
				x.Copies = append(x.Copies, Copy{o.Unit, p.Component, int(o.File)})
			}
			list = append(list, x)
		}
	}
	slices.SortStableFunc(list, func(a, b Contest) int { return strings.Compare(a.Symbol, b.Symbol) })
	return list
}
