package refgraph

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/linkmodel"
)

// Names of additions.
const (
	Shape     = "shape of the link"        // if it is ordinary
	Content   = "content of the link"      // if it is unusual: the manifests of all linked units
	Libraries = "content of the libraries" // if other programs may open them
	Order     = "order of addresses"       // of variables and functions, if the program compares them
	Types     = "order of types"           // of names of types, which are compared by address
	Literals  = "order of literals"        // of files that compare addresses of string literals
	Own       = "content of the objects"   // if the program reads its own file
)

// makeAdditions makes x.Additions: hashes of properties of the link that linkers, loaders and the program can see besides
// the closure's components. Running are the files with components that are roots by themselves.
//
// Numbers of the walk are in some of them. A walk of a test case has its own: x.ofLink is the text without these.
func (x *Closure) makeAdditions(roots Roots, running []int32) {
	c, p := x.c, x.program
	x.findWanted(roots)
	x.findUsers()
	x.findCopied()
	var shape frame.Buffer
	if x.Unusual = x.unusualReason(roots); x.Unusual != "" {
		x.addHash(Content, x.Content())
	} else {
		shape = x.shape(roots, running)
		x.addHash(Shape, shape.Sum())
	}
	if roots.Opened {
		x.addHash(Libraries, c.contentOf(p.Files[1:]))
	}
	if len(x.users[manifest.OwnProgram]) > 0 {
		b := frame.New("tasting whole program 1")
		for _, in := range c.linked.Units {
			b.Int(int(in.File))
			b.Bytes(c.pool.units[in.Unit].content)
		}
		x.addHash(Own, b.Sum())
	}
	x.ofLink = additionsText(x.Additions)
	if x.Unusual == "" {
		shape.Bytes(x.files())
		x.Additions[0].Hash = shape.Sum()
	}
	x.Additions = append(x.Additions, x.orders()...)
	x.Inexact = x.inexactReason(roots)
}

func (x *Closure) addHash(name string, h Hash) { x.Additions = append(x.Additions, Addition{name, h}) }

// Content hashes all units that are linked or may be: each file with its line, in the loader's order, and each unit's
// manifest, in the order of the line.
func (x *Closure) Content() Hash { return x.c.contentOf(x.program.Files) }

// Units yields the units that are linked or may be, each with the hash of its manifest.
func (x *Closure) Units() iter.Seq2[int32, Hash] {
	return func(yield func(int32, Hash) bool) {
		for _, f := range x.program.Files {
			for _, e := range f.Entries {
				if e.Library == 0 && !yield(e.Unit, x.c.pool.units[e.Unit].identity()) {
					return
				}
			}
		}
	}
}

func (c *Composer) contentOf(files []linkmodel.File) Hash {
	b := frame.New("tasting content of a link 1")
	b.Int(len(files))
	for i, f := range files {
		if i > 0 {
			b.String(path.Base(f.Name))
		}
		b.String(f.Line)
		b.Flag(f.Bsymbolic)
		b.Int(len(f.Entries))
		for _, e := range f.Entries {
			b.Int(int(e.Library))
			if e.Library == 0 {
				h := c.pool.units[e.Unit].identity()
				b.Bytes(h[:])
			}
			b.Flag(e.Lazy)
			b.Flag(e.AsNeeded)
			b.Flag(e.BehindSystem)
			b.Int(e.Archive)
			b.String(e.From)
			b.Int(e.Group)
		}
	}
	return b.Sum()
}

// unusualReason returns why the shape of a link doesn't identify it, or "". This allow-list is the one place that
// decides which links are ordinary: real programs, linked as Bazel and common toolchains link them.
//
// If a program's outcome depends on something that is neither reached nor in the shape, one condition is missing here.
// A model in the place of a condition needs an ordinary program that the condition would make unusual (verify/ordinary).
func (x *Closure) unusualReason(roots Roots) string {
	c, l := x.c, x.c.linked
	several := len(x.program.Files) > 1
	for _, id := range c.sanitizerHooks { // see link-system/asan-death-callback
		if c.resolved = l.Definitions(c.resolved[:0], id); len(c.resolved) > 0 {
			return "it defines " + c.pool.Symbols.Name(id) + ", which names functions and files"
		}
	}
	switch resolvers := c.resolvers(); {
	case x.Unusual != "": // Roots.Unusual: a line of the link
		return x.Unusual
	case l.Unusual != "":
		return l.Unusual
	case c.sees&(seesLink|seesDebug) != 0: // see link-load/dlsym-new-name and cxx/stacktrace-static-name
		return "it refers to " + c.seesBy
	case c.sees&seesNames != 0 && (several || roots.StaticC || roots.Exports || c.definesCxx()): // an executable exports only what the system's libraries mention
		return "it refers to " + c.seesBy
	case len(x.Overridden) > 0 && (several || roots.StaticC): // see link-symbols/override-hidden-reference
		return "it defines " + x.Overridden[0] + " in the place of the system's"
	case len(x.copied) > 1 && len(x.users[manifest.OrderOfVariables]) > 0: // see link-addresses/copies
		return "it orders variables by address, and the executable has copies of some"
	case resolvers > 1 || resolvers > 0 && several: // see link-symbols/ifunc-order and link-state/ifunc-library-order
		return "an indirect function (ifunc) sees the order of relocations"
	}
	if roots.GCSections {
		if why := x.unusualCollection(roots, several); why != "" {
			return why
		}
	}
	return x.unusualUnit(several)
}

