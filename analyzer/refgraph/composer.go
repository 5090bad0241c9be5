package refgraph

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/lazyregexp"
	"github.com/rules-tasting/rules_tasting/analyzer/linkmodel"
)

// A Composer hashes one program after the other: one for each goroutine.
type Composer struct {
	pool   *Pool
	linked *linkmodel.Linked

	// Groups that were hashed for any program, by their exact description.
	known  map[string]int32
	hashes []Hash

	passes uint32        // of unresolved, one for each file of each program
	seen   []uint32      // of each symbol: the last pass that looked at it
	had    []symbolState // of each symbol: see lacks.read
	first  []int32       // of each hash, while twins are looked for: its first group, and 1
	twins  []int32       // of each group: its index among the twins

	// Of the current program.
	base      []int32 // first node of each instance, and the number of nodes
	nodes     []node
	program   uint32
	names     []nodeOf  // of each symbol: as in bound, for files that bind nothing in their own way
	symbols   []int32   // first of an instance's in bound
	bound     []int32   // of the unit's symbols: a node and 1, -1-index in lists, or 0
	lists     [][]int32 // what links to a symbol are in slots, if it isn't one node
	order     []int32   // nodes in the order of discovery: with shortcuts it is another one
	slots     []int32
	stack     []int32
	calls     []call
	groups    int32
	places    []linkmodel.Place
	won       []linkmodel.Place // of named
	key       []byte
	shortcuts shortcuts
	lookups   bool                                  // something that looks symbols up is reached
	debug     bool                                  // so is something that reads debug information
	files     bool                                  // which files there are and what they define
	needs     bool                                  // which files need which
	tls       bool                                  // how much thread-local storage there is
	code      bool                                  // where functions begin and end
	layout    bool                                  // or where sections begin and end
	sets      map[setKey][]int32                    // components of linker sets
	sayings   map[int32]map[linkmodel.Symbol]saying // of each file, once it is asked for

	// Of a program with Roots.Idle:
	idle  []bool           // functions that are stubs, by entry; nil for none
	stubs map[string]int32 // descriptions of stubs, numbered after those of the pool
	extra []string
	stub  map[*comp]int32 // those of components

	// contested are the symbols with several possible definitions in links.
	contested map[linkmodel.Symbol]bool
	special   map[linkmodel.Symbol]uint8
	odd       []bool             // of each symbol: it is special, or a bound of linker sets
	asked     []linkmodel.Symbol // what some program defines for sanitizers
}

// node is what is known of a component in the current program.
type node struct {
	index, low int32 // order of discovery, 0 is not yet
	group      int32 // number in the program, -1 while it isn't complete
	hash       int32 // of the group, in hashes
	member     int32
	// Of its links in slots. If they aren't there: start is -1 minus a number in ways, end
	// the number of the member.
	start, end    int32
	instance, own int32 // and number in its unit
}

type call struct{ id, next, end int32 }

// nodeOf is what was found in the program with this number.
type nodeOf struct {
	program uint32
	id      int32
}

// What reading a symbol that no unit defines means.
const (
	looksUp = 1 << iota
	readsDebug
	readsFiles
	readsNeeds
	readsLayout
	readsTLS
	readsCode // or how long functions are
	walks     = looksUp | readsFiles | readsNeeds | readsLayout | readsTLS
)

// lookups are functions that find symbols by name, and what stands for any
// symbol.
var lookups = []string{"*", "dlsym", "dlvsym", "dlopen", "dlmopen", "dlopen_mode"}

// walkers lead to the tables of all files that are loaded, in which everything can be found.
var walkers = []string{"dl_iterate_phdr", "dladdr1", "dlinfo", "_r_debug", "_r_debug_extended", "__nptl_rtld_global"}

