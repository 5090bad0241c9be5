package component

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/words"
)

type entityKind uint8

const (
	entFunction entityKind = iota + 1
	entVariable
	entRecord
	entEnum
	entTypedef
)

// entity is a function, variable or type, which several declarations may declare.
type entity struct {
	kind entityKind
	name string
	sym  string // the symbol of a function or variable
	// local is set for internal linkage or none.
	local bool
	// used is set if something has referred to it or defined it.
	used bool
	// comp is the component that defines it here.
	comp *comp
	declarations
	definition

	declHash  *Hash
	typeHash  [3]*Hash
	computing [3]int // its position among the types that are being hashed at each depth, from 1
}

// declarations are the properties of a function or variable by its declarations.
type declarations struct {
	// decls are the distinct declarations in their order: the whole redeclaration chain is hashed.
	decls      []declaration
	inline     bool   // a declaration is inline
	labelled   bool   // an asm label gives its symbol
	library    bool   // clang knows it as a function of the C library
	visibility string // of its attribute, or ""
	// attributes are the texts of declarations with attributes that nodes don't fully describe, kinds the
	// kinds of attribute nodes.
	attributes, kinds []string
}

// definition is the content of a type.
type definition struct {
	early    bool    // a variable has this type before it is complete
	declared bool    // a tag that is declared at file scope, not only mentioned
	content  *sealed // the definition
	// typ is the target of a typedef; bare is set if the typedef is only another name for it.
	typ  *typeUse
	bare bool
	// members are the types of a structure's members, room its greatest size in bytes.
	members []*typeUse
	room    float64
}

// declaration has the hash of a type, and that of the whole declaration.
type declaration struct {
	typ, all sealed
}

// declare adds a declaration, unless there is an equal one. It reports whether the type or an attribute is
// new although the entity has been used.
func (e *entity) declare(typ sealed, ds *stream) (late bool) {
	d := declaration{typ, ds.seal()}
	late = !slices.ContainsFunc(e.decls, func(o declaration) bool { return o.typ.equal(&typ) })
	if !slices.ContainsFunc(e.decls, func(o declaration) bool { return o.all.equal(&d.all) }) {
		e.decls = append(e.decls, d)
	}
	if a := ds.attributes; a != "" && !slices.Contains(e.attributes, a) {
		e.attributes = append(e.attributes, a)
		late = true
	}
	for _, kind := range ds.kinds {
		if !slices.Contains(e.kinds, kind) {
			e.kinds = append(e.kinds, kind)
			late = true
		}
	}
	return late && e.used
}

// use is a reference from a stream to an entity: to the declaration of a function or variable, or to a type
// at a depth.
type use struct {
	ent *entity
	d   depth
}

// stream collects the input of a hash: values at once, references to entities by number, because an
// entity is only complete at the end of the unit.
type stream struct {
	h    *hasher
	uses []use
	pos  map[use]int
	// links are the functions and variables referred to, in order.
	links []*entity
	// doubt is the first reason why the stream isn't complete.
	doubt string
	// attributed is set if the declaration has attributes. Their text is in attributes if nodes don't
	// describe all of them; kinds are the kinds of nodes.
	attributed bool
	attributes string
	kinds      []string
}

func newStream() *stream { return &stream{h: newHasher()} }

