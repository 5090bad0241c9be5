package launcher

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/stamp"
)

// scanFormat is in the name of what is remembered of a file: another scanner finds
// other things.
const scanFormat = "9"

// A scan is what the launcher knows of a source file or header.
type scan struct {
	// Raw is the hash of all bytes. Lines is that of the tokens with their lines,
	// Tokens that of the tokens alone: comments don't count in them, nor does which
	// blanks are between two tokens, but whether there are any. They are Raw where
	// it isn't certain what is a comment.
	// Code is that of the tokens outside of directives.
	Raw, Lines, Tokens, Code uint64
	// Names are what the file may include or ask for (__has_include), each behind
	// the bracket or quote that it is written with.
	Names []string
	// Bypass says why no unit that reads the file is remembered, or is empty.
	Bypass string `json:",omitempty"`
	// Dates says that a token is __DATE__, __TIME__ or __TIMESTAMP__.
	Dates bool `json:",omitempty"`
	// Columns says that the text may ask for a column.
	Columns bool `json:",omitempty"`
	// Places says that the text may ask for the name of a function, in which clang
	// says where its lambdas and classes without a name are.
	Places bool `json:",omitempty"`
	// Unnamed says that it may have lambdas or classes without a name, UnnamedMacros
	// that its macros do.
	Unnamed       bool `json:",omitempty"`
	UnnamedMacros bool `json:",omitempty"`
	// Misleads says that compilers may warn of how it is laid out.
	Misleads bool `json:",omitempty"`
	// Strict says that a pragma may make errors of warnings.
	Strict bool `json:",omitempty"`
	// Relines says that the file says itself which line of which file it is.
	Relines bool `json:",omitempty"`

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

// scanner goes through the text of a file as the first three phases of translation
// do ([lex.phases]), and stops where it would have to guess.
type scanner struct {
	b                   []byte
	cxx                 bool
	p                   int
	line                int
	lines, tokens, code *xxhash.Digest
	blank               bool // in front of the next token
	fresh               bool // no token on this line yet
	doubt               bool
	x                   *scan
	define              *macro   // of the directive
	body                []string // its tokens
	directive           string   // name of the directive, "#" before it is known
	last                []byte   // the token before
	placed              []placed // all tokens outside of directives
}

// scanText scans the text of a file.
func scanText(b []byte, cxx bool) *scan {
	s := &scanner{b: b, cxx: cxx, line: 1, lines: xxhash.New(), tokens: xxhash.New(), code: xxhash.New(), blank: true, fresh: true, x: &scan{Raw: xxhash.Sum64(b)}}
	// Assemblers read files that no list of dependencies has.
	text := joined(b)
	lower := bytes.ToLower(text)
	for _, word := range []string{"incbin", ".include", "embed"} {
		if bytes.Contains(lower, []byte(word)) && (word != "embed" || hasEmbed(lower)) {
			s.x.Bypass = word
		}
	}
	if s.x.Bypass == "" && bytes.Contains(lower, []byte("asm")) {
		s.x.Bypass = hiddenDirective(text, lower)
	}
	switch {
	case bytes.Contains(lower, []byte("dependency")) && readsDependency.Match(lower):
		s.x.Bypass = "#pragma GCC dependency"
	case bytes.Contains(lower, []byte("include_alias")):
		s.x.Bypass = "#pragma include_alias"
	}
	s.x.Strict = bytes.Contains(lower, []byte("diagnostic")) && makesErrors.Match(lower)
	// Trigraphs that are a backslash or "#", or look like a quote.
	s.doubt = bytes.Contains(b, []byte("??/")) || bytes.Contains(b, []byte("??=")) || bytes.Contains(b, []byte("??'")) || bytes.IndexByte(b, 0) >= 0 ||
		bytes.Count(b, []byte("\r")) != bytes.Count(b, []byte("\r\n")) // clang ends a line there
	for s.p < len(b) && !s.doubt {
		s.next()
	}
	s.endLine()
	s.x.Misleads = s.doubt || misleads(b, s.placed)
	s.x.Lines, s.x.Tokens, s.x.Code = s.lines.Sum64(), s.tokens.Sum64(), s.code.Sum64()
	if s.doubt {
		// Names and words may be missing as well.
		s.x.Lines, s.x.Tokens, s.x.Code = s.x.Raw, s.x.Raw, s.x.Raw
		s.roughly()
	}
	slices.Sort(s.x.Conditions)
	s.x.Conditions = slices.Compact(s.x.Conditions)
	slices.Sort(s.x.Names)
	s.x.Names = slices.Compact(s.x.Names)
	return s.x
}

var (
	escaped      = regexp.MustCompile(`\\(?:\\|[abefnrtv]|x\{?([0-9a-f]+)\}?|u(?:0000|\{)?([0-9a-f]{2,4})\}?|o?\{?([0-7]+)\}?)`)
	betweenParts = regexp.MustCompile(`"(?:\s|/\*(?s:.*?)\*/|//[^\n]*\n)*(?:u8|[ul])?"`)
	// hidden are directives that count, and beginnings of their names where a string ends
	// and a macro may go on, or in front of what stands for something else.
	hidden = func() *regexp.Regexp {
		var all, parts []string
		// What reads files, and what can make the name of that.
		for _, name := range []string{"incbin", "include", "macro", "irp", "rept", "altmacro", "mri"} {
			all = append(all, name)
			for i := range name {
				parts = append(parts, name[:i])
			}
		}
		return regexp.MustCompile(`\.(?:(?:` + strings.Join(all, "|") + `)|(?:` + strings.Join(parts, "|") + `)(?:[%{\\]|\)?"(?:[ \t]|/\*.*?\*/)*(?:\n|//|[a-z_$#]|\)[\s)]*")|\s*\)))`)
	}()
	computedAsm = regexp.MustCompile(`(?:\b|__)asm(?:__)?(?:\s+[a-z_]+)*\s*\(\s*\(`)
)

// hiddenDirective looks for directives of assemblers that read a file in the text of one
// that may have assembly in it, where they aren't written as such: in parts, with
// escapes, of macros.
func hiddenDirective(text, lower []byte) string {
	named := bytes.Contains(text, []byte(`\N{`)) || bytes.Contains(text, []byte("??/"))
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
	for _, m := range hidden.FindAllIndex(text, -1) {
		found := string(text[m[0]:m[1]])
		line := bytes.TrimSpace(text[bytes.LastIndexByte(text[:m[0]], '\n')+1 : m[0]])
		before := text[max(0, m[0]-1)]
		switch {
		case isPart(before), strings.IndexByte(".)]}", before) >= 0, bytes.HasSuffix(line, []byte(`\"`)): // of a name or an operand
		case before == '"' && (line[0] == '*' || bytes.HasPrefix(line, []byte("/*")) && !bytes.Contains(line, []byte("*/"))): // of a comment
		case found[len(found)-1] == '\n' && !bytes.Contains(line, []byte("define")): // the end of all parts
		case found[len(found)-1] == ')' && before != '(' && before != ',': // not spelled by a macro
		default:
			return "directive " + strings.TrimSpace(found)
		}
	}
	switch {
	case bytes.Contains(text, []byte("incbin")):
		return "incbin"
	case named:
		return "escape in a file with assembly"
	case computedAsm.Match(text):
		return "computed assembly"
	}
	return ""
}

var (
	makesErrors     = regexp.MustCompile(`\bdiagnostic\b[^\n]*\b(?:error|fatal)\b`)
	readsDependency = regexp.MustCompile(`\bdependency\s*\\?["<]`)
)

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
		if bytes.HasSuffix(before, []byte("#")) || bytes.HasSuffix(before, []byte("%:")) || bytes.HasSuffix(before, []byte("__has_")) || bytes.HasSuffix(before, []byte("__")) {
			return true
		}
		rest = rest[i+5:]
	}
}

