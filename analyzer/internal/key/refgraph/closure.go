package refgraph

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"hash"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/lazyregexp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/nameset"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/linkmodel"
)

// Roots are the symbols where the execution of a test starts, and facts about its link. Components that are roots by
// themselves, such as initialisers, are in manifests.
type Roots struct {
	// Symbols are the symbols to which start files refer. Those that nothing defines are no roots.
	Symbols []string
	// Overrides are symbols that libraries of the system define or refer to. The program's definition of one is a root.
	Overrides []linkmodel.Symbol
	// Unusual is why the whole link is hashed by content, or empty.
	Unusual string
	// Opened is set if other programs may open the test's shared libraries: their whole content is then hashed.
	Opened bool
	// GCSections is set if a file is linked with --gc-sections.
	GCSections bool
	// StaticC is set if the C library is linked statically. Its members ask by weak references which other members are there.
	StaticC bool
	// Exports is set if the compiler driver may have the executable export symbols that no library mentions.
	Exports bool
	// System returns the library of the system that surely defines a symbol, "" if every file needs that library, and the
	// symbol if the library isn't known. A nil System knows nothing.
	System func(symbol string) string
	// Idle, if it isn't nil, has the names of functions that an execution of the test didn't enter. The closure is then that
	// of a trace.
	Idle map[string]bool
	// Cases is set if Closure.Cases are wanted.
	Cases bool
}

// Defined returns the numbers of those symbols that some unit defines.
func (p *Pool) Defined(symbols []string) []linkmodel.Symbol {
	var out []linkmodel.Symbol
	for _, s := range symbols {
		if id := p.Symbols.Lookup(s); p.Symbols.Defined(id) {
			out = append(out, id)
		}
	}
	return out
}

// Closure is the part of a program that its roots reach. Members, Contests and Content are valid until the composer's next program.
type Closure struct {
	// Hash identifies the code of the program. It is the hash of
	//
	//	"tasting code 5", or "tasting trace 3" for a trace
	//	named roots: for each its symbol, and the numbers of its definitions
	//	files with components that are roots by themselves, in the loader's order:
	//	    whether it is the executable, and the components' numbers
	//	the walk (Composer.writeWalk)
	//	additions, each with its name and hash (shape.go)
	//
	// Equal hashes mean equal closures, up to names of local components and the units of definitions.
	Hash Hash
	// Additions are the parts of Hash that linkers, loaders or the program see besides what it reaches.
	Additions []Addition
	// Unusual is why the whole link is hashed by content, or empty.
	Unusual string
	// Unresolved are the symbols that a linked unit refers to and nothing defines, Duplicates those that two units of a file
	// define. A linker may refuse both.
	Unresolved, Duplicates []string
	// Inexact is why linkers and loaders may see references that manifests of sources lack, or empty.
	Inexact string
	// Overridden are those of Roots.Overrides that the program defines, without copies of templates of the C++ library, which
	// do the same as the library's own.
	Overridden []string
	ByCases
	Trace

	composed
}

// composed is what later methods of a Closure need.
type composed struct {
	c           *Composer
	program     *linkmodel.Program
	named       []namedRoot
	roots       []int32            // nodes that are roots by themselves, in order
	replaced    []linkmodel.Symbol // those of Roots.Overrides that the program defines
	references  []references       // of each file
	users       map[string][]int32 // see findUsers
	copied      []copied
	keepsCopies bool
	ofLink      []byte // see makeAdditions
}

// Trace has the additional results for a closure with stubs.
type Trace struct {
	// Idle has the names in Roots.Idle whose functions are stubs of the closure, sorted.
	Idle []string
	// Entered are the other functions of the closure that could be stubs.
	Entered nameset.Set
	// Opaque is why equal closures may have different executions, or empty.
	Opaque string
}

// An Addition is a named part of a closure's hash.
type Addition struct {
	Name string
	Hash Hash
}

