package launcher

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/lazyregexp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/stamp"
)

// scanFormat is in the name of what is remembered of a file: another scanner finds
// other things.
const scanFormat = "17"

// A scan is what the launcher knows of a source file or header.
type scan struct {
	// Raw is the hash of all bytes. Lines is that of the tokens with their lines,
	// Tokens that of the tokens alone: comments don't count in them, nor does which
	// blanks are between two tokens, but whether there are any. They are Raw where
	// it isn't certain what is a comment.
	// Layout is that of the places of the tokens outside of directives.
	Raw, Lines, Tokens, Layout uint64
	// Count is how many tokens there are.
	Count int
	Heads heads `json:",omitzero"`
	// Names are what the file may include or ask for (__has_include), each behind
	// the bracket or quote that it is written with.
	Names []string
	// Bypass says why no unit that reads the file is remembered, or is empty.
	Bypass string `json:",omitempty"`
	// Means is what its words mean, Parts are those that may be parts of such words, and
	// Pastes says that macros may put them together.
	Means  meaning  `json:",omitempty"`
	Parts  []string `json:",omitempty"`
	Pastes bool     `json:",omitempty"`
	// Relines says that the file says itself which line of which file it is.
	Relines bool `json:",omitempty"`
	// Callers says that a function of it may be told which line it is called from: by a
	// builtin in a default argument, which an assertion in parentheses may be as well.
	Callers bool `json:",omitempty"`

	directives `json:"-"`
	kept       string // the file that it was read from, without the directives
}

// directives are what a scan has besides. It is kept apart, since it is seldom asked
// for: see cache.directives.
type directives struct {
	// Macros are the definitions, Conditions the identifiers in other directives that
	// expand macros.
	Macros     []macro
	Conditions []string
}

// macro is one #define.
type macro struct {
	Name   string
	Words  []string
	Pastes bool `json:",omitempty"` // it makes names of parts
}

// meaning is what words of a unit have the compiler do.
type meaning uint8

const (
	dates   meaning = 1 << iota // the time, or that of the file
	columns                     // the text may ask for a column
	places                      // for the name of a function, in which clang says where its lambdas and classes without a name are
	strict                      // a pragma may switch warnings on, or make errors of them
	levels                      // one may, by a macro
	options                     // names of such warnings
	reads                       // a file that no list has, or whether there is one
	callers                     // the line that a function is called from
)

// special are the words that mean something, wherever they stand.
var special = map[string]meaning{
	"__DATE__": dates, "__TIME__": dates, "__TIMESTAMP__": dates,
	"__builtin_COLUMN": columns, "__builtin_source_location": columns,
	"__PRETTY_FUNCTION__": places, "__builtin_dump_struct": places, "__ASSERT_FUNCTION": places, "__assert_fail": places,
	"diagnostic": strict, "dependency": reads, "include_alias": reads,
	builtinLine: callers, "__builtin_FUNCSIG": callers, "assert": callers,
	"__has_include": reads, "__has_include_next": reads, "__has_embed": reads,
}

var specials = strings.Join(slices.Sorted(maps.Keys(special)), "\n")

// pasted returns what words mean that the macros of a unit may put together.
func pasted(scans []*scan) (m meaning) {
	if !slices.ContainsFunc(scans, func(x *scan) bool { return x.Pastes }) {
		return 0
	}
	// There are variables for all letters.
	parts := map[string]bool{}
	for _, x := range scans {
		for _, p := range x.Parts {
			parts[p] = len(p) > 1
		}
	}
	for word, what := range special {
		if m&what == 0 && composes(word, parts) {
			m |= what
		}
	}
	return m
}

// scanner goes through the text of a file as the first three phases of translation
// do ([lex.phases]), and stops where it would have to guess.
type scanner struct {
	b             []byte
	cxx           bool
	p             int
	line          int
	lines, tokens *xxhash.Digest
	blank         bool // in front of the next token
	fresh         bool // no token on this line yet
	doubt         bool
	x             *scan
	define        *macro   // of the directive
	body          []string // its tokens
	params        bool     // they are those of its parameters
	directive     string   // name of the directive, "#" before it is known
	last          []byte   // the token before
	tested        bool     // "defined" was before, and a parenthesis at most
	asm           int      // tokens of an assembly in front of its text: see assembly
	parts         map[string]bool
	layout        layout
	depth         int    // of parentheses outside of directives
	placed        uint64 // see heads
	places        []uint32
	seen          func(i int, token []byte) // is told of each, if there is one
}

