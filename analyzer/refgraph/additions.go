package refgraph

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/linkmodel"
	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
)

// add makes x.Additions: what isn't in the hash of any component and counts all the
// same, because a linker, a loader or the program can see it. See Closure.Hash.
// starting are the files with components that are roots by themselves; weakly says that
// there are symbols that nothing has to define.
func (x *Closure) add(p *linkmodel.Program, roots Roots, starting []int32, weakly bool) {
	c := x.c
	if h, ok := c.attributesHash(p); ok {
		x.addHash("attributes", h)
	}
	unequal := false
	if len(c.contested) > 0 || slices.ContainsFunc(x.named, func(n named) bool { return len(n.defs) > 1 }) {
		var h Hash
		h, unequal = x.contestedHash(p)
		x.addHash("contested", h)
	}
	if h, ok := x.openHash(p); ok {
		x.addHash("open", h)
	}
	if c.debug {
		x.addHash("debug", c.debugHash())
	}
	switch unsure, left := c.mayNotNeed(p, roots.Foreign); {
	case unsure:
		// Linkers don't agree on what is needed, nor when.
		x.addHash(AsNeeded, c.placement(p.Files, true))
	case left != nil:
		// What a library has loaded, its thread-local storage and its flags are for the whole
		// process.
		x.addNames(AsNeeded, left)
	}
	users, running := c.usersOf(x.ownSymbols(roots.Inside)), starting
	for _, u := range users {
		if !slices.Contains(running, u.file) {
			running = append(slices.Clip(running), u.file)
		}
	}
	if order := c.dependencies(p, running, roots.Initialises); order != nil {
		x.addHash("dependencies", frameInts("tasting dependencies 1", order))
	}
	direct, kept := x.copies()
	seesNeeds := c.files || c.needs || c.lookups || weakly || len(x.Overridden) > 0
	resolves := x.addFiles(p, roots, unequal || !kept, seesNeeds)
	if roots.SeesWhatIsNeeded || roots.TakesWhatIsNeeded && seesNeeds {
		x.addHash("needs", x.needsHash())
	}
	if len(p.Files) > 1 {
		// An executable shows others what its libraries mention.
		if list := x.mentions(true); len(list) > 0 {
			x.addHash("mentions", mentionsHash(list))
		}
		// What a library initialises or finishes is before or behind what the system's do.
		if roots.LoadsWhatIsNeeded && (seesNeeds || len(x.replaced) > 0 || roots.Initialises || slices.ContainsFunc(running, func(file int32) bool { return file > 0 })) {
			x.addHash("needs of files", c.needsOf(p, running, x.replaced, roots.System, seesNeeds))
		}
	}
	x.addSymbols(p, roots, direct, resolves)
	if c.tls {
		x.addHash(ThreadLocal, c.tlsHash())
	}
	if h, ok := c.noted(p, "tasting unusual units 3", flagUnusual); ok {
		x.addHash("unusual", h)
	}
	if h, ok := c.noted(p, "tasting large units 1", flagLarge); ok {
		x.addHash("large", h)
	}
	if x.Unknown != "" || roots.Warned {
		x.addHash("placement", c.placement(p.Files, roots.Warned))
	}
	if h, ok := x.sharing(); ok {
		x.addHash("sharing", h)
	}
	x.addOrder()
	if slices.ContainsFunc(users, func(u user) bool { return u.file > 0 }) {
		x.addHash("start-up symbols", c.startingHash(users, starting))
	}
	if c.debug || c.layout {
		x.addHash("places", x.placesHash())
	}
}

func (x *Closure) addHash(name string, h Hash) { x.Additions = append(x.Additions, Addition{name, h}) }

func (x *Closure) addNames(name string, symbols []string) {
	if len(symbols) > 0 {
		b := frame.New("tasting " + name + " 1")
		b.Strings(symbols)
		x.addHash(name, b.Sum())
	}
}

// addFiles adds which files there are, and of which kinds, and decides whether it counts where
// sections begin and end: for one, if it counts whether a linker drops what isn't reached, as drops
// says. It tells whether resolvers see the order of files.
func (x *Closure) addFiles(p *linkmodel.Program, roots Roots, drops, seesNeeds bool) (resolves bool) {
	c := x.c
	if len(c.sets) == 0 && roots.GarbageCollected {
		c.setOf(0, linkmodel.None)
	}
	// Threads and the loader ask an allocator for a table of all files that have some.
	allocates := slices.ContainsFunc(x.Overridden, func(s string) bool { return slices.Contains(allocators, s) })
	c.tls = c.tls || allocates && c.hasTLS()
	kinds, special, inLibrary := c.kindsHash(p)
	collects := slices.ContainsFunc(p.Files, func(f linkmodel.File) bool { return f.Collects && f.Linker != linkmodel.GNU })
	// What is collected asks for no symbol, and has no thread-local storage.
	c.layout = c.layout || roots.Everything || c.linked.Collected ||
		roots.GarbageCollected && (len(c.sets) > 1 || drops || inLibrary || c.tls && c.hasTLS() || collects && seesNeeds && roots.LoadsWhatIsNeeded)
	// A resolver runs while files are relocated, in an order of the files, and sees which
	// are.
	resolvers := c.resolvers()
	resolves = resolvers > 1 || resolvers > 0 && len(p.Files) > 1
	if c.files || c.layout || roots.Foreign || resolves {
		// How often and in which order they are asked, mentions decide, reached or not.
		x.addHash("files", c.filesHash(p, c.layout, c.layout || resolves))
	}
	if roots.Opened {
		x.addHash("libraries", c.placement(p.Files[1:], true))
	}
	if roots.GarbageCollected && len(x.Unresolved) > 0 {
		x.Layout = c.filesHash(p, true, false)
	}
	switch {
	case special && inLibrary:
		x.addHash(LibraryKinds, kinds)
	case special:
		x.addHash("kinds", kinds)
	}
	return resolves
}

