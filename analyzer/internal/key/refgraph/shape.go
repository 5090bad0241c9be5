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
	Shape     = "shape of the link"        // of an ordinary link
	Content   = "content of the link"      // of an unusual one: all that is linked
	Libraries = "content of the libraries" // if other programs may open them
	Order     = "order of addresses"       // of variables and functions, if the program orders them
	Types     = "order of types"           // of names of types that are compared by their addresses
	Literals  = "order of literals"        // strings of files that order them by their addresses
	Own       = "content of the objects"   // if the program reads its own file
)

// add makes x.Additions: what linkers, loaders and the program itself can see beside the
// components of the closure. Running are the files with components that are roots by themselves.
func (x *Closure) add(roots Roots, running []int32) {
	c, p := x.c, x.program
	if x.Unusual = x.unusual(roots); x.Unusual != "" {
		x.addHash(Content, x.Content())
	} else {
		x.addHash(Shape, x.shape(roots, running))
	}
	if roots.Opened {
		x.addHash(Libraries, c.contentOf(p.Files[1:]))
	}
	x.addOrder()
	x.SourceDoubt = x.sourceDoubt(roots)
}

func (x *Closure) addHash(name string, h Hash) { x.Additions = append(x.Additions, Addition{name, h}) }

// Content hashes all that is linked or may be: each file with its line, in the loader's order, and each
// unit with all that its manifest says, in the linker's.
func (x *Closure) Content() Hash { return x.c.contentOf(x.program.Files) }

// Units yields the units that are linked or may be, each with the hash of all that its manifest says.
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

// unusual says why more of a link can be seen than its shape, or returns "". It is the one place that
// decides this. What it lets pass is ordinary: programs that people have, linked as Bazel and common toolchains link them.
//
// The rule: whoever finds a program whose outcome depends on something that is neither reached nor in the
// shape adds one condition here. A model in the place of a condition has to be
// paid for by an ordinary program that would count as a whole without it (verify/ordinary).
func (x *Closure) unusual(roots Roots) string {
	c, p, l := x.c, x.program, x.c.linked
	several := len(p.Files) > 1
	if roots.GarbageCollected {
		c.setOf(0, linkmodel.None) // finds all linker sets
	}
	for _, id := range c.asked {
		if c.places = l.All(c.places[:0], id); len(c.places) > 0 {
			return "it defines " + c.pool.Symbols.Name(id) + ", which names functions and files"
		}
	}
	switch resolvers := c.resolvers(); {
	case x.Unusual != "":
		return x.Unusual // its lines are
	case l.Unusual != "":
		return l.Unusual
	case c.sees&(seesLink|seesDebug) != 0:
		return "it refers to " + c.seen
	case len(x.Overridden) > 0 && (several || roots.StaticC):
		return "it defines " + x.Overridden[0] + " in the place of the system's"
	case resolvers > 1 || resolvers > 0 && several:
		return "an indirect function (ifunc) sees the order of relocations"
	case roots.GarbageCollected && len(c.sets) > 1:
		return "a linker set, and --gc-sections"
	case roots.GarbageCollected && several && c.sees&seesNeeds != 0:
		return "it sees which libraries it needs, and --gc-sections decides that"
	case roots.GarbageCollected && c.sees&seesTLS != 0 && c.hasNote(flagTLS):
		return "it sees how much thread-local storage there is, and --gc-sections decides that" // see link-besides/gc-tls
	case roots.GarbageCollected && several && x.unequal():
		return "different definitions of a unique symbol, and --gc-sections"
	}
	if roots.GarbageCollected {
		if _, kept := x.copies(); !kept {
			return "a copy relocation that --gc-sections may drop"
		}
	}
	return x.oddUnit(several)
}