func (s *stream) use(e *entity, d depth) {
	if s.pos == nil {
		s.pos = map[use]int{}
	}
	if e.kind <= entVariable {
		d = name // the depth of a use doesn't matter
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

// addDoubt adds a reason why the stream isn't complete.
func (s *stream) addDoubt(reason string) { s.doubt = cmp.Or(s.doubt, reason) }

// sealed is a finished stream.
type sealed struct {
	sum   Hash
	uses  []use
	links []*entity
	doubt string
}

func (s *sealed) equal(t *sealed) bool { return s.sum == t.sum && slices.Equal(s.uses, t.uses) }

func (s *stream) seal() sealed {
	return sealed{sum: s.h.sum(), uses: s.uses, links: s.links, doubt: s.doubt}
}

// typeUse is a type string with its names resolved.
type typeUse struct {
	text *typeText
	ents []*entity
}

// comp is a component under construction.
type comp struct {
	ent   *entity
	name  string
	body  sealed
	file  string
	h0, h Hash
}

// resolver turns entities into hashes at the end of the unit.
type resolver struct {
	ordinary map[string]*entity
	tags     map[string]*entity
	doubt    string // why something that was hashed isn't plain
	// Of typeHash: how many types are being hashed, and the outermost one that was met again in the one
	// at the top.
	open, cut int
}

// sealedHash hashes a sealed stream with the declarations of functions and variables, and the types, of its uses.
func (r *resolver) sealedHash(s *sealed) Hash {
	r.doubt = cmp.Or(r.doubt, s.doubt)
	h := newHasher()
	h.hash(s.sum)
	for _, u := range s.uses {
		h.hash(r.useHash(u))
	}
	return h.sum()
}

func (r *resolver) useHash(u use) Hash {
	if u.ent.kind <= entVariable {
		return r.declarationHash(u.ent)
	}
	return r.typeHash(u.ent, u.d)
}

// declarationHash hashes the redeclaration chain of a function or variable.
func (r *resolver) declarationHash(e *entity) Hash {
	if e.declHash != nil {
		return *e.declHash
	}
	outer := r.cut
	r.cut = math.MaxInt
	h := newHasher()
	h.str("declaration")
	if e.local {
		h.str("local")
	} else {
		h.str(e.sym)
	}
	h.str(e.visibility)
	for i := range e.decls {
		h.hash(r.sealedHash(&e.decls[i].all))
	}
	x := h.sum()
	if r.cut == math.MaxInt {
		e.declHash = &x
	}
	r.cut = min(r.cut, outer)
	return x
}

// typeHash hashes a type at a depth.
func (r *resolver) typeHash(e *entity, d depth) Hash {
	if e.kind == entRecord && d == pointee || e.kind == entEnum {
		d = value
	}
	if p := e.typeHash[d]; p != nil {
		return *p
	}
	// In a cycle the name stands for the type, and the hash of a type inside isn't final.
	if e.computing[d] > 0 {
		r.cut = min(r.cut, e.computing[d])
		return hashOf("cycle", e.name)
	}
	r.open++
	e.computing[d] = r.open
	outer := r.cut
	r.cut = r.open
	h := newHasher()
	h.num(uint64(e.kind))
	switch {
	case e.kind == entTypedef:
		// The name of a typedef doesn't matter.
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
	if r.cut == e.computing[d] {
		e.typeHash[d] = &x
		r.cut = outer
	} // else it is inside of a cycle
	r.cut = min(r.cut, outer)
	e.computing[d] = 0
	r.open--
	return x
}

// target follows bare typedefs.
func (t *typeUse) target() *typeUse {
	for strings.TrimSpace(t.text.literal) == "\x00" && len(t.ents) == 1 && t.ents[0].kind == entTypedef && t.ents[0].bare {
		t = t.ents[0].typ
	}
	return t
}

// depthOf returns the depth of a use of type e, which t's text names, by a use of t at depth d.
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

// isCompilerCalled reports whether compilers may call a symbol on their own.
func isCompilerCalled(sym string) bool {
	if runtimeSymbols[sym] || hasPrefix(sym, "__atomic_", "__sync_", "__sanitizer_", "__asan_", "__ubsan_", "__tsan_", "__msan_",
		"__gcov_", "__llvm_", "__cyg_profile_", "__xray_", "_Unwind_", "__cxa_", "__aeabi_") {
		return true
	}
	if !strings.HasPrefix(sym, "__") || len(sym) > 16 {
		return false
	}
	// libgcc's and compiler-rt's arithmetic: __udivti3, __floatunditf, ...
	if strings.ContainsFunc(sym[2:], func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') }) {
		return false
	}
	modes := []string{"qi", "hi", "si", "di", "ti", "hf", "bf", "sf", "df", "xf", "tf", "sc", "dc", "xc", "tc"}
	return slices.ContainsFunc(modes, func(mode string) bool { return strings.Contains(sym, mode) })
}

// hasPrefix reports whether s begins with one of prefixes.
func hasPrefix(s string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s, p) })
}

// builtinSymbol returns the symbol that a call of a builtin may become: __builtin_memcpy is memcpy, unless it
// is always inlined.
func builtinSymbol(name string) string {
	s, ok := strings.CutPrefix(name, "__builtin_")
	if !ok || inlinedBuiltins[s] || strings.HasSuffix(s, "_overflow") ||
		hasPrefix(s, "clz", "ctz", "popcount", "parity", "bswap", "bitreverse", "rotate", "stdc_", "isgreater", "isless", "elementwise", "reduce", "ia32_") {
		return name
	}
	return s
}

var inlinedBuiltins = words.Set(`expect expect_with_probability constant_p object_size dynamic_object_size unreachable trap debugtrap assume assume_aligned prefetch
	va_start c23_va_start va_end va_copy va_arg_pack va_arg_pack_len frame_address return_address extract_return_addr classify_type isunordered fpclassify
	isinf_sign alloca alloca_with_align launder speculation_safe_value unpredictable addressof huge_val huge_valf huge_vall inf inff infl`)

var runtimeSymbols = words.Set(`memcpy memmove memset memcmp bcmp bzero strlen strcpy strncpy stpcpy strcat strncat strchr strrchr strcmp strncmp strstr
	strnlen memchr memrchr mempcpy memccpy stpncpy strpbrk strspn strcspn puts putchar putc fputc fputs fwrite fputc_unlocked fwrite_unlocked putchar_unlocked puts_unlocked fputs_unlocked printf fprintf sprintf snprintf iprintf siprintf fiprintf
	vprintf vfprintf vsprintf vsnprintf strdup
	abort exit malloc calloc realloc free aligned_alloc abs labs llabs ffs ffsl ffsll isdigit isascii toascii
	__stack_chk_fail __stack_chk_guard __stack_chk_fail_local __tls_get_addr __chkstk __morestack __fentry__ mcount _mcount __mcount
	_GLOBAL_OFFSET_TABLE_ __main __dso_handle __gcc_personality_v0 __memcpy_chk __memset_chk __memmove_chk __strcpy_chk
	sin cos tan asin acos atan atan2 sinh cosh tanh exp exp2 exp10 log log2 log10 log1p expm1 pow sqrt cbrt fmod floor ceil round roundeven trunc rint nearbyint fabs copysign fmin fmax ldexp frexp sincos hypot fdim remainder
	sinf cosf tanf asinf acosf atanf atan2f sinhf coshf tanhf expf exp2f exp10f logf log2f log10f log1pf expm1f powf sqrtf cbrtf fmodf floorf ceilf roundf roundevenf truncf rintf nearbyintf fabsf copysignf fminf fmaxf ldexpf frexpf sincosf
	sinl cosl expl exp2l logl powl sqrtl tanl sincosl ldexpl fmodl floorl ceill roundl truncl rintl fabsl copysignl lround llround lrint llrint lroundf llroundf lrintf llrintf`)
