package ctext

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"slices"
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

// sourceLine is a line of a file, whose name is spelled as in a line marker.
type sourceLine struct {
	file string
	line int
}

// siteTokens are the identifiers whose value is their own source position.
var siteTokens = map[string]bool{
	"__builtin_LINE": true, "__builtin_FILE": true, "__builtin_FILE_NAME": true,
	"__builtin_COLUMN": true, "__builtin_source_location": true,
}

// isSite reports whether a token is a site. clang's C++ names lambdas and types
// without a name by their positions.
func (u *Unit) isSite(t string) bool {
	return siteTokens[t] || u.Clang && u.Lang == "c++" && (t == "__PRETTY_FUNCTION__" || t == "__builtin_dump_struct")
}

// A place follows the tokens of C++ and tells whether a site there can be
// pinned: it reads its own position. In a default argument or a default member initialiser it
// reads that of the call or of the constructor, which may be anywhere. So the
// answer is yes only in a statement, in a block, behind no "=". That is where
// the C library's assert puts sites.
type place struct {
	scopes []scope // of open braces, the innermost last
	heads  []head  // of open parentheses
	now    scope
	prev   string // the last token
	head   bool   // can a block follow the parentheses that prev closes?
	tag    bool   // prev is struct, class, union or enum
}

// head is what precedes a parenthesis.
type head struct {
	block bool // a block can follow the closing one
	fails bool // the C or C++ library's function for a failed assertion
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

// pins reports whether a site here can be pinned.
func (p *place) pins(site string) bool {
	if !p.now.block || p.now.assign {
		return false
	}
	switch site {
	case "__builtin_LINE", "__builtin_FILE", "__builtin_FILE_NAME":
		return true
	case "__PRETTY_FUNCTION__":
		// Elsewhere a compiler may compute with it.
		return slices.ContainsFunc(p.heads, func(h head) bool { return h.fails })
	}
	return false
}

// marks reports whether a pinned site needs a line marker.
func (p *place) marks(site string) bool { return site != "__PRETTY_FUNCTION__" }

// lambdaWords are the identifiers that a lambda may follow.
var lambdaWords = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(`and and_eq bitand bitor case co_await co_return co_yield compl constexpr do else __extension__ not not_eq or or_eq return throw xor xor_eq`) {
		m[w] = true
	}
	return m
}()

// tags begin types.
var tags = map[string]bool{"struct": true, "class": true, "union": true, "enum": true}

// token takes the next token, and reports whether a lambda may begin there, or
// a type without a name with the token before.
func (p *place) token(t Token, raw []byte) (unnamed bool) {
	text := ""
	if t.Kind == Ident || t.Kind == Punct {
		text = string(raw[t.Off:t.End])
	}
	prev, block, tag := p.prev, p.head, p.tag
	p.prev, p.head, p.tag = text, false, tags[text]
	word := prev != "" && isIdentStart(prev[0])
	switch text {
	case "=":
		p.now.assign = true
	case ";":
		p.now.assign = false
	case "(":
		name := word && !noNames[prev] && !strings.HasPrefix(prev, "__")
		p.heads = append(p.heads, head{
			block: name || blockHeads[prev] || prev == "]", // behind "]" are the parameters of a lambda
			fails: prev == "__assert_fail" || prev == "__glibcxx_assert_fail",
		})
	case ")":
		if n := len(p.heads); n > 0 {
			p.head, p.heads = p.heads[n-1].block, p.heads[:n-1]
		}
	case "{":
		p.scopes = append(p.scopes, p.now)
		p.now = scope{block: blockWords[prev] || prev == ")" && block}
		unnamed = tag
	case "}":
		if n := len(p.scopes); n > 0 {
			p.now, p.scopes = p.scopes[n-1], p.scopes[:n-1]
		}
	case "[":
		// "[[" begins an attribute.
		unnamed = tag || prev != "[" && prev != ")" && prev != "]" && (!word || lambdaWords[prev]) && !bytes.HasPrefix(raw[t.End:], []byte("["))
	case ":", "__attribute__", "alignas":
		unnamed = tag
	}
	return unnamed
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

// renumbers reports whether a source has a directive that makes its presumed
// positions differ from the real ones.
func renumbers(b []byte) bool {
	for _, hash := range []string{"#", "%:"} {
		for i := 0; ; i++ {
			n := bytes.Index(b[i:], []byte(hash))
			if n < 0 {
				break
			}
			i += n
			before := bytes.TrimRight(b[:i], " \t")
			after := bytes.TrimLeft(b[i+len(hash):], " \t")
			if (len(before) == 0 || before[len(before)-1] == '\n') && len(after) > 0 && (isDigit(after[0]) || bytes.HasPrefix(after, []byte("line"))) {
				return true
			}
		}
	}
	return false
}

// sources holds the lines of source files.
type sources map[string][][]byte

// lines returns the lines first to last of a file, or nil if it can't be read or
// counts its lines in another way.
func (s sources) lines(file string, first, last int) []byte {
	l, known := s[file]
	if !known {
		if b, err := os.ReadFile(file); err == nil && !renumbers(b) {
			l = bytes.SplitAfter(b, []byte("\n"))
		}
		s[file] = l
	}
	if first < 1 || first > len(l) || last < first {
		return nil
	}
	return bytes.Join(l[first-1:min(last, len(l))], nil)
}

// pin completes what there is to know of pinned sites, and reports whether all
// sites are pinned; if one isn't, or its source can't be read, none is.
//
// A site reads the line where the invocation of the macro ends that it stems
// from, and the preprocessor's output only shows where that begins, and where
// the next token behind it is. So the tokens between count by their lines, of
// the source as it is.
func (u *Unit) pin() bool {
	s := sources{}
	ends, names := sha256.New(), sha256.New()
	for _, site := range u.Sites {
		text := s.lines(site.file, site.first, site.last)
		if !site.Pinned || text == nil {
			return u.unpin()
		}
		invocation(ends, text, site)
	}
	if u.Clang {
		for _, at := range u.unnamed {
			text := s.lines(at.file, at.line, at.line)
			if text == nil {
				return u.unpin()
			}
			fmt.Fprintf(names, "%s:%d %s", at.file, at.line, text)
		}
		u.Unnamed = hex.EncodeToString(names.Sum(nil))
	}
	u.Flags = append(u.Flags, "expansions:"+hex.EncodeToString(ends.Sum(nil)))
	return true
}

func (u *Unit) unpin() bool {
	for i := range u.Sites {
		u.Sites[i].Pinned = false
	}
	return false
}

// invocation hashes the tokens of text, which begins with the line of a site,
// up to the end of the invocation.
func invocation(h io.Writer, text []byte, site Site) {
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
		if line == site.last-site.first && line > 0 && depth == 0 && before.Kind != Ident && string(word) == site.next {
			break // it ended on a line before
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
	fmt.Fprintln(h, "end")
}