var (
	anyDefine = regexp.MustCompile(`(?:#|%:)[ \t]*define[ \t]+([A-Za-z_$][A-Za-z0-9_$]*)((?:[^\n]*\\[ \t\r]*\n)*[^\n]*)`)
	// Blanks and comments may be anywhere in a directive.
	anyInclude = regexp.MustCompile(`(?:#|%:|\?\?=)(?:\s|/\*(?s:.*?)\*/)*(?:include_next|include|import)\b(?:\s|/\*(?s:.*?)\*/)*(?:"([^"\n]+)"|<([^>\n]+)>)?`)
	anyAsk     = regexp.MustCompile(`(?i)has_(?:include|embed)`)
	anyWord    = regexp.MustCompile(`[A-Za-z_$\x80-\xff][A-Za-z0-9_$\x80-\xff]*`)
)

// roughly takes all that looks like a name of a file, a macro or a word, from a
// text that isn't understood.
func (s *scanner) roughly() {
	s.x.Names, s.x.Macros = nil, nil
	text := joined(s.b)
	for _, m := range anyInclude.FindAllSubmatch(text, -1) {
		if len(m[1])+len(m[2]) == 0 {
			s.x.Bypass = "computed include"
		}
		for i, bracket := range []string{`"`, "<"} {
			if len(m[1+i]) > 0 {
				s.x.Names = append(s.x.Names, bracket+string(m[1+i]))
			}
		}
	}
	for _, m := range anyDefine.FindAllSubmatch(text, -1) {
		x := macro{Name: string(m[1]), Pastes: bytes.Contains(m[2], []byte("##")) || bytes.Contains(m[2], []byte("%:"))}
		for _, w := range anyWord.FindAll(m[2], -1) {
			x.Words = append(x.Words, string(w))
		}
		s.x.Macros = append(s.x.Macros, x)
	}
	for _, w := range anyWord.FindAll(text, -1) {
		s.special(string(w))
		s.x.Conditions = append(s.x.Conditions, string(w))
	}
	for line := range bytes.Lines(text) {
		for _, pair := range []string{"<>", `""`} {
			rest := line
			for {
				_, after, ok := bytes.Cut(rest, []byte(pair[:1]))
				name, more, closed := bytes.Cut(after, []byte(pair[1:]))
				if !ok || !closed {
					break
				}
				if plausible(name) {
					s.x.Names = append(s.x.Names, pair[:1]+string(name))
				}
				rest = more
			}
		}
		if bytes.Contains(line, []byte("include")) && bytes.IndexByte(line, '"') < 0 && bytes.IndexByte(line, '<') < 0 && bytes.IndexByte(line, '#') >= 0 {
			s.x.Bypass = "computed include"
		}
		if i := anyAsk.FindIndex(line); i != nil && bytes.IndexByte(line[i[1]:], '(') >= 0 && !bytes.ContainsAny(line[i[1]:], `"<`) {
			s.x.Bypass = "computed __has_include"
		}
	}
}