// addSymbols adds what linkers and loaders see of symbols, reached or not.
func (x *Closure) addSymbols(p *linkmodel.Program, roots Roots, direct []string, resolves bool) {
	c := x.c
	x.addNames("hidden", x.hidden())
	x.addNames("versions", c.versions())
	indirect := c.indirect(p)
	x.addNames("indirect", indirect)
	// What a symbol's version is a file has from the library that it needs.
	versioned := len(c.contested) > 0 && slices.ContainsFunc(p.Files[1:], func(f linkmodel.File) bool { return f.Uncertain != "" })
	if l := x.levels(p, roots.Foreign || len(indirect) > 0 || versioned || resolves); l != nil {
		x.addHash("levels", frameInts("tasting levels 1", l))
	}
	x.addNames("weak references", c.weakReferences(p))
	x.addNames("copies", direct)
	x.addNames("protected", c.protected(roots.NoCopies))
	if roots.Foreign {
		x.addNames("mentioned", c.mentioned())
	}
	x.SourceDoubt = c.sourceDoubt(p, roots.Foreign)
	x.addNames("thread-local references", c.mismatches())
}

// needsHash describes what no unit defines, and what may be in its place.
func (x *Closure) needsHash() Hash {
	b := frame.New("tasting needs 1")
	b.Int(len(x.Unresolved))
	for i, s := range x.Unresolved {
		b.String(s)
		b.String(x.UnresolvedAt[i])
	}
	// Whatever defines it, a system library that does may be needed for it.
	for _, m := range x.mentions(false) {
		b.Int(int(m.file))
		b.String(m.name)
	}
	return b.Sum()
}

func mentionsHash(list []mention) Hash {
	var files []int32
	for _, m := range list {
		files = append(files, m.file)
	}
	rank := ranks(nil, files)
	b := frame.New("tasting mentions 1")
	for _, m := range list {
		b.Int(rank(m.file))
		b.String(m.name)
	}
	return b.Sum()
}

// startingHash says which components of which files use what each file has for itself; what a
// file does with that it does when its turn is among the files that run something.
func (c *Composer) startingHash(users []user, starting []int32) Hash {
	rank := ranks(users, starting)
	b := frame.New("tasting start-up symbols 1")
	for _, file := range starting {
		b.Int(rank(file))
	}
	h := c.usersHash(users, rank)
	b.Bytes(h[:])
	return b.Sum()
}

// ownSymbols are those that start-up files define, hidden, functions of the C library that
// are linked into each file, to say by one of them which file has called, and what has its
// state in each file: libgcc's processor, which is asked while a file is initialised, its
// rounding of decimals, and counters of coverage.
var ownSymbols = []string{
	"__dso_handle", "__TMC_END__", "atexit", "at_quick_exit", "pthread_atfork", "__pthread_atfork", "__cpu_model", "__cpu_features2", "__cpu_indicator_init",
	"__dfp_set_round", "__dfp_get_round", "__dfp_test_except", "__dfp_clear_except", "__dfp_raise_except",
	"__llvm_profile_begin_counters", "__llvm_profile_end_counters", "__llvm_profile_begin_data", "__llvm_profile_end_data",
	"__llvm_profile_begin_names", "__llvm_profile_end_names", "__llvm_profile_reset_counters", "__llvm_profile_dump",
	"__llvm_profile_write_file", "__llvm_profile_write_buffer", "__llvm_profile_get_size_for_buffer", "__llvm_profile_set_filename",
	"__llvm_profile_initialize_file", "__gcov_dump", "__gcov_reset",
}

// With copies of libraries of the system inside of files, that goes for all that no unit
// defines.
func (x *Closure) ownSymbols(inside bool) map[linkmodel.Symbol]bool {
	symbols := map[linkmodel.Symbol]bool{}
	names := ownSymbols
	if inside {
		names = slices.Concat(ownSymbols, x.Unresolved)
	}
	for _, s := range names {
		if id := x.c.pool.Symbols.Lookup(s); id != linkmodel.None {
			symbols[id] = true
		}
	}
	return symbols
}

// user is a component that refers to a symbol, and the file that it is in.
type user struct{ id, file int32 }

// usersOf returns the components of the closure that refer to symbols, by hash.
func (c *Composer) usersOf(symbols map[linkmodel.Symbol]bool) (users []user) {
	if len(symbols) == 0 {
		return nil
	}
	is := make([]bool, c.pool.Symbols.Len())
	for s := range symbols {
		is[s] = true
	}
	var ids []int32
	for _, id := range c.order {
		n := &c.nodes[id]
		u := c.pool.units[c.linked.Instances[n.instance].Unit]
		if slices.ContainsFunc(c.linksFrom(id), func(l int32) bool { return l < 0 && is[u.symbols[-1-l]] }) {
			ids = append(ids, id)
		}
	}
	c.sortByHash(ids)
	for _, id := range ids {
		users = append(users, user{id, c.linked.Instances[c.nodes[id].instance].File})
	}
	return users
}

// usersHash says which components refer to symbols, and which of them are in which of the files
// that users and definitions are in.
func (c *Composer) usersHash(users []user, rank func(file int32) int) Hash {
	b := frame.New("tasting users of symbols 2")
	for _, u := range users {
		c.writeRef(&b, u.id)
		b.Int(rank(u.file))
	}
	return b.Sum()
}

// ranks numbers the executable and the files of users and definitions of symbols in their order:
// where others are among them decides nothing.
func ranks(users []user, definitions []int32) func(file int32) int {
	files := append([]int32{0}, definitions...)
	for _, u := range users {
		files = append(files, u.file)
	}
	slices.Sort(files)
	files = slices.Compact(files)
	return func(file int32) int { return slices.Index(files, file) }
}

// dependencies lists, if several libraries have something to initialise, what
// loaders put in order: files with components that run, and libraries that need
// others. Of each there is whether it has such components, and which of the
// others it needs, for certain or if it refers to them. Flags may have any library run
// something.
func (c *Composer) dependencies(p *linkmodel.Program, running []int32, flags bool) []int {
	libraries := 0
	for f := range int32(len(p.Files)) {
		if f > 0 && (flags || slices.Contains(running, f)) {
			libraries++
		}
	}
	needs := func(f int32, what func(e linkmodel.Entry)) {
		for _, e := range p.Files[f].Entries {
			if f > 0 && e.Library != 0 {
				what(e)
			}
		}
	}
	var list []int32 // that count
	edges := false
	for f := range int32(len(p.Files)) {
		counts := slices.Contains(running, f) || flags && f > 0
		needs(f, func(linkmodel.Entry) { counts, edges = true, true })
		if counts {
			list = append(list, f)
		}
	}
	if libraries < 2 || !edges {
		return nil
	}
	wants := c.wants(p)
	var out []int
	for _, f := range list {
		runs := 0
		if slices.Contains(running, f) {
			runs = 1
		}
		out = append(out, runs)
		n := len(out)
		out = append(out, 0)
		needs(f, func(e linkmodel.Entry) {
			i := slices.Index(list, e.Library)
			if i < 0 {
				return
			}
			need := 0
			if e.AsNeeded {
				need = 1 + wants(f, e.Library)
			}
			out = append(out, i, need)
			out[n]++
		})
	}
	return out
}

