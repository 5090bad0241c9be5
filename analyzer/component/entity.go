package component

import (
	"sort"
	"strings"
)

type entityKind uint8

const (
	entFunction entityKind = iota + 1
	entVariable
	entRecord
	entEnum
	entTypedef
)

// entity is something with a name that several declarations may declare: a
// function, a variable, a type.
type entity struct {
	kind entityKind
	name string
	// sym is the linker's symbol of a function or variable.
	sym string
	// local: internal linkage, or none.
	local bool
	// decls are the distinct declarations of a function or variable: the
	// whole redeclaration chain counts, wherever it stands.
	decls []declaration
	// attrs are the attribute specifiers of all declarations.
	attrs []sealed
	// inline is true if any declaration of a function is.
	inline bool
	// roots holds the reasons why a definition is a root.
	roots map[string]bool
	weak  bool
	// addressTaken is true if anything but a call refers to the function.
	addressTaken bool
	// content is the definition of a type.
	content *sealed
	// typ is the target of a typedef.
	typ *typeUse
	// comps are the components that define the entity here.
	comps []*comp

	declHash  *Hash
	typeHash  [3]*Hash
	computing bool
}

type declaration struct {
	typ     sealed
	storage string
	inline  bool
	tls     string
}

// use is a reference from a stream to an entity: to the declaration of a
// function or variable, or to a type at some depth.
type use struct {
	ent *entity
	d   depth
}

// stream collects what goes into one hash: values at once, references to
// entities by number, because an entity is complete only at the end of the
// translation unit.
type stream struct {
	h    *hasher
	uses []use
	pos  map[use]int
	// links are the functions and variables referred to, in order.
	links []*entity
	// symbols are linker symbols named in asm text.
	symbols []string
	// opaque is the first reason why the node stream isn't complete; the token
	// text of the whole definition then counts as well.
	opaque string
	// words are identifiers of token text, to be resolved by name.
	words map[string]bool
}

func newStream() *stream { return &stream{h: newHasher()} }

func (s *stream) use(e *entity, d depth) {
	if s.pos == nil {
		s.pos = map[use]int{}
	}
	if e.kind <= entVariable {
		d = name // their declaration counts, however they are used
	}
	u := use{e, d}
	i, ok := s.pos[u]
	if !ok {
		i = len(s.uses)
		s.pos[u] = i
		s.uses = append(s.uses, u)
		if e.kind <= entVariable {
			s.links = append(s.links, e)
		}
	}
	s.h.tag('r')
	s.h.num(uint64(i))
}

func (s *stream) markOpaque(reason string) {
	if s.opaque == "" {
		s.opaque = reason
	}
}

func (s *stream) word(w string) {
	if s.words == nil {
		s.words = map[string]bool{}
	}
	s.words[w] = true
}

// sealed is a finished stream.
type sealed struct {
	sum     Hash
	uses    []use
	links   []*entity
	symbols []string
	opaque  string
	words   []string
}

func (s *stream) seal() sealed {
	out := sealed{sum: s.h.sum(), uses: s.uses, links: s.links, symbols: s.symbols, opaque: s.opaque}
	for w := range s.words {
		out.words = append(out.words, w)
	}
	sort.Strings(out.words)
	return out
}

// typeUse is a type string with its names resolved.
type typeUse struct {
	text *typeText
	ents []*entity // flattened: all candidates of all names
}

// comp is a component under construction.
type comp struct {
	ent  *entity // nil for asm
	name string
	kind componentKind
	body sealed
	file string
	// reason for a root beyond those of the entity
	root    string
	aliases []string
	weak    bool
	// alias: defined by an alias or ifunc attribute, without a body
	h0, h Hash
	links []*entity
	syms  []string
	local bool
}

type componentKind uint8

const (
	compFunction componentKind = iota
	compVariable
	compAsm
)

// resolver turns entities into hashes at the end of the translation unit.
type resolver struct {
	ordinary map[string]*entity
	tags     map[string]*entity
	enums    map[string]enumerator
}