// definesCxx reports whether a linked unit defines a mangled name: the C++ library may define it, too, so that linkers export
// it. See link-lookup/explicit.
func (c *Composer) definesCxx() bool {
	t := c.pool.Symbols
	return slices.ContainsFunc(c.linked.Units, func(in linkmodel.LinkedUnit) bool {
		return slices.ContainsFunc(t.Unit(in.Unit).Defs, func(d linkmodel.Def) bool { return strings.HasPrefix(t.Name(d.Symbol), "_Z") })
	})
}

// unusualCollection returns why --gc-sections changes something that can be seen, or "".
func (x *Closure) unusualCollection(roots Roots, several bool) string {
	c := x.c
	var kept []bool
	if several || c.sees&seesTLS != 0 {
		kept = x.kept()
	}
	switch {
	case c.readsSet(): // see link-archives/gc-sections-set
		return "a linker set, and --gc-sections"
	case several && !x.surelyNeeds(kept): // see link-needed/as-needed-collected
		return "--gc-sections decides which libraries of the system it needs"
	case c.sees&seesTLS != 0 && !c.keepsThreadStorage(kept): // see link-besides/gc-tls
		return "it sees how much thread-local storage there is, and --gc-sections decides that"
	case several && x.contestedDiffer(): // see link-besides/unique-asked-collected
		return "different definitions of a unique symbol, and --gc-sections"
	}
	if !x.keepsCopies { // see link-load/gc-copy and link-load/gc-copy-moved-alias
		return "a copy relocation that --gc-sections may drop"
	}
	return ""
}

// readsSet reports whether a linked unit refers to the bounds of a linker set, or a runtime of the compiler may read one.
// Nothing refers to the bounds of sections such as Abseil's malloc_hook.
func (c *Composer) readsSet() bool {
	c.findSets()
	for key := range c.sets {
		if strings.HasPrefix(c.pool.Symbols.Name(key.set), "__start__") {
			return true
		}
	}
	return len(c.sets) > 0 && slices.ContainsFunc(c.instances, func(in instance) bool {
		return slices.ContainsFunc(in.unit.symbols, func(s linkmodel.Symbol) bool {
			set, isBound := c.pool.sets[s]
			return isBound && c.hasSet(set)
		})
	})
}

// kept returns for each node whether --gc-sections surely keeps it, if its unit is exact: initialisers, main or exported
// definitions of libraries lead to it within the file.
func (x *Closure) kept() []bool {
	c, t := x.c, x.c.pool.Symbols
	var next []int32
	kept := make([]bool, len(c.within))
	keep := func(id int32) {
		if !kept[id] {
			kept[id], next = true, append(next, id)
		}
	}
	for _, n := range x.named {
		if n.symbol == n.why { // not a replacement
			for _, id := range n.nodes {
				keep(id)
			}
		}
	}
	for _, id := range x.roots {
		if f := c.comp(id); f.set == linkmodel.None && f.flags&flagResolver == 0 {
			keep(id)
		}
	}
	for i, in := range c.linked.Units {
		if in.File > 0 {
			for _, d := range t.Unit(in.Unit).Defs {
				if c.exports(in.File, d.Symbol, linkmodel.Definition{In: int32(i), Component: d.Component}) {
					keep(c.node(int32(i), d.Component))
				}
			}
		}
	}
	for len(next) > 0 {
		id := next[len(next)-1]
		next = next[:len(next)-1]
		in := &c.instances[c.within[id]]
		if !t.Unit(c.linked.Units[c.within[id]].Unit).Exact {
			continue // a compiler may drop references of a source
		}
		for _, l := range c.unitLinks(id) {
			if l >= 0 {
				keep(in.base + l)
				continue
			}
			c.resolved = c.linked.Resolve(c.resolved[:0], c.fileOf(id), in.unit.symbols[-1-l])
			if len(c.resolved) == 1 && c.fileOf(c.nodeOf(c.resolved[0])) == c.fileOf(id) {
				keep(c.nodeOf(c.resolved[0]))
			}
		}
	}
	return kept
}