// codeReaders find out of a function by an address in it where it begins or ends, or how it is
// unwound, whether it is executed or not.
var codeReaders = []string{"dladdr", "backtrace_symbols", "backtrace_symbols_fd", "_Unwind_Find_FDE", "_Unwind_FindEnclosingFunction", "_dl_find_object", "__frame_state_for", "__register_frame", "__register_frame_info",
	"__register_frame_table"}

// unwinders are beginnings of the names of functions of libunwind that say where a function begins and ends.
var unwinders = []string{"unw_get_proc_info", "__unw_get_proc_info", "_Ux86_64_get_proc_info", "_ULx86_64_get_proc_info", "_Uaarch64_get_proc_info", "_ULaarch64_get_proc_info"}

// private are beginnings of the names of what loaders know of the files that they have
// loaded, whether as a library or linked into a program.
var private = []string{"_dl_", "_rtld_", "__rtld_"}

// debugReaders are beginnings of the names of functions that read debug
// information: of libbacktrace, the C++ library's <stacktrace>, elfutils, BFD,
// libdw and unwinders that know names.
var debugReaders = []string{
	"backtrace_create_state", "backtrace_full", "backtrace_pcinfo", "__glibcxx_backtrace", "_ZNSt12__stacktrace", "_ZNKSt16stacktrace_entry", "_ZNSt16stacktrace_entry",
	"_ZNSt17basic_stacktrace", "_ZNSt18__stacktrace_impl", "dwfl_", "dwarf_", "bfd_", "_ZN5boost10stacktrace",
	"unw_get_proc_name", "__unw_get_proc_name", "_Ux86_64_get_proc_name", "_ULx86_64_get_proc_name", "_Uaarch64_get_proc_name", "_ULaarch64_get_proc_name",
}

// instrumentation matches what compilers refer to in instrumented code, define in it, or
// C++ libraries and their users call to annotate memory: nothing of a sanitizer's that says
// anything of the program to it.
var instrumentation = lazyregexp.New(`^__(?:` +
	`(?:hw)?asan_(?:load|store|exp_|report_(?:exp_)?(?:load|store)|register_|unregister_|init|version_mismatch|stack_(?:malloc|free)_|set_shadow_|option_detect|handle_|allocas?_|` +
	`(?:un)?poison_|before_dynamic|after_dynamic|shadow_memory|mem(?:cpy|move|set)|globals_|tag_|generate_tag|personality|tls|add_frame|address_is|region_is)|` +
	`lsan_(?:ignore_object|disable|enable|(?:un)?register_root)|` +
	`msan_(?:param_|retval_|va_|origin_|warning|chain_|mem|set_alloca|(?:un)?poison|metadata|init|track_|keep_|maybe_|instrument_|partial)|` +
	`tsan_(?:read|write|unaligned|func_|init|vptr_|atomic|volatile|mem|switch|ignore_|acquire|release|mutex_)|` +
	`ubsan_(?:handle_|vptr_type_cache)|` +
	`sanitizer_(?:cov_|ptr_|annotate_|weak_hook|unaligned_))`)

// sanitizer matches everything of sanitizers: by their functions a program learns names, lines
// and files, by those that it defines for them it says which may do wrong, and is given reports.
var sanitizer = lazyregexp.New(`^__(?:(?:a|hwa|l|m|t|ub)san_|sanitizer_|(?:n|rt|ty)san_default_)`)

func asksSanitizers(name string) bool {
	return strings.HasPrefix(name, "__") && sanitizer.MatchString(name) && !instrumentation.MatchString(name)
}

// fileReaders are what tells which files are loaded, and of which symbol an
// address is. dlopen finds loaded files by their names, and what it returns is the
// beginning of a list of them. (Which file has what, and of which visibility, counts for
// look-ups, too.)
var fileReaders = []string{"dladdr", "dlopen", "dlmopen", "backtrace_symbols", "backtrace_symbols_fd"}