// sealedHash combines a finished stream with the hashes of what it refers to.
// References to functions and variables contribute their declarations.
func (r *resolver) sealedHash(s *sealed) Hash {
	h := newHasher()
	h.hash(s.sum)
	for _, u := range s.uses {
		h.hash(r.useHash(u))
	}
	if len(s.words) > 0 {
		r.wordHashes(h, s.words)
	}
	return h.sum()
}

func (r *resolver) useHash(u use) Hash {
	if u.ent.kind <= entVariable {
		return r.declarationHash(u.ent)
	}
	return r.typeHash(u.ent, u.d)
}

// isAlias reports whether an attribute defines the entity by another symbol.
func (e *entity) isAlias() bool { return e.roots["alias"] || e.roots["ifunc"] || e.roots["weakref"] }

// declarationHash covers the whole redeclaration chain of a function or
// variable. Redundant declarations and their order don't matter.
func (r *resolver) declarationHash(e *entity) Hash {
	if e.declHash != nil {
		return *e.declHash
	}
	if e.computing {
		return hashOf("cycle", e.name)
	}
	e.computing = true
	defer func() { e.computing = false }()
	set := map[Hash]bool{}
	for i := range e.decls {
		d := &e.decls[i]
		h := newHasher()
		h.hash(r.sealedHash(&d.typ))
		h.str(d.tls)
		if e.inline { // C's rules for inline depend on each declaration
			h.str(d.storage)
			if d.inline {
				h.str("inline")
			}
		}
		set[h.sum()] = true
	}
	for i := range e.attrs {
		set[r.sealedHash(&e.attrs[i])] = true
	}
	h := newHasher()
	h.str("declaration")
	if e.local {
		h.str("local")
	} else {
		h.str(e.sym)
	}
	hashSet(h, set)
	x := h.sum()
	e.declHash = &x
	return x
}

func hashSet(h *hasher, set map[Hash]bool) {
	list := make([]string, 0, len(set))
	for x := range set {
		list = append(list, string(x[:]))
	}
	sort.Strings(list)
	h.num(uint64(len(list)))
	for _, x := range list {
		h.str(x)
	}
}

// typeHash covers a type at depth d.
func (r *resolver) typeHash(e *entity, d depth) Hash {
	if e.kind == entRecord && d == pointee || e.kind == entEnum {
		d = value
	}
	if p := e.typeHash[d]; p != nil {
		return *p
	}
	if e.computing {
		return hashOf("cycle", e.name)
	}
	e.computing = true
	defer func() { e.computing = false }()
	h := newHasher()
	h.num(uint64(e.kind))
	switch {
	case e.kind == entTypedef:
		// A typedef is transparent: its own name doesn't matter.
		if e.content != nil {
			h.hash(r.sealedHash(e.content))
		}
		if e.typ != nil {
			h.str(e.typ.text.literal)
			for _, t := range e.typ.ents {
				h.hash(r.typeHash(t, e.typ.text.depthOf(t, d)))
			}
		} else {
			h.str(e.name)
		}
	case e.content == nil:
		h.str("incomplete " + e.name)
	case d == name && e.name != "":
		h.str("name " + e.name)
	default:
		h.str(e.name)
		h.hash(r.sealedHash(e.content))
	}
	x := h.sum()
	e.typeHash[d] = &x
	return x
}

// depthOf says how deep a use at depth d of a type t goes into a type e that
// t's text names.
func (t *typeText) depthOf(e *entity, d depth) depth {
	switch {
	case d == pointee && e.kind == entTypedef:
		return pointee
	case d == pointee:
		return value
	case t.pointer:
		return name
	}
	return d
}