// surelyNeeds reports whether --gc-sections leaves each file all references to libraries of the system that decide what it
// needs. GNU ld and gold look at references before they drop sections.
func (x *Closure) surelyNeeds(kept []bool) bool {
	c, t := x.c, x.c.pool.Symbols
	dropped := make([]map[want]string, len(x.program.Files)) // references that no section keeps
	for i, of := range x.references {
		if f := x.program.Files[i]; f.GCSections && f.Linker != linkmodel.GNU && f.Linker != linkmodel.Gold {
			dropped[i] = maps.Clone(of.wanted)
		}
	}
	for id, is := range kept {
		in := c.linked.Units[c.within[id]]
		if !is || len(dropped[in.File]) == 0 || !t.Unit(in.Unit).Exact { // a compiler may drop references of a source
			continue
		}
		u, index := c.unitOf(int32(id))
		for _, l := range u.linksOf(index) {
			if l < 0 {
				s := u.symbols[-1-l]
				weak := slices.ContainsFunc(t.Unit(in.Unit).Refs, func(r linkmodel.Ref) bool { return r.Symbol == s && r.Weak })
				delete(dropped[in.File], want{s, weak})
			}
		}
	}
	return !slices.ContainsFunc(dropped, func(m map[want]string) bool { return len(m) > 0 })
}

// keepsThreadStorage reports whether --gc-sections keeps all thread-local storage.
func (c *Composer) keepsThreadStorage(kept []bool) bool {
	for i, in := range c.linked.Units {
		u := c.pool.units[in.Unit]
		for _, k := range u.notes {
			if u.comps[k].flags&flagTLS != 0 && (!c.pool.Symbols.Unit(in.Unit).Exact || len(u.linksOf(k)) == 0 || slices.ContainsFunc(u.linksOf(k), func(l int32) bool { return !kept[c.node(int32(i), l)] })) {
				return false
			}
		}
	}
	return true
}

// exports reports whether a shared library exports a definition of a symbol.
func (c *Composer) exports(file int32, s linkmodel.Symbol, d linkmodel.Definition) bool {
	scopes := c.linked.Scopes(s)
	return len(scopes) == 0 || slices.ContainsFunc(scopes, func(x linkmodel.Scope) bool {
		return x.File == file && x.Defined && x.Exported && x.Definition == d
	})
}

// unusualUnit returns why a linked unit, reached or not, is unusual, or "".
func (x *Closure) unusualUnit(several bool) string {
	c := x.c
	t, l := c.pool.Symbols, c.linked
	const isLocal, isntLocal, isDefined = 1, 2, 4
	threadLocal := map[linkmodel.Symbol]uint8{} // see record
	anyThreadLocal := slices.ContainsFunc(l.Units, func(in linkmodel.LinkedUnit) bool { return t.Unit(in.Unit).ThreadLocal })
	record := func(s linkmodel.Symbol, local bool, bits uint8) {
		if local {
			bits |= isLocal
		} else {
			bits |= isntLocal
		}
		threadLocal[s] |= bits
	}
	for _, in := range l.Units {
		u := t.Unit(in.Unit)
		if several && u.Protected != linkmodel.None { // see link-unreached/protected-dead
			return t.Name(u.Protected) + " is protected"
		}
		if anyThreadLocal {
			for i := range u.Defs {
				record(u.Defs[i].Symbol, u.Defs[i].ThreadLocal, isDefined)
			}
			for i := range u.Refs {
				record(u.Refs[i].Symbol, u.Refs[i].Uses&manifest.UseThreadLocal != 0, 0)
			}
		}
		for _, k := range c.pool.units[in.Unit].notes {
			switch note := &c.pool.units[in.Unit].comps[k]; {
			case note.flags&flagUnusual != 0:
				return strings.TrimPrefix(note.name, manifest.Unusual+" ") // the section, and why
			case note.flags&flagFixed != 0 && in.File > 0: // see link-files/textrel-moved
				return "a library has code that isn't for libraries"
			}
		}
	}
	var mixed []string // see link-broken/unreached-tls-mismatch
	for s, bits := range threadLocal {
		if bits&isLocal != 0 && bits != isLocal|isDefined {
			mixed = append(mixed, t.Name(s))
		}
	}
	if len(mixed) > 0 {
		return slices.Min(mixed) + " is thread-local for some units only, or in the system"
	}
	if several && anyThreadLocal {
		for _, r := range c.directRefs() {
			if threadLocal[r.Symbol]&isLocal != 0 && c.fromLibrary(r.Symbol) {
				return "the executable refers directly to " + t.Name(r.Symbol) + ", which is thread-local and in a library"
			}
		}
	}
	return ""
}

