package refgraph

import (
	"encoding/binary"
	"hash"
	"iter"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/lazyregexp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/linkmodel"
)

// A Composer walks one program after the other. Each goroutine needs its own.
type Composer struct {
	pool   *Pool
	linked *linkmodel.Linked
	meanings
	passes uint32 // of Closure.resolve: one for each file of each program

	// Of the current program:
	program   uint32         // its number
	instances []instance     // as in linked.Units
	within    []int32        // of each node: index in instances
	idle      []bool         // of each function (see comp.entry): whether it is a stub; nil without Roots.Idle
	stubs     map[int32]bool // factories of other cases; nil but in Closure.findCases
	sees      uint8          // what reached components can see besides what they reach
	seesBy    string         // the first symbol by which they see seesLink, seesNames or seesDebug
	copies    map[int32]bool // nodes that isCopy has found to be copies
	bindings
	walk
}

// instance is a linked unit.
type instance struct {
	unit  *unit
	base  int32 // its first node
	bound int32 // the first of its symbols in bindings.bound
}

// bindings are the targets of symbols in the current program.
type bindings struct {
	shared    []binding                 // of each symbol, for files without own bindings
	bound     []int32                   // of the symbols of each instance: a node plus 1, -1 minus an index in lists, or 0 for unknown
	lists     [][]int32                 // targets of links that haven't got exactly one
	sets      map[setKey][]int32        // components of linker sets; nil if unknown
	contested map[linkmodel.Symbol]bool // symbols of links that have several targets or are ambiguous

	resolved     []linkmodel.Definition // scratch space
	alternatives []linkmodel.Definition // scratch space of definesAll and isCopy
}

// binding is the target of a symbol.
type binding struct {
	program uint32 // for which id is known
	id      int32  // as in bindings.bound
	looked  uint32 // the last of Composer.passes that looked at the symbol
}

// walk is the state of the canonical walk.
type walk struct {
	numbers []int32 // of each node: its number, from 1, or 0 if it isn't reached
	order   []int32 // nodes by their numbers
	placed  []int32 // reached nodes whose order in memory may be part of the hash
	next    []int32 // reached nodes whose links are still to be followed, the next one last
	text    []byte  // buffer
}

// meanings classify symbols by their names.
type meanings struct {
	special        map[linkmodel.Symbol]uint8 // what a reference to the symbol can see
	hasMeaning     []bool                     // of each symbol: it is special, or the bound of a linker set
	sanitizerHooks []linkmodel.Symbol         // functions that some unit defines for a sanitizer
}

// Things that a component can see by a reference to a symbol that no unit defines.
const (
	seesLink  = 1 << iota // symbols, sections or loaded files, which makes the link unusual
	seesNames             // symbols that files export, which makes it unusual if a file of the program exports some
	seesDebug             // debug information, even if a unit defines the symbol
	seesNeeds             // DT_NEEDED of files, by program headers or the heap
	seesTLS               // the size of thread-local storage
	seesCode              // where functions begin or end, which makes traces opaque
)

// lookups are functions that find exported symbols by name or address, and loaded files by name. They return addresses in
// headers of files. See link-load/dlsym-new-name, link-load/dladdr-name, link-load/noload-renamed and code-closure/dladdr-tls.
var lookups = []string{"dlsym", "dlvsym", "dlopen", "dlmopen", "dlopen_mode", "dladdr"}

// fileReaders lead to the symbol tables and segments of all loaded files, or print addresses as offsets in them. See link-files/iterate-look-up and
// link-files/rtld-global.
var fileReaders = []string{"dl_iterate_phdr", "dladdr1", "dlinfo", "_r_debug", "_r_debug_extended", "__nptl_rtld_global", "backtrace_symbols", "backtrace_symbols_fd"}

// codeReaders return the bounds or the unwind information of the function at an address, even if it wasn't entered.
// See trace-sound/dladdr-size and trace-sound/find-fde.
var codeReaders = []string{"dladdr", "backtrace_symbols", "backtrace_symbols_fd", "_Unwind_Find_FDE", "_Unwind_FindEnclosingFunction", "_dl_find_object", "__frame_state_for", "__register_frame", "__register_frame_info",
	"__register_frame_table"}