// wordHashes mixes in what the identifiers of token text may refer to, by
// name. Text doesn't say how a type is used, so everything that a named type
// mentions counts, through pointers as well. The result is the set of what is
// reachable, each member hashed flat: no recursion, so cycles need no cut.
func (r *resolver) wordHashes(h *hasher, words []string) {
	seen := map[*entity]bool{}
	set := map[Hash]bool{}
	var visit func(e *entity)
	visit = func(e *entity) {
		if e == nil || seen[e] {
			return
		}
		seen[e] = true
		flat := newHasher()
		flat.num(uint64(e.kind))
		flat.str(e.name)
		add := func(t *entity) {
			if t.kind > entVariable && t.name == "" {
				flat.hash(r.typeHash(t, value))
			} else {
				flat.str(t.name)
			}
			visit(t)
		}
		stream := func(s *sealed) {
			flat.hash(s.sum)
			for _, u := range s.uses {
				add(u.ent)
			}
			for _, w := range s.words {
				visit(r.ordinary[w])
				visit(r.tags[w])
			}
		}
		for i := range e.decls {
			stream(&e.decls[i].typ)
		}
		for i := range e.attrs {
			stream(&e.attrs[i])
		}
		if e.content != nil {
			stream(e.content)
		}
		if e.typ != nil {
			flat.str(e.typ.text.literal)
			for _, t := range e.typ.ents {
				add(t)
			}
		}
		set[flat.sum()] = true
	}
	for _, w := range words {
		if c, ok := r.enums[w]; ok {
			h.str(w)
			h.str(c.value)
			visit(c.ent)
		}
		visit(r.ordinary[w])
		visit(r.tags[w])
	}
	hashSet(h, set)
}

// reserved recognises symbols that a compiler may call on its own.
func reserved(sym string) bool {
	if runtimeSymbols[sym] {
		return true
	}
	for _, p := range []string{"__atomic_", "__sync_", "__sanitizer_", "__asan_", "__ubsan_", "__tsan_", "__msan_", "__gcov_", "__llvm_", "__cyg_profile_", "__xray_", "_Unwind_", "__cxa_", "__aeabi_"} {
		if strings.HasPrefix(sym, p) {
			return true
		}
	}
	if !strings.HasPrefix(sym, "__") || len(sym) > 16 {
		return false
	}
	// libgcc's and compiler-rt's arithmetic: __udivti3, __floatunditf, ...
	for _, m := range []string{"qi", "hi", "si", "di", "ti", "hf", "bf", "sf", "df", "xf", "tf", "sc", "dc", "xc", "tc"} {
		if strings.Contains(sym, m) {
			return true
		}
	}
	return false
}

var runtimeSymbols = wordSet(`memcpy memmove memset memcmp bcmp bzero strlen strcpy strncpy stpcpy strcat strncat strchr strrchr strcmp strncmp strstr
	strnlen memchr memrchr mempcpy memccpy stpncpy strpbrk strspn strcspn puts putchar putc fputc fputs fwrite fputc_unlocked fwrite_unlocked printf fprintf sprintf snprintf iprintf siprintf fiprintf
	abort exit malloc calloc realloc free aligned_alloc abs labs llabs ffs ffsl ffsll isdigit isascii toascii
	__stack_chk_fail __stack_chk_guard __stack_chk_fail_local __tls_get_addr __chkstk __morestack __fentry__ mcount _mcount __mcount
	__main __dso_handle __gcc_personality_v0 __memcpy_chk __memset_chk __memmove_chk __strcpy_chk
	sin cos tan asin acos atan atan2 sinh cosh tanh exp exp2 exp10 log log2 log10 log1p expm1 pow sqrt cbrt fmod floor ceil round roundeven trunc rint nearbyint fabs copysign fmin fmax ldexp frexp sincos hypot fdim remainder
	sinf cosf tanf asinf acosf atanf atan2f sinhf coshf tanhf expf exp2f exp10f logf log2f log10f log1pf expm1f powf sqrtf cbrtf fmodf floorf ceilf roundf roundevenf truncf rintf nearbyintf fabsf copysignf fminf fmaxf ldexpf frexpf sincosf
	sinl cosl expl exp2l logl powl sqrtl fmodl floorl ceill roundl truncl rintl fabsl copysignl lround llround lrint llrint lroundf llroundf lrintf llrintf`)