func plausible(name []byte) bool {
	return len(name) > 0 && len(name) < 256 && !bytes.ContainsAny(name, " \t()=;,*\\\x00")
}

// special notes words that mean more than others.
func (s *scanner) special(word string) {
	switch word {
	case "__DATE__", "__TIME__", "__TIMESTAMP__":
		s.x.Dates = true
	case "__PRETTY_FUNCTION__", "__builtin_dump_struct":
		s.x.Places = true
	default:
		// A part of a name may be pasted.
		for _, w := range []string{"__DATE__", "__TIME__", "__TIMESTAMP__"} {
			if len(word) > 3 && (strings.HasPrefix(w, word) || strings.HasSuffix(w, word)) {
				s.x.Dates = true
			}
		}
		if len(word) >= len("__builtin") && word[0] == '_' {
			s.x.Columns = s.x.Columns || strings.HasPrefix("__builtin_COLUMN", word) || strings.HasPrefix("__builtin_source_location", word)
		}
	}
}

// emit counts a token that begins at s.p and ends at end.
func (s *scanner) emit(end int) {
	t := s.b[s.p:end]
	var head [13]byte
	if s.blank {
		head[0] = 1
	}
	if s.fresh && (t[0] == '#' || bytes.HasPrefix(t, []byte("%:"))) {
		head[0] |= 2
		s.directive = "#"
	}
	for i := range 4 {
		head[1+i] = byte(len(t) >> (8 * i))
	}
	s.tokens.Write(head[:5])
	s.tokens.Write(t)
	if s.directive == "" {
		s.code.Write(head[:5])
		s.code.Write(t)
	}
	for i := range 8 {
		head[5+i] = byte(s.line >> (8 * i))
	}
	s.lines.Write(head[:])
	s.lines.Write(t)
	s.blank, s.fresh = false, false
	if s.directive == "" {
		s.placed = append(s.placed, placed{s.p, end})
	}
	s.unnamed(t, s.p)
	s.line += bytes.Count(t, []byte("\n"))
	start := s.p
	s.p = end
	s.see(t, start)
}

