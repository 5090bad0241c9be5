package tu

import (
	"bytes"
	"cmp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/lazyregexp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/words"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/token"
)

// Index is the result of Scan.
type Index struct {
	decls []decl
	// Labels are the symbols in asm labels of declarations, Released the functions in malloc attributes.
	Labels, Released map[string]bool
	// Aligned is the largest number of bytes in an aligned attribute.
	Aligned uint64
}

// decl is an external declaration: Text[begin:end].
type decl struct {
	begin, end int
	// attributes are its attribute specifiers, except those that only warn or suppress warnings.
	attributes []attribute
	doubt      string
}

// attribute is an attribute specifier, Text[begin:end]. node is set if a node of the syntax tree has all of its meaning,
// and the declaration that it applies to.
type attribute struct {
	begin, end int
	node       bool
}

// argument is the kind of arguments that an attribute may have.
type argument uint8

const (
	none     argument = 1 + iota // nothing
	constant                     // literals, and sizes of built-in types
	naming                       // words of its own, too
	function                     // the function that releases what the declared one returns
	doubtful                     // anything, but the meaning isn't known
)

// attributes are the plain ones. All text of their declaration is in its hash, so it doesn't matter which
// declarator they are written at. A doubtful one matters only if its declaration is used.
var attributes = func() map[string]argument {
	m := map[string]argument{}
	for a, names := range map[argument]string{
		none: `nothrow leaf pure const malloc returns_nonnull noreturn always_inline noinline cold hot
			packed unused fallthrough warn_unused_result may_alias`,
		constant: `nonnull aligned alloc_size visibility sentinel deprecated format_arg nonstring`,
		naming:   `format mode access fd_arg fd_arg_read fd_arg_write`,
		doubtful: `transparent_union warning error weak alloc_align returns_twice`,
	} {
		for n := range words.Set(names) {
			m[n] = a
		}
	}
	return m
}()

// sizeWords are the words that constant arguments may have.
var sizeWords = words.Set(`sizeof alignof _Alignof __alignof__ __alignof char short int long float double signed unsigned void __int128 _Bool bool`)

// opaqueWords are words whose meaning the syntax tree doesn't show, or shows wrongly, because the text has no
// positions or clang has other types.
var opaqueWords = words.Set(`__builtin_LINE __builtin_FILE __builtin_FILE_NAME __builtin_COLUMN __builtin_FUNCTION __builtin_source_location __builtin_choose_expr
	__builtin_types_compatible_p __TIME__ __DATE__ __TIMESTAMP__ _Pragma __pragma __declspec _Float16 __fp16 __bf16 __float80 __ibm128 _Decimal32
	_Decimal64 _Decimal128 _Decimal64x __auto_type __embed __builtin_dump_struct __block __builtin_apply __builtin_apply_args __builtin_return
	__builtin_has_attribute __builtin_counted_by_ref _Countof __label__ __tls_get_addr _Thread_local __thread thread_local constexpr`)

// doubtfulWords are words whose meaning the syntax tree lacks, or that differs between compilers. (Whether a value is constant
// depends on the order of compilation.) They matter only if their declaration is used.
var doubtfulWords = words.Set(`_Alignas alignas _Atomic _Complex __complex__ __complex _BitInt _Generic typeof __typeof__ __typeof typeof_unqual __typeof_unqual__ __typeof_unqual
	__real__ __real __imag__ __imag __builtin_constant_p __builtin_object_size __builtin_dynamic_object_size`)

// targetBuiltins are prefixes of builtins that some targets lack, which the tree doesn't show.
var targetBuiltins = []string{"__builtin_ia32_", "__builtin_arm_", "__builtin_aarch64_", "__builtin_neon_", "__builtin_sve_", "__builtin_sme_", "__builtin_amdgcn_", "__nvvm_",
	// These may become calls of functions that have other names.
	"__builtin_elementwise_", "__builtin_reduce_"}

// timeLiteral matches a string literal with the name of a time macro.
var timeLiteral = lazyregexp.New(`__(TIME|DATE|TIMESTAMP)__`)

// operators are the characters that operators and brackets of C begin with.
const operators = `[](){}.,;:?~!%^&*-+=|/<>`

// charLiteral matches a literal of one character.
var charLiteral = lazyregexp.New(`^(?:L|u8|u|U)?'(?:[^\\']|\\[abefnrtv'"?\\]|\\[0-7]{1,3}|\\x[0-9a-fA-F]+)'$`)

// bracedEscape matches a string with an escape in braces, which only newer compilers know.
var bracedEscape = lazyregexp.New(`^[^"]*"(?:[^\\]|\\[^uxoN]|\\[uxoN][^{])*\\[uxoN]\{`)

