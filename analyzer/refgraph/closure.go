package refgraph

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/lazyregexp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/nameset"
	"github.com/rules-tasting/rules_tasting/analyzer/linkmodel"
	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
)

// Roots says where the execution of a test starts, beside the components that
// their manifests call roots.
type Roots struct {
	// Symbols are roots if anything defines them: that which the executable
	// refers to.
	Symbols []string
	// Named are roots with all of their definitions.
	Named []string
	// Read are symbols that flags of the linker read.
	Read []string
	// Overrides are symbols that libraries without a manifest refer to: what
	// defines one is a root, unless it already is by itself.
	Overrides []linkmodel.Symbol
	// Exported makes every definition that other units can refer to a root: a
	// program that looks up symbols at run time can reach all of them. It is
	// implied if such a look-up is reached.
	Exported bool
	// Everything has all components count, with the file and the order in which they
	// are linked: a linker script may collect what nothing refers to.
	Everything bool
	// Opened says that other programs may open the libraries: everything in them counts.
	Opened bool
	// GarbageCollected says that a linker drops what nothing refers to. Then
	// whether a linker set is kept depends on all of a file.
	GarbageCollected bool
	// TakesWhatIsNeeded says that references decide what is taken from the system:
	// which libraries (--as-needed), or which members of static ones. Their own
	// initialisers may call what the program overrides, and what may stay undefined
	// is in them.
	TakesWhatIsNeeded bool
	// LoadsWhatIsNeeded says that references decide which libraries of the system are
	// loaded.
	LoadsWhatIsNeeded bool
	// System says of a symbol in which library of the system it surely is, or returns the
	// symbol: "" if every file needs that library.
	System func(symbol string) string
	// SeesWhatIsNeeded says that what is needed counts in any case: the members
	// of a static C library ask which others are there, and a linker that takes
	// warnings for errors (--fatal-warnings) refuses some functions.
	SeesWhatIsNeeded bool
	// Inside says that some file has copies of libraries of the system for itself.
	Inside bool
	// Warned says that a linker takes warnings for errors: of references from one archive
	// to another one before it, of differences between common symbols.
	Warned bool
	// Foreign says that libraries of the system are linked of which it isn't known what
	// they define.
	Foreign bool
	// Initialises says that flags name functions that a loader calls (-init, -fini), or bring
	// files that initialise something.
	Initialises bool
	// NoCopies says that a flag forbids copies of variables of libraries.
	NoCopies bool
	// Debug says that debug information is read in any case, and names of files.
	Debug bool
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
	//	"tasting code 3"
	//	list of named roots: symbol, list of its definitions' global hashes
	//	list of the files with components that are roots by themselves, in the
	//	    order of the loader: whether it is the executable, list of their global hashes
	//	list of the global hashes of exported definitions, sorted
	//	list of additions, each with its name:
	//	    "as-needed libraries": the lines of all links and all code on them, if linkers
	//	        decide which libraries of the program are needed
	//	    "attributes": those of units, if they aren't the same for all
	//	    "contested": if it can't be told which of several definitions wins
	//	    "copies": the symbols of libraries in the closure that the executable refers
	//	        to directly, reached or not
	//	    "debug": debug information, if something that reads it is reached
	//	    "files": the linked files, if something that is reached asks the loader
	//	        for them, looks symbols up, or refers to their bounds
	//	    "versions": the symbols that have to be of a version, reached or not
	//	    "hidden": which of Roots.Overrides that the program defines aren't for others
	//	    "indirect": the symbols that libraries on a line refer to and only files
	//	        define that aren't on it
	//	    "dependencies": which libraries need which others, if that may change
	//	        the order in which they are initialised
	//	    "levels": which files need which libraries, if one may define what a library
	//	        of the system does as well, or the program can see the order
	//	    "libraries": all that is in them, and which need which, if other programs may open them
	//	    "mentions": which files of a program with libraries define or refer to symbols
	//	        that it has in the place of the system's
	//	    "needs of files": which libraries of the system each file needs, if references
	//	        decide that, and the order of files may be seen
	//	    "open": all that is said, reached or not, of symbols of which it isn't known
	//	        what files make of them
	//	    "mentioned": the symbols of the executable that its libraries define or refer
	//	        to, if a library of the system may look symbols up
	//	    "needs": what no unit defines, if that decides what is taken from the
	//	        system, and the program can see it
	//	    "kinds": of which kind of file a linked file has to be, if it has code that
	//	        isn't for all kinds; "kinds of libraries" if that is in a library
	//	    "protected": the symbols that libraries define so and the executable refers to
	//	        directly, reached or not
	//	    "places": where each component is, if names, lines or addresses can be seen
	//	    "placement": if it can't be told which units are linked, or warnings of
	//	        the linker are errors
	//	    "order of addresses": of variables, or of functions as well, if something that is
	//	        reached orders them so
	//	    "order of types": of names of types that are compared by their addresses
	//	    "order of literals": strings of files that order them by their addresses
	//	    "sharing": if twins are in the closure
	//	    "unusual": what units have that linkers may choke on, if there is any
	//	    "whole program": all objects, if something that is reached reads them
	//	    "weak references": the symbols that the executable refers to weakly, and that
	//	        only libraries define that aren't on its line, or only if needed
	//	    "thread-local references": the symbols that some units take to be
	//	        thread-local, and others don't or none defines
	//	    "thread-local storage": how much there is, if something that is reached
	//	        can see it
	//
	// Equal hashes mean equal closures, up to the names of local components and
	// to the objects that definitions are in.
	Hash Hash
	// Additions are what Hash has beside the global hashes.
	Additions []Addition
	// Unknown is why it can't be told which units are linked, or empty: then
	// everything that may be is in the closure.
	Unknown string
	// Exported says that all definitions are roots.
	Exported bool
	// Unresolved are the symbols that some linked unit needs and none defines,
	// and Duplicates those that two units of a file define: what a linker might
	// complain about.
	Unresolved, Duplicates []string
	// Bound are those of Unresolved that have to be defined for a file to be loaded.
	Bound []string
	// Layout describes the sections of all files, if a linker drops what nothing
	// refers to and there are Unresolved symbols: it may drop what refers to them.
	Layout Hash
	// UnresolvedAt says of Unresolved which lines (linkmodel.File) the files have that refer to
	// each, if there are several files.
	UnresolvedAt []string
	// WeaklyAt says it of references that may stay undefined, each with its symbol.
	WeaklyAt []string
	// SourceDoubt is why evidence by source doesn't say what linkers and loaders make of
	// the program, or empty.
	SourceDoubt string
	// LooksUp says that something that is reached looks symbols up by name.
	LooksUp bool
	// Overridden are those of Roots.Overrides that the program defines, without
	// members of C++'s library: those are copies, which do the same.
	Overridden []string
	replaced   []linkmodel.Symbol // all of them
	// Idle are those of Roots.Idle that the closure has as stubs, sorted: all others don't matter.
	Idle []string
	// Entered are, of a trace, the other functions that it has and that could be stubs.
	Entered nameset.Set
	// Opaque is, of a trace, why executions may differ though its closure is the same, or empty.
	Opaque string

	c           *Composer
	readsItself bool // see addOrder
	named       []named
	roots       []int32 // in order
	exported    []int32 // sorted by global hash
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
	x := c.closure(p, roots)
	if c.lookups && !x.Exported {
		// Once more, with all that a look-up can find.
		c.link(p)
		roots.Exported = true
		x = c.closure(p, roots)
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
	case c.lookups:
		x.Opaque = "it may look symbols up by name"
	case c.debug:
		x.Opaque = "it may read debug information, or names of functions"
	case c.code:
		x.Opaque = "it may see where functions begin and end"
	case c.layout:
		x.Opaque = "it may see where sections begin and end"
	case x.readsItself:
		x.Opaque = "it may read its own program"
	case roots.Everything:
		x.Opaque = "the linker may make one of several functions, or see any section"
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

func (c *Composer) closure(p *linkmodel.Program, roots Roots) *Closure {
	x := &Closure{c: c, Unknown: c.linked.Unknown, Exported: roots.Exported || c.linked.Unknown != ""}
	x.nameRoots(roots)
	suppresses := roots.Debug
	for _, id := range c.asked {
		c.places = c.linked.All(c.places[:0], id)
		suppresses = suppresses || len(c.places) > 0
	}
	// Libraries are named as well.
	c.debug, c.files = c.debug || suppresses, c.files || suppresses
	if x.Exported {
		x.export()
	}
	slices.SortFunc(x.named, func(x, y named) int { return strings.Compare(x.symbol, y.symbol) })
	for _, n := range x.named {
		for _, id := range n.defs {
			c.reach(id)
		}
	}
	for _, id := range x.exported {
		c.reach(id)
	}
	c.sortByHash(x.exported)
	files, initialisers := x.reachInitialisers()

	b := frame.New("tasting code 3")
	if c.idle != nil {
		b = frame.New("tasting trace 1")
	}
	refs := func(ids []int32) {
		b.Int(len(ids))
		for _, id := range ids {
			c.writeRef(&b, id)
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
	refs(x.exported)

	weakly := x.unresolved(p)
	x.LooksUp = c.lookups
	x.add(p, roots, files, weakly)
	b.Int(len(x.Additions))
	for _, a := range x.Additions {
		b.String(a.Name)
		b.Bytes(a.Hash[:])
	}
	x.Hash = b.Sum()
	if c.idle != nil {
		x.trace(roots)
	}
	return x
}

// nameRoots finds the definitions of symbols that are roots.
func (x *Closure) nameRoots(roots Roots) {
	c := x.c
	t, l := c.pool.Symbols, c.linked
	for _, s := range roots.Read {
		if id := t.Lookup(s); id == linkmodel.None || len(l.All(nil, id)) == 0 {
			c.mean(meaning(s))
		}
	}
	for _, s := range roots.Symbols {
		if id := t.Lookup(s); id != linkmodel.None {
			if c.places = l.Resolve(c.places[:0], 0, id); len(c.places) == 0 {
				c.places = l.All(c.places, id) // hidden
			}
			x.name(s, s, c.nodesAt(c.places))
		}
	}
	for _, s := range roots.Named {
		if id := t.Lookup(s); id != linkmodel.None {
			c.places = l.All(c.places[:0], id)
			x.name(s, s, c.nodesAt(c.places))
		}
	}
	for _, id := range roots.Overrides {
		c.places = l.All(c.places[:0], id)
		if len(c.places) > 0 {
			x.replaced = append(x.replaced, id)
			if s := t.Name(id); !strings.HasPrefix(s, "_Z") || allocation.MatchString(s) {
				x.Overridden = append(x.Overridden, s)
			}
		}
		defs := slices.DeleteFunc(c.nodesAt(c.places), func(id int32) bool { return c.comp(id).flags&flagRoot != 0 })
		x.name(t.Name(id), "replaces "+t.Name(id)+" of a system library", defs)
	}
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

// export makes every definition that other units can refer to a root.
func (x *Closure) export() {
	c := x.c
	t, l := c.pool.Symbols, c.linked
	for id, in := range l.Instances {
		for _, d := range t.Unit(in.Unit).Defs {
			c.places = l.All(c.places[:0], d.Symbol)
			if len(c.places) > 1 { // which one a look-up finds depends on the order
				x.name(t.Name(d.Symbol), "exported", c.nodesAt(c.places))
			}
		}
		for k, comp := range c.pool.units[in.Unit].comps {
			if comp.flags&flagExternal != 0 {
				x.exported = append(x.exported, c.at(int32(id), int32(k)))
			}
		}
	}
}

// reachInitialisers reaches what is a root by itself, and returns the files that have such
// components, with these. They run by file, and within a file in the order of the link.
func (x *Closure) reachInitialisers() (files []int32, of [][]int32) {
	c, l := x.c, x.c.linked
	last := int32(-1)
	for i, in := range l.Instances {
		start := len(x.roots)
		for _, k := range c.pool.units[in.Unit].roots {
			if group := c.pool.units[in.Unit].comps[k].group; group == linkmodel.None || !l.Discarded(int32(i), group) {
				id := c.base[i] + k
				c.reach(id)
				x.roots = append(x.roots, id)
			}
		}
		// What depends on an order within a unit is one component.
		c.sortByHash(x.roots[start:])
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

// Used tells of each of the program's n files whether it has a component of x.
func (x *Closure) Used(n int) []bool {
	used := make([]bool, n)
	for _, id := range x.c.order {
		used[x.c.linked.Instances[x.c.nodes[id].instance].File] = true
	}
	return used
}

// Parts returns, for each kind of files of the program with components of x, a
// hash that identifies these components.
func (x *Closure) Parts(kind func(file int32) string) map[string]Hash {
	c := x.c
	files := map[string][]int32{}
	for _, id := range c.order {
		k := kind(c.linked.Instances[c.nodes[id].instance].File)
		files[k] = append(files[k], id)
	}
	parts := map[string]Hash{}
	for k, ids := range files {
		c.sortByHash(ids)
		b := frame.New("tasting part 1")
		b.Int(len(ids))
		for _, id := range ids {
			c.writeRef(&b, id)
		}
		parts[k] = b.Sum()
	}
	return parts
}

// hidden follows the name of a symbol that no library of the system may define.
const hidden = " (hidden)"

// seen tells whether one of the definitions in c.places can be seen by a file. Where it isn't
// certain what a file makes of its definitions, they may be hidden.
func (x *Closure) seen(p *linkmodel.Program, file int32, s linkmodel.Symbol) bool {
	c := x.c
	return slices.ContainsFunc(c.places, func(place linkmodel.Place) bool {
		in := c.linked.Instances[place.Instance]
		if in.File == file || p.Files[in.File].Uncertain == "" {
			return true
		}
		v := c.said(in.File, s).visibility
		return v == manifest.Visibility_VISIBILITY_DEFAULT || v == manifest.Visibility_VISIBILITY_PROTECTED
	})
}

// lacks are what a linker might complain about.
type lacks struct {
	*Closure
	p              *linkmodel.Program
	bound, refused map[linkmodel.Symbol]bool
	at             map[string][]string // the lines of files that lack them
	weak           map[string]bool
	weakly         bool // there are symbols that nothing has to define
}

// Of symbols: that a file has one for itself, or that nothing has one for the last file.
const hasOwn, hasNone = 1, 2

// symbolState is what was found in the program with this number.
type symbolState struct {
	program uint32
	state   uint8
}

// unresolved collects what a linker might complain about, and says whether there are
// symbols that nothing has to define. (Those that begin with _ZTH initialise variables
// of the program's own.)
func (x *Closure) unresolved(p *linkmodel.Program) (weakly bool) {
	c := x.c
	t, l := c.pool.Symbols, c.linked
	y := &lacks{Closure: x, p: p, bound: map[linkmodel.Symbol]bool{}, refused: map[linkmodel.Symbol]bool{}, at: map[string][]string{}, weak: map[string]bool{}}
	if c.had == nil {
		c.had = make([]symbolState, t.Len())
	}
	first, file := c.passes+1, int32(-1)
	for _, in := range l.Instances {
		if in.File != file { // they are in the order of the files
			c.pass()
			file = in.File
		}
		for _, r := range t.Unit(in.Unit).Refs {
			if r.Weak {
				y.readWeak(file, r.Symbol)
				continue
			}
			if r.Uses&manifest.UseBound != 0 {
				y.bound[r.Symbol] = true
			}
			if r.Visibility != manifest.Visibility_VISIBILITY_DEFAULT {
				y.readHidden(file, r.Symbol)
			}
			if last := c.seen[r.Symbol]; last != c.passes {
				c.seen[r.Symbol] = c.passes
				y.read(file, r.Symbol, last < first)
			}
		}
	}
	x.WeaklyAt = slices.Sorted(maps.Keys(y.weak))
	slices.Sort(x.Unresolved)
	x.Unresolved = slices.Compact(x.Unresolved)
	for _, name := range x.Unresolved {
		slices.Sort(y.at[name])
		x.UnresolvedAt = append(x.UnresolvedAt, strings.Join(y.at[name], ","))
	}
	for _, s := range x.Unresolved {
		if y.bound[t.Lookup(s)] {
			x.Bound = append(x.Bound, s)
		}
	}
	for _, s := range l.Duplicates {
		x.Duplicates = append(x.Duplicates, t.Name(s))
	}
	slices.Sort(x.Duplicates)
	x.Duplicates = slices.Compact(x.Duplicates)
	return y.weakly
}

// pass begins another pass over references, for which seen says nothing yet.
func (c *Composer) pass() {
	if n := c.pool.Symbols.Len(); len(c.seen) < n {
		c.seen = append(c.seen, make([]uint32, n-len(c.seen))...)
	}
	c.passes++
}

// lack notes that a file lacks what it refers to.
func (x *lacks) lack(file int32, name string) {
	x.Unresolved = append(x.Unresolved, name)
	if line := x.p.Files[file].Line; len(x.p.Files) > 1 && !slices.Contains(x.at[name], line) {
		x.at[name] = append(x.at[name], line)
	}
}

// readWeak looks at a reference that may stay undefined.
func (x *lacks) readWeak(file int32, s linkmodel.Symbol) {
	c, several := x.c, len(x.p.Files) > 1
	name := c.pool.Symbols.Name(s)
	if x.weakly && !several || strings.HasPrefix(name, "_ZTH") {
		return
	}
	if c.places = c.linked.Resolve(c.places[:0], file, s); len(c.places) > 0 {
		return
	}
	x.weakly = true
	if several {
		x.weak[name+" weakly in "+x.p.Files[file].Line] = true
	}
}

// readHidden looks at a reference that no library of the system may define.
func (x *lacks) readHidden(file int32, s linkmodel.Symbol) {
	c := x.c
	if x.refused[s] || c.linkersOwn(s) && (file == 0 || c.special[s]&readsLayout == 0) {
		return
	}
	if c.places = c.linked.All(c.places[:0], s); len(c.places) == 0 {
		x.refused[s] = true
		x.lack(file, c.pool.Symbols.Name(s)+hidden)
	}
}

// read looks at the first reference of a file to a symbol, and of all files if first.
func (x *lacks) read(file int32, s linkmodel.Symbol, first bool) {
	c, l, f := x.c, x.c.linked, &x.p.Files[file]
	own := false // what it stands for is in the file, for certain
	if !l.Scoped(file) {
		id, certain := c.standsFor(s)
		own = certain && id != nowhere && l.Instances[c.nodes[id].instance].File == file
	}
	if f.Complete && !own {
		c.places = l.All(c.places[:0], s)
		if len(c.places) > 0 && !slices.ContainsFunc(c.places, func(p linkmodel.Place) bool {
			other := l.Instances[p.Instance].File
			return other == file || slices.ContainsFunc(f.Entries, func(e linkmodel.Entry) bool { return e.Library != 0 && e.Library == other })
		}) {
			x.lack(file, c.pool.Symbols.Name(s))
		}
	}
	state := uint8(0)
	if had := c.had[s]; had.program == c.program {
		state = had.state
	}
	switch {
	case !first && state != hasOwn:
	case own:
		state = hasOwn
	default:
		set, bounds := c.pool.sets[s]
		c.places = l.Resolve(c.places[:0], file, s)
		switch {
		case bounds && len(c.places) == 0:
			state = hasOwn
			if len(c.setOf(file, set)) == 0 { // else the linker defines them
				x.lack(file, c.pool.Symbols.Name(s))
			}
		case !x.seen(x.p, file, s):
			state = hasNone
		case !slices.ContainsFunc(c.places, func(p linkmodel.Place) bool { return l.Instances[p.Instance].File != file }):
			state = hasOwn
		}
	}
	c.had[s] = symbolState{c.program, state}
	if state == hasNone {
		x.lack(file, c.pool.Symbols.Name(s))
	}
}

// sortByHash sorts by global identity; names break ties.
func (c *Composer) sortByHash(ids []int32) {
	slices.SortFunc(ids, func(x, y int32) int {
		a, b := &c.nodes[x], &c.nodes[y]
		return cmp.Or(
			bytes.Compare(c.hashes[a.hash][:], c.hashes[b.hash][:]),
			cmp.Compare(a.member, b.member),
			strings.Compare(c.comp(x).name, c.comp(y).name),
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
	return ok || c.special[s]&readsLayout != 0 || c.pool.Symbols.Name(s) == "__dso_handle"
}

// Defines says whether symbol is among the roots, that is: defined.
func (x *Closure) Defines(symbol string) bool {
	return slices.ContainsFunc(x.named, func(n named) bool { return n.symbol == symbol })
}

// starts returns all roots in their order.
func (x *Closure) starts() []int32 {
	var ids []int32
	for _, n := range x.named {
		ids = append(ids, n.defs...)
	}
	ids = append(ids, x.roots...)
	return append(ids, x.exported...)
}

// Member is a component in a closure.
type Member struct {
	Unit      int32 // its unit in the pool
	Component int32 // and number in the unit
	File      int   // in which it is linked
	Global    Hash
	Links     []int    // indices of members, without repetition
	Roots     []string // why it is a root; empty if it isn't one, "" for a component that is one by itself
}

// walk returns the nodes of the closure, roots first and then breadth-first by their links, and of each node its place
// among them, from 1. (Composer.order depends on what was composed before.)
func (x *Closure) walk() (order, place []int32) {
	c := x.c
	place = make([]int32, len(c.nodes))
	visit := func(ids []int32) {
		for _, id := range ids {
			if id >= 0 && place[id] == 0 {
				order = append(order, id)
				place[id] = int32(len(order))
			}
		}
	}
	visit(x.starts())
	for i := 0; i < len(order); i++ {
		visit(c.linksOf(order[i]))
	}
	return order, place
}

// Members lists the components of the closure, roots first and each component
// before what only it refers to.
func (x *Closure) Members() []Member {
	c := x.c
	order, place := x.walk()
	members := make([]Member, len(order))
	for i, id := range order {
		n := &c.nodes[id]
		in := c.linked.Instances[n.instance]
		m := Member{Unit: in.Unit, Component: n.own, File: int(in.File), Global: c.hashes[n.hash]}
		seen := map[int32]bool{}
		for _, to := range c.linksOf(id) {
			if to >= 0 && !seen[to] {
				seen[to] = true
				m.Links = append(m.Links, int(place[to]-1))
			}
		}
		members[i] = m
	}
	why := func(id int32, reason string) {
		m := &members[place[id]-1]
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
	for _, id := range x.exported {
		why(id, "exported")
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
		n := &c.nodes[id]
		in := l.Instances[n.instance]
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