// wants returns a function that says with 1, not 0, that a file has to have what a
// library defines.
func (c *Composer) wants(p *linkmodel.Program) func(file, library int32) int {
	units := c.unitsOf(p)
	defined := make([]map[linkmodel.Symbol]bool, len(p.Files))
	return func(file, library int32) int {
		if defined[library] == nil {
			defined[library] = map[linkmodel.Symbol]bool{}
			for _, u := range units[library] {
				for _, d := range u.Defs {
					defined[library][d.Symbol] = true
				}
			}
		}
		for _, u := range units[file] {
			if slices.ContainsFunc(u.Refs, func(r linkmodel.Ref) bool { return !r.Weak && defined[library][r.Symbol] }) {
				return 1
			}
		}
		return 0
	}
}

func frameInts(name string, list []int) Hash {
	b := frame.New(name)
	b.Int(len(list))
	for _, n := range list {
		b.Int(n)
	}
	return b.Sum()
}

// contestedHash describes what a choice that isn't decided depends on: of each
// symbol with several possible definitions in the closure, how each of these is
// defined and in which files, in the loader's order. It tells whether a unique symbol has
// unequal definitions.
func (x *Closure) contestedHash(p *linkmodel.Program) (h Hash, some bool) {
	c := x.c
	t := c.pool.Symbols
	symbols := map[linkmodel.Symbol]bool{}
	maps.Copy(symbols, c.contested)
	for _, n := range x.named {
		if len(n.defs) > 1 {
			symbols[t.Lookup(n.symbol)] = true
		}
	}
	users := c.usersOf(symbols)
	files, unequal := c.definers(symbols)
	// The first file that asks for one of these decides, whatever of it is reached.
	for file := range c.references(unequal) {
		files = append(files, file)
	}
	rank := ranks(users, files)
	b := frame.New("tasting contested 4")
	b.Int(len(symbols))
	for _, s := range slices.SortedFunc(maps.Keys(symbols), func(a, b linkmodel.Symbol) int { return strings.Compare(t.Name(a), t.Name(b)) }) {
		b.String(t.Name(s))
		c.writeScopes(&b, p, s, rank)
		b.Int(0)
	}
	h = c.usersHash(users, rank)
	b.Bytes(h[:])
	c.writeOwn(&b, p, users, symbols)
	for file, s := range c.references(unequal) {
		b.Int(rank(file))
		b.String(t.Name(s))
	}
	return b.Sum(), len(unequal) > 0
}

// definers returns the files that define one of symbols or restrict it, and the unique ones
// among symbols whose definitions aren't equal.
func (c *Composer) definers(symbols map[linkmodel.Symbol]bool) (files []int32, unequal map[linkmodel.Symbol]bool) {
	t, l := c.pool.Symbols, c.linked
	unequal = map[linkmodel.Symbol]bool{}
	for s := range symbols {
		first, unique, equal := "", false, true
		for scope := range l.Scopes(s) {
			files = append(files, scope.File)
			for _, place := range scope.Definitions {
				in := l.Instances[place.Instance]
				files = append(files, in.File)
				unique = unique || slices.ContainsFunc(t.Unit(in.Unit).Defs, func(d linkmodel.Def) bool {
					return d.Symbol == s && d.Binding == manifest.Binding_BINDING_UNIQUE
				})
				description := c.pool.descriptions[c.pool.units[in.Unit].comps[place.Component].description]
				equal = equal && (first == "" || first == description)
				first = description
			}
		}
		if unique && !equal {
			unequal[s] = true
		}
	}
	return files, unequal
}

// references yields the references to symbols of all units that are linked, with the file of each.
func (c *Composer) references(symbols map[linkmodel.Symbol]bool) iter.Seq2[int32, linkmodel.Symbol] {
	return func(yield func(file int32, s linkmodel.Symbol) bool) {
		if len(symbols) == 0 {
			return // nearly always
		}
		for _, in := range c.linked.Instances {
			for _, r := range c.pool.Symbols.Unit(in.Unit).Refs {
				if symbols[r.Symbol] && !yield(in.File, r.Symbol) {
					return
				}
			}
		}
	}
}

// writeScopes appends which files define a symbol or restrict it, and how.
func (c *Composer) writeScopes(b *frame.Buffer, p *linkmodel.Program, s linkmodel.Symbol, rank func(file int32) int) {
	for scope := range c.linked.Scopes(s) {
		switch {
		case scope.File == 0:
			b.Int(1)
		case p.Files[scope.File].Uncertain != "":
			b.Int(3)
		default:
			b.Int(2)
		}
		b.Int(rank(scope.File))
		b.Flag(scope.Own)
		b.Flag(scope.Exported)
		b.Int(len(scope.Definitions))
		for _, place := range scope.Definitions {
			u := c.linked.Instances[place.Instance].Unit
			for _, d := range c.pool.Symbols.Unit(u).Defs {
				if d.Symbol == s && d.Component == place.Component {
					b.Int(int(d.Binding))
					b.Int(int(d.Visibility))
				}
			}
			b.String(c.pool.descriptions[c.pool.units[u].comps[place.Component].description])
		}
	}
}

// writeOwn appends which of symbols the units of their users define themselves, in files of which
// it isn't certain what they make of that: what --wrap is told of, for one, is asked only of the others.
func (c *Composer) writeOwn(b *frame.Buffer, p *linkmodel.Program, users []user, symbols map[linkmodel.Symbol]bool) {
	t := c.pool.Symbols
	for _, user := range users {
		if p.Files[user.file].Uncertain == "" {
			continue
		}
		n := &c.nodes[user.id]
		unit := c.linked.Instances[n.instance].Unit
		u := c.pool.units[unit]
		for _, k := range u.linksOf(n.own) {
			if k >= 0 || !symbols[u.symbols[-1-k]] {
				continue
			}
			s := u.symbols[-1-k]
			b.String(t.Name(s))
			b.Flag(slices.ContainsFunc(t.Unit(unit).Defs, func(d linkmodel.Def) bool { return d.Symbol == s }))
		}
	}
}