type scanner struct {
	text   []byte
	lex    *token.Lexer
	x      *Index
	decl   decl
	prev   string // the last token: its kind, or the operator
	before string // the last token outside of attributes
	// depth is the number of open braces, nested that of other open brackets.
	depth, nested int
	open          []byte // the open brackets
	enum          bool   // behind the keyword enum, or the enum's name
	started       bool   // the declaration has a token
	assign        bool   // the declaration has an initialiser
	body          bool   // the open brace at depth 0 began a function's body
	// tag is 1 behind struct, union or enum, 2 behind an attribute there, 3 behind the name then.
	tag int
}

// Scan indexes the attributes of the text. It returns an error if its tokens aren't plain.
func Scan(text []byte) (*Index, error) {
	if !utf8.Valid(text) {
		return nil, notPlain("text that isn't UTF-8")
	}
	if bytes.Contains(text, []byte("??")) {
		return nil, notPlain("text that may have a trigraph")
	}
	s := &scanner{text: text, lex: token.New(text, 0), x: &Index{Labels: map[string]bool{}, Released: map[string]bool{}}}
	for t := s.lex.Next(); t.Kind != token.EOF; t = s.lex.Next() {
		if err := s.token(t); err != nil {
			return nil, err
		}
	}
	s.endDeclaration(len(text))
	return s.x, nil
}

// endDeclaration ends an external declaration.
func (s *scanner) endDeclaration(end int) {
	s.decl.end = end
	s.x.decls = append(s.x.decls, s.decl)
	s.decl = decl{begin: end}
	s.assign, s.started = false, false
}

// defaultVisibility matches pragmas that give declarations the default visibility. Compilers apply other pragmas to
// different declarations.
var defaultVisibility = lazyregexp.New(`^#pragma GCC visibility (push ?\(default\)|pop)$`)

func (s *scanner) token(t token.Token) error {
	b := s.text[t.Off:t.End]
	if s.tag == 3 && b[0] != '{' && b[0] != ':' {
		return notPlain("attribute of a type that isn't defined there")
	}
	first := !s.started
	s.started = true
	switch t.Kind {
	case token.Pragma:
		if s.started = !first; first && defaultVisibility.Match(b) {
			return nil
		}
		return notPlain("directive %s", b)
	case token.Marker:
		return notPlain("line marker")
	case token.String:
		if i := bytes.IndexByte(b, '"'); i > 0 && b[i-1] == 'R' {
			return notPlain("raw string")
		}
		if timeLiteral.Match(b) {
			return notPlain("time as text")
		}
		if bytes.Contains(b, []byte("/proc")) {
			return notPlain("name of a file that may tell how the program is made")
		}
		if bytes.IndexByte(b, '{') > 0 && bracedEscape.Match(b) {
			return notPlain("escape in braces")
		}
		s.prev, s.tag = "string", 0
	case token.Char:
		if !charLiteral.Match(b) {
			return notPlain("character literal %s", b)
		}
		s.prev, s.tag = "character", 0
	case token.Number:
		s.prev, s.tag = "number", 0
	case token.Ident:
		return s.word(t, b)
	case token.Punct:
		return s.punct(t, string(b))
	}
	return nil
}

func (s *scanner) punct(t token.Token, p string) error {
	s.tag = 0
	s.doubtInnerType(p)
	if strings.IndexByte(operators, p[0]) < 0 {
		return notPlain("character %q", p)
	}
	switch p {
	case "<:", ":>", "<%", "%>", "%:", "%:%:", "::", ".*", "->*", "<=>":
		return notPlain("operator %s", p)
	case "...":
		// The tree has the value for each element; compilers evaluate it once. See code-data/range-init.
		if n := len(s.open); n > 0 && s.open[n-1] == '[' {
			return notPlain("range designator")
		}
	case "[":
		if t.End < len(s.text) && s.text[t.End] == '[' {
			return notPlain("attribute in brackets")
		}
		s.nested++
	case "(":
		s.nested++
	case ")", "]":
		s.nested--
	case "{":
		if s.depth == 0 {
			head := s.prev
			if head == "attribute" {
				head = s.before
			}
			s.body = !s.assign && head == ")" || head == ";" || head == ""
		}
		s.depth++
	case "}":
		s.depth--
		if s.depth == 0 && s.body {
			s.endDeclaration(t.End)
			p = ""
		}
	case "=":
		s.assign = s.assign || s.depth == 0
	case ";":
		if s.depth == 0 {
			s.endDeclaration(t.End)
		}
	}
	if s.depth < 0 || s.nested < 0 {
		return notPlain("brackets that don't match")
	}
	s.prev = p
	return nil
}