// shape hashes what linkers, loaders and programs can see of an ordinary link besides the components of the closure:
//
//   - each file, in the loader's order: its line, -Bsymbolic, whether it has initialisers, the libraries on its line,
//     attributes (.note.gnu.property) and notes of its units, and the libraries of the system that it needs,
//   - all undefined symbols, if the C library is static or the program can see DT_NEEDED,
//   - sizes of thread-local storage, if the program can see them,
//   - replacements for functions of the C++ library that the library doesn't see,
//   - for a symbol with several definitions, what decides which one is taken.
//
// What the components themselves can see of it is added: Closure.files.
func (x *Closure) shape(roots Roots, running []int32) frame.Buffer {
	c, p := x.c, x.program
	t := c.pool.Symbols
	b := frame.New("tasting shape of a link 2")
	words := x.fileWords()
	b.Int(len(p.Files))
	for i, f := range p.Files {
		b.String(f.Line)
		b.Flag(f.Bsymbolic)
		b.Flag(slices.Contains(running, int32(i)))
		var libraries []int
		for _, e := range f.Entries {
			if e.Library != 0 {
				libraries = append(libraries, int(e.Library))
			}
		}
		b.Int(len(libraries))
		for _, n := range libraries {
			b.Int(n)
		}
		b.Strings(words[i])
	}
	if roots.StaticC || c.sees&seesNeeds != 0 {
		b.Strings(x.Unresolved)
		weak := map[linkmodel.Symbol]bool{}
		for _, of := range x.references {
			maps.Copy(weak, of.weak)
		}
		b.Strings(x.names(maps.Keys(weak)))
	}
	// The loader allocates the table of thread-local blocks (DTV) by the program's own malloc. See link-besides/dtv-calloc.
	if c.sees&seesTLS != 0 || slices.ContainsFunc(x.Overridden, func(s string) bool { return slices.Contains(allocators, s) }) {
		for in, note := range c.notes(flagTLS) {
			b.Int(int(in.File))
			b.String(note)
		}
	}
	var hidden []string // replacements that the C++ library doesn't see: see link-files/override-hidden-reference-cxx
	for _, s := range x.replaced {
		for _, scope := range c.linked.Scopes(s) {
			if scope.Own || !scope.Exported {
				hidden = append(hidden, t.Name(s))
			}
		}
	}
	slices.Sort(hidden)
	b.Strings(hidden)
	if rivals := x.rivals(); len(rivals) > 0 {
		x.writeRivals(&b, rivals)
	}
	return b
}

// rivals are the symbols with several definitions of which one is taken.
func (x *Closure) rivals() map[linkmodel.Symbol]bool {
	rivals := maps.Clone(x.c.contested)
	for _, n := range x.named {
		if s := x.c.pool.Symbols.Lookup(n.symbol); len(n.nodes) > 1 || x.c.linked.Ambiguous(s) {
			rivals[s] = true
		}
	}
	return rivals
}

// want is a file's reference to a symbol of the system's libraries.
type want struct {
	symbol linkmodel.Symbol
	weak   bool
}

// findWanted finds for each file the references by which its linker decides which libraries of the system it needs
// (DT_NEEDED), with the library, without those that make no difference.
func (x *Closure) findWanted(roots Roots) {
	c := x.c
	library := x.library(roots)
	for i, f := range x.program.Files {
		of := &x.references[i]
		of.wanted = map[want]string{}
		var related map[linkmodel.Symbol]bool // symbols with a relocation: LLD takes no other for a reference when it drops sections
		if f.GCSections && f.Linker == linkmodel.LLD {
			related = map[linkmodel.Symbol]bool{}
			for k, in := range c.linked.Units {
				if in.File == int32(i) {
					for _, s := range c.instances[k].unit.symbols {
						related[s] = true
					}
				}
			}
		}
		for _, s := range of.undefined {
			if name := library(s); name != "" && (related == nil || related[s]) {
				of.wanted[want{s, false}] = name
			}
		}
		if f.Linker == linkmodel.Mold || f.Linker == linkmodel.AnyLinker { // others need no library for a weak reference
			for s := range of.weak {
				if name := library(s); name != "" {
					of.wanted[want{s, true}] = name
				}
			}
		}
	}
}