// openHash describes all that units say of symbols of the closure, and of those that replace the
// system's, of which it isn't known what linkers and loaders make of that: who defines and refers
// to them, in which order and how, from which archives, with which groups, and which files may
// give them another meaning. Where others are among these files decides nothing.
func (x *Closure) openHash(p *linkmodel.Program) (h Hash, some bool) {
	c := x.c
	t, l := c.pool.Symbols, c.linked
	open := map[linkmodel.Symbol]bool{}
	note := func(s linkmodel.Symbol) {
		if l.Open(s) {
			open[s] = true
		}
	}
	for s := range c.contested {
		note(s)
	}
	for _, n := range x.named {
		note(t.Lookup(n.symbol))
	}
	for _, s := range x.replaced {
		note(s)
	}
	if len(open) == 0 {
		return Hash{}, false
	}
	type remark struct {
		file  int32
		words []string
	}
	var list []remark
	for i, f := range p.Files {
		for _, s := range f.Doubted {
			if open[s] {
				list = append(list, remark{int32(i), []string{t.Name(s), "given"}})
			}
		}
	}
	type group struct {
		file      int32
		signature linkmodel.Symbol
	}
	before := map[group]bool{}
	for _, in := range l.Instances {
		u := t.Unit(in.Unit)
		var said []string // in any order: that of a unit's components decides nothing
		archive := ""
		for _, d := range u.Defs {
			if open[d.Symbol] {
				if said == nil {
					archive = from(&p.Files[in.File], in.Unit)
				}
				said = append(said, fmt.Sprintf("%s defined %d %d %t %t %t %q", t.Name(d.Symbol), d.Binding, d.Visibility, d.ThreadLocal,
					d.Group != linkmodel.None, before[group{in.File, d.Group}], archive))
			}
		}
		for _, r := range u.Refs {
			if open[r.Symbol] {
				said = append(said, fmt.Sprintf("%s wanted %t %d %d", t.Name(r.Symbol), r.Weak, r.Visibility, r.Uses))
			}
		}
		if len(said) > 0 {
			slices.Sort(said)
			list = append(list, remark{in.File, said})
		}
		for _, d := range u.Defs {
			if d.Group != linkmodel.None {
				before[group{in.File, d.Group}] = true
			}
		}
		for _, g := range u.Groups {
			before[group{in.File, g}] = true
		}
	}
	var files []int32
	for _, x := range list {
		files = append(files, x.file)
	}
	rank := ranks(nil, files)
	b := frame.New("tasting open 1")
	for _, x := range list {
		b.Int(rank(x.file))
		b.Strings(x.words)
	}
	return b.Sum(), true
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

// saying is what the units of a file say of a symbol: the visibility that constrains most, and
// whether one defines it.
type saying struct {
	visibility manifest.Visibility
	defined    bool
}

// said returns what the units of a file say of a symbol.
func (c *Composer) said(file int32, s linkmodel.Symbol) saying {
	if c.sayings[file] == nil {
		of := map[linkmodel.Symbol]saying{}
		note := func(s linkmodel.Symbol, v manifest.Visibility, defined bool) {
			x := of[s]
			of[s] = saying{linkmodel.Constrain(x.visibility, v), x.defined || defined}
		}
		for _, in := range c.linked.Instances {
			if in.File != file {
				continue
			}
			for _, d := range c.pool.Symbols.Unit(in.Unit).Defs {
				note(d.Symbol, d.Visibility, true)
			}
			for _, r := range c.pool.Symbols.Unit(in.Unit).Refs {
				note(r.Symbol, r.Visibility, false)
			}
		}
		c.sayings[file] = of
	}
	return c.sayings[file][s]
}

// notes yields what notes of one kind say of all units that are linked, with the file of each.
func (c *Composer) notes(flag uint16) iter.Seq2[int32, string] {
	return func(yield func(file int32, note string) bool) {
		for _, in := range c.linked.Instances {
			u := c.pool.units[in.Unit]
			for _, k := range u.notes {
				if comp := &u.comps[k]; comp.flags&flag != 0 && !yield(in.File, c.pool.descriptions[comp.description]) {
					return
				}
			}
		}
	}
}

// debugHash describes the debug information of everything that is linked, in the order of
// the link: equal units may exchange theirs.
func (c *Composer) debugHash() Hash {
	b := frame.New("tasting debug information 2")
	for file, note := range c.notes(flagDebug) {
		b.Int(int(file))
		b.String(note)
	}
	return b.Sum()
}

// placesHash says in which unit, and which of it, each component of the closure is: equal ones
// have other names, lines and addresses.
func (x *Closure) placesHash() Hash {
	b := frame.New("tasting places 2")
	order, _ := x.walk()
	b.Int(len(order))
	for _, id := range order {
		b.Int(int(x.c.nodes[id].instance))
		b.Int(int(x.c.nodes[id].own))
	}
	return b.Sum()
}

// Names of additions.
const (
	AsNeeded     = "as-needed libraries"
	ThreadLocal  = "thread-local storage"
	LibraryKinds = "kinds of libraries"
)

// allocators may be asked for tables of thread-local storage.
var allocators = []string{"aligned_alloc", "calloc", "malloc", "memalign", "posix_memalign", "realloc"}

// hasTLS tells whether something that is linked has thread-local storage.
func (c *Composer) hasTLS() bool {
	for range c.notes(flagTLS) {
		return true
	}
	return false
}

// tlsHash describes the thread-local storage of everything that is linked.
func (c *Composer) tlsHash() Hash {
	b := frame.New("tasting thread-local storage 1")
	for file, note := range c.notes(flagTLS) {
		b.Int(int(file))
		b.String(note)
	}
	return b.Sum()
}

// noted lists what notes of one kind say of the units of each file, reached or not: what
// linkers may choke on.
func (c *Composer) noted(p *linkmodel.Program, name string, flag uint16) (h Hash, some bool) {
	files := make([][]string, len(p.Files))
	for file, note := range c.notes(flag) {
		some = true
		files[file] = append(files[file], note)
	}
	if !some {
		return Hash{}, false
	}
	b := frame.New(name)
	for i, l := range files {
		slices.Sort(l)
		b.Strings(slices.Compact(l))
		b.String(p.Files[i].Line)
	}
	return b.Sum(), true
}

// withLines adds to the sets of strings that files have what their lines say.
func withLines(files []linkmodel.File, sets [][]string) [][]string {
	for i, l := range sets {
		if len(l) > 0 {
			sets[i] = append(l, "line "+files[i].Line)
		}
	}
	return sets
}

// writeSets appends the different sets of strings that files have, wherever these files
// are.
func writeSets(b *frame.Buffer, files [][]string) {
	for i, l := range files {
		slices.Sort(l)
		files[i] = slices.Compact(l)
	}
	slices.SortFunc(files, slices.Compare[[]string])
	for _, l := range slices.CompactFunc(files, slices.Equal[[]string]) {
		if len(l) > 0 {
			b.Strings(l)
		}
	}
}

// attributesHash lists the different sets of attributes that the units of a file
// have, if not all units have the same: these are in their local hashes. The
// loader decides by the attributes of all files, wherever they are.
func (c *Composer) attributesHash(p *linkmodel.Program) (Hash, bool) {
	files := make([][]string, len(p.Files))
	var all []string
	for _, in := range c.linked.Instances {
		if a := c.pool.units[in.Unit].attributes; !slices.Contains(files[in.File], a) {
			files[in.File] = append(files[in.File], a)
			if !slices.Contains(all, a) {
				all = append(all, a)
			}
		}
	}
	if len(all) < 2 {
		return Hash{}, false
	}
	b := frame.New("tasting attributes 3")
	writeSets(&b, withLines(p.Files, files))
	return b.Sum(), true
}

// kindsHash says of which kind of file the executable and its libraries have to be,
// if some unit isn't for all kinds: no linker makes another one of it, reached or
// not; and whether one is in a library.
func (c *Composer) kindsHash(p *linkmodel.Program) (h Hash, some, inLibrary bool) {
	files := make([][]string, len(p.Files))
	for _, in := range c.linked.Instances {
		direct := false
		for _, k := range c.pool.units[in.Unit].notes {
			// What isn't for a library at a fixed place is for none.
			if comp := &c.pool.units[in.Unit].comps[k]; comp.flags&flagFixed != 0 || comp.flags&flagExecutable != 0 && in.File > 0 {
				some, inLibrary = true, inLibrary || in.File > 0
				files[in.File] = append(files[in.File], c.pool.descriptions[comp.description])
				direct = direct || in.File > 0
			}
		}
		if !direct {
			continue
		}
		for _, r := range c.pool.Symbols.Unit(in.Unit).Refs {
			if r.Uses&manifest.UseDirect != 0 {
				// A linker makes a library of it if this is in the library, and stays there.
				said := c.said(in.File, r.Symbol)
				files[in.File] = append(files[in.File], fmt.Sprintf("%s %d %t", c.pool.Symbols.Name(r.Symbol), said.visibility, said.defined))
			}
		}
	}
	if !some {
		return Hash{}, false, false
	}
	slices.Sort(files[0])
	b := frame.New("tasting kinds of files 3")
	b.Strings(slices.Compact(files[0]))
	writeSets(&b, withLines(p.Files[1:], files[1:]))
	return b.Sum(), true, inLibrary
}

// resolvers returns how many components of a file are called to find out what symbols are.
// Linkers put them in the order in which units mention the symbols, reached or not.
func (c *Composer) resolvers() (most int) {
	if !c.pool.resolvers {
		return 0
	}
	of := map[int32]int{}
	for _, id := range c.order {
		if c.comp(id).flags&flagResolver != 0 {
			file := c.linked.Instances[c.nodes[id].instance].File
			of[file]++
			most = max(most, of[file])
		}
	}
	return most
}

// filesHash describes the linked files by their names and what each unit in them
// defines, and if asked for with its sections, and all of its components. What the executable is
// called counts with the test: a runner has given it another name.
func (c *Composer) filesHash(p *linkmodel.Program, sections, comps bool) Hash {
	b := frame.New("tasting files 4")
	b.Int(len(p.Files))
	for _, f := range p.Files[1:] {
		b.String(path.Base(f.Name))
	}
	b.Int(len(c.linked.Instances))
	for _, in := range c.linked.Instances {
		u := c.pool.units[in.Unit]
		b.Int(int(in.File))
		b.Bytes(u.placement[:])
		if sections {
			b.Bytes(u.sections)
		}
		if comps {
			b.Int(len(u.comps))
			for _, x := range u.comps {
				b.String(c.pool.descriptions[x.description])
			}
		}
	}
	return b.Sum()
}

// mayNotNeed tells whether it is uncertain that a library of the program is linked, because
// linkers leave it out if it isn't needed. It surely is needed if an object before it on the
// line refers to what nothing else defines. If nothing in it runs, it refers to no other file,
// and none to it, all linkers leave it out: left are the lines of those, each behind that of the
// file that is linked without it, that have thread-local storage or bring something else with them.
func (c *Composer) mayNotNeed(p *linkmodel.Program, foreign bool) (unsure bool, left []string) {
	t := c.pool.Symbols
	uncertain := func(e linkmodel.Entry) bool { return e.Library != 0 && e.AsNeeded }
	if !slices.ContainsFunc(p.Files, func(f linkmodel.File) bool { return slices.ContainsFunc(f.Entries, uncertain) }) {
		return false, nil
	}
	// Of each symbol the only file that defines it, or several; and those that refer to it.
	const several = -1
	definers, readers := map[linkmodel.Symbol]int32{}, map[linkmodel.Symbol]int32{}
	note := func(files map[linkmodel.Symbol]int32, s linkmodel.Symbol, file int32) {
		if other, ok := files[s]; ok && other != file {
			file = several
		}
		files[s] = file
	}
	for _, s := range p.Foreign {
		note(definers, s, several)
	}
	units := make([][]*linkmodel.Unit, len(p.Files))
	local := make([]bool, len(p.Files))
	for i, f := range p.Files {
		for _, e := range f.Entries {
			if e.Library != 0 {
				continue
			}
			u := t.Unit(e.Unit)
			units[i] = append(units[i], u)
			local[i] = local[i] || slices.ContainsFunc(c.pool.units[e.Unit].notes, func(k int32) bool {
				return c.pool.units[e.Unit].comps[k].flags&flagTLS != 0
			})
			for _, d := range u.Defs {
				file := int32(i)
				if e.Lazy || d.Visibility != manifest.Visibility_VISIBILITY_DEFAULT {
					file = several
				}
				note(definers, d.Symbol, file)
			}
			for _, r := range u.Refs {
				note(readers, r.Symbol, int32(i))
			}
		}
	}
	needed := func(f *linkmodel.File, before []linkmodel.Entry, library int32) bool {
		return (!f.Collects || f.Linker == linkmodel.GNU) && slices.ContainsFunc(before, func(e linkmodel.Entry) bool {
			return e.Library == 0 && !e.Lazy && t.Unit(e.Unit).Exact && slices.ContainsFunc(t.Unit(e.Unit).Refs, func(r linkmodel.Ref) bool {
				file, ok := definers[r.Symbol]
				return ok && file == library && !r.Weak && r.Visibility == manifest.Visibility_VISIBILITY_DEFAULT
			})
		})
	}
	alone := func(library int32) bool {
		return !slices.ContainsFunc(units[library], func(u *linkmodel.Unit) bool {
			return u.Roots || !u.Exact || slices.ContainsFunc(u.Defs, func(d linkmodel.Def) bool {
				reader, read := readers[d.Symbol]
				return definers[d.Symbol] != library || read && reader != library
			}) || slices.ContainsFunc(u.Refs, func(r linkmodel.Ref) bool {
				file, ok := definers[r.Symbol]
				return ok && file != library
			})
		})
	}
	for i := range p.Files {
		f := &p.Files[i]
		for k, e := range f.Entries {
			switch {
			case !uncertain(e):
			case foreign || p.Files[e.Library].Uncertain != "":
				return true, nil
			case needed(f, f.Entries[:k], e.Library):
			case !alone(e.Library):
				return true, nil
			case p.Files[e.Library].Brings || local[e.Library]:
				left = append(left, f.Line, p.Files[e.Library].Line)
			}
		}
	}
	return false, left
}

// mentioned are the symbols of the executable that its libraries define or refer to,
// reached or not: linkers export them.
func (c *Composer) mentioned() (names []string) {
	t := c.pool.Symbols
	own := map[linkmodel.Symbol]bool{}
	for _, in := range c.linked.Instances {
		u := t.Unit(in.Unit)
		if in.File == 0 {
			for _, d := range u.Defs {
				own[d.Symbol] = true
			}
			continue // they are in the order of the files
		}
		for _, d := range u.Defs {
			if own[d.Symbol] {
				names = append(names, t.Name(d.Symbol))
			}
		}
		for _, r := range u.Refs {
			if own[r.Symbol] {
				names = append(names, t.Name(r.Symbol))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// sourceDoubt says why linkers and loaders may see of sources what isn't in the objects, or
// not what is, or returns "". A source doesn't tell which references a compiler leaves out
// of code that nothing reaches, and which are calls.
func (c *Composer) sourceDoubt(p *linkmodel.Program, foreign bool) string {
	t, l := c.pool.Symbols, c.linked
	sources := slices.ContainsFunc(l.Instances, func(in linkmodel.Instance) bool { return !t.Unit(in.Unit).Exact })
	if sources && c.layout {
		return "the program sees where sections begin and end, and sources don't say what is in them"
	}
	if len(p.Files) < 2 || !sources {
		return ""
	}
	line := map[int32]bool{}
	for _, e := range p.Files[0].Entries {
		line[e.Library] = true
	}
	for _, f := range p.Files[1:] {
		for _, e := range f.Entries {
			if !line[e.Library] && e.Library != 0 {
				return "a library is linked that isn't on the line of the executable, and linkers look at what it refers to"
			}
		}
	}
	if foreign {
		return "a library of the system may look symbols up, and what libraries refer to decides which there are"
	}
	for _, in := range l.Instances {
		u := t.Unit(in.Unit)
		if u.Exact {
			continue
		}
		fixed := in.File == 0 && slices.ContainsFunc(c.pool.units[in.Unit].notes, func(k int32) bool {
			return c.pool.units[in.Unit].comps[k].flags&(flagFixed|flagExecutable) != 0
		})
		for _, r := range u.Refs {
			if r.Visibility != manifest.Visibility_VISIBILITY_DEFAULT {
				return "a reference to " + t.Name(r.Symbol) + " hides it from other files if it is compiled"
			}
			if !fixed {
				continue
			}
			c.places = l.Resolve(c.places[:0], 0, r.Symbol)
			if slices.ContainsFunc(c.places, func(p linkmodel.Place) bool { return l.Instances[p.Instance].File > 0 }) {
				return "the executable may have a copy of " + t.Name(r.Symbol) + ", or its address, since it isn't compiled with -fPIC"
			}
		}
	}
	return ""
}

// placement describes the lines of the links of files: what may be linked, in which order,
// and what each unit defines and needs; with code, all of that as well.
func (c *Composer) placement(files []linkmodel.File, code bool) Hash {
	b := frame.New("tasting placement 6")
	b.Int(len(files))
	for _, f := range files {
		b.Flag(f.Bsymbolic)
		b.Flag(f.Unsure != "")
		b.Int(len(f.Entries))
		for _, e := range f.Entries {
			b.Int(int(e.Library))
			if e.Library == 0 {
				u := c.pool.units[e.Unit]
				b.Bytes(u.placement[:])
				unit := c.pool.Symbols.Unit(e.Unit)
				if !unit.Exact || code {
					// A compiler decides what it needs: all code counts.
					b.Bytes(u.sections)
					for _, x := range u.comps {
						b.String(c.pool.descriptions[x.description])
					}
				}
				for _, d := range unit.Defs {
					if d.Binding == manifest.Binding_BINDING_COMMON { // with an alignment
						b.String(c.pool.descriptions[u.comps[d.Component].description])
					}
				}
			}
			b.Flag(e.Lazy)
			b.Flag(e.AsNeeded)
			b.Int(e.Archive)
			b.Int(e.Group)
		}
	}
	return b.Sum()
}

// hidden returns those of the symbols that the program defines as a library of the
// system does that aren't for this library, or not only: each as often as a file says so.
func (x *Closure) hidden() (names []string) {
	for _, s := range x.replaced {
		for scope := range x.c.linked.Scopes(s) {
			if scope.Own || !scope.Exported {
				names = append(names, x.c.pool.Symbols.Name(s))
			}
		}
	}
	return names
}

// versions returns the symbols that have to be of some version, with it: reached or not,
// few linkers and loaders let pass what isn't there.
func (c *Composer) versions() (names []string) {
	for _, in := range c.linked.Instances {
		names = append(names, c.pool.Symbols.Unit(in.Unit).Needs...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// indirect returns the symbols that a library on the line of a complete file has to have
// and that only files define that aren't on this line: linkers check that, if all that
// the library needs is there. With each there are the numbers of the two files.
func (c *Composer) indirect(p *linkmodel.Program) (names []string) {
	const here, there = 1, 2
	type lack struct {
		name     string
		file, of int32
	}
	var found []lack
	var files []int32
	var units [][]*linkmodel.Unit
	for i, f := range p.Files {
		if !f.Complete {
			continue
		}
		on := map[int32]bool{int32(i): true}
		for _, e := range f.Entries {
			on[e.Library] = on[e.Library] || e.Library != 0
		}
		if len(on) == 1 || !slices.ContainsFunc(p.Files, func(other linkmodel.File) bool {
			return slices.ContainsFunc(other.Entries, func(e linkmodel.Entry) bool { return e.Library != 0 && !on[e.Library] })
		}) {
			continue
		}
		if units == nil {
			units = c.unitsOf(p)
		}
		defined := map[linkmodel.Symbol]int{}
		for k := range units {
			for _, u := range units[k] {
				for _, d := range u.Defs {
					if on[int32(k)] {
						defined[d.Symbol] = here
					} else if defined[d.Symbol] == 0 {
						defined[d.Symbol] = there
					}
				}
			}
		}
		for k := range units {
			for _, u := range units[k] {
				for _, r := range u.Refs {
					if k != i && on[int32(k)] && !r.Weak && defined[r.Symbol] == there {
						// A linker may check only libraries of which all is there that they need.
						found = append(found, lack{c.pool.Symbols.Name(r.Symbol), int32(k), int32(i)})
						files = append(files, int32(k), int32(i))
					}
				}
			}
		}
	}
	rank := ranks(nil, files)
	for _, l := range found {
		names = append(names, fmt.Sprintf("%s of %d for %d", l.name, rank(l.file), rank(l.of)))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// unitsOf returns the units of each file.
func (c *Composer) unitsOf(p *linkmodel.Program) [][]*linkmodel.Unit {
	units := make([][]*linkmodel.Unit, len(p.Files))
	for _, in := range c.linked.Instances {
		units[in.File] = append(units[in.File], c.pool.Symbols.Unit(in.Unit))
	}
	return units
}

// levels says which files link which libraries, and whether they have to, if that counts,
// if a library of the program may define what one of the system does as well, or the
// loaded files are asked for. A loader goes by levels, and has the system's libraries
// before what only libraries need.
func (x *Closure) levels(p *linkmodel.Program, counts bool) (out []int) {
	c := x.c
	if len(p.Files) < 2 || len(x.Overridden) == 0 && !c.lookups && !c.files && !c.needs && !counts {
		return nil
	}
	wants := c.wants(p)
	for f := range p.Files {
		for _, e := range p.Files[f].Entries {
			if e.Library != 0 {
				out = append(out, int(e.Library), f, wants(int32(f), e.Library))
			}
		}
	}
	return out
}

// mentions returns which of the overridden symbols are referred to, and in which
// file; with definitions, also which of them libraries define.
func (x *Closure) mentions(definitions bool) (list []mention) {
	c := x.c
	is := map[linkmodel.Symbol]bool{}
	for _, s := range x.Overridden {
		is[c.pool.Symbols.Lookup(s)] = true
	}
	if len(is) == 0 {
		return nil
	}
	for _, in := range c.linked.Instances {
		u := c.pool.Symbols.Unit(in.Unit)
		note := func(s linkmodel.Symbol) {
			if is[s] {
				list = append(list, mention{in.File, c.pool.Symbols.Name(s)})
			}
		}
		for _, r := range u.Refs {
			note(r.Symbol)
		}
		for i := 0; definitions && in.File > 0 && i < len(u.Defs); i++ {
			note(u.Defs[i].Symbol)
		}
	}
	slices.SortFunc(list, func(a, b mention) int { return cmp.Or(cmp.Compare(a.file, b.file), strings.Compare(a.name, b.name)) })
	return slices.Compact(list)
}

type mention struct {
	file int32
	name string
}

// needsOf says which libraries of the system each file needs for what it refers to and no
// unit defines, itself or by way of others: of files in which something runs, or that define
// what the system's do as well, and where each library comes in among these.
func (c *Composer) needsOf(p *linkmodel.Program, running []int32, replaced []linkmodel.Symbol, system func(symbol string) string, seen bool) Hash {
	replacing := map[int32]bool{}
	for _, s := range replaced {
		for _, place := range c.linked.All(nil, s) {
			in := c.linked.Instances[place.Instance]
			// Copies of functions of the C++ library do the same.
			if slices.ContainsFunc(c.pool.Symbols.Unit(in.Unit).Defs, func(d linkmodel.Def) bool {
				return d.Symbol == s && d.Binding == manifest.Binding_BINDING_GLOBAL && d.Group == linkmodel.None
			}) {
				replacing[in.File] = true
			}
		}
	}
	files := make([]map[string]bool, len(p.Files))
	c.pass()                               // for symbols that units define
	names := map[linkmodel.Symbol]string{} // of others
	for _, in := range c.linked.Instances {
		for _, r := range c.pool.Symbols.Unit(in.Unit).Refs {
			if r.Weak || c.seen[r.Symbol] == c.passes {
				continue
			}
			if x := &c.names[r.Symbol]; x.program == c.program && x.id > 0 {
				continue
			}
			name, known := names[r.Symbol]
			if !known {
				if c.places = c.linked.All(c.places[:0], r.Symbol); len(c.places) > 0 {
					c.seen[r.Symbol] = c.passes
					continue
				}
				name = c.pool.Symbols.Name(r.Symbol)
				if system != nil {
					name = system(name)
				}
				if !seen && len(replacing) == 0 && (name == "m" || name == "gcc") {
					name = "" // they start nothing
				}
				names[r.Symbol] = name
			}
			if name != "" {
				if files[in.File] == nil {
					files[in.File] = map[string]bool{}
				}
				files[in.File][name] = true
			}
		}
	}
	// far returns the files that one links, itself or by way of others, and how far they are.
	far := func(file int32) map[int32]int {
		level := map[int32]int{file: 0}
		for queue := []int32{file}; len(queue) > 0; queue = queue[1:] {
			for _, e := range p.Files[queue[0]].Entries {
				if _, known := level[e.Library]; e.Library != 0 && !known {
					level[e.Library] = level[queue[0]] + 1
					queue = append(queue, e.Library)
				}
			}
		}
		return level
	}
	level := far(0)
	b := frame.New("tasting needs of files 1")
	first := map[string][2]int{} // where a library of the system comes in
	counting := 0
	for i := range int32(len(p.Files)) {
		for name := range files[i] {
			if _, known := first[name]; !known {
				first[name] = [2]int{counting, level[i]}
			}
		}
		if runs := slices.Contains(running, i); i == 0 || runs || replacing[i] {
			counting++
			all := map[string]bool{}
			for f := range far(i) {
				maps.Copy(all, files[f])
			}
			b.Flag(runs)
			b.Int(level[i])
			b.Strings(slices.Sorted(maps.Keys(all)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(first)) {
		b.String(name)
		b.Int(first[name][0])
		b.Int(first[name][1])
	}
	return b.Sum()
}

// copies returns the symbols of libraries in the closure that the executable refers to
// directly, reached or not: it has a copy of the variable, or the address of the
// function. Kept says that something that is reached refers to each of them so, which
// no linker drops.
func (x *Closure) copies() (names []string, kept bool) {
	c := x.c
	t, l := c.pool.Symbols, c.linked
	seen := map[linkmodel.Symbol]bool{} // whether something that is reached refers to it
	for i, r := range c.directRefs() {
		reached, known := seen[r.Symbol]
		if !known {
			c.places = l.Resolve(c.places[:0], 0, r.Symbol)
			if !slices.ContainsFunc(c.places, func(p linkmodel.Place) bool {
				return l.Instances[p.Instance].File > 0 && c.nodes[c.at(p.Instance, p.Component)].index != 0
			}) {
				seen[r.Symbol] = true
				continue
			}
			names = append(names, t.Name(r.Symbol))
		}
		unit := c.pool.units[l.Instances[i].Unit]
		link := int32(-1 - slices.Index(unit.symbols, r.Symbol)) // 0 if there is none: to itself, at most
		for k := int32(0); !reached && link < 0 && k < int32(len(unit.comps)); k++ {
			reached = c.nodes[c.at(i, k)].index != 0 && slices.Contains(c.linksFrom(c.at(i, k)), link)
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

// directRefs are the direct references of the executable, reached or not, with the
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

// protected returns the symbols to which the executable refers directly, reached or not,
// and which a library defines in a way of which linkers and loaders refuse a copy; all
// means that they refuse any.
func (c *Composer) protected(all bool) (names []string) {
	t, l := c.pool.Symbols, c.linked
	seen := map[linkmodel.Symbol]bool{}
	for _, r := range c.directRefs() {
		if seen[r.Symbol] || !all && !t.Uncopied(r.Symbol) {
			continue
		}
		seen[r.Symbol] = true
		c.places = l.Resolve(c.places[:0], 0, r.Symbol)
		if slices.ContainsFunc(c.places, func(p linkmodel.Place) bool {
			in := l.Instances[p.Instance]
			return in.File > 0 && (all || slices.ContainsFunc(t.Unit(in.Unit).Defs, func(d linkmodel.Def) bool {
				return d.Symbol == r.Symbol && d.ThreadLocal
			}) || c.said(in.File, r.Symbol).visibility == manifest.Visibility_VISIBILITY_PROTECTED)
		}) {
			names = append(names, t.Name(r.Symbol))
		}
	}
	slices.Sort(names)
	return names
}

// weakReferences returns the symbols that the executable only refers to weakly, and
// that no library on its line defines, but one that those need: a linker may take
// nothing for it.
func (c *Composer) weakReferences(p *linkmodel.Program) (names []string) {
	if !slices.ContainsFunc(p.Files, func(f linkmodel.File) bool {
		return slices.ContainsFunc(f.Entries, func(e linkmodel.Entry) bool { return e.Library != 0 })
	}) {
		return nil
	}
	t, l := c.pool.Symbols, c.linked
	seen := map[linkmodel.Symbol]bool{}
	for _, in := range l.Instances {
		if in.File > 0 {
			break // they are in the order of the files
		}
		for _, r := range t.Unit(in.Unit).Refs {
			if !r.Weak || seen[r.Symbol] {
				continue
			}
			seen[r.Symbol] = true
			c.places = l.Resolve(c.places[:0], 0, r.Symbol)
			if len(c.places) > 0 && !slices.ContainsFunc(c.places, func(place linkmodel.Place) bool {
				file := l.Instances[place.Instance].File
				return file == 0 || slices.ContainsFunc(p.Files[0].Entries, func(e linkmodel.Entry) bool { return e.Library == file && !e.AsNeeded })
			}) {
				names = append(names, t.Name(r.Symbol))
			}
		}
	}
	slices.Sort(names)
	return names
}

// mismatches returns the symbols that some unit takes to be thread-local and another
// one doesn't, or that nothing defines: no linker links what doesn't fit.
func (c *Composer) mismatches() (names []string) {
	t := c.pool.Symbols
	if !slices.ContainsFunc(c.linked.Instances, func(in linkmodel.Instance) bool { return t.Unit(in.Unit).ThreadLocal }) {
		return nil
	}
	found := map[linkmodel.Symbol]bool{} // thread-local symbols: whether they are listed
	each := func(do func(s linkmodel.Symbol, local, defined bool)) {
		for _, in := range c.linked.Instances {
			u := t.Unit(in.Unit)
			for i := range u.Defs {
				do(u.Defs[i].Symbol, u.Defs[i].ThreadLocal, true)
			}
			for i := range u.Refs {
				do(u.Refs[i].Symbol, u.Refs[i].Uses&manifest.UseThreadLocal != 0, false)
			}
		}
	}
	each(func(s linkmodel.Symbol, local, _ bool) {
		if local {
			found[s] = false
		}
	})
	defined := map[linkmodel.Symbol]bool{}
	each(func(s linkmodel.Symbol, local, defines bool) {
		listed, is := found[s]
		if !is {
			return
		}
		if defines {
			defined[s] = true
		}
		if !local && !listed {
			found[s] = true
		}
	})
	for s, listed := range found {
		switch {
		case listed:
			names = append(names, t.Name(s)+" in both ways")
		case !defined[s]: // the system has one, or another
			names = append(names, t.Name(s))
		}
	}
	slices.Sort(names)
	return names
}