// doubtInnerType doubts a declaration that defines a type in parentheses, such as a parameter's: the syntax tree
// doesn't have its members. See code-data/parameter-struct.
func (s *scanner) doubtInnerType(p string) {
	n := len(s.open)
	if n > 0 && s.open[n-1] != '{' && (p == "{" && s.prev != "(" && s.prev != ")" || p == ":" && s.enum) {
		s.decl.doubt = "type that is defined in parentheses"
	}
	s.enum = false
	switch p {
	case "(", "[", "{":
		s.open = append(s.open, p[0])
	case ")", "]", "}":
		s.open = s.open[:max(n-1, 0)]
	}
}

func (s *scanner) word(t token.Token, w []byte) error {
	if bytes.ContainsFunc(w, func(c rune) bool { return c == '$' || c >= utf8.RuneSelf }) {
		return notPlain("name %s", w)
	}
	switch string(w) {
	case "__attribute__", "__attribute":
		return s.attribute(t.Off)
	case "_Noreturn":
		s.add(t.Off, t.End)
		return nil
	case "asm", "__asm__", "__asm":
		return s.label()
	case "struct", "union", "enum":
		s.prev, s.tag, s.enum = "word", 1, w[0] == 'e'
		return nil
	}
	if isOpaqueWord(string(w)) {
		return notPlain("%s", w)
	}
	if doubtfulWords[string(w)] {
		s.decl.doubt = string(w)
	}
	if s.tag == 2 {
		s.tag = 3
	} else {
		s.tag = 0
	}
	s.prev = "word"
	return nil
}

func isOpaqueWord(w string) bool {
	return opaqueWords[w] || slices.ContainsFunc(targetBuiltins, func(p string) bool { return strings.HasPrefix(w, p) })
}

// add adds the attribute s.text[begin:end].
func (s *scanner) add(begin, end int) {
	if !silentAttribute.Match(s.text[begin:end]) {
		s.decl.attributes = append(s.decl.attributes, attribute{begin, end, len(s.open) == 0 && describedAttribute.Match(s.text[begin:end])})
	}
	if s.tag == 1 || s.tag == 2 {
		s.tag = 2
	} else {
		s.tag = 0
	}
	s.attributed()
}

// attributed records that the last token belongs to an attribute.
func (s *scanner) attributed() {
	if s.prev != "attribute" {
		s.before = s.prev
	}
	s.prev = "attribute"
}

// group reads a group in parentheses, and returns its words and its end.
func (s *scanner) group() (inner []string, end int, err error) {
	depth := 0
	for {
		t := s.lex.Next()
		w := string(s.text[t.Off:t.End])
		switch {
		case t.Kind == token.EOF || t.Kind == token.Pragma, depth == 0 && w != "(":
			return nil, 0, notPlain("no parentheses behind a word that has them")
		case t.Kind == token.Punct && (w == "(" || w == "[" || w == "{"):
			depth++
		case t.Kind == token.Punct && (w == ")" || w == "]" || w == "}"):
			depth--
		}
		if depth == 0 {
			return inner[1:], t.End, nil
		}
		inner = append(inner, w)
	}
}

// areConstants reports whether words are literals, operators and sizes of built-in types.
func areConstants(args []string) bool {
	return !slices.ContainsFunc(args, func(a string) bool { return token.IsIdentStart(a[0]) && !strings.HasSuffix(a, `"`) && !sizeWords[a] })
}

// isSmallAlignment reports whether an alignment is a small number or that of a built-in type. A large one increases the
// distances that code has to span. See link-unreached/huge-alignment.
func (s *scanner) isSmallAlignment(args []string) bool {
	operands := 0
	for i, a := range args {
		switch {
		case token.IsDigit(a[0]):
			n, err := strconv.ParseUint(strings.TrimRight(a, "uUlL"), 0, 64)
			if operands++; err != nil || n > 1<<8 {
				return false
			}
			s.x.Aligned = max(s.x.Aligned, n)
		case a == "(" || a == ")" || i > 0 && sizeWords[args[i-1]] && sizeWords[a]:
		case sizeWords[a]:
			operands++
		default:
			return false
		}
	}
	return operands < 3 // sizeof and its type
}