// needsReaders lead to the program's own headers (some by what is behind its arguments), and so to which libraries it needs, or to
// the heap, from which libraries take memory when they are initialised.
var needsReaders = []string{"getauxval", "mallinfo", "mallinfo2", "malloc_info", "malloc_stats", "malloc_trim", "sbrk", "brk", "__curbrk", "__libc_stack_end", "__libc_argv"}

// tlsReaders are functions for which it counts how much thread-local storage there
// is, beside those that tell where a file is loaded, and so its headers: that of a
// thread is on its stack, its table of these is allocated.
var tlsReaders = []string{"__pthread_get_minstack", "pthread_getattr_np", "pthread_attr_setstack", "pthread_attr_setstackaddr", "pthread_attr_setstacksize", "_TLS_MODULE_BASE_",
	"__rseq_offset"}

// layoutSymbols are those that linkers define for places in a file.
var layoutSymbols = []string{
	"_DYNAMIC", "_GLOBAL_OFFSET_TABLE_", "__GNU_EH_FRAME_HDR", "__bss_end__", "__bss_start", "__bss_start__", "__data_start", "__ehdr_start",
	"__end__", "__etext", "__executable_start", "__fini_array_end", "__fini_array_start", "__init_array_end", "__init_array_start",
	"__preinit_array_end", "__preinit_array_start", "__tdata_start", "__rela_iplt_end", "__rela_iplt_start", "_TLS_MODULE_BASE_", "_bss_end__", "_fini", "_init", "_start", "_edata", "_end", "_etext", "data_start", "edata", "end", "etext",
}

type setKey struct {
	file int32
	set  linkmodel.Symbol
}

// setOf returns the components of a linker set in a file, in the order of the
// link.
func (c *Composer) setOf(file int32, set linkmodel.Symbol) []int32 {
	if len(c.sets) == 0 {
		for i, in := range c.linked.Instances {
			for k := range c.pool.units[in.Unit].comps {
				if x := &c.pool.units[in.Unit].comps[k]; x.set != linkmodel.None {
					key := setKey{in.File, x.set}
					c.sets[key] = append(c.sets[key], c.base[i]+int32(k))
				}
			}
		}
		c.sets[setKey{-1, linkmodel.None}] = nil // so that it isn't done again
	}
	return c.sets[setKey{file, set}]
}

// hasSet tells whether some file has a linker set. setOf was called.
func (c *Composer) hasSet(set linkmodel.Symbol) bool {
	for key, ids := range c.sets {
		if key.set == set && len(ids) > 0 {
			return true
		}
	}
	return false
}

// meanings are those of names, aliases those of what functions of the system are called
// without what sets their names apart.
var meanings, aliases = func() (is, alias map[string]uint8) {
	is, alias = map[string]uint8{}, map[string]uint8{}
	for _, x := range []struct {
		names []string
		is    uint8
	}{{lookups, looksUp | readsFiles}, {walkers, walks}, {fileReaders, readsFiles | readsTLS}, {needsReaders, readsNeeds | readsTLS}, {tlsReaders, readsTLS}, {codeReaders, readsCode}} {
		for _, s := range x.names {
			alias[withoutPrefix(s)] |= x.is
		}
	}
	for _, s := range layoutSymbols {
		is[s] |= readsLayout
	}
	is["*"] |= readsDebug | readsFiles | readsLayout | readsTLS
	return is, alias
}()

// withoutPrefix returns a name without what the C library, sanitizers and linkers put in front of
// other names of one function: __sbrk, __libc_mallinfo, ___dlsym, __interceptor_dladdr.
func withoutPrefix(name string) string {
	name = strings.TrimLeft(name, "_")
	for _, p := range []string{"real_", "interceptor_", "trampoline_", "GI_", "libc_"} {
		name = strings.TrimLeft(strings.TrimPrefix(name, p), "_")
	}
	return name
}