// oddUnit says what is unusual about the units, reached or not, or returns "".
func (x *Closure) oddUnit(several bool) string {
	c := x.c
	t, l := c.pool.Symbols, c.linked
	const is, isnt, defined = 1, 2, 4 // thread-local
	local := map[linkmodel.Symbol]uint8{}
	threads := slices.ContainsFunc(l.Instances, func(in linkmodel.Instance) bool { return t.Unit(in.Unit).ThreadLocal })
	say := func(s linkmodel.Symbol, threadLocal bool, more uint8) {
		if threadLocal {
			local[s] |= is | more
		} else {
			local[s] |= isnt | more
		}
	}
	for _, in := range l.Instances {
		u := t.Unit(in.Unit)
		if several && u.Protected != linkmodel.None {
			return t.Name(u.Protected) + " is protected"
		}
		if threads {
			for i := range u.Defs {
				say(u.Defs[i].Symbol, u.Defs[i].ThreadLocal, defined)
			}
			for i := range u.Refs {
				say(u.Refs[i].Symbol, u.Refs[i].Uses&manifest.UseThreadLocal != 0, 0)
			}
		}
		for _, k := range c.pool.units[in.Unit].notes {
			switch note := &c.pool.units[in.Unit].comps[k]; {
			case note.flags&flagUnusual != 0:
				return strings.TrimPrefix(note.name, manifest.Unusual+" ") // with the section, and why
			case note.flags&flagFixed != 0 && in.File > 0:
				return "a library has code that isn't for libraries"
			}
		}
	}
	var odd []string
	for s, bits := range local {
		if bits&is != 0 && bits != is|defined {
			odd = append(odd, t.Name(s))
		}
	}
	if len(odd) > 0 {
		return slices.Min(odd) + " is thread-local for some units only, or in the system"
	}
	if several && threads {
		for _, r := range c.directRefs() {
			if local[r.Symbol]&is != 0 && c.fromLibrary(r.Symbol) {
				return "the executable refers directly to " + t.Name(r.Symbol) + ", which is thread-local and in a library"
			}
		}
	}
	return ""
}

// shape hashes what linkers, loaders and programs can see of an ordinary link beside the components of the
// closure:
//
//   - each file, in the loader's order: its line, -Bsymbolic, whether something runs in it by itself, the libraries
//     on its line, attributes (.note.gnu.property) and notes of its units, libraries of the system that it needs,
//   - with a static C library, or if the program can see what it needs, all undefined symbols,
//   - symbols of libraries to which the executable refers directly: copy relocations,
//   - which flags each component is linked with, if files differ in flags for code,
//   - who uses symbols of which each file has its own, in which file,
//   - of a symbol with several definitions, what decides which one is taken.
func (x *Closure) shape(roots Roots, running []int32) Hash {
	c, p := x.c, x.program
	t := c.pool.Symbols
	b := frame.New("tasting shape of a link 1")
	words := x.words(roots)
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
		b.Strings(x.names(maps.Keys(x.weak)))
	}
	// The loader takes memory for thread-local storage from the program's own malloc.
	if c.sees&seesTLS != 0 || slices.ContainsFunc(x.Overridden, func(s string) bool { return slices.Contains(allocators, s) }) {
		for in, note := range c.notes(flagTLS) {
			b.Int(int(in.File))
			b.String(note)
		}
	}
	direct, _ := x.copies()
	b.Strings(direct)
	var hidden []string // copies of templates of the C++ library that aren't for this library
	for _, s := range x.replaced {
		for scope := range c.linked.Scopes(s) {
			if scope.Own || !scope.Exported {
				hidden = append(hidden, t.Name(s))
			}
		}
	}
	slices.Sort(hidden)
	b.Strings(hidden)
	if slices.ContainsFunc(p.Files, func(f linkmodel.File) bool { return f.Code != p.Files[0].Code }) {
		for _, id := range c.order {
			b.String(p.Files[c.fileOf(id)].Code)
		}
	}
	if len(p.Files) > 1 {
		own := map[linkmodel.Symbol]bool{}
		for _, s := range ownSymbols {
			if id := t.Lookup(s); id != linkmodel.None {
				own[id] = true
			}
		}
		x.users(&b, own)
	}
	rivals := maps.Clone(c.contested)
	for _, n := range x.named {
		if s := t.Lookup(n.symbol); len(n.defs) > 1 || c.linked.Doubtful(s) {
			rivals[s] = true
		}
	}
	if len(rivals) > 0 {
		x.users(&b, rivals)
		x.writeRivals(&b, rivals)
	}
	return b.Sum()
}