// library returns a function that returns Roots.System of a symbol, or "" if it makes no difference whether a file needs
// the library.
func (x *Closure) library(roots Roots) func(linkmodel.Symbol) string {
	c, p := x.c, x.program
	system := func(s linkmodel.Symbol) string { return c.pool.Symbols.Name(s) }
	if roots.System != nil {
		system = func(s linkmodel.Symbol) string { return roots.System(c.pool.Symbols.Name(s)) }
	}
	// libm and libgcc have no initialisers. So loading them has no effect, unless a weak reference may be bound to
	// them (link-dead/as-needed-brings-libm), or the program sees DT_NEEDED.
	passive := map[string]bool{"m": true, "gcc": true, "unwind": true}
	for _, of := range x.references {
		for s := range of.weak {
			delete(passive, system(s))
		}
	}
	if c.sees&seesNeeds != 0 || len(x.Overridden) > 0 || slices.ContainsFunc(p.Files, func(f linkmodel.File) bool { return f.System != p.Files[0].System }) {
		clear(passive)
	}
	return func(s linkmodel.Symbol) string {
		name := system(s)
		if passive[name] {
			return ""
		}
		return name
	}
}

// fileWords returns for each file the attributes and notes of its units and the libraries of the system that it needs, as
// sorted words.
func (x *Closure) fileWords() [][]string {
	c, p := x.c, x.program
	words := make([]map[string]bool, len(p.Files))
	for i, of := range x.references {
		words[i] = map[string]bool{}
		for w, library := range of.wanted {
			words[i][map[bool]string{false: "needs ", true: "may need "}[w.weak]+library] = true
		}
	}
	for _, in := range c.linked.Units {
		words[in.File]["attributes "+c.pool.units[in.Unit].attributes] = true
	}
	for in, note := range c.notes(flagFixed | flagLarge) {
		words[in.File]["note "+note] = true
	}
	sorted := make([][]string, len(p.Files))
	for i, w := range words {
		sorted[i] = slices.Sorted(maps.Keys(w))
	}
	return sorted
}

func (x *Closure) names(symbols iter.Seq[linkmodel.Symbol]) (names []string) {
	for s := range symbols {
		names = append(names, x.c.pool.Symbols.Name(s))
	}
	slices.Sort(names)
	return names
}

// allocators are functions by which a loader may allocate tables of thread-local storage.
var allocators = []string{"aligned_alloc", "calloc", "malloc", "memalign", "posix_memalign", "realloc"}

// ownSymbols are hidden symbols of which each file has its own copy: in start files, libc_nonshared.a, libgcc (the
// processor's model, rounding of decimals) and runtimes of coverage. See link-files/dso-handle-moved.
var ownSymbols = []string{
	"__dso_handle", "__TMC_END__", "atexit", "at_quick_exit", "pthread_atfork", "__pthread_atfork", "__cpu_model", "__cpu_features2", "__cpu_indicator_init",
	"__dfp_set_round", "__dfp_get_round", "__dfp_test_except", "__dfp_clear_except", "__dfp_raise_except",
	"__llvm_profile_begin_counters", "__llvm_profile_end_counters", "__llvm_profile_begin_data", "__llvm_profile_end_data",
	"__llvm_profile_begin_names", "__llvm_profile_end_names", "__llvm_profile_reset_counters", "__llvm_profile_dump",
	"__llvm_profile_write_file", "__llvm_profile_write_buffer", "__llvm_profile_get_size_for_buffer", "__llvm_profile_set_filename",
	"__llvm_profile_initialize_file", "__gcov_dump", "__gcov_reset",
}

// symbolSet returns the numbers of names that units mention.
func (c *Composer) symbolSet(names ...string) map[linkmodel.Symbol]bool {
	set := map[linkmodel.Symbol]bool{}
	for _, s := range names {
		if id := c.pool.Symbols.Lookup(s); id != linkmodel.None {
			set[id] = true
		}
	}
	return set
}

// usersOf returns the nodes of the closure that refer to some of the symbols.
func (c *Composer) usersOf(symbols map[linkmodel.Symbol]bool) (ids []int32) {
	if len(symbols) == 0 {
		return nil
	}
	for _, id := range c.order {
		u, _ := c.unitOf(id)
		if slices.ContainsFunc(c.linksFrom(id), func(l int32) bool { return l < 0 && symbols[u.symbols[-1-l]] }) {
			ids = append(ids, id)
		}
	}
	return ids
}

// Keys of Closure.users besides symbols of manifests.
const (
	usersOfFiles  = "files"  // users of ownSymbols
	usersOfRivals = "rivals" // users of Closure.rivals
)

// findUsers finds the nodes of the closure that can see orders of addresses, or files.
func (x *Closure) findUsers() {
	c := x.c
	x.users = map[string][]int32{}
	for _, name := range []string{manifest.OrderOfTypes, manifest.OrderOfVariables, manifest.OrderOfFunctions, manifest.OrderOfLiterals, manifest.OwnProgram} {
		x.users[name] = c.usersOf(c.symbolSet(name))
	}
	if len(x.program.Files) > 1 {
		x.users[usersOfFiles] = c.usersOf(c.symbolSet(ownSymbols...))
	}
	x.users[usersOfRivals] = c.usersOf(x.rivals())
}