// attribute reads an attribute specifier that begins at off, behind its keyword.
func (s *scanner) attribute(off int) error {
	for range 2 {
		if t := s.lex.Next(); string(s.text[t.Off:t.End]) != "(" {
			return notPlain("attribute without parentheses")
		}
	}
	var name string
	check := func(args []string, written bool) error {
		if name == "" {
			return nil
		}
		n := name
		if len(n) > 4 && strings.HasPrefix(n, "__") && strings.HasSuffix(n, "__") {
			n = n[2 : len(n)-2]
		}
		name = ""
		if n == "malloc" && written {
			if i := slices.Index(args, ","); i >= 0 {
				args = append(args[:i:i], args[i+1:]...)
			}
			if len(args) == 0 || !areConstants(args[1:]) {
				return notPlain("attribute malloc with other arguments than a function")
			}
			s.x.Released[args[0]] = true
			return nil
		}
		switch a := attributes[n]; {
		case n == "aligned" && !s.isSmallAlignment(args):
			return notPlain("attribute aligned of many bytes")
		case a == none && !written, a == constant && areConstants(args), a == naming:
		case a == doubtful:
			s.decl.doubt = "attribute " + n
		default:
			return notPlain("attribute %s", n)
		}
		return nil
	}
	for {
		t := s.lex.Next()
		w := string(s.text[t.Off:t.End])
		switch {
		case t.Kind == token.Ident && name == "":
			name = w
		case w == "(" && name != "":
			s.lex.Back(t)
			args, _, err := s.group()
			if err != nil {
				return err
			}
			if i := slices.IndexFunc(args, isOpaqueWord); i >= 0 {
				return notPlain("%s", args[i])
			}
			if err := check(args, true); err != nil {
				return err
			}
		case w == "," || w == ")":
			if err := check(nil, false); err != nil {
				return err
			}
			if w == "," {
				continue
			}
			last := s.lex.Next()
			if string(s.text[last.Off:last.End]) != ")" {
				return notPlain("attribute in an unknown form")
			}
			s.add(off, last.End)
			return nil
		default:
			return notPlain("attribute in an unknown form")
		}
	}
}

var symbolLiteral = lazyregexp.New(`^("[A-Za-z0-9_]*")+$`)

// label reads the operands of asm. Only a symbol of a declaration is plain.
func (s *scanner) label() error {
	if s.depth > 0 || s.nested > 0 || s.assign || s.prev != ")" && s.prev != "attribute" {
		return notPlain("asm")
	}
	args, _, err := s.group()
	joined := strings.Join(args, "")
	name := strings.ReplaceAll(joined, `"`, "")
	if err != nil || !symbolLiteral.MatchString(joined) || name == "" || token.IsDigit(name[0]) {
		return notPlain("asm")
	}
	s.x.Labels[name] = true
	s.attributed()
	s.tag = 0
	return nil
}

// Extent returns the range of all external declarations that overlap [begin, end), and the first doubt about
// their meaning, or "".
func (x *Index) Extent(begin, end int) (from, to int, doubt string) {
	from, to = begin, end
	i := sort.Search(len(x.decls), func(i int) bool { return x.decls[i].end > begin })
	for ; i < len(x.decls) && x.decls[i].begin < max(end, begin+1); i++ {
		d := &x.decls[i]
		from, to = min(from, d.begin), max(to, d.end)
		doubt = cmp.Or(doubt, d.doubt)
	}
	return from, to, doubt
}

// Attributes returns the attributes of external declarations in [begin, end). Behind an attribute that no node of the tree
// fully describes is the text of its declaration up to end. Complete is set if there is no such attribute.
func (x *Index) Attributes(text []byte, begin, end int) (declarations string, complete bool) {
	var out []byte
	complete = true
	i := sort.Search(len(x.decls), func(i int) bool { return x.decls[i].end > begin })
	for ; i < len(x.decls) && x.decls[i].begin < end; i++ {
		d := &x.decls[i]
		whole := false
		for _, a := range d.attributes {
			if a.begin >= begin && a.begin < end {
				out = append(append(out, text[a.begin:a.end]...), '\n')
				whole = whole || !a.node
			}
		}
		if !whole {
			continue
		}
		complete = false
		lex := token.New(text, d.begin)
		for t := lex.Next(); t.Kind != token.EOF && t.Off < min(end, d.end); t = lex.Next() {
			out = append(append(out, text[t.Off:t.End]...), '\n')
		}
	}
	return string(out), complete
}

// silentAttribute matches an attribute specifier that only warns or suppresses warnings.
var silentAttribute = lazyregexp.New(`^__attribute(__)?\s*\(\s*\(\s*_*(unused|deprecated|warn_unused_result|fallthrough)_*\s*\)\s*\)$`)

// describedAttribute matches an attribute specifier that a node of the syntax tree fully describes.
var describedAttribute = lazyregexp.New(`^(_Noreturn|__attribute(__)?\s*\(\s*\(\s*_*(noreturn|pure|const|nothrow|leaf|noinline|always_inline|cold|hot|returns_nonnull)_*\s*\)\s*\))$`)