type namedRoot struct {
	symbol, why string
	nodes       []int32
}

// Compose links p and returns what roots, and the components that are roots by themselves, reach.
func (c *Composer) Compose(p *linkmodel.Program, roots Roots) *Closure {
	c.link(p)
	c.setIdle(roots.Idle)
	x := &Closure{Unusual: roots.Unusual, composed: composed{c: c, program: p}}
	x.nameRoots(roots)
	slices.SortFunc(x.named, func(x, y namedRoot) int { return strings.Compare(x.symbol, y.symbol) })
	files, initialisers := x.initialisers()

	h, kind := sha256.New(), "tasting code 5"
	if c.idle != nil {
		kind = "tasting trace 3"
	}
	x.writeCode(h, kind, files, initialisers)
	x.resolve()
	x.makeAdditions(roots, files)
	h.Write(additionsText(x.Additions))
	h.Sum(x.Hash[:0])
	if c.idle != nil {
		x.finishTrace(roots)
	}
	if roots.Cases {
		x.findCases(files, initialisers)
	}
	return x
}

// writeCode writes the roots and the walk to h.
func (x *Closure) writeCode(h hash.Hash, kind string, files []int32, initialisers [][]int32) {
	c, b := x.c, frame.New(kind)
	refs := func(ids []int32) {
		b.Int(len(ids))
		for _, id := range ids {
			b.Int(int(c.visit(id)))
		}
	}
	b.Int(len(x.named))
	for _, n := range x.named {
		b.String(n.symbol)
		refs(n.nodes)
	}
	b.Int(len(files))
	for i, file := range files {
		// Initialisers of libraries run before the C library registers the destructors of all libraries, and before the
		// executable is relocated. See link-moved/on-exit-constructor-moved and link-moved/ifunc-moved-into-library.
		b.Flag(file == 0)
		refs(initialisers[i])
	}
	h.Write(b)
	c.writeWalk(h)
}

// additionsText is the text of additions in a hash.
func additionsText(l []Addition) []byte {
	var b frame.Buffer
	b.Int(len(l))
	for _, a := range l {
		b.String(a.Name)
		b.Bytes(a.Hash[:])
	}
	return b
}

// seesFunctions returns why the program may see functions that it doesn't enter, or "".
func (x *Closure) seesFunctions() string {
	switch {
	case x.Unusual != "":
		return x.Unusual
	case x.c.sees&seesCode != 0: // see trace-sound/dladdr-size
		return "it may see where functions begin and end"
	case slices.ContainsFunc(x.Additions, func(a Addition) bool { return a.Name == Own }):
		return "it may read its own program"
	}
	return ""
}

// setIdle makes idle functions stubs in the closure that is composed next. A function with several names is idle if all
// of them are: by one name alone, another definition may have won. See trace-sound/weak-alias.
func (c *Composer) setIdle(names map[string]bool) {
	if names == nil {
		c.idle = nil
		return
	}
	c.idle = slices.Grow(c.idle[:0], len(c.pool.entryNames)+1)[:len(c.pool.entryNames)] // not nil, even if there is none
	clear(c.idle)
	inside := map[linkmodel.Symbol]bool{} // symbols behind which somebody may enter a function: see trace-sound/jump-by-address
	for _, in := range c.linked.Units {
		for _, r := range c.pool.Symbols.Unit(in.Unit).Refs {
			if r.Uses&manifest.UseInside != 0 {
				inside[r.Symbol] = true
			}
		}
	}
	for name := range names {
		for _, n := range c.pool.entries[name] { // functions whose first name it is
			c.idle[n] = !slices.ContainsFunc(c.pool.entryNames[n], func(name string) bool { return !names[name] }) &&
				!slices.ContainsFunc(c.pool.entryDefs[n], func(s linkmodel.Symbol) bool { return inside[s] })
		}
	}
}