func newScanner(b []byte, cxx bool) *scanner {
	return &scanner{b: b, cxx: cxx, line: 1, lines: xxhash.New(), tokens: xxhash.New(), blank: true, fresh: true, parts: map[string]bool{}, layout: layout{b: b}, x: &scan{Raw: xxhash.Sum64(b)}}
}

// scan goes over all tokens, or as far as it is certain what they are.
func (s *scanner) scan() {
	// A trigraph that is a backslash; a line that ends for clang alone.
	s.doubt = bytes.Contains(s.b, []byte("??/")) || bytes.Count(s.b, []byte("\r")) != bytes.Count(s.b, []byte("\r\n"))
	for s.p < len(s.b) && !s.doubt {
		s.next()
	}
	s.endLine()
}

// scanText scans the text of a file.
func scanText(b []byte, cxx bool) *scan {
	s := newScanner(b, cxx)
	// Assemblers read files that no list of dependencies has.
	text := joined(b)
	lower := bytes.ToLower(text)
	for _, word := range []string{"incbin", ".include", "embed"} {
		if bytes.Contains(lower, []byte(word)) && (word != "embed" || hasEmbed(lower)) {
			s.x.Bypass = word
		}
	}
	if s.x.Bypass == "" {
		s.x.Bypass = hiddenDirective(text, lower)
	}
	s.scan()
	if len(b) > 0 && b[len(b)-1] != '\n' {
		// Compilers may warn of that.
		s.lines.Write([]byte{2})
		s.tokens.Write([]byte{2})
	}
	s.x.Lines, s.x.Tokens, s.x.Layout = s.lines.Sum64(), s.tokens.Sum64(), s.layout.sum()
	s.x.Count, s.x.Heads = len(s.places), s.heads()
	if s.doubt {
		// Names and words may be missing as well.
		s.x.Lines, s.x.Tokens = s.x.Raw, s.x.Raw
		s.x.Bypass = "text that isn't understood"
	}
	for p, is := range s.parts {
		if is {
			s.x.Parts = append(s.x.Parts, p)
		}
	}
	slices.Sort(s.x.Parts)
	slices.Sort(s.x.Conditions)
	s.x.Conditions = slices.Compact(s.x.Conditions)
	slices.Sort(s.x.Names)
	s.x.Names = slices.Compact(s.x.Names)
	return s.x
}

var (
	escaped      = lazyregexp.New(`\\(?:\\|[abefnrtv]|x\{?([0-9a-f]+)\}?|u(?:0000|\{)?([0-9a-f]{2,4})\}?|o?\{?([0-7]+)\}?)`)
	betweenParts = lazyregexp.New(`"(?:\s|/\*(?s:.*?)\*/|//[^\n]*\n)*(?:u8|[ul])?"`)
	mayAssemble  = lazyregexp.New(`asm|(?:section|alias|symver|weakref|ifunc|patchable_function_entry)(?:__)?\s*\(|#\s*(?:pragma[^\n]*section|ident)`)
	// directiveNames are what reads files, and what can make the name of that.
	directiveNames = []string{"incbin", "include", "macro", "irp", "rept", "altmacro", "mri"}
	// hidden are directives that count, and beginnings of their names where a string ends
	// and a macro may go on, or in front of what stands for something else.
	hidden = func() *regexp.Regexp {
		var all, parts []string
		for _, name := range directiveNames {
			all = append(all, name)
			for i := range name {
				parts = append(parts, name[:i])
			}
		}
		return regexp.MustCompile(`^\.(?:(?:` + strings.Join(all, "|") + `)|(?:` + strings.Join(parts, "|") + `)(?:[%{\\]|\)?"(?:[ \t]|/\*.*?\*/)*(?:\n|//|[a-z_$#]|\)[\s)]*")|\s*\)))`)
	}()
)