// reached returns those of x.users that the present walk reaches, by their numbers.
func (x *Closure) reached(name string) []int32 {
	c := x.c
	ids := slices.DeleteFunc(slices.Clone(x.users[name]), func(id int32) bool { return c.numbers[id] == 0 || c.stubs[id] })
	slices.SortFunc(ids, func(a, b int32) int { return cmp.Compare(c.numbers[a], c.numbers[b]) })
	return ids
}

// contestedDiffer reports whether some contested symbol has different definitions.
func (x *Closure) contestedDiffer() bool {
	for s := range x.c.contested {
		if x.definitionsDiffer(s) {
			return true
		}
	}
	return false
}

// definitionsDiffer reports whether files define s differently.
func (x *Closure) definitionsDiffer(s linkmodel.Symbol) bool {
	first := int32(-1)
	for _, scope := range x.c.linked.Scopes(s) {
		if scope.Defined {
			d := x.c.comp(x.c.nodeOf(scope.Definition)).description
			if first >= 0 && d != first {
				return true
			}
			first = d
		}
	}
	return false
}

// writeRivals appends, for symbols with several definitions, the definition in each
// file and, if they differ, the files that refer to the symbol: the loader binds a STB_GNU_UNIQUE symbol at the
// first reference. For an ambiguous symbol, it appends all definitions and references of units.
func (x *Closure) writeRivals(b *frame.Buffer, symbols map[linkmodel.Symbol]bool) {
	c, t, l := x.c, x.c.pool.Symbols, x.c.linked
	differ := map[linkmodel.Symbol]bool{}
	for _, s := range slices.SortedFunc(maps.Keys(symbols), func(a, b linkmodel.Symbol) int { return strings.Compare(t.Name(a), t.Name(b)) }) {
		b.String(t.Name(s))
		differ[s] = x.definitionsDiffer(s)
		for _, scope := range l.Scopes(s) {
			b.Int(int(scope.File))
			b.Flag(scope.Own)
			b.Flag(scope.Exported)
			if !scope.Defined {
				b.Int(0)
				continue
			}
			b.Int(1)
			for _, d := range t.Unit(l.Units[scope.Definition.In].Unit).Defs {
				if d.Symbol == s && d.Component == scope.Definition.Component {
					b.Int(int(d.Binding))
					b.Int(int(d.Visibility))
				}
			}
			b.String(c.pool.descriptions[c.comp(c.nodeOf(scope.Definition)).description])
		}
	}
	type group struct {
		file      int32
		signature linkmodel.Symbol
	}
	before, referring := map[group]bool{}, map[string]bool{}
	for _, in := range l.Units {
		u := t.Unit(in.Unit)
		var mentions []string // sorted, because the order of a unit's components decides nothing
		for _, d := range u.Defs {
			if symbols[d.Symbol] && l.Ambiguous(d.Symbol) {
				mentions = append(mentions, fmt.Sprintf("%d %s defined %d %d %t %t %t %q", in.File, t.Name(d.Symbol), d.Binding, d.Visibility, d.ThreadLocal,
					d.Group != linkmodel.None, before[group{in.File, d.Group}], archiveOf(&x.program.Files[in.File], in.Unit)))
			}
		}
		for _, r := range u.Refs {
			switch {
			case !symbols[r.Symbol]:
			case l.Ambiguous(r.Symbol):
				mentions = append(mentions, fmt.Sprintf("%d %s wanted %t %d %d", in.File, t.Name(r.Symbol), r.Weak, r.Visibility, r.Uses&^manifest.UseInside))
			case differ[r.Symbol]:
				referring[fmt.Sprintf("%d %s", in.File, t.Name(r.Symbol))] = true
			}
		}
		for _, d := range u.Defs {
			if d.Group != linkmodel.None {
				before[group{in.File, d.Group}] = true
			}
		}
		for _, g := range u.Groups {
			before[group{in.File, g}] = true
		}
		if len(mentions) > 0 {
			slices.Sort(mentions)
			b.Strings(mentions)
		}
	}
	b.Strings(slices.Sorted(maps.Keys(referring)))
}

// archiveOf returns the name of the archive that a unit of a file is from, or "".
func archiveOf(f *linkmodel.File, unit int32) string {
	for _, e := range f.Entries {
		if e.Library == 0 && e.Unit == unit {
			return e.From
		}
	}
	return ""
}