// unnamed notes what may begin a lambda, or a class without a name.
func (s *scanner) unnamed(t []byte, start int) {
	found := false
	switch last := string(s.last); last {
	case "class", "struct", "union", "enum":
		found = t[0] != ';' && !isStart(t[0])
		switch string(t) {
		case "alignas", "_Alignas", "__attribute__", "__attribute", "__declspec":
			found = true
		}
	case "return", "co_return", "co_yield", "co_await", "else", "do", "throw", "case":
		found = t[0] == '['
	default:
		// Behind a name, a literal or a closing bracket there is an index; two are those
		// of an attribute.
		attribute := last == "[" && s.b[start-1] == '[' || start+1 < len(s.b) && s.b[start+1] == '['
		found = t[0] == '[' && !attribute && (last == "" || !isPart(last[len(last)-1]) && !strings.Contains(`)]}"'`, last[len(last)-1:]) || s.define != nil || last != "delete" && last != "operator" && captures(s.b[start:]))
	}
	s.x.Unnamed = s.x.Unnamed || found
	s.x.UnnamedMacros = s.x.UnnamedMacros || found && s.directive != ""
	s.last = t
}

// captures tells whether brackets may be those of a lambda, by what stands behind
// them: they may follow a cast, a condition, another statement, or a macro.
func captures(b []byte) bool {
	depth := 0
	for i, c := range b[:min(500, len(b))] {
		switch c {
		case '[':
			depth++
		case ']':
			depth--
		}
		if depth > 0 {
			continue
		}
		rest := bytes.TrimLeft(b[i+1:], " \t\v\f\r\n")
		return len(rest) > 0 && (isStart(rest[0]) || strings.IndexByte(`({</\#`, rest[0]) >= 0 || bytes.HasPrefix(rest, []byte("->")) || bytes.HasPrefix(rest, []byte("[[")))
	}
	return true
}

// naming are directives in which no macro is expanded.
var naming = []string{"undef", "ifdef", "ifndef", "elifdef", "elifndef"}