// hiddenDirective looks for directives of assemblers that read a file where they aren't
// written as such: in parts, with escapes, of macros. Parts for macros count in files
// that may have assembly in them; names of sections, too, are written as they are.
func hiddenDirective(text, lower []byte) string {
	named := bytes.Contains(text, []byte(`\N{`))
	text = escaped.ReplaceAllFunc(lower, func(e []byte) []byte {
		m, base := escaped.FindSubmatch(e), 16
		digits := append(m[1], m[2]...)
		if len(digits) == 0 {
			digits, base = m[3], 8
		}
		switch c, err := strconv.ParseUint(string(digits), base, 32); {
		case err == nil && c < 0x80 && (c == '.' || isStart(byte(c))):
			return bytes.ToLower([]byte{byte(c)})
		case e[1] == '\\':
			return e
		}
		return []byte(" ")
	})
	text = betweenParts.ReplaceAll(text, nil)
	may := sync.OnceValue(func() bool { return mayAssemble.Match(lower) })
	for at := 0; ; {
		dot := bytes.IndexByte(text[at:], '.')
		if dot < 0 {
			break
		}
		at += dot
		m := hidden.Find(text[at:])
		if m == nil {
			at++
			continue
		}
		found := string(m)
		line := bytes.TrimSpace(text[bytes.LastIndexByte(text[:at], '\n')+1 : at])
		before := text[max(0, at-1)]
		at += len(m)
		switch {
		case isPart(before), strings.IndexByte(".)]}", before) >= 0, bytes.HasSuffix(line, []byte(`\"`)): // of a name or an operand
		case before == '"' && (line[0] == '*' || bytes.HasPrefix(line, []byte("/*")) && !bytes.Contains(line, []byte("*/"))): // of a comment
		case found[len(found)-1] == '\n' && !bytes.Contains(line, []byte("define")): // the end of all parts
		case found[len(found)-1] == ')' && before != '(' && before != ',': // not spelled by a macro
		case !slices.Contains(directiveNames, found[1:]) && !may():
		default:
			return "directive " + strings.TrimSpace(found)
		}
	}
	switch {
	case bytes.Contains(text, []byte("incbin")):
		return "incbin"
	case named:
		return "escape by a name"
	}
	return ""
}

// joined is a text without splices.
func joined(b []byte) []byte {
	var out []byte
	done := 0
	for p := 0; ; {
		n := bytes.IndexAny(b[p:], `\?`)
		if n < 0 {
			break
		}
		p += n
		end := p + 1
		if b[p] == '?' {
			if !bytes.HasPrefix(b[p:], []byte("??/")) {
				p = end
				continue
			}
			end = p + 3
		}
		rest := bytes.TrimLeft(b[end:], " \t\v\f\r")
		if len(rest) > 0 && rest[0] == '\n' {
			out = append(out, b[done:p]...)
			done = end + bytes.IndexByte(b[end:], '\n') + 1
			end = done
		}
		p = end
	}
	if done == 0 {
		return b
	}
	return append(out, b[done:]...)
}

// hasEmbed tells whether a file may embed another: as a directive, or as a name
// that a compiler knows.
func hasEmbed(lower []byte) bool {
	for rest := lower; ; {
		i := bytes.Index(rest, []byte("embed"))
		if i < 0 {
			return false
		}
		before := bytes.TrimRight(rest[:i], " \t\\\r\n/*")
		if bytes.HasSuffix(before, []byte("#")) || bytes.HasSuffix(before, []byte("__has_")) || bytes.HasSuffix(before, []byte("__")) {
			return true
		}
		rest = rest[i+5:]
	}
}

var anyWord = lazyregexp.New(`[A-Za-z_$][A-Za-z0-9_$]*`)

var (
	// aPragma matches what a string has that _Pragma may take for one of those, allowed
	// those that make no errors.
	aPragma = lazyregexp.New(`\b(?:GCC|clang)\b(?s:.*)\bdiagnostic\b`)
	allowed = lazyregexp.New(`^[^"]*"\s*(?:GCC|clang)\s+diagnostic\s+(?:push|pop|ignored)\b`)
)

// statement are tokens behind which a statement begins: an assertion elsewhere is in an expression, which may
// be that of an initialiser.
var statement = []string{";", "{", "}", "else", "do"}