// meaning returns what reading a symbol means that no unit defines.
func meaning(name string) uint8 {
	bits := aliases[withoutPrefix(name)]
	name = strings.TrimPrefix(name, "__real_") // the linker's name for what is wrapped
	bits |= meanings[name]
	if slices.ContainsFunc(private, func(p string) bool { return strings.HasPrefix(name, p) }) {
		bits |= walks
	}
	if strings.HasPrefix(name, ".sizeof.") || strings.HasPrefix(name, ".startof.") {
		bits |= readsLayout // of GNU ld
	}
	if slices.ContainsFunc(unwinders, func(p string) bool { return strings.HasPrefix(name, p) }) {
		bits |= readsCode
	}
	if slices.ContainsFunc(debugReaders, func(r string) bool { return strings.HasPrefix(name, r) }) {
		bits |= readsDebug
	}
	if asksSanitizers(name) {
		bits |= readsDebug | readsFiles
	}
	return bits
}

// mean notes what it means that something is read.
func (c *Composer) mean(is uint8) {
	c.lookups = c.lookups || is&looksUp != 0
	c.debug = c.debug || is&readsDebug != 0
	c.files = c.files || is&readsFiles != 0
	c.needs = c.needs || is&readsNeeds != 0
	c.layout = c.layout || is&readsLayout != 0
	c.tls = c.tls || is&readsTLS != 0
	c.code = c.code || is&readsCode != 0
}

// NewComposer returns a composer of programs from the units of p, to which none
// is added any more.
func (p *Pool) NewComposer() *Composer {
	c := &Composer{
		pool: p, linked: linkmodel.NewLinked(p.Symbols), known: map[string]int32{},
		stubs: map[string]int32{}, stub: map[*comp]int32{}, names: make([]nodeOf, p.Symbols.Len()),
		contested: map[linkmodel.Symbol]bool{}, special: map[linkmodel.Symbol]uint8{}, sets: map[setKey][]int32{}, sayings: map[int32]map[linkmodel.Symbol]saying{},
	}
	for id := range linkmodel.Symbol(p.Symbols.Len()) {
		name := p.Symbols.Name(id)
		if bits := meaning(name); bits != 0 {
			c.special[id] = bits
		}
		_, set := p.sets[id]
		c.odd = append(c.odd, set || c.special[id] != 0)
		if p.Symbols.Defined(id) && asksSanitizers(name) {
			c.asked = append(c.asked, id)
		}
	}
	return c
}

// link makes p the current program.
func (c *Composer) link(p *linkmodel.Program) {
	c.linked.Link(p)
	// What programs have in common is worth its memory.
	if len(c.hashes) > c.pool.components+1<<18 {
		clear(c.known)
		c.hashes = c.hashes[:0]
		c.shortcuts.reset()
		clear(c.stubs)
		clear(c.stub)
		c.extra = c.extra[:0]
	}
	n, symbols := int32(0), 0
	c.base, c.symbols = c.base[:0], c.symbols[:0]
	for _, in := range c.linked.Instances {
		c.base, c.symbols = append(c.base, n), append(c.symbols, int32(symbols))
		n += int32(len(c.pool.units[in.Unit].comps))
		symbols += len(c.pool.units[in.Unit].symbols)
	}
	c.bound = slices.Grow(c.bound[:0], symbols)[:symbols]
	clear(c.bound)
	c.lists = append(c.lists[:0], []int32{-1})
	c.base = append(c.base, n)
	c.nodes = slices.Grow(c.nodes[:0], int(n))[:n]
	clear(c.nodes)
	for i, in := range c.linked.Instances {
		for k := range c.pool.units[in.Unit].comps {
			x := &c.nodes[c.base[i]+int32(k)]
			x.instance, x.own, x.group = int32(i), int32(k), -1
		}
	}
	if c.program++; c.program == 0 {
		clear(c.names)
		clear(c.had)
		c.program = 1
	}
	clear(c.contested)
	clear(c.sets)
	clear(c.sayings)
	c.order, c.slots, c.stack, c.calls = c.order[:0], c.slots[:0], c.stack[:0], c.calls[:0]
	c.shortcuts.start(c)
	c.groups, c.lookups, c.debug, c.files, c.needs, c.layout, c.tls, c.code = 0, false, false, false, false, false, false, false
}