// unwinders are prefixes of functions of libunwind that return where a function begins and ends.
var unwinders = []string{"unw_get_proc_info", "__unw_get_proc_info", "_Ux86_64_get_proc_info", "_ULx86_64_get_proc_info", "_Uaarch64_get_proc_info", "_ULaarch64_get_proc_info"}

// loaderData are prefixes of symbols for the loader's data about loaded files, in ld.so and in a static C library.
var loaderData = []string{"_dl_", "_rtld_", "__rtld_"}

// debugReaders are prefixes of functions that read debug information: of libbacktrace, <stacktrace>, elfutils, BFD, libdw
// and unwinders that know names. See cxx/stacktrace-static-name.
var debugReaders = []string{
	"backtrace_create_state", "backtrace_full", "backtrace_pcinfo", "__glibcxx_backtrace", "_ZNSt12__stacktrace", "_ZNKSt16stacktrace_entry", "_ZNSt16stacktrace_entry",
	"_ZNSt17basic_stacktrace", "_ZNSt18__stacktrace_impl", "dwfl_", "dwarf_", "bfd_", "_ZN5boost10stacktrace",
	"unw_get_proc_name", "__unw_get_proc_name", "_Ux86_64_get_proc_name", "_ULx86_64_get_proc_name", "_Uaarch64_get_proc_name", "_ULaarch64_get_proc_name",
}

// instrumentation matches functions of sanitizers that instrumented code refers to or defines, or that annotate memory. None
// of them returns facts about the program.
var instrumentation = lazyregexp.New(`^__(?:` +
	`(?:hw)?asan_(?:load|store|exp_|report_(?:exp_)?(?:load|store)|register_|unregister_|init|version_mismatch|stack_(?:malloc|free)_|set_shadow_|option_detect|handle_|allocas?_|` +
	`(?:un)?poison_|before_dynamic|after_dynamic|shadow_memory|mem(?:cpy|move|set)|globals_|tag_|generate_tag|personality|tls|add_frame|address_is|region_is)|` +
	`lsan_(?:ignore_object|disable|enable|(?:un)?register_root)|` +
	`msan_(?:param_|retval_|va_|origin_|warning|chain_|mem|set_alloca|(?:un)?poison|metadata|init|track_|keep_|maybe_|instrument_|partial)|` +
	`tsan_(?:read|write|unaligned|func_|init|vptr_|atomic|volatile|mem|switch|ignore_|acquire|release|mutex_)|` +
	`ubsan_(?:handle_|vptr_type_cache)|` +
	`sanitizer_(?:cov_|ptr_|annotate_|weak_hook|unaligned_))`)

// sanitizer matches all functions of sanitizers and their hooks. The functions return names, lines and files of code, and hooks
// get reports with these. See link-system/asan-summary-function.
var sanitizer = lazyregexp.New(`^__(?:(?:a|hwa|l|m|t|ub)san_|sanitizer_|(?:n|rt|ty)san_default_)`)

// otherLibcxx matches names in builds of libc++ that use another namespace than std::__1: ABI version 2, Chromium's,
// Android's. Their references and their order of types aren't known.
var otherLibcxx = lazyregexp.New(`^_Z(?:T[VIST]|GV|N[rVKRO]*)*St(?:3__2|4__Cr|6__ndk1)`)

// isSanitizerReader reports whether a function of sanitizers returns facts about the program.
func isSanitizerReader(name string) bool {
	return strings.HasPrefix(name, "__") && sanitizer.MatchString(name) && !instrumentation.MatchString(name)
}

// needsReaders lead to the program headers (some by the auxiliary vector behind the arguments), and so to DT_NEEDED,
// or to the heap, where initialisers of libraries allocate. See link-load/getauxval-needed and link-system/sbrk-needed.
var needsReaders = []string{"getauxval", "mallinfo", "mallinfo2", "malloc_info", "malloc_stats", "malloc_trim", "sbrk", "brk", "__curbrk", "__libc_stack_end", "__libc_argv"}