// notes yields the notes with some of the flags, for each linked unit.
func (c *Composer) notes(flags uint16) iter.Seq2[linkmodel.LinkedUnit, string] {
	return func(yield func(linkmodel.LinkedUnit, string) bool) {
		for _, in := range c.linked.Units {
			u := c.pool.units[in.Unit]
			for _, k := range u.notes {
				if x := &u.comps[k]; x.flags&flags != 0 && !yield(in, c.pool.descriptions[x.description]) {
					return
				}
			}
		}
	}
}

// resolvers counts the components of the closure that resolve indirect functions.
func (c *Composer) resolvers() (n int) {
	if !c.pool.resolvers {
		return 0
	}
	for _, id := range c.order {
		if c.comp(id).flags&flagResolver != 0 {
			n++
		}
	}
	return n
}

// fromLibrary reports whether a symbol of the executable is bound to a library.
func (c *Composer) fromLibrary(s linkmodel.Symbol) bool {
	c.resolved = c.linked.Resolve(c.resolved[:0], 0, s)
	return slices.ContainsFunc(c.resolved, func(d linkmodel.Definition) bool { return c.linked.Units[d.In].File > 0 })
}

// copied is a definition of a library to which the executable refers directly. The executable has a copy of the variable
// (R_X86_64_COPY), or the canonical PLT entry of the function.
type copied struct {
	symbol linkmodel.Symbol
	node   int32
}

// findCopied finds such definitions in the closure, even if no reached component refers to them. The flag keepsCopies is set if
// one refers directly to each of them, so that no linker drops the copy.
func (x *Closure) findCopied() {
	c := x.c
	refersTo := map[linkmodel.Symbol]bool{} // a reached component refers to it
	for i, r := range c.directRefs() {
		reached, known := refersTo[r.Symbol]
		if !known {
			c.resolved = c.linked.Resolve(c.resolved[:0], 0, r.Symbol)
			before := len(x.copied)
			for _, d := range c.resolved {
				if id := c.nodeOf(d); c.linked.Units[d.In].File > 0 && c.numbers[id] != 0 {
					x.copied = append(x.copied, copied{r.Symbol, id})
				}
			}
			if len(x.copied) == before {
				refersTo[r.Symbol] = true
				continue
			}
		}
		u := c.instances[i].unit
		link := int32(-1 - slices.Index(u.symbols, r.Symbol)) // 0 if no component has a link to it
		for k := int32(0); !reached && link < 0 && k < int32(len(u.comps)); k++ {
			reached = c.numbers[c.node(i, k)] != 0 && slices.Contains(c.linksFrom(c.node(i, k)), link)
		}
		refersTo[r.Symbol] = reached
	}
	t := c.pool.Symbols
	slices.SortStableFunc(x.copied, func(a, b copied) int { return strings.Compare(t.Name(a.symbol), t.Name(b.symbol)) })
	x.keepsCopies = true
	for _, reached := range refersTo {
		x.keepsCopies = x.keepsCopies && reached
	}
}

// directRefs yields the direct references of the executable (not by the GOT or PLT), reached or not, with the indices of
// their units in Composer.instances.
func (c *Composer) directRefs() iter.Seq2[int32, linkmodel.Ref] {
	return func(yield func(int32, linkmodel.Ref) bool) {
		for i, in := range c.linked.Units {
			if in.File > 0 {
				return // they are in the order of the files
			}
			u := c.pool.Symbols.Unit(in.Unit)
			for _, r := range u.Refs {
				// In a unit that isn't exact, any reference may be direct.
				if (!u.Exact || r.Uses&manifest.UseDirect != 0) && !yield(int32(i), r) {
					return
				}
			}
		}
	}
}

// orders are the orders in memory of components whose addresses the components of the present walk compare.
func (x *Closure) orders() (l []Addition) {
	c := x.c
	isUsed := func(name string) bool { return len(x.reached(name)) > 0 }
	kinds := [manifest.PlaceKinds]bool{manifest.PlaceTypes: true, manifest.PlaceOtherTypes: isUsed(manifest.OrderOfTypes)}
	l = c.appendPlaces(l, Types, kinds)
	if isUsed(manifest.OrderOfVariables) {
		kinds[manifest.PlaceVariables], kinds[manifest.PlaceFunctions] = true, isUsed(manifest.OrderOfFunctions)
		l = c.appendPlaces(l, Order, kinds)
	}
	if ids := x.reached(manifest.OrderOfLiterals); len(ids) > 0 {
		rank := c.ranks(ids)
		b := frame.New("tasting literals 1")
		for _, in := range c.linked.Units {
			if n := rank(in.File); n >= 0 {
				b.Int(n)
				b.Bytes(c.pool.units[in.Unit].literals)
			}
		}
		l = append(l, Addition{Literals, b.Sum()})
	}
	return l
}