// notice notes what a word or a literal means.
func (s *scanner) notice(t []byte) {
	// Who suppresses warnings makes no errors.
	last := string(s.last)
	switch {
	case last != "diagnostic" || string(t) == "push" || string(t) == "pop" || string(t) == "ignored":
	case s.define != nil && t != nil && isStart(t[0]) && string(t) != "error" && string(t) != "warning" && string(t) != "fatal":
		s.x.Means |= levels
	default:
		s.x.Means |= strict
	}
	switch {
	case t == nil || s.params:
		s.last = nil
		return
	case t[0] != ',' || last != "ignored":
		s.last = t
	}
	if t[len(t)-1] == '"' || t[len(t)-1] == '\'' {
		if bytes.HasPrefix(t, []byte(`"-W`)) && last != "ignored" {
			s.x.Means |= options
		}
		if aPragma.Match(t) && !(allowed.Match(t) && bytes.Count(t, []byte("diagnostic")) == 1) {
			s.x.Means |= strict
		}
		if bytes.Contains(t, []byte("dependency")) && (bytes.Contains(t, []byte("GCC")) || bytes.Contains(t, []byte("clang"))) {
			s.x.Bypass = "#pragma GCC dependency"
		}
		return
	}
	if !isStart(t[0]) {
		return
	}
	word := string(t)
	s.x.Callers = s.x.Callers || slices.Contains(builtins, word) && s.directive != "if" && s.directive != "elif" ||
		(word == "assert" || strings.HasPrefix(word, "__ASSERT_")) && s.directive != "undef" && (s.define != nil || s.depth > 0 || !slices.Contains(statement, last))
	switch {
	case t[0] == 'W' && last == "-":
		s.x.Means |= options
	case s.directive == "define" && s.define == nil && (word == "push" || word == "pop" || word == "ignored"):
		s.x.Means |= strict
	}
	switch what := special[word]; what {
	case strict: // see above
	case reads:
		switch word {
		case "dependency":
			s.x.Bypass = "#pragma GCC dependency"
		case "include_alias":
			s.x.Bypass = "#pragma include_alias"
		}
	default:
		if !slices.Contains(naming, s.directive) && s.directive != "if" && s.directive != "elif" && (s.directive != "define" || s.define != nil) {
			s.x.Means |= what
		}
	}
	if _, ok := s.parts[word]; !ok && s.directive != "#" {
		s.parts[word] = special[word] == 0 && strings.Contains(specials, word)
	}
}