// tlsReaders see the size of thread-local storage, which is on a thread's stack. See link-files/minstack-tls and
// link-unreached/setstackaddr-tls.
var tlsReaders = []string{"__pthread_get_minstack", "pthread_getattr_np", "pthread_attr_setstack", "pthread_attr_setstackaddr", "pthread_attr_setstacksize", "_TLS_MODULE_BASE_",
	"__rseq_offset"}

// linkerSymbols are symbols that linkers define for addresses in a file. See link-unreached/linker-name-got.
var linkerSymbols = []string{
	"_DYNAMIC", "_GLOBAL_OFFSET_TABLE_", "__GNU_EH_FRAME_HDR", "__bss_end__", "__bss_start", "__bss_start__", "__data_start", "__ehdr_start",
	"__end__", "__etext", "__executable_start", "__fini_array_end", "__fini_array_start", "__init_array_end", "__init_array_start",
	"__preinit_array_end", "__preinit_array_start", "__tdata_start", "__rela_iplt_end", "__rela_iplt_start", "_TLS_MODULE_BASE_", "_bss_end__", "_fini", "_init", "_start", "_edata", "_end", "_etext", "data_start", "edata", "end", "etext",
}

type setKey struct {
	file int32
	set  linkmodel.Symbol
}

// setOf returns the components of a linker set in a file, in the order of the link.
func (c *Composer) setOf(file int32, set linkmodel.Symbol) []int32 {
	c.findSets()
	return c.sets[setKey{file, set}]
}

// findSets finds all linker sets of the current program.
func (c *Composer) findSets() {
	if c.sets != nil {
		return
	}
	c.sets = map[setKey][]int32{}
	for i, in := range c.linked.Units {
		for k := range c.pool.units[in.Unit].comps {
			if x := &c.pool.units[in.Unit].comps[k]; x.set != linkmodel.None {
				key := setKey{in.File, x.set}
				c.sets[key] = append(c.sets[key], c.node(int32(i), int32(k)))
			}
		}
	}
}

// hasSet reports whether some file has components of a linker set.
func (c *Composer) hasSet(set linkmodel.Symbol) bool {
	c.findSets()
	for key := range c.sets {
		if key.set == set {
			return true
		}
	}
	return false
}

// byName has the meanings of names, byFunction those of functions of the system by their names withoutPrefix.
var byName, byFunction = func() (is, alias map[string]uint8) {
	is, alias = map[string]uint8{"*": seesLink | seesDebug}, map[string]uint8{}
	for _, x := range []struct {
		names []string
		is    uint8
	}{{lookups, seesNames | seesNeeds | seesTLS}, {fileReaders, seesLink}, {needsReaders, seesNeeds | seesTLS}, {tlsReaders, seesTLS}, {codeReaders, seesCode}} {
		for _, s := range x.names {
			alias[withoutPrefix(s)] |= x.is
		}
	}
	for _, s := range linkerSymbols {
		is[s] |= seesLink
	}
	return is, alias
}()

// withoutPrefix returns a name without the prefixes that the C library, sanitizers and linkers put in front of aliases:
// __sbrk, __libc_mallinfo, ___dlsym, __interceptor_dladdr.
func withoutPrefix(name string) string {
	name = strings.TrimLeft(name, "_")
	for _, p := range []string{"real_", "interceptor_", "trampoline_", "GI_", "libc_"} {
		name = strings.TrimLeft(strings.TrimPrefix(name, p), "_")
	}
	return name
}

// meaning returns what a component can see by a reference to a symbol that no unit defines.
func meaning(name string) uint8 {
	hasPrefix := func(p string) bool { return strings.HasPrefix(name, p) }
	bits := byFunction[withoutPrefix(name)]
	name = strings.TrimPrefix(name, "__real_") // of --wrap: see link-load/wrap-dlsym
	bits |= byName[name]
	if slices.ContainsFunc(loaderData, hasPrefix) || hasPrefix(".sizeof.") || hasPrefix(".startof.") || isSanitizerReader(name) || otherLibcxx.MatchString(name) {
		bits |= seesLink // GNU ld defines .sizeof. and .startof.
	}
	if slices.ContainsFunc(unwinders, hasPrefix) {
		bits |= seesCode
	}
	if slices.ContainsFunc(debugReaders, hasPrefix) {
		bits |= seesDebug
	}
	return bits
}

