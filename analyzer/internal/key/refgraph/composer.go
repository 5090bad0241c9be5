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

// A Composer walks one program after the other: one for each goroutine.
type Composer struct {
	pool   *Pool
	linked *linkmodel.Linked

	passes uint32 // of Closure.resolve, one for each file of each program

	// Of the current program.
	instances []instance
	numbers   []int32 // of nodes in order, from 1; 0 is not reached
	within    []int32 // the instances of nodes
	program   uint32
	names     []nodeOf  // of each symbol: as in bound, for files that bind nothing in their own way
	bound     []int32   // of the unit's symbols: a node and 1, -1-index in lists, or 0
	lists     [][]int32 // the nodes that a symbol stands for, if it isn't one
	order     []int32   // nodes by their numbers
	placed    []int32   // those of them whose order in memory may count (manifest.Component.Place)
	next      []int32   // those of them whose links the walk has still to follow, the next one last
	places    []linkmodel.Place
	won       []linkmodel.Place  // of named and isCopy
	text      []byte             // see walk
	sees      uint8              // what symbols mean to which something that is reached refers
	seen      string             // the first of them that means seesLink or seesDebug
	sets      map[setKey][]int32 // components of linker sets
	copies    map[int32]bool     // nodes of which isCopy knows that they are

	// Of a program with Roots.Idle:
	idle []bool // functions that are stubs, by entry; nil for none

	// contested are the symbols with several possible definitions in links.
	contested map[linkmodel.Symbol]bool
	special   map[linkmodel.Symbol]uint8
	odd       []bool             // of each symbol: it is special, or a bound of linker sets
	asked     []linkmodel.Symbol // what some program defines for sanitizers
}

// instance is a unit in a file of the current program.
type instance struct {
	unit  *unit
	base  int32 // its first node
	bound int32 // the first of its symbols in Composer.bound
}

// nodeOf is what was found in the program with this number.
type nodeOf struct {
	program uint32
	id      int32
	looked  uint32 // the last of Composer.passes that looked at the symbol
}

// What it means that something refers to a symbol that no unit defines.
const (
	seesLink  = 1 << iota // symbols, sections, loaded files: the link is unusual
	seesDebug             // debug information, whoever defines the symbol
	seesNeeds             // which libraries a file needs
	seesTLS               // how much thread-local storage there is
	seesCode              // where a function begins or ends: no trace is good
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

// otherLibcxx matches names of builds of libc++ with another namespace than std::__1, of which it isn't known what they
// call and order: ABI version 2, Chromium's, Android's.
var otherLibcxx = lazyregexp.New(`^_Z(?:T[VIST]|GV|N[rVKRO]*)*St(?:3__2|4__Cr|6__ndk1)`)

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
					c.sets[key] = append(c.sets[key], c.at(int32(i), int32(k)))
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

// meanings are those of names, aliases those of functions of the system, which have several names
// (withoutPrefix).
var meanings, aliases = func() (is, alias map[string]uint8) {
	is, alias = map[string]uint8{"*": seesLink | seesDebug}, map[string]uint8{}
	for _, x := range []struct {
		names []string
		is    uint8
	}{{lookups, seesLink}, {walkers, seesLink}, {fileReaders, seesLink}, {needsReaders, seesNeeds | seesTLS}, {tlsReaders, seesTLS}, {codeReaders, seesCode}} {
		for _, s := range x.names {
			alias[withoutPrefix(s)] |= x.is
		}
	}
	for _, s := range layoutSymbols {
		is[s] |= seesLink
	}
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
		bits |= seesLink
	}
	if strings.HasPrefix(name, ".sizeof.") || strings.HasPrefix(name, ".startof.") {
		bits |= seesLink // of GNU ld
	}
	if slices.ContainsFunc(unwinders, func(p string) bool { return strings.HasPrefix(name, p) }) {
		bits |= seesCode
	}
	if slices.ContainsFunc(debugReaders, func(r string) bool { return strings.HasPrefix(name, r) }) {
		bits |= seesDebug
	}
	if asksSanitizers(name) || otherLibcxx.MatchString(name) {
		bits |= seesLink
	}
	return bits
}