// words returns what the units of each file say together, sorted.
func (x *Closure) words(roots Roots) [][]string {
	c, p := x.c, x.program
	t := c.pool.Symbols
	system := roots.System
	if system == nil {
		system = func(s string) string { return s }
	}
	// libm and libgcc start nothing: who needs them can't be told from who doesn't, unless something asks.
	idle := map[string]bool{"m": true, "gcc": true}
	for s := range x.weak {
		delete(idle, system(t.Name(s)))
	}
	if c.sees&seesNeeds != 0 || len(x.Overridden) > 0 || slices.ContainsFunc(p.Files, func(f linkmodel.File) bool { return f.System != p.Files[0].System }) {
		clear(idle)
	}
	words := make([]map[string]bool, len(p.Files))
	for i := range words {
		words[i] = map[string]bool{}
		for _, s := range x.undefined[i] {
			if name := system(t.Name(s)); name != "" && !idle[name] {
				words[i]["needs "+name] = true
			}
		}
	}
	for _, in := range c.linked.Instances {
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

// allocators may be asked for tables of thread-local storage.
var allocators = []string{"aligned_alloc", "calloc", "malloc", "memalign", "posix_memalign", "realloc"}

// ownSymbols are hidden symbols of which each file has its own: of start-up files, of
// libc_nonshared.a, of libgcc (the processor, rounding of decimals) and of counters of coverage.
var ownSymbols = []string{
	"__dso_handle", "__TMC_END__", "atexit", "at_quick_exit", "pthread_atfork", "__pthread_atfork", "__cpu_model", "__cpu_features2", "__cpu_indicator_init",
	"__dfp_set_round", "__dfp_get_round", "__dfp_test_except", "__dfp_clear_except", "__dfp_raise_except",
	"__llvm_profile_begin_counters", "__llvm_profile_end_counters", "__llvm_profile_begin_data", "__llvm_profile_end_data",
	"__llvm_profile_begin_names", "__llvm_profile_end_names", "__llvm_profile_reset_counters", "__llvm_profile_dump",
	"__llvm_profile_write_file", "__llvm_profile_write_buffer", "__llvm_profile_get_size_for_buffer", "__llvm_profile_set_filename",
	"__llvm_profile_initialize_file", "__gcov_dump", "__gcov_reset",
}

// usersOf returns the components of the closure that refer to symbols.
func (c *Composer) usersOf(symbols map[linkmodel.Symbol]bool) (ids []int32) {
	if len(symbols) == 0 {
		return nil
	}
	for _, id := range c.order {
		u, _ := c.of(id)
		if slices.ContainsFunc(c.linksFrom(id), func(l int32) bool { return l < 0 && symbols[u.symbols[-1-l]] }) {
			ids = append(ids, id)
		}
	}
	return ids
}

// users appends the components that refer to symbols, and their files.
func (x *Closure) users(b *frame.Buffer, symbols map[linkmodel.Symbol]bool) {
	ids := x.c.usersOf(symbols)
	b.Int(len(ids))
	for _, id := range ids {
		b.Int(int(x.c.numbers[id]))
		b.Int(int(x.c.fileOf(id)))
	}
}

// unequal reports whether a contested symbol has different definitions.
func (x *Closure) unequal() bool {
	for s := range x.c.contested {
		if x.differ(s) {
			return true
		}
	}
	return false
}

func (x *Closure) differ(s linkmodel.Symbol) bool {
	first := int32(-1)
	for scope := range x.c.linked.Scopes(s) {
		for _, place := range scope.Definitions {
			d := x.c.comp(x.c.at(place.Instance, place.Component)).description
			if first >= 0 && d != first {
				return true
			}
			first = d
		}
	}
	return false
}

// writeRivals appends what decides which of several definitions of symbols is taken: those that each file
// offers and, if they differ, which files ask. Of a doubtful symbol that is all that units say of it.
func (x *Closure) writeRivals(b *frame.Buffer, symbols map[linkmodel.Symbol]bool) {
	c, t, l := x.c, x.c.pool.Symbols, x.c.linked
	differ := map[linkmodel.Symbol]bool{}
	for _, s := range slices.SortedFunc(maps.Keys(symbols), func(a, b linkmodel.Symbol) int { return strings.Compare(t.Name(a), t.Name(b)) }) {
		b.String(t.Name(s))
		differ[s] = x.differ(s)
		for scope := range l.Scopes(s) {
			b.Int(int(scope.File))
			b.Flag(scope.Own)
			b.Flag(scope.Exported)
			b.Int(len(scope.Definitions))
			for _, place := range scope.Definitions {
				u := l.Instances[place.Instance].Unit
				for _, d := range t.Unit(u).Defs {
					if d.Symbol == s && d.Component == place.Component {
						b.Int(int(d.Binding))
						b.Int(int(d.Visibility))
					}
				}
				b.String(c.pool.descriptions[c.pool.units[u].comps[place.Component].description])
			}
		}
	}
	type group struct {
		file      int32
		signature linkmodel.Symbol
	}
	before, asks := map[group]bool{}, map[string]bool{}
	for _, in := range l.Instances {
		u := t.Unit(in.Unit)
		var said []string // in any order: that of a unit's components decides nothing
		for _, d := range u.Defs {
			if symbols[d.Symbol] && l.Doubtful(d.Symbol) {
				said = append(said, fmt.Sprintf("%d %s defined %d %d %t %t %t %q", in.File, t.Name(d.Symbol), d.Binding, d.Visibility, d.ThreadLocal,
					d.Group != linkmodel.None, before[group{in.File, d.Group}], from(&x.program.Files[in.File], in.Unit)))
			}
		}
		for _, r := range u.Refs {
			switch {
			case !symbols[r.Symbol]:
			case l.Doubtful(r.Symbol):
				said = append(said, fmt.Sprintf("%d %s wanted %t %d %d", in.File, t.Name(r.Symbol), r.Weak, r.Visibility, r.Uses))
			case differ[r.Symbol]:
				asks[fmt.Sprintf("%d %s", in.File, t.Name(r.Symbol))] = true
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
		if len(said) > 0 {
			slices.Sort(said)
			b.Strings(said)
		}
	}
	b.Strings(slices.Sorted(maps.Keys(asks)))
}

// from returns the name of the archive that a unit of a file is from, or "".
func from(f *linkmodel.File, unit int32) string {
	for _, e := range f.Entries {
		if e.Library == 0 && e.Unit == unit {
			return e.From
		}
	}
	return ""
}

// notes yields the notes of some kinds of all units that are linked.
func (c *Composer) notes(flags uint16) iter.Seq2[linkmodel.Instance, string] {
	return func(yield func(linkmodel.Instance, string) bool) {
		for _, in := range c.linked.Instances {
			u := c.pool.units[in.Unit]
			for _, k := range u.notes {
				if x := &u.comps[k]; x.flags&flags != 0 && !yield(in, c.pool.descriptions[x.description]) {
					return
				}
			}
		}
	}
}

func (c *Composer) hasNote(flags uint16) bool {
	for range c.notes(flags) {
		return true
	}
	return false
}

// resolvers returns how many components of the closure are called to find out what a symbol is.
func (c *Composer) resolvers() (n int) {
	for _, id := range c.order {
		if !c.pool.resolvers {
			break
		}
		if c.comp(id).flags&flagResolver != 0 {
			n++
		}
	}
	return n
}

// fromLibrary reports whether the executable finds a symbol in a library.
func (c *Composer) fromLibrary(s linkmodel.Symbol) bool {
	c.places = c.linked.Resolve(c.places[:0], 0, s)
	return slices.ContainsFunc(c.places, func(p linkmodel.Place) bool { return c.linked.Instances[p.Instance].File > 0 })
}

// copies returns the symbols of libraries in the closure to which the executable refers
// directly, reached or not: it has a copy of the variable, or the address of the
// function. Kept says that something that is reached refers to each of them so, which
// no linker drops.
func (x *Closure) copies() (names []string, kept bool) {
	c := x.c
	seen := map[linkmodel.Symbol]bool{} // whether something that is reached refers to it
	for i, r := range c.directRefs() {
		reached, known := seen[r.Symbol]
		if !known {
			c.places = c.linked.Resolve(c.places[:0], 0, r.Symbol)
			if !slices.ContainsFunc(c.places, func(p linkmodel.Place) bool {
				return c.linked.Instances[p.Instance].File > 0 && c.numbers[c.at(p.Instance, p.Component)] != 0
			}) {
				seen[r.Symbol] = true
				continue
			}
			names = append(names, c.pool.Symbols.Name(r.Symbol))
		}
		u := c.instances[i].unit
		link := int32(-1 - slices.Index(u.symbols, r.Symbol)) // 0 if there is none: to itself, at most
		for k := int32(0); !reached && link < 0 && k < int32(len(u.comps)); k++ {
			reached = c.numbers[c.at(i, k)] != 0 && slices.Contains(c.linksFrom(c.at(i, k)), link)
		}
		seen[r.Symbol] = reached
	}
	slices.Sort(names)
	kept = true
	for _, reached := range seen {
		kept = kept && reached
	}
	return names, kept
}

// directRefs yields the direct references of the executable, reached or not, with the
// instances that they are in.
func (c *Composer) directRefs() iter.Seq2[int32, linkmodel.Ref] {
	return func(yield func(int32, linkmodel.Ref) bool) {
		for i, in := range c.linked.Instances {
			if in.File > 0 {
				return // they are in the order of the files
			}
			u := c.pool.Symbols.Unit(in.Unit)
			for _, r := range u.Refs {
				// Of sources it isn't known.
				if (!u.Exact || r.Uses&manifest.UseDirect != 0) && !yield(int32(i), r) {
					return
				}
			}
		}
	}
}

// addOrder adds in which order in memory is what the program orders by its address, and all objects
// if it reads its own file.
func (x *Closure) addOrder() {
	c := x.c
	askers := func(what string) []int32 {
		id := c.pool.Symbols.Lookup(what)
		if id == linkmodel.None {
			return nil
		}
		return c.usersOf(map[linkmodel.Symbol]bool{id: true})
	}
	asks := func(what string) bool { return len(askers(what)) > 0 }
	x.addPlaces(Types, [manifest.PlaceKinds]bool{manifest.PlaceTypes: true, manifest.PlaceOtherTypes: asks(manifest.OrderOfTypes)})
	if asks(manifest.OrderOfVariables) {
		x.addPlaces(Order, [manifest.PlaceKinds]bool{manifest.PlaceTypes: true, manifest.PlaceOtherTypes: asks(manifest.OrderOfTypes),
			manifest.PlaceVariables: true, manifest.PlaceFunctions: asks(manifest.OrderOfFunctions)})
	}
	if ids := askers(manifest.OrderOfLiterals); len(ids) > 0 {
		rank := c.ranks(ids)
		b := frame.New("tasting literals 1")
		for _, in := range c.linked.Instances {
			if n := rank(in.File); n >= 0 {
				b.Int(n)
				b.Bytes(c.pool.units[in.Unit].literals)
			}
		}
		x.addHash(Literals, b.Sum())
	}
	if asks(manifest.OwnProgram) {
		b := frame.New("tasting whole program 1")
		for _, in := range c.linked.Instances {
			b.Int(int(in.File))
			b.Bytes(c.pool.units[in.Unit].content)
		}
		x.addHash(Own, b.Sum())
	}
}

// addPlaces adds in which order components of some kinds are, if there are several: linkers put them
// into a file in the order of its units, and loaders put files into memory in their order.
func (x *Closure) addPlaces(name string, kinds [manifest.PlaceKinds]bool) {
	c := x.c
	var list []int32
	for _, id := range c.placed {
		if kinds[c.comp(id).place%manifest.PlaceKinds] {
			list = append(list, id)
		}
	}
	if len(list) < 2 {
		return
	}
	slices.SortFunc(list, func(a, b int32) int {
		return cmp.Or(cmp.Compare(c.within[a], c.within[b]), cmp.Compare(c.comp(a).place, c.comp(b).place))
	})
	rank := c.ranks(list)
	b := frame.New("tasting order 2")
	for _, id := range list {
		b.Int(rank(c.fileOf(id)))
		b.Int(int(c.numbers[id]))
	}
	x.addHash(name, b.Sum())
}

// ranks numbers the executable and the files of components in their order: where others are
// among them decides nothing.
func (c *Composer) ranks(ids []int32) func(file int32) int {
	files := []int32{0}
	for _, id := range ids {
		files = append(files, c.fileOf(id))
	}
	slices.Sort(files)
	files = slices.Compact(files)
	return func(file int32) int { return slices.Index(files, file) }
}

// sourceDoubt says why linkers and loaders may see of sources what isn't in the objects, or
// not what is, or returns "". A source doesn't tell which references a compiler leaves out
// of code that nothing reaches, and which are calls.
func (x *Closure) sourceDoubt(roots Roots) string {
	c := x.c
	t, l := c.pool.Symbols, c.linked
	if !slices.ContainsFunc(l.Instances, func(in linkmodel.Instance) bool { return !t.Unit(in.Unit).Exact }) {
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
	if len(x.program.Files) < 2 {
		return ""
	}
	for _, in := range l.Instances {
		u := t.Unit(in.Unit)
		if u.Exact {
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