// files is the text of what components of the present walk can see of their files in an ordinary link:
//
//   - the flags that each component's file is linked with, if files differ in flags for code,
//   - the files of those that refer to symbols of which each file has its own, or to symbols with several definitions,
//   - definitions of libraries to which the executable refers directly, which makes copy relocations and canonical PLT entries.
func (x *Closure) files() []byte {
	c, files := x.c, x.program.Files
	b := frame.New("tasting files of components 1")
	if slices.ContainsFunc(files, func(f linkmodel.File) bool { return f.Code != files[0].Code }) {
		for _, id := range c.order {
			b.String(files[c.fileOf(id)].Code)
		}
	}
	for _, name := range []string{usersOfFiles, usersOfRivals} {
		ids := x.reached(name)
		b.Int(len(ids))
		for _, id := range ids {
			b.Int(int(c.numbers[id]))
			b.Int(int(c.fileOf(id)))
		}
	}
	for _, d := range x.copied { // see link-load/copy-of-hidden-twin
		if n := c.numbers[d.node]; n != 0 {
			b.String(c.pool.Symbols.Name(d.symbol))
			b.Int(int(n))
		}
	}
	return b
}

// appendPlaces appends the order of components of some kinds, if there are several. A component is listed once for each of its
// ranges: see link-addresses/between-three. Linkers lay out units in the order of the link, and loaders map files in their order.
func (c *Composer) appendPlaces(l []Addition, name string, kinds [manifest.PlaceKinds]bool) []Addition {
	type at struct {
		id    int32
		place uint32
	}
	var places []at
	for _, id := range c.placed {
		u, i := c.unitOf(id)
		if first := u.comps[i].place; kinds[first%manifest.PlaceKinds] {
			places = append(places, at{id, first})
			for _, place := range u.further[i] {
				places = append(places, at{id, place})
			}
		}
	}
	if len(places) < 2 {
		return l
	}
	slices.SortFunc(places, func(a, b at) int {
		return cmp.Or(cmp.Compare(c.within[a.id], c.within[b.id]), cmp.Compare(a.place, b.place))
	})
	list := make([]int32, len(places))
	for i, p := range places {
		list[i] = p.id
	}
	rank := c.ranks(list)
	b := frame.New("tasting order 2")
	for _, id := range list {
		b.Int(rank(c.fileOf(id)))
		b.Int(int(c.numbers[id]))
	}
	return append(l, Addition{name, b.Sum()})
}

// ranks numbers the executable and the files of nodes in their order. Other files have the number -1.
func (c *Composer) ranks(ids []int32) func(file int32) int {
	files := []int32{0}
	for _, id := range ids {
		files = append(files, c.fileOf(id))
	}
	slices.Sort(files)
	files = slices.Compact(files)
	return func(file int32) int { return slices.Index(files, file) }
}

// inexactReason returns why linkers and loaders may see other references than those of units that aren't exact, or "".
// A compiler may drop references of unreached code in such a unit, and any reference may be a call.
func (x *Closure) inexactReason(roots Roots) string {
	c := x.c
	t, l := c.pool.Symbols, c.linked
	if !slices.ContainsFunc(l.Units, func(in linkmodel.LinkedUnit) bool { return !t.Unit(in.Unit).Exact }) {
		return ""
	}
	if x.Unusual != "" {
		return "it counts as a whole: " + x.Unusual
	}
	if roots.StaticC {
		return "references decide what is linked of a static C library"
	}
	for _, a := range x.Additions {
		if a.Name != Shape && a.Name != Types {
			return a.Name + " counts"
		}
	}
	for _, in := range l.Units {
		u := t.Unit(in.Unit)
		if u.Exact {
			continue
		}
		for _, r := range u.Refs { // see link-needed/as-needed-folded
			if x.references[in.File].wanted[want{r.Symbol, r.Weak}] != "" {
				return t.Name(r.Symbol) + " brings a library of the system if it is compiled"
			}
		}
		if len(x.program.Files) < 2 {
			continue
		}
		fixed := in.File == 0 && slices.ContainsFunc(c.pool.units[in.Unit].notes, func(k int32) bool {
			return c.pool.units[in.Unit].comps[k].flags&flagFixed != 0
		})
		for _, r := range u.Refs {
			if r.Visibility != manifest.Visibility_VISIBILITY_DEFAULT {
				return "a reference to " + t.Name(r.Symbol) + " hides it from other files if it is compiled"
			}
			if fixed && c.fromLibrary(r.Symbol) {
				return "the executable may have a copy of " + t.Name(r.Symbol) + ", or its address, since it isn't compiled with -fPIC"
			}
		}
	}
	return ""
}