// NewComposer returns a composer of programs from the units of p, to which none
// is added any more.
func (p *Pool) NewComposer() *Composer {
	c := &Composer{
		pool: p, linked: linkmodel.NewLinked(p.Symbols), names: make([]nodeOf, p.Symbols.Len()),
		contested: map[linkmodel.Symbol]bool{}, special: map[linkmodel.Symbol]uint8{}, sets: map[setKey][]int32{}, copies: map[int32]bool{},
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
	n, symbols := int32(0), 0
	c.instances = c.instances[:0]
	for _, in := range c.linked.Instances {
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
		clear(c.names)
		c.program = 1
	}
	clear(c.contested)
	clear(c.sets)
	clear(c.copies)
	c.order, c.placed, c.next = c.order[:0], c.placed[:0], c.next[:0]
	c.sees, c.seen = 0, ""
}

// of returns the unit of a node, and its number there.
func (c *Composer) of(id int32) (u *unit, own int32) {
	in := &c.instances[c.within[id]]
	return in.unit, id - in.base
}

// fileOf returns the number of the file that a node is in.
func (c *Composer) fileOf(id int32) int32 { return c.linked.Instances[c.within[id]].File }

func (c *Composer) comp(id int32) *comp {
	u, own := c.of(id)
	return &u.comps[own]
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
	file := c.fileOf(id)
	for _, s := range symbols {
		is := false
		c.won = c.linked.All(c.won[:0], s)
		for _, p := range c.won {
			switch {
			case c.at(p.Instance, p.Component) == id:
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

// stub returns what identifies a stub: that it is one, with its names.
func (c *Composer) stub(id int32) digest {
	x := c.comp(id)
	b := frame.New("tasting stub 2")
	b.Strings(c.pool.entryNames[x.entry])
	b.Uint(uint64(x.align)) // an address tells
	b.String(withoutContent(c.pool.descriptions[x.description]))
	return digestOf(b)
}

// linksFrom returns the links of a component as its unit has them: none of a stub.
func (c *Composer) linksFrom(id int32) []int32 {
	if c.isStub(id) {
		return nil
	}
	u, own := c.of(id)
	return u.linksOf(own)
}

// at returns the node of a component of an instance.
func (c *Composer) at(instance, own int32) int32 { return c.instances[instance].base + own }

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
		x.program, x.id = c.program, id
	}
	return id
}

// see notes what a symbol means.
func (c *Composer) see(s linkmodel.Symbol, is uint8) {
	c.sees |= is
	if is&(seesLink|seesDebug) != 0 && c.seen == "" {
		c.seen = c.pool.Symbols.Name(s)
	}
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
		c.see(s, special) // a library of the system may be loaded before
	}
	if len(c.places) == 1 {
		c.see(s, special&seesDebug) // whoever has compiled it
		return c.at(c.places[0].Instance, c.places[0].Component) + 1
	}
	var ids []int32
	set, ok := c.pool.sets[s]
	switch {
	case ok && len(c.places) == 0:
		if ids = c.setOf(file, set); len(ids) == 0 && c.hasSet(set) && c.pool.Symbols.Name(set) != "__start_asan_globals" {
			c.see(s, seesLink) // another file may have bounds of its own for all; clang's are hidden
		}
	case len(c.places) == 0:
		c.see(s, special)
	}
	if len(ids)+len(c.places) == 0 {
		return none
	}
	list := slices.Clone(ids)
	for _, p := range c.places {
		list = append(list, c.at(p.Instance, p.Component))
	}
	c.lists = append(c.lists, list)
	return -int32(len(c.lists))
}

// nowhere is what standsFor returns for a symbol that no unit defines.
const nowhere = -1

// standsFor returns the node that a symbol stands for in files that bind nothing in their own way, or
// nowhere. Of symbols that mean more it isn't certain: what that is is found out by bind.
func (c *Composer) standsFor(s linkmodel.Symbol) (id int32, certain bool) {
	x := &c.names[s]
	if x.program != c.program {
		if c.odd[s] {
			return 0, false
		}
		c.places = c.linked.Resolve(c.places[:0], 0, s)
		if len(c.places) > 1 || c.linked.Doubtful(s) || c.linked.Scoped(0) {
			return 0, false
		}
		x.program, x.id = c.program, none
		if len(c.places) > 0 {
			x.id = c.at(c.places[0].Instance, c.places[0].Component) + 1
		}
	}
	switch {
	case x.id > 0:
		return x.id - 1, true
	case x.id == none:
		return nowhere, true
	}
	return 0, false
}

// inLibrary tells whether a definition is in a shared library that the build links.
func (c *Composer) inLibrary(p linkmodel.Place) bool {
	in := c.linked.Instances[p.Instance]
	return in.File != 0 && !c.pool.Symbols.Unit(in.Unit).Library
}

// targets returns the nodes that a link of an instance leads to.
func (c *Composer) targets(instance, link int32, one *[1]int32) []int32 {
	if link >= 0 {
		one[0] = c.at(instance, link)
		return one[:]
	}
	in := &c.instances[instance]
	to := &c.bound[in.bound-1-link]
	if *to == 0 {
		*to = c.bind(instance, in.unit.symbols[-1-link])
	}
	if *to > 0 {
		one[0] = *to - 1
		return one[:]
	}
	return c.lists[-1-*to]
}

// linksOf yields the nodes that each link of a node leads to.
func (c *Composer) linksOf(id int32) iter.Seq[[]int32] {
	return func(yield func([]int32) bool) {
		var one [1]int32
		for _, l := range c.linksFrom(id) {
			if !yield(c.targets(c.within[id], l, &one)) {
				return
			}
		}
	}
}

// visit returns the number of a node in the walk, its last one if it hasn't got one yet.
func (c *Composer) visit(id int32) uint32 {
	if c.numbers[id] == 0 {
		c.order, c.next = append(c.order, id), append(c.next, id)
		c.numbers[id] = int32(len(c.order))
	}
	return uint32(c.numbers[id])
}

// severalTargets is added to the number of the definitions of a link that hasn't got one.
const severalTargets = 1 << 31

// walk visits all that the nodes that were visited reach, and writes it down to h: of each
// node its description, the number of its links, and for each of them the number of the node that it leads to, 0 if there is
// none, or how many there are and their numbers. A node gets its number when it is first met; the links of the node
// with the highest number are followed next: it is likely to be in the same unit. A reader can take that apart, and
// build the graph from it up to the numbers of its nodes. So two walks are the same if, and only if, what they reach is.
func (c *Composer) walk(h hash.Hash) {
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