func (c *Composer) comp(id int32) *comp {
	x := &c.nodes[id]
	return &c.pool.units[c.linked.Instances[x.instance].Unit].comps[x.own]
}

// isStub tells whether a component is a function that isn't entered.
func (c *Composer) isStub(id int32) bool {
	if c.idle == nil {
		return false
	}
	x := c.comp(id)
	return x.entry >= 0 && c.idle[x.entry] && x.flags&flagRoot == 0 && c.named(id, c.pool.entryDefs[x.entry])
}

// named tells whether symbols stand for a node in its file: the names of a definition that lost are those of another one.
func (c *Composer) named(id int32, symbols []linkmodel.Symbol) bool {
	x := &c.nodes[id]
	file := c.linked.Instances[x.instance].File
	for _, s := range symbols {
		is := false
		c.won = c.linked.All(c.won[:0], s)
		for _, p := range c.won {
			switch {
			case p.Instance == x.instance && p.Component == x.own:
				is = true
			case c.linked.Instances[p.Instance].File == file:
				return false
			}
		}
		if !is {
			return false
		}
	}
	return true
}

// description returns the number of what identifies a component without its links: of a stub, that
// it is one, with its names.
func (c *Composer) description(id int32) int32 {
	x := c.comp(id)
	if !c.isStub(id) {
		return x.description
	}
	n, ok := c.stub[x]
	if ok {
		return n
	}
	b := frame.New("tasting stub 2")
	b.Strings(c.pool.entryNames[x.entry])
	b.Uint(uint64(x.align)) // an address tells
	b.String(withoutContent(c.pool.descriptions[x.description]))
	if n, ok = c.stubs[string(b)]; !ok {
		n = int32(len(c.pool.descriptions) + len(c.extra))
		c.extra = append(c.extra, string(b))
		c.stubs[string(b)] = n
	}
	c.stub[x] = n
	return n
}

// described returns the description with a number.
func (c *Composer) described(n int32) string {
	if n := int(n) - len(c.pool.descriptions); n >= 0 {
		return c.extra[n]
	}
	return c.pool.descriptions[n]
}

// linksFrom returns the links of a component as its unit has them: none of a stub.
func (c *Composer) linksFrom(id int32) []int32 {
	if c.isStub(id) {
		return nil
	}
	x := &c.nodes[id]
	return c.pool.units[c.linked.Instances[x.instance].Unit].linksOf(x.own)
}

// at returns the node of a component of an instance.
func (c *Composer) at(instance, own int32) int32 { return c.base[instance] + own }

// resolve writes the links of a node to slots: a value v >= 0 is a link to node v
// only, v < 0 says that the next -v-1 values together are one link's definitions
// (none, or several).
func (c *Composer) resolve(id int32) {
	x := &c.nodes[id]
	u := c.pool.units[c.linked.Instances[x.instance].Unit]
	bound := c.bound[c.symbols[x.instance]:]
	x.start = int32(len(c.slots))
	for _, l := range c.linksFrom(id) {
		if l >= 0 {
			c.slots = append(c.slots, c.at(x.instance, l))
			continue
		}
		to := &bound[-1-l]
		if *to == 0 {
			*to = c.bind(x.instance, u.symbols[-1-l])
		}
		if *to > 0 {
			c.slots = append(c.slots, *to-1)
		} else {
			c.slots = append(c.slots, c.lists[-1-*to]...)
		}
	}
	x.end = int32(len(c.slots))
}

// bind returns what a symbol stands for in a unit from which it is reached, as in bound.
func (c *Composer) bind(instance int32, s linkmodel.Symbol) int32 {
	file := c.linked.Instances[instance].File
	if c.linked.Scoped(file) {
		return c.bindIn(file, s)
	}
	x := &c.names[s]
	if x.program == c.program {
		return x.id
	}
	id := c.bindIn(file, s)
	if _, set := c.pool.sets[s]; !set { // each file has its own
		*x = nodeOf{c.program, id}
	}
	return id
}