// NewComposer returns a composer of programs from the units of p. No unit may be added afterwards.
func (p *Pool) NewComposer() *Composer {
	c := &Composer{pool: p, linked: linkmodel.NewLinked(p.Symbols), copies: map[int32]bool{}}
	c.shared, c.contested, c.special = make([]binding, p.Symbols.Len()), map[linkmodel.Symbol]bool{}, map[linkmodel.Symbol]uint8{}
	for id := range linkmodel.Symbol(p.Symbols.Len()) {
		name := p.Symbols.Name(id)
		if bits := meaning(name); bits != 0 {
			c.special[id] = bits
		}
		_, set := p.sets[id]
		c.hasMeaning = append(c.hasMeaning, set || c.special[id] != 0)
		if p.Symbols.Defined(id) && isSanitizerReader(name) {
			c.sanitizerHooks = append(c.sanitizerHooks, id)
		}
	}
	return c
}

// link makes p the current program.
func (c *Composer) link(p *linkmodel.Program) {
	c.linked.Link(p)
	n, symbols := int32(0), 0
	c.instances = c.instances[:0]
	for _, in := range c.linked.Units {
		u := c.pool.units[in.Unit]
		c.instances = append(c.instances, instance{u, n, int32(symbols)})
		n += int32(len(u.comps))
		symbols += len(u.symbols)
	}
	c.bound = slices.Grow(c.bound[:0], symbols)[:symbols]
	clear(c.bound)
	c.lists = append(c.lists[:0], nil)
	c.numbers = slices.Grow(c.numbers[:0], int(n))[:n]
	clear(c.numbers)
	c.within = slices.Grow(c.within[:0], int(n))[:n]
	for i, in := range c.instances {
		of := c.within[in.base:][:len(in.unit.comps)]
		for k := range of {
			of[k] = int32(i)
		}
	}
	if c.program++; c.program == 0 {
		clear(c.shared)
		c.program = 1
	}
	clear(c.contested)
	clear(c.copies)
	c.sets = nil
	c.order, c.placed, c.next = c.order[:0], c.placed[:0], c.next[:0]
	c.sees, c.seesBy = 0, ""
}

// unitOf returns the unit of a node, and its index there.
func (c *Composer) unitOf(id int32) (u *unit, index int32) {
	in := &c.instances[c.within[id]]
	return in.unit, id - in.base
}

// fileOf returns the index of the file that a node is in.
func (c *Composer) fileOf(id int32) int32 { return c.linked.Units[c.within[id]].File }

func (c *Composer) comp(id int32) *comp {
	u, index := c.unitOf(id)
	return &u.comps[index]
}

// node returns the node of a component of an instance.
func (c *Composer) node(instance, index int32) int32 { return c.instances[instance].base + index }

// nodeOf returns the node of a definition.
func (c *Composer) nodeOf(d linkmodel.Definition) int32 { return c.node(d.In, d.Component) }

// isStub reports whether a component is a function that wasn't entered, and all its names are bound to it.
func (c *Composer) isStub(id int32) bool {
	if c.idle == nil {
		return false
	}
	x := c.comp(id)
	return x.entry >= 0 && c.idle[x.entry] && x.flags&flagRoot == 0 && c.definesAll(id, c.pool.entryDefs[x.entry])
}

// definesAll reports whether all symbols are bound to a node in its file. If one isn't, a trace may name another
// definition by it. See trace-sound/weak-alias and trace-sound/weak-body.
func (c *Composer) definesAll(id int32, symbols []linkmodel.Symbol) bool {
	file := c.fileOf(id)
	for _, s := range symbols {
		is := false
		c.alternatives = c.linked.Definitions(c.alternatives[:0], s)
		for _, d := range c.alternatives {
			switch {
			case c.nodeOf(d) == id:
				is = true
			case c.linked.Units[d.In].File == file:
				return false
			}
		}
		if !is {
			return false
		}
	}
	return true
}

