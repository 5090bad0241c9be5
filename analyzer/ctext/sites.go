package ctext

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Site is a token such as __builtin_LINE and the position it will see.
type Site struct {
	Off      int    `json:"off"`
	Position string `json:"position"` // presumed FILE:LINE:COLUMN
	// Pinned sites of C++ read their own line: Text has a line marker in front
	// of them, so that a compiler of Text gives them the build's values.
	Pinned bool `json:"pinned,omitempty"`

	// What expands to the site ends between the lines first and last of file, in
	// front of the token next.
	file        string
	first, last int
	next        string
}

// siteTokens are the identifiers whose value is their own source position.
// Those with true can be pinned: they have no column.
var siteTokens = map[string]bool{
	"__builtin_LINE": true, "__builtin_FILE": true, "__builtin_FILE_NAME": true,
	"__builtin_COLUMN": false, "__builtin_source_location": false,
}

// A place follows the tokens of C++ and tells whether a site there reads its
// own position. In a default argument or a default member initialiser it
// reads that of the call or of the constructor, which may be anywhere. So the
// answer is yes only in a statement, in a block, behind no "=". That is where
// the C library's assert puts sites.
type place struct {
	scopes []scope // of open braces, the innermost last
	heads  []bool  // of open parentheses: can a block follow the closing one?
	now    scope
	prev   string // the last token
	head   bool   // heads' entry of the parentheses that prev closes
}

type scope struct {
	block  bool
	assign bool // "=" was seen since the last ";"
}

// blockHeads are the keywords whose parentheses a block may follow.
var blockHeads = map[string]bool{"if": true, "while": true, "for": true, "switch": true, "catch": true, "constexpr": true}

// noNames are other words that may precede a parenthesis and name no function:
// behind these a brace may belong to an expression.
var noNames = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(`alignas alignof and and_eq asm auto bitand bitor bool case char char8_t char16_t char32_t co_await co_return co_yield
		compl const_cast decltype delete do double dynamic_cast else explicit float goto int long new noexcept not not_eq operator or or_eq
		reinterpret_cast requires return short signed sizeof static_assert static_cast throw typeid typeof unsigned void wchar_t xor xor_eq`) {
		m[w] = true
	}
	return m
}()

// blockWords may stand between a function's parameters and its body, or in
// front of a block.
var blockWords = map[string]bool{
	";": true, "{": true, "}": true, "else": true, "do": true, "try": true,
	"const": true, "noexcept": true, "override": true, "final": true, "mutable": true,
}

func (p *place) own() bool { return p.now.block && !p.now.assign }

func (p *place) token(t Token, raw []byte) {
	text := ""
	switch t.Kind {
	case Ident, Punct:
		text = string(raw[t.Off:t.End])
	}
	prev, head := p.prev, p.head
	p.prev, p.head = text, false
	switch text {
	case "=":
		p.now.assign = true
	case ";":
		p.now.assign = false
	case "(":
		name := prev != "" && isIdentStart(prev[0]) && !noNames[prev] && !strings.HasPrefix(prev, "__")
		// behind "]" are the parameters of a lambda
		p.heads = append(p.heads, name || blockHeads[prev] || prev == "]")
	case ")":
		if n := len(p.heads); n > 0 {
			p.head, p.heads = p.heads[n-1], p.heads[:n-1]
		}
	case "{":
		p.scopes = append(p.scopes, p.now)
		p.now = scope{block: blockWords[prev] || prev == ")" && head}
	case "}":
		if n := len(p.scopes); n > 0 {
			p.now, p.scopes = p.scopes[n-1], p.scopes[:n-1]
		}
	}
}

// marker returns the line marker that says that what follows is at line of file.
func marker(file string, line int) string {
	return fmt.Sprintf("# %d \"%s\"\n", line, strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(file))
}

// endSites says that what expands to the sites from the first one on ends in
// line or before, in front of the token next.
func (u *Unit) endSites(first, line int, next string) {
	for i := first; i < len(u.Sites); i++ {
		u.Sites[i].last, u.Sites[i].next = line, next
	}
}

// lineDirective matches what makes presumed positions differ from real ones.
var lineDirective = regexp.MustCompile(`(?m)^[ \t]*(#|%:)[ \t]*(line\b|[0-9])`)

// expansions returns a digest of the lines of source between the beginnings
// and the ends of the macro invocations that pinned sites stem from: a site
// reads the line where the invocation ends, and the preprocessor's output only
// shows where it begins, and where the next token behind it is. It is "" if
// none is pinned, and ok is false if the lines can't be read.
func (u *Unit) expansions() (digest string, ok bool) {
	h := sha256.New()
	lines := map[string][][]byte{}
	n := 0
	for _, s := range u.Sites {
		if !s.Pinned {
			continue
		}
		l, known := lines[s.file]
		if !known {
			b, err := os.ReadFile(filepath.FromSlash(s.file))
			if err != nil || lineDirective.Match(b) {
				return "", false
			}
			l = bytes.SplitAfter(b, []byte("\n"))
			lines[s.file] = l
		}
		if s.first < 1 || s.first > len(l) || s.last < s.first {
			return "", false
		}
		text := bytes.Join(l[s.first-1:min(s.last, len(l))], nil)
		lex := NewLexer(text, 0)
		line, scanned, depth := 0, 0, 0
		var before Token
		for {
			t := lex.Next()
			if t.Kind == EOF {
				break
			}
			line += bytes.Count(text[scanned:t.Off], []byte("\n"))
			scanned = t.Off
			word := text[t.Off:t.End]
			if line == s.last-s.first && line > 0 && depth == 0 && before.Kind != Ident && string(word) == s.next {
				break // the invocation ended on a line before
			}
			switch string(word) {
			case "(":
				depth++
			case ")":
				depth = max(0, depth-1)
			}
			before = t
			fmt.Fprintf(h, "%d %d ", line, len(word))
			h.Write(word)
		}
		fmt.Fprintf(h, "end %d\n", n)
		n++
	}
	if n == 0 {
		return "", true
	}
	return hex.EncodeToString(h.Sum(nil)), true
}