// none is what bind returns for a symbol that nothing defines: the first of lists.
const none = -1

// bindIn is bind in a file.
func (c *Composer) bindIn(file int32, s linkmodel.Symbol) int32 {
	c.places = c.linked.Resolve(c.places[:0], file, s)
	if len(c.places) > 1 || c.linked.Doubtful(s) {
		c.contested[s] = true
	}
	special := c.special[s]
	if special != 0 && slices.ContainsFunc(c.places, c.inLibrary) {
		c.mean(special) // a library of the system may be loaded before
	}
	if len(c.places) == 1 {
		c.mean(special & readsDebug) // whoever has compiled it
		return c.at(c.places[0].Instance, c.places[0].Component) + 1
	}
	var ids []int32
	set, ok := c.pool.sets[s]
	switch {
	case ok && len(c.places) == 0:
		if ids = c.setOf(file, set); len(ids) == 0 && c.hasSet(set) {
			c.mean(readsFiles | readsLayout) // another file may have bounds of its own for all
		}
	case len(c.places) == 0:
		c.mean(special)
	}
	if len(ids)+len(c.places) == 0 {
		return none
	}
	list := append(make([]int32, 0, 1+len(ids)+len(c.places)), -int32(len(ids)+len(c.places))-1)
	list = append(list, ids...)
	for _, p := range c.places {
		list = append(list, c.at(p.Instance, p.Component))
	}
	c.lists = append(c.lists, list)
	return -int32(len(c.lists))
}

// inLibrary tells whether a definition is in a shared library that the build links.
func (c *Composer) inLibrary(p linkmodel.Place) bool {
	in := c.linked.Instances[p.Instance]
	return in.File != 0 && !c.pool.Symbols.Unit(in.Unit).Library
}

func (c *Composer) linksOf(id int32) []int32 {
	if c.nodes[id].start < 0 {
		c.resolve(id)
	}
	return c.slots[c.nodes[id].start:c.nodes[id].end]
}

// reach finds and hashes the strongly connected groups that start reaches, with
// Tarjan's algorithm, which completes a group after everything that it refers
// to. It keeps its own stack: reference chains can be longer than a call stack.
func (c *Composer) reach(start int32) {
	if c.nodes[start].index != 0 {
		return
	}
	c.begin(start)
	for len(c.calls) > 0 {
		v := &c.calls[len(c.calls)-1]
		x := &c.nodes[v.id]
		if v.next < v.end {
			to := c.slots[v.next]
			v.next++
			switch {
			case to < 0: // not a node: length of a list
			case c.nodes[to].index == 0:
				c.begin(to)
			case c.nodes[to].group < 0: // on the stack
				x.low = min(x.low, c.nodes[to].index)
			}
			continue
		}
		id := v.id
		c.calls = c.calls[:len(c.calls)-1]
		if len(c.calls) > 0 {
			up := &c.nodes[c.calls[len(c.calls)-1].id]
			up.low = min(up.low, c.nodes[id].low)
		}
		if c.nodes[id].low == c.nodes[id].index {
			k := len(c.stack) - 1
			for c.stack[k] != id {
				k--
			}
			c.finish(c.stack[k:])
			c.stack = c.stack[:k]
		}
	}
}

func (c *Composer) begin(id int32) {
	if c.shortcut(id) {
		return
	}
	c.order = append(c.order, id)
	c.resolve(id)
	x := &c.nodes[id]
	x.index = int32(len(c.order))
	x.low = x.index
	c.stack = append(c.stack, id)
	c.calls = append(c.calls, call{id, x.start, x.end})
}