// stub returns the digest of a stub: its names, linkage and alignment. The program may see the alignment by its address. See trace-sound/alignment.
func (c *Composer) stub(id int32) digest {
	x := c.comp(id)
	b := frame.New("tasting stub 2")
	b.Strings(c.pool.entryNames[x.entry])
	b.Uint(uint64(x.align))
	b.String(withoutContent(c.pool.descriptions[x.description]))
	return digestOf(b)
}

// linksFrom returns the links of a node in the form of unit.links. A stub has none.
func (c *Composer) linksFrom(id int32) []int32 {
	if c.isStub(id) {
		return nil
	}
	return c.unitLinks(id)
}

// unitLinks returns the links of a node in the form of unit.links, even of a stub.
func (c *Composer) unitLinks(id int32) []int32 {
	u, index := c.unitOf(id)
	return u.linksOf(index)
}

// bind returns the target of a symbol in an instance, in the form of bindings.bound. The reference is reached: bind records
// what it can see.
func (c *Composer) bind(instance int32, s linkmodel.Symbol) int32 {
	file := c.linked.Units[instance].File
	if c.linked.HasOwnBindings(file) {
		return c.bindIn(file, s)
	}
	x := &c.shared[s]
	if x.program == c.program {
		return x.id
	}
	id := c.bindIn(file, s)
	if _, set := c.pool.sets[s]; !set { // each file has its own
		x.program, x.id = c.program, id
	}
	return id
}

// observe records the things that a reached reference can see.
func (c *Composer) observe(s linkmodel.Symbol, bits uint8) {
	c.sees |= bits
	if bits&(seesLink|seesNames|seesDebug) != 0 && c.seesBy == "" {
		c.seesBy = c.pool.Symbols.Name(s)
	}
}

// none is the result of bind for a symbol that nothing defines: the first of bindings.lists.
const none = -1

// bindIn is bind for a reference in a file.
func (c *Composer) bindIn(file int32, s linkmodel.Symbol) int32 {
	c.resolved = c.linked.Resolve(c.resolved[:0], file, s)
	if len(c.resolved) > 1 || c.linked.Ambiguous(s) {
		c.contested[s] = true
	}
	special := c.special[s]
	if special != 0 && slices.ContainsFunc(c.resolved, c.inLibrary) {
		c.observe(s, special) // a library of the system may precede the one with the definition
	}
	if len(c.resolved) == 1 {
		c.observe(s, special&seesDebug)
		return c.nodeOf(c.resolved[0]) + 1
	}
	var list []int32
	if len(c.resolved) == 0 {
		set, isBound := c.pool.sets[s]
		if !isBound {
			c.observe(s, special)
		} else if list = c.setOf(file, set); len(list) == 0 && c.hasSet(set) && c.pool.Symbols.Name(set) != "__start_asan_globals" {
			// The file has no such set and may see another file's. See link-files/set-bounds-exported. Clang hides asan_globals.
			c.observe(s, seesLink)
		}
		if len(list) == 0 {
			return none
		}
	}
	list = slices.Clone(list)
	for _, d := range c.resolved {
		list = append(list, c.nodeOf(d))
	}
	c.lists = append(c.lists, list)
	return -int32(len(c.lists))
}

// plainBinding returns the target of a symbol in files without own bindings, as bind does, if it is a single node or
// none. Else it returns 0. It records nothing: the reference may be unreached.
func (c *Composer) plainBinding(s linkmodel.Symbol) int32 {
	x := &c.shared[s]
	if x.program != c.program {
		if c.hasMeaning[s] {
			return 0
		}
		c.resolved = c.linked.Resolve(c.resolved[:0], 0, s)
		if len(c.resolved) > 1 || c.linked.Ambiguous(s) || c.linked.HasOwnBindings(0) {
			return 0
		}
		x.program, x.id = c.program, none
		if len(c.resolved) > 0 {
			x.id = c.nodeOf(c.resolved[0]) + 1
		}
	}
	if x.id < none {
		return 0
	}
	return x.id
}