// assembly follows the tokens of an assembly: its text has to be that of a literal,
// and no expression, which newer compilers compute.
func (s *scanner) assembly(t string) {
	switch s.asm {
	case 1:
		switch t {
		case "volatile", "__volatile__", "__volatile", "goto", "inline", "__inline", "__inline__", `\`:
			return
		case "(":
			s.asm = 2
			return
		}
	case 2:
		if t == `\` {
			return
		}
		if s.asm = 0; t[len(t)-1] == '"' || isStart(t[0]) { // a macro that spells it
			return
		}
	default:
		switch t {
		case "asm", "__asm", "__asm__":
			if !slices.Contains(naming, s.directive) {
				s.asm = 1
			}
		}
		return
	}
	s.asm = 0
	s.x.Bypass = "computed assembly"
}

// emit counts a token that begins at s.p and ends at end.
func (s *scanner) emit(end int) {
	t := s.b[s.p:end]
	var head [13]byte
	if s.blank {
		head[0] = 1
	}
	if s.fresh && t[0] == '#' {
		head[0] |= 2
		s.directive = "#"
	}
	for i := range 4 {
		head[1+i] = byte(len(t) >> (8 * i))
	}
	s.tokens.Write(head[:5])
	s.tokens.Write(t)
	for i := range 8 {
		head[5+i] = byte(s.line >> (8 * i))
	}
	s.lines.Write(head[:])
	s.lines.Write(t)
	s.place()
	s.blank, s.fresh = false, false
	if s.directive == "" {
		s.layout.add(s.p)
	}
	s.line += bytes.Count(t, []byte("\n"))
	start := s.p
	s.p = end
	if s.directive == "" {
		switch string(t) {
		case "(":
			s.depth++
		case ")":
			s.depth--
		}
	}
	s.notice(t)
	s.assembly(string(t))
	s.see(t, start)
	if s.seen != nil {
		s.seen(len(s.places)-1, t)
	}
	s.x.Pastes = s.x.Pastes || s.directive == "define" && t[0] == '#' && end < len(s.b) && (s.b[end] == '#' || s.b[end] == '\\')
}

// naming are directives in which no macro is expanded.
var naming = []string{"undef", "ifdef", "ifndef", "elifdef", "elifndef"}

// see notes what a token means for includes and lines.
func (s *scanner) see(t []byte, start int) {
	word := isStart(t[0])
	switch {
	case s.directive == "#" && t[0] == '#', t[0] == '\\':
		return
	case s.directive == "#" && word:
		s.directive = string(t)
		switch s.directive {
		case "import", "embed":
			s.x.Bypass = "#" + s.directive
		case "ident", "sccs":
			if s.blanks(); s.p < len(s.b) && s.b[s.p] != '"' {
				s.x.Bypass = "computed #" + s.directive
			}
			s.verbatim()
		case "include", "include_next":
			s.include()
		case "line":
			s.x.Relines = true
		case "error", "warning", "assert", "unassert":
			s.verbatim()
		}
		return
	case s.directive == "#":
		s.directive = "other"
		s.x.Relines = s.x.Relines || t[0] >= '0' && t[0] <= '9'
	case s.directive == "define" && s.define == nil && word:
		s.define = &macro{Name: string(t)}
		return
	}
	switch {
	case s.define != nil:
		s.params = len(s.body) == 0 && t[0] == '(' && isPart(s.b[start-1]) || s.params && t[0] != ')'
		s.body = append(s.body, string(t))
	case word && s.directive != "" && !slices.Contains(naming, s.directive):
		if !s.tested { // what is isn't expanded
			s.x.Conditions = append(s.x.Conditions, string(t))
		}
	}
	s.tested = (s.directive == "if" || s.directive == "elif") && (string(t) == "defined" || s.tested && t[0] == '(')
	if !word {
		return
	}
	switch s.directive {
	case "if", "elif", "define":
		switch {
		case asks(string(t)):
			s.hasInclude(string(t), start)
		case asksInPart(string(t), s.define != nil):
			s.x.Bypass = "__has_include that may be pasted"
		}
	case "line", "pragma", "other":
		if asks(string(t)) {
			s.x.Bypass = "__has_include in #" + s.directive
		}
	}
}

// asks tells whether a word in a directive may ask for a file: as __has_include, or
// as a macro that stands for it, which has to be called alike.
func asks(word string) bool {
	word = strings.ToLower(word)
	return strings.Contains(word, "has_include") || strings.Contains(word, "has_embed")
}

// asksInPart tells whether a word may be a part of one that asks for a file. Macros
// may paste its beginning to others as well; then the rest is elsewhere.
func asksInPart(word string, defined bool) bool {
	word = strings.ToLower(word)
	return len(word) > 3 && !(defined && strings.HasSuffix("__has_", strings.TrimRight(word, "_")+"_")) && (strings.Contains("__has_include__", word) || word == "include_next")
}

// include takes the name behind #include.
func (s *scanner) include() {
	s.blanks()
	if s.p == len(s.b) {
		return
	}
	if c := s.b[s.p]; c != '<' && c != '"' {
		s.x.Bypass = "computed include"
		return
	}
	s.directive = "included"
	s.name()
}

// name takes the name of a file, in brackets or quotes.
func (s *scanner) name() {
	open, end := s.b[s.p], byte('>')
	if open == '"' {
		end = '"'
	}
	n := bytes.IndexByte(s.b[s.p+1:], end)
	if n < 0 || bytes.ContainsAny(s.b[s.p:s.p+1+n], "\n\\") {
		s.doubt = true
		return
	}
	s.x.Names = append(s.x.Names, string(open)+string(s.b[s.p+1:s.p+1+n]))
	s.emit(s.p + n + 2)
}

// hasInclude takes the name in __has_include(...): in a condition, literally. A macro may
// stand for __has_include itself, if it is called alike.
func (s *scanner) hasInclude(word string, start int) {
	s.blanks()
	end := s.p == len(s.b) || s.b[s.p] == '\n' || s.b[s.p] == '\r'
	switch {
	case s.define != nil:
		if s.define.Name == "_GLIBCXX_USE_TBB_PAR_BACKEND" {
			break // a name that no macro changes
		}
		// (x) __has_include(x), too.
		n := len(s.body)
		if asks(s.define.Name) && n == 4 && s.body[0] == "(" && isStart(s.body[1][0]) && s.body[2] == ")" {
			alias := regexp.MustCompile(`^\([ \t]*` + regexp.QuoteMeta(s.body[1]) + `[ \t]*\)[ \t\r]*\n`)
			if alias.Match(s.b[s.p:]) {
				return
			}
		}
		if !end || !asks(s.define.Name) || n != 1 {
			s.x.Bypass = "__has_include in a macro"
		}
		return
	case end:
		return
	case s.b[s.p] == '(':
	case s.b[s.p] == ')' || s.b[s.p] == ',' || isStart(s.b[s.p]):
		if !isDefined.Match(s.b[max(0, start-40):start]) {
			s.x.Bypass = "computed __has_include" // its parentheses may come from elsewhere
		}
		return
	default:
		return
	}
	s.emit(s.p + 1)
	s.blanks()
	if s.p == len(s.b) || s.b[s.p] != '"' && s.b[s.p] != '<' {
		s.x.Bypass = "computed __has_include"
		return
	}
	s.name()
	name := s.last
	if s.blanks(); s.p == len(s.b) || s.b[s.p] != ')' || !strings.HasPrefix(word, "__has_") && predefined.Match(name) {
		s.x.Bypass = "computed __has_include"
	}
}

// predefined matches names of files that a macro with a parameter may change.
var predefined = lazyregexp.New(`\b(?:linux|unix|i386)\b`)

var isDefined = lazyregexp.New(`\bdefined[ \t]*\(?[ \t]*$`)

// blanks skips blanks on the line.
func (s *scanner) blanks() {
	for s.p < len(s.b) && (s.b[s.p] == ' ' || s.b[s.p] == '\t') {
		s.p++
		s.blank = true
	}
	if s.p < len(s.b) && (s.b[s.p] == '/' || s.b[s.p] == '\\') {
		s.doubt = true // a comment in front of a name, or a splice
	}
}

// verbatim takes the rest of a line that isn't made of tokens.
func (s *scanner) verbatim() {
	end := s.p
	for end < len(s.b) && (s.b[end] != '\n' || spliced(s.b[s.p:end])) {
		end++
	}
	if bytes.Contains(s.b[s.p:end], []byte("/*")) {
		s.doubt = true
		return
	}
	if end > s.p {
		s.emit(end)
	}
}

// spliced tells whether a line goes on on the next.
func spliced(line []byte) bool {
	return bytes.HasSuffix(bytes.TrimRight(line, " \t\v\f\r"), []byte(`\`))
}

// endLine ends a directive.
func (s *scanner) endLine() {
	if m := s.define; m != nil {
		for i, t := range s.body {
			if isStart(t[0]) {
				m.Words = append(m.Words, t)
			}
			m.Pastes = m.Pastes || t == "#" && i+1 < len(s.body) && (s.body[i+1] == "#" || s.body[i+1] == `\`)
		}
		slices.Sort(m.Words)
		m.Words = slices.Compact(m.Words)
		s.x.Macros = append(s.x.Macros, *m)
	}
	if s.directive != "" {
		// Where a directive ends counts.
		for _, h := range []*xxhash.Digest{s.lines, s.tokens} {
			h.Write([]byte{4})
		}
	}
	if s.directive != "" {
		// What is behind the macro isn't known.
		if s.notice(nil); s.asm > 0 {
			s.x.Bypass = "computed assembly"
		}
	}
	s.define, s.body, s.directive, s.params = nil, nil, "", false
}

func isStart(c byte) bool {
	return c == '_' || c == '$' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func isPart(c byte) bool { return isStart(c) || c >= '0' && c <= '9' }

// next goes over one token, comment, blank or line end.
func (s *scanner) next() {
	b, p := s.b, s.p
	c := b[p]
	var d byte // behind c
	if p+1 < len(b) {
		d = b[p+1]
	}
	switch {
	case c == '\n':
		s.endLine()
		s.p++
		s.line++
		s.fresh, s.blank = true, true
	case c == '\f' && s.fresh && (d == '\n' || d == '\r'), c == ' ' || c == '\t' || c == '\r':
		s.p++
		s.blank = true
	case c == '\\':
		s.splice()
	case c == '/' && d == '/':
		s.comment()
	case c == '/' && d == '*':
		s.blockComment()
	case c == '/' && d == '\\':
		s.doubt = true
	case c == '"' || c == '\'':
		s.quoted(p)
	case isStart(c):
		end := p + 1
		for end < len(b) && isPart(b[end]) {
			end++
		}
		if end < len(b) && (b[end] == '"' || b[end] == '\'') {
			switch string(b[p:end]) {
			case "R", "LR", "uR", "UR", "u8R":
				if b[end] == '"' {
					s.raw(end)
					return
				}
			case "L", "u", "U", "u8":
				s.quoted(end)
				return
			}
			// A name, of a directive or a macro, and a literal behind it.
		}
		if s.goesOn(end) {
			s.doubt = true
			return
		}
		s.emit(end)
	case c >= '0' && c <= '9' || c == '.' && d >= '0' && d <= '9':
		end := p + 1
		for end < len(b) && (isPart(b[end]) || b[end] == '.' || s.cxx && b[end] == '\'' && end+1 < len(b) && isPart(b[end+1]) || (b[end] == '+' || b[end] == '-') && strings.IndexByte("eEpP", b[end-1]) >= 0) {
			end++
		}
		if end < len(b) && b[end] == '\'' || s.goesOn(end) {
			s.doubt = true // digits or a character, by the language
			return
		}
		s.emit(end)
	case c < ' ' || c > '~', respelled(b[p:], s.cxx):
		s.doubt = true
	default:
		s.emit(p + 1)
	}
}

// goesOn tells whether a word may go on behind a splice.
func (s *scanner) goesOn(end int) bool {
	rest, spliced := bytes.CutPrefix(s.b[end:], []byte(`\`))
	_, rest, _ = bytes.Cut(rest, []byte("\n"))
	return spliced && (len(rest) == 0 || isPart(rest[0]) || rest[0] > '~' || strings.IndexByte(`"'\.+-`, rest[0]) >= 0)
}

// respelled tells whether a text begins with a digraph or trigraph, or may do so with a
// splice in it. "<::" is "<" and "::" for newer C++.
func respelled(b []byte, cxx bool) bool {
	if len(b) < 2 {
		return false
	}
	switch string(b[:2]) {
	case "<:":
		return !cxx || len(b) < 4 || b[2] != ':' || b[3] == ':' || b[3] == '>'
	case "<%", "%:", "%>", ":>", "??", `<\`, `%\`, `:\`, `?\`:
		return true
	}
	return false
}

// splice goes over a backslash at the end of a line. It counts as a token, so that
// it needn't be known what is spliced.
func (s *scanner) splice() {
	rest := s.b[s.p+1:]
	switch {
	case bytes.HasPrefix(rest, []byte("\n")), bytes.HasPrefix(rest, []byte("\r\n")):
		fresh := s.fresh
		s.emit(s.p + 1)
		s.p += bytes.IndexByte(s.b[s.p:], '\n') + 1
		s.line++
		s.fresh = fresh
	default:
		s.doubt = true
	}
}

// comment goes over one to the end of the line.
func (s *scanner) comment() {
	start := s.p
	for s.p < len(s.b) && s.b[s.p] != '\n' {
		s.p++
	}
	text := s.b[start:s.p]
	s.doubt = spliced(text)
	s.said(text)
	s.blank = true
}

var splicedEnd = lazyregexp.New(`\*(\\[ \t\v\f\r]*\n)+/`)

func (s *scanner) blockComment() {
	n := bytes.Index(s.b[s.p+2:], []byte("*/"))
	if n < 0 {
		s.doubt = true
		return
	}
	text := s.b[s.p : s.p+n+4]
	if splicedEnd.Match(text) {
		s.doubt = true // it ends earlier
		return
	}
	s.said(text)
	s.line += bytes.Count(text, []byte("\n"))
	s.p += len(text)
	s.blank = true
}

var anySplice = lazyregexp.New(`\\[ \t\v\f\r]*\n`)

// said counts comments that compilers read (gcc's -Wimplicit-fallthrough) or may warn
// of.
func (s *scanner) said(comment []byte) {
	if bytes.Contains(bytes.ToLower(comment), []byte("fall")) || anySplice.Match(comment) || odd(comment) {
		for _, h := range []*xxhash.Digest{s.lines, s.tokens} {
			h.Write([]byte{8, byte(len(comment)), byte(len(comment) >> 8), byte(len(comment) >> 16), byte(len(comment) >> 24)})
			h.Write(comment)
		}
	}
}

// quoted takes a string or character literal whose quote is at q.
func (s *scanner) quoted(q int) {
	for end := q + 1; end < len(s.b) && s.b[end] != '\n'; end++ {
		switch s.b[end] {
		case '?':
			if s.b[q] == '\'' && s.b[end-1] == '?' {
				s.doubt = true // a trigraph that is a quote
				return
			}
		case s.b[q]:
			end++
			if end < len(s.b) && s.b[end] == '\\' {
				s.doubt = true
				return
			}
			if n := end - 5; n > q && string(s.b[n:end]) == `.inc"` && !isPart(s.b[n-1]) {
				s.x.Bypass = ".inc" // of .incbin, and not of a name
			}
			s.emit(end) // a suffix is a token of its own
			return
		case '\\':
			end++
			if end < len(s.b) && (s.b[end] == '\r' || s.b[end] == ' ' || s.b[end] == '\t') {
				s.doubt = true
				return
			}
		}
	}
	s.doubt = true // it has no end on its line: text, as in #if 0
}

// raw takes a raw string literal whose quote is at q ([lex.string]).
func (s *scanner) raw(q int) {
	open := bytes.IndexByte(s.b[q:], '(')
	if !s.cxx || open < 0 || open > 17 || bytes.ContainsAny(s.b[q+1:q+open], " \\)\t\v\f\n") {
		s.doubt = true // newer C has them, older C two tokens
		return
	}
	end := ")" + string(s.b[q+1:q+open]) + `"`
	n := bytes.Index(s.b[q+open:], []byte(end))
	if n < 0 || s.directive != "" && bytes.IndexByte(s.b[q:q+open+n], '\n') >= 0 {
		s.doubt = true
		return
	}
	s.emit(q + open + n + len(end))
}

// readScan scans a file, or takes what is remembered of it.
func (c *cache) readScan(path string, cxx bool) (*scan, error) {
	if x := c.scans[path]; x != nil {
		return x, nil
	}
	language := "c"
	if cxx {
		language = "c++"
	}
	now := time.Now()
	id, err := stamp.Of(path)
	if err != nil {
		return nil, err
	}
	// In a sandbox a file has another name.
	file := c.path("files", scanFormat+language+"-"+id.File())
	x := &scan{}
	if c.kept(file, id, x) {
		x.kept = file
		c.scans[path] = x
		return x, nil
	}
	if !isFile(path) { // reading may never end
		return nil, errors.New(path + " is no regular file")
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	x = scanText(b, cxx)
	if again, err := stamp.Of(path); err != nil || !again.Same(id) {
		return nil, errChanging
	}
	// A file that has just been written may be written once more in the same tick
	// of its clock.
	if !id.Since(now.Add(-2 * time.Second)) {
		c.keepScan(file+".d", id, x.directives)
		c.keepScan(file, id, x)
	}
	c.scans[path] = x
	return x, nil
}

// directives fills in the directives of a scan that readScan has returned.
func (c *cache) directives(path string, x *scan) error {
	if x.kept == "" {
		return nil
	}
	id, err := stamp.Of(path)
	if err != nil {
		return err
	}
	if !c.kept(x.kept+".d", id, &x.directives) {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		y := scanText(b, strings.HasPrefix(filepath.Base(x.kept), scanFormat+"c++"))
		if y.Raw != x.Raw {
			return errChanging
		}
		x.directives = y.directives
	}
	x.kept = ""
	return nil
}

// kept reads what keepScan has written of a file in that state.
func (c *cache) kept(file string, id stamp.Stamp, x any) bool {
	b, err := os.ReadFile(file)
	if err != nil {
		return false
	}
	head, text, ok := bytes.Cut(b, []byte("\n"))
	return ok && string(head) == id.Exact()+" "+checksum(text) && json.Unmarshal(text, x) == nil
}

func (c *cache) keepScan(file string, id stamp.Stamp, x any) {
	if text, err := json.Marshal(x); err == nil {
		c.write(file, append([]byte(id.Exact()+" "+checksum(text)+"\n"), text...))
	}
}

var errChanging = errors.New("a file that it reads is being written")