// see notes what a token means for includes and lines.
func (s *scanner) see(t []byte, start int) {
	word := isStart(t[0])
	switch {
	case s.directive == "#" && (t[0] == '#' || t[0] == '%'), t[0] == '\\':
		return
	case s.directive == "#" && word:
		s.directive = string(t)
		switch s.directive {
		case "include", "include_next", "import":
			s.include()
		case "line":
			s.x.Relines = true
		case "error", "warning", "ident", "sccs", "assert", "unassert":
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
		s.body = append(s.body, string(t))
	case word && s.directive != "" && !slices.Contains(naming, s.directive):
		s.x.Conditions = append(s.x.Conditions, string(t))
	}
	if !word {
		return
	}
	switch s.directive {
	case "", "define", "pragma":
		s.special(string(t))
	}
	switch s.directive {
	case "if", "elif", "define":
		switch {
		case asks(string(t)):
			s.hasInclude(start)
		case asksInPart(string(t), s.define != nil):
			s.x.Bypass = "__has_include that may be pasted"
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

// hasInclude takes the name in __has_include(...), if there is one: it may also be
// a macro's name that is defined or asked for.
func (s *scanner) hasInclude(start int) {
	s.blanks()
	alias := s.define != nil && asks(s.define.Name) // who uses it has the name
	if s.p == len(s.b) || s.b[s.p] != '(' {
		switch {
		case s.define != nil && !alias:
			s.x.Bypass = "__has_include in a macro"
		case s.define == nil && s.p < len(s.b) && (s.b[s.p] == ')' || s.b[s.p] == ',' || isStart(s.b[s.p])) && !isDefined.Match(s.b[max(0, start-40):start]):
			s.x.Bypass = "computed __has_include" // its parentheses may come from elsewhere
		}
		return
	}
	s.emit(s.p + 1)
	s.blanks()
	if s.p == len(s.b) {
		return
	}
	switch c := s.b[s.p]; {
	case c == '"' && s.define != nil:
		s.x.Bypass = "__has_include in a macro" // it looks beside the file that uses it
	case c == '"', c == '<' && (s.define == nil || len(s.body) == 0 || s.body[0] != "("): // of a macro with parameters it may be one
		s.name()
	case s.define == nil:
		s.x.Bypass = "computed __has_include"
	case !alias || c == '<' || len(s.body) < 3 || s.body[0] != "(" || s.body[2] != ")": // one parameter
		s.x.Bypass = "__has_include in a macro"
	}
}

var isDefined = regexp.MustCompile(`\bdefined[ \t]*\(?[ \t]*$`)

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
		m.take(s.body)
		s.x.Macros = append(s.x.Macros, *m)
	}
	if s.directive != "" {
		// Where a directive ends counts.
		for _, h := range []*xxhash.Digest{s.lines, s.tokens} {
			h.Write([]byte{4})
		}
	}
	s.define, s.body, s.directive = nil, nil, ""
}

// take finds the words of a body, with parameters, and whether it pastes.
func (m *macro) take(body []string) {
	for i, t := range body {
		if isStart(t[0]) {
			m.Words = append(m.Words, t)
		}
		// "##" and "%:%:" are two tokens here.
		pair := t + body[min(i+1, len(body)-1)]
		m.Pastes = m.Pastes || pair == "##" || pair == "%:%:" && t == "%:"
	}
	slices.Sort(m.Words)
	m.Words = slices.Compact(m.Words)
}

func isStart(c byte) bool {
	return c == '_' || c == '$' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
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
	case c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f':
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
		if end < len(b) && b[end] == '\\' {
			s.doubt = true // an identifier may go on behind a splice
			return
		}
		s.emit(end)
	case c >= '0' && c <= '9' || c == '.' && d >= '0' && d <= '9':
		end := p + 1
		for end < len(b) && (isPart(b[end]) || b[end] == '.' || s.cxx && b[end] == '\'' && end+1 < len(b) && isPart(b[end+1]) || (b[end] == '+' || b[end] == '-') && strings.IndexByte("eEpP", b[end-1]) >= 0) {
			end++
		}
		if end < len(b) && (b[end] == '\'' || b[end] == '\\') {
			s.doubt = true // digits or a character, by the language
			return
		}
		s.emit(end)
	case c == '%' && d == ':':
		s.emit(p + 2)
	case c == '%' && d == '\\' || c == '?' && d == '\\':
		s.doubt = true // "%:" or a trigraph behind a splice
	default:
		s.emit(p + 1)
	}
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
		s.doubt = len(bytes.TrimLeft(rest, " \t\v\f\r")) == 0 || bytes.TrimLeft(rest, " \t\v\f\r")[0] == '\n'
		if !s.doubt {
			s.emit(s.p + 1)
		}
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

var splicedEnd = regexp.MustCompile(`\*(\\[ \t\v\f\r]*\n)+/`)

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

// said counts comments that compilers read (gcc's -Wimplicit-fallthrough) or may warn
// of.
func (s *scanner) said(comment []byte) {
	if bytes.Contains(bytes.ToLower(comment), []byte("fall")) || odd(comment) {
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
	if !s.cxx || open < 0 || open > 17 || bytes.ContainsAny(s.b[q+1:q+open], " \\)\t\v\f\n\"") {
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