// inLibrary reports whether a definition is in a shared library that the build links.
func (c *Composer) inLibrary(d linkmodel.Definition) bool {
	in := c.linked.Units[d.In]
	return in.File != 0 && !c.pool.Symbols.Unit(in.Unit).Library
}

// linksOf yields the targets of each link of a node.
func (c *Composer) linksOf(id int32) iter.Seq[[]int32] {
	return func(yield func([]int32) bool) {
		in := &c.instances[c.within[id]]
		for _, l := range c.linksFrom(id) {
			targets := []int32{in.base + l}
			if l < 0 {
				to := &c.bound[in.bound-1-l]
				if *to == 0 {
					*to = c.bind(c.within[id], in.unit.symbols[-1-l])
				}
				if targets[0] = *to - 1; *to < 0 {
					targets = c.lists[-1-*to]
				}
			}
			if !yield(targets) {
				return
			}
		}
	}
}

// visit returns the number of a node in the walk. A node without one gets the next.
func (c *Composer) visit(id int32) uint32 {
	if c.numbers[id] == 0 {
		c.order, c.next = append(c.order, id), append(c.next, id)
		c.numbers[id] = int32(len(c.order))
	}
	return uint32(c.numbers[id])
}

// severalTargets marks the number of targets of a link that has several.
const severalTargets = 1 << 31

// writeWalk visits everything that the visited nodes reach, and writes it to h. For each node, these are its digest, the
// number of its links, and for each link the number of its target, or 0 for none, or how many targets there are and
// their numbers. A node gets its number when it is first met. The node that was met last is next: it is likely to be
// in the same unit. A reader can rebuild the graph from the text, so equal texts mean equal graphs.
func (c *Composer) writeWalk(h hash.Hash) {
	const full = 1 << 15
	text := slices.Grow(c.text[:0], 2*full)[:2*full]
	at := 0
	for len(c.next) > 0 {
		id := c.next[len(c.next)-1]
		c.next = c.next[:len(c.next)-1]
		instance := c.within[id]
		in := &c.instances[instance]
		head := &in.unit.heads[id-in.base]
		links := in.unit.links[head.start:head.end]
		if head.placed {
			c.placed = append(c.placed, id)
		}
		if need := at + 24 + 4*len(links); at > full || need > len(text) {
			h.Write(text[:at])
			at = 0
			if need := 24 + 4*len(links); need > len(text) {
				text = make([]byte, need)
			}
		}
		if c.idle != nil && c.isStub(id) {
			d := c.stub(id)
			at += copy(text[at:], d[:])
			links = nil
		} else if c.stubs != nil && c.stubs[id] {
			d := c.stubOfCase(id)
			at += copy(text[at:], d[:])
			links = nil
		} else {
			at += copy(text[at:], head.digest[:])
		}
		binary.LittleEndian.PutUint32(text[at:], uint32(len(links)))
		at += 4
		bound := c.bound[in.bound : int(in.bound)+len(in.unit.symbols)]
		for _, l := range links {
			to := in.base + l
			if l < 0 {
				x := &bound[-1-l]
				if *x == 0 {
					*x = c.bind(instance, in.unit.symbols[-1-l])
				}
				if to = *x - 1; to < 0 {
					list := c.lists[-1-*x]
					n := uint32(len(list))
					if n > 0 {
						n |= severalTargets
					}
					binary.LittleEndian.PutUint32(text[at:], n)
					at += 4
					if n > 0 {
						h.Write(text[:at])
						at = 0
						b := make([]byte, 0, 4*len(list))
						for _, to := range list {
							b = binary.LittleEndian.AppendUint32(b, c.visit(to))
						}
						h.Write(b)
					}
					continue
				}
			}
			n := c.numbers[to]
			if n == 0 {
				n = int32(c.visit(to))
			}
			binary.LittleEndian.PutUint32(text[at:], uint32(n))
			at += 4
		}
	}
	h.Write(text[:at])
	c.text = text
}