// finishTrace lists the stubs of the closure and decides whether it is opaque.
func (x *Closure) finishTrace(roots Roots) {
	c := x.c
	x.Opaque = x.seesFunctions()
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

// newAndDelete matches operators new and delete.
var newAndDelete = lazyregexp.New(`^_Z(n[wa]|d[la])[jmP]`)

// nameRoots finds the nodes of named roots.
func (x *Closure) nameRoots(roots Roots) {
	c := x.c
	t, l := c.pool.Symbols, c.linked
	for _, s := range roots.Symbols {
		if id := t.Lookup(s); id != linkmodel.None {
			if c.resolved = l.Resolve(c.resolved[:0], 0, id); len(c.resolved) == 0 {
				c.resolved = l.Definitions(c.resolved, id) // hidden
			}
			x.addNamed(s, s, c.nodesOf(c.resolved))
		}
	}
	for _, id := range roots.Overrides {
		c.resolved = l.Definitions(c.resolved[:0], id)
		if len(c.resolved) == 0 {
			continue
		}
		x.replaced = append(x.replaced, id)
		s, nodes := t.Name(id), c.nodesOf(c.resolved)
		if copies := strings.HasPrefix(s, "_Z") && !newAndDelete.MatchString(s); !copies {
			x.Overridden = append(x.Overridden, s)
		} else if strings.Contains(s, "I") && !slices.ContainsFunc(nodes, func(id int32) bool { return !c.isCopy(id) }) { // I begins template arguments
			continue // the library's copy does the same
		}
		nodes = slices.DeleteFunc(nodes, func(id int32) bool { return c.comp(id).flags&flagRoot != 0 })
		x.addNamed(s, "replaces "+s+" of a system library", nodes)
	}
}

// cxxGroups matches the signatures of COMDAT groups that come from headers of a C++ library.
var cxxGroups = lazyregexp.New(`^(?:_Z(?:T[VIST]|GV|GR|TW|TH)?Z?(?:N[rVKRO]*)?(?:S[tabsiod]|9__gnu_cxx|10__cxxabiv1)|__clang_call_terminate$|DW\.ref\.__gxx_personality_v0$|_Z(?:nw|na|dl|da))`)

// isCopy reports whether a definition of a symbol of the C++ library does the same as the library's own: it is in a COMDAT
// group, and reaches only other copies and literals. See link-cxx/copies-specialised and link-inside/copy-gnu.
//
// It is called before the walk, for nodes that may be unreached. So it binds nothing: every definition of a symbol is a
// possible target.
func (c *Composer) isCopy(id int32) bool {
	if c.comp(id).group == linkmodel.None {
		return false
	}
	list, seen := []int32{id}, map[int32]bool{id: true}
	add := func(to int32) bool {
		x := c.comp(to)
		switch {
		case seen[to] || c.copies[to]:
		case strings.Contains(x.name, ".rodata") && len(c.unitLinks(to)) == 0: // literals, which gcc -O0 has in one component
		case x.group == linkmodel.None || !cxxGroups.MatchString(c.pool.Symbols.Name(x.group)):
			return false
		default:
			seen[to] = true
			list = append(list, to)
		}
		return true
	}
	for i := 0; i < len(list); i++ {
		u, index := c.unitOf(list[i])
		for _, l := range u.linksOf(index) {
			if l >= 0 {
				if !add(list[i] - index + l) {
					return false
				}
				continue
			}
			c.alternatives = c.linked.Definitions(c.alternatives[:0], u.symbols[-1-l])
			if slices.ContainsFunc(c.alternatives, func(d linkmodel.Definition) bool { return !add(c.nodeOf(d)) }) {
				return false
			}
		}
	}
	for _, x := range list {
		c.copies[x] = true
	}
	return true
}

// addNamed makes the nodes of a symbol roots, if there are any and the symbol isn't a root yet.
func (x *Closure) addNamed(symbol, why string, nodes []int32) {
	if len(nodes) > 0 && !x.Defines(symbol) {
		x.named = append(x.named, namedRoot{symbol, why, nodes})
	}
}

// nodesOf returns the nodes of definitions, each once.
func (c *Composer) nodesOf(definitions []linkmodel.Definition) (ids []int32) {
	for _, d := range definitions {
		if id := c.nodeOf(d); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// initialisers finds the nodes that are roots by themselves. It returns the files that have some, and for each of these
// files the nodes. They run by file, and within a file in the order of the link.
func (x *Closure) initialisers() (files []int32, of [][]int32) {
	c, l := x.c, x.c.linked
	last := int32(-1)
	for i, in := range l.Units {
		start := len(x.roots)
		for _, k := range c.pool.units[in.Unit].roots {
			if group := c.pool.units[in.Unit].comps[k].group; group == linkmodel.None || !l.IsDiscarded(int32(i), group) {
				x.roots = append(x.roots, c.node(int32(i), k))
			}
		}
		// Roots whose order within the unit matters are one component.
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

// references are a file's references to symbols that nothing defines for it.
type references struct {
	undefined []linkmodel.Symbol        // Closure.Unresolved
	weak      map[linkmodel.Symbol]bool // symbols of weak references that may stay undefined
	wanted    map[want]string           // see Closure.findWanted
}

// hidden is the suffix of an undefined symbol with hidden visibility, which no shared library can define.
const hidden = " (hidden)"

// resolve finds the symbols that units refer to and that nothing defines for them.
func (x *Closure) resolve() {
	c, p := x.c, x.program
	t, l := c.pool.Symbols, c.linked
	x.references = make([]references, len(p.Files))
	file, linked := int32(-1), make([]bool, len(p.Files))
	for _, in := range l.Units {
		if in.File != file { // they are in the order of the files
			file = in.File
			c.passes++
			x.references[file].weak = map[linkmodel.Symbol]bool{}
			clear(linked)
			linked[file] = true
			for _, e := range p.Files[file].Entries {
				linked[e.Library] = linked[e.Library] || e.Library != 0
			}
		}
		for _, r := range t.Unit(in.Unit).Refs {
			if r.Visibility != manifest.Visibility_VISIBILITY_DEFAULT && !r.Weak && !c.isLinkerDefined(r.Symbol) {
				if c.resolved = l.Definitions(c.resolved[:0], r.Symbol); len(c.resolved) == 0 {
					x.Unresolved = append(x.Unresolved, t.Name(r.Symbol)+hidden)
				}
			}
			if r.Weak {
				// _ZTH begins initialisers of the program's own thread-local variables.
				if !x.references[file].weak[r.Symbol] && !strings.HasPrefix(t.Name(r.Symbol), "_ZTH") && !c.isDefined(file, r.Symbol, nil) {
					x.references[file].weak[r.Symbol] = true
				}
				continue
			}
			if c.shared[r.Symbol].looked == c.passes {
				continue
			}
			c.shared[r.Symbol].looked = c.passes
			complete := linked
			if !p.Files[file].Complete {
				complete = nil
			}
			if !c.isDefined(file, r.Symbol, complete) {
				x.Unresolved = append(x.Unresolved, t.Name(r.Symbol))
				x.references[file].undefined = append(x.references[file].undefined, r.Symbol)
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

// isDefined reports whether a file's reference is bound to a definition in one of files, or in any file if files is nil.
func (c *Composer) isDefined(file int32, s linkmodel.Symbol, files []bool) bool {
	if !c.linked.HasOwnBindings(file) {
		if to := c.plainBinding(s); to != 0 {
			return to > 0 && (files == nil || files[c.fileOf(to-1)])
		}
	}
	c.resolved = c.linked.Resolve(c.resolved[:0], file, s)
	if set, ok := c.pool.sets[s]; ok && len(c.resolved) == 0 {
		return len(c.setOf(file, set)) > 0 // the linker defines its bounds
	}
	return slices.ContainsFunc(c.resolved, func(d linkmodel.Definition) bool { return files == nil || files[c.linked.Units[d.In].File] })
}

// sort sorts nodes by their descriptions and names, so that the order of components within a unit doesn't matter.
func (c *Composer) sort(ids []int32) {
	slices.SortFunc(ids, func(x, y int32) int {
		a, b := c.comp(x), c.comp(y)
		return cmp.Or(
			bytes.Compare(c.pool.digests[a.description][:], c.pool.digests[b.description][:]),
			strings.Compare(a.name, b.name),
			cmp.Compare(x, y))
	})
}

// isLinkerDefined reports whether the linker or a start file defines a symbol in this program.
func (c *Composer) isLinkerDefined(s linkmodel.Symbol) bool {
	set, isBound := c.pool.sets[s]
	name := c.pool.Symbols.Name(s)
	return isBound && c.hasSet(set) || slices.Contains(linkerSymbols, name) || name == "__dso_handle"
}

// Defines reports whether symbol is a named root, which has a definition.
func (x *Closure) Defines(symbol string) bool {
	return slices.ContainsFunc(x.named, func(n namedRoot) bool { return n.symbol == symbol })
}

// Member is a component in a closure.
type Member struct {
	Unit      int32    // its unit in the pool
	Component int32    // its index in the unit
	File      int      // in which it is linked
	Links     []int    // indices of members, without repetition
	Roots     []string // why it is a root, if it is one; "" stands for a component that is a root by itself
}

// Members lists the components of the closure in the order of the walk.
func (x *Closure) Members() []Member {
	c := x.c
	members := make([]Member, len(c.order))
	for i, id := range c.order {
		in := c.linked.Units[c.within[id]]
		_, index := c.unitOf(id)
		m := Member{Unit: in.Unit, Component: index, File: int(in.File)}
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
		for _, id := range n.nodes {
			why(id, n.why)
		}
	}
	for _, id := range x.roots {
		why(id, "")
	}
	return members
}

// Contest is a symbol with several definitions.
type Contest struct {
	Symbol string
	// Copies are the definitions, in the order of the link. One of the first Winners is taken.
	Copies  []Copy
	Winners int
}

// Copy is a definition of a contested symbol.
type Copy struct {
	Unit, Component int32
	File            int
}

// Contests lists the symbols that members of the closure refer to and that have different definitions in linked units.
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
		in := l.Units[c.within[id]]
		u := c.pool.units[in.Unit]
		for _, raw := range c.linksFrom(id) {
			if raw >= 0 {
				continue
			}
			k := key{-1, u.symbols[-1-raw]}
			if l.HasOwnBindings(in.File) {
				k.file = in.File
			}
			if seen[k] || t.DefinedOnce(k.symbol) {
				continue
			}
			seen[k] = true
			winners := l.Resolve(nil, in.File, k.symbol)
			if len(winners) == 0 {
				continue
			}
			all := slices.Clone(winners)
			for i, other := range l.Units {
				for _, d := range t.Unit(other.Unit).Defs {
					p := linkmodel.Definition{In: int32(i), Component: d.Component}
					if d.Symbol == k.symbol && !slices.Contains(all, p) {
						all = append(all, p)
					}
				}
			}
			first := c.comp(c.nodeOf(all[0])).description
			if !slices.ContainsFunc(all, func(d linkmodel.Definition) bool { return c.comp(c.nodeOf(d)).description != first }) {
				continue
			}
			x := Contest{Symbol: t.Name(k.symbol), Winners: len(winners)}
			for _, d := range all {
				o := l.Units[d.In]
				x.Copies = append(x.Copies, Copy{o.Unit, d.Component, int(o.File)})
			}
			list = append(list, x)
		}
	}
	slices.SortStableFunc(list, func(a, b Contest) int { return strings.Compare(a.Symbol, b.Symbol) })
	return list
}