// finish numbers the members of a group whose references to the outside are all
// hashed, and hashes the group's exact description unless it is known.
func (c *Composer) finish(members []int32) {
	group := c.groups
	c.groups++
	for _, id := range members {
		c.nodes[id].group = group
	}
	if c.through(members) {
		return
	}
	for _, id := range members {
		c.nodes[id].member = -1
	}
	order := members[:1]
	if len(members) > 1 {
		order = append(make([]int32, 0, len(members)), c.firstMember(members))
		c.nodes[order[0]].member = 0
		for i := 0; i < len(order); i++ {
			for _, to := range c.linksOf(order[i]) {
				if to >= 0 && c.nodes[to].group == group && c.nodes[to].member < 0 {
					c.nodes[to].member = int32(len(order))
					order = append(order, to)
				}
			}
		}
	} else {
		c.nodes[order[0]].member = 0
	}
	key := binary.AppendUvarint(c.key[:0], uint64(len(order)))
	for _, id := range order {
		key = binary.AppendUvarint(key, uint64(c.description(id)))
		links := c.linksOf(id)
		key = binary.AppendUvarint(key, uint64(len(links)))
		for _, v := range links {
			key = binary.AppendUvarint(key, c.linkCode(v, group))
		}
	}
	c.key = key
	hash, ok := c.known[string(key)]
	if !ok {
		hash = int32(len(c.hashes))
		c.known[string(key)] = hash
		c.hashes = append(c.hashes, c.hashGroup(order, group))
	}
	for _, id := range order {
		c.nodes[id].hash = hash
	}
	c.remember(order, group, hash, !ok)
}

// linkCode is what counts of a value of slots in a group: a length, the number of a
// member, or the number of another group's hash and of its member.
func (c *Composer) linkCode(v, group int32) uint64 {
	if v < 0 {
		return uint64(-v) << 2
	}
	x := &c.nodes[v]
	if x.group == group {
		return uint64(x.member)<<2 | 1
	}
	return uint64(x.hash)<<32 | uint64(x.member)<<2 | 2
}

// hashGroup returns the hash of the exact description of a group.
func (c *Composer) hashGroup(order []int32, group int32) Hash {
	b := frame.New("tasting group 2")
	b.Int(len(order))
	for _, id := range order {
		b = append(b, c.described(c.description(id))...)
		links := 0
		for i, v := 0, c.linksOf(id); i < len(v); i++ {
			if links++; v[i] < 0 {
				i += int(-v[i] - 1)
			}
		}
		b.Int(links)
		rest := 0
		for _, v := range c.linksOf(id) {
			if v < 0 {
				rest = int(-v - 1)
				b.Int(rest)
				continue
			}
			if rest > 0 {
				rest--
			} else {
				b.Int(1)
			}
			if c.nodes[v].group == group {
				b.Int(0)
				b.Int(int(c.nodes[v].member))
			} else {
				b.Int(1)
				c.writeRef(&b, v)
			}
		}
	}
	return b.Sum()
}

// writeRef appends the global identity of a node: the hash of its group and
// which member it is.
func (c *Composer) writeRef(b *frame.Buffer, id int32) {
	b.Bytes(c.hashes[c.nodes[id].hash][:])
	b.Int(int(c.nodes[id].member))
}

// firstMember chooses where the numbering of a group starts: at the member with
// the rarest description, then the smallest; names break ties, then the order of
// the link.
func (c *Composer) firstMember(members []int32) int32 {
	count := make(map[int32]int, len(members))
	for _, id := range members {
		count[c.comp(id).description]++
	}
	return slices.MinFunc(members, func(x, y int32) int {
		a, b := c.comp(x), c.comp(y)
		if a.description != b.description {
			return cmp.Or(
				cmp.Compare(count[a.description], count[b.description]),
				strings.Compare(c.pool.descriptions[a.description], c.pool.descriptions[b.description]))
		}
		return cmp.Or(strings.Compare(a.name, b.name), cmp.Compare(x, y))
	})
}
