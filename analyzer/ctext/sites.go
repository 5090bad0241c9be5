package ctext

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
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

	at sourceLine
}

// sourceLine is a line of a file, whose name is spelled as in a line marker.
type sourceLine struct {
	file string
	line int
}

// siteTokens are the identifiers whose value is their own source position.
var siteTokens = words("__builtin_LINE __builtin_FILE __builtin_FILE_NAME __builtin_COLUMN __builtin_source_location")

// isSite reports whether a token is a site. clang's C++ names lambdas and types
// without a name by their positions; what fails of gcc's contracts says where.
func (u *Unit) isSite(t string) bool {
	switch t {
	case "__PRETTY_FUNCTION__", "__builtin_dump_struct", "__FUNCSIG__", "L__FUNCSIG__", "__builtin_FUNCSIG":
		return u.Clang && u.Lang == "c++"
	case "contract_assert", "pre", "post":
		return !u.Clang && u.Lang == "c++" && slices.ContainsFunc(u.Flags, func(f string) bool {
			return strings.HasPrefix(f, "-std=") && (strings.HasSuffix(f, "26") || strings.HasSuffix(f, "2c") || strings.HasSuffix(f, "29") || strings.HasSuffix(f, "2d")) || strings.HasPrefix(f, "-fcontract")
		})
	}
	return siteTokens[t]
}

// A place follows the tokens of C++ and tells whether a site there can be
// pinned: it reads its own position. In a default argument or a default member
// initialiser it reads that of the call or of the constructor, which may be
// anywhere. So the answer is yes only in a statement, in a block, behind no
// "=". That is where the C library's assert puts sites.
type place struct {
	scopes []scope // of open braces, the innermost last
	heads  []head  // of open parentheses
	now    scope
	prev   string // the last token
	head   bool   // can a block follow the parentheses that prev closes?
	tag    bool   // prev is struct, class, union or enum
	doubt  bool   // braces closed behind a pinned site without a ";": an initialiser?
}

// head is what precedes a parenthesis.
type head struct {
	block bool // a block can follow the closing one
	fails bool // the C or C++ library's function for a failed assertion
}

type scope struct {
	block  bool
	assign bool // "=" was seen since the last ";"
	site   bool // a pinned site was seen since the last ";"
}

// blockHeads are the keywords whose parentheses a block may follow.
var blockHeads = words("if while for switch catch constexpr")

// noNames are other words that may precede a parenthesis and name no function:
// behind these a brace may belong to an expression.
var noNames = words(`alignas alignof and and_eq asm auto bitand bitor bool case char char8_t char16_t char32_t co_await co_return co_yield
	compl const_cast decltype delete do double dynamic_cast else explicit float goto int long new noexcept not not_eq operator or or_eq
	reinterpret_cast requires return short signed sizeof static_assert static_cast throw typeid typeof unsigned void wchar_t xor xor_eq`)

// blockWords may stand between a function's parameters and its body, or in
// front of a block.
var blockWords = words("; { } else do try const noexcept override final mutable")

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
var lambdaWords = words(`and and_eq bitand bitor case co_await co_return co_yield compl constexpr do else __extension__ not not_eq or or_eq requires return sizeof throw xor xor_eq`)

// tags begin types.
var tags = words("struct class union enum")

// token takes the next token, and reports whether a lambda may begin there, or
// a type without a name with the token before.
func (p *place) token(t Token, raw []byte) (unnamed bool) {
	text := ""
	if t.Kind == Ident || t.Kind == Punct {
		text = string(raw[t.Off:t.End])
	}
	switch text {
	case "<%":
		text = "{"
	case "%>":
		text = "}"
	case "<:":
		text = "["
	case ":>":
		text = "]"
	}
	prev, block, tag := p.prev, p.head, p.tag
	p.prev, p.head, p.tag = text, false, tags[text]
	word := prev != "" && isIdentStart(prev[0])
	switch text {
	case "=":
		p.now.assign = true
	case ";":
		p.now.assign, p.now.site = false, false
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
		p.doubt = p.doubt || p.now.site
		if n := len(p.scopes); n > 0 {
			p.now, p.scopes = p.scopes[n-1], p.scopes[:n-1]
		}
	case "[":
		// "[[" begins an attribute.
		unnamed = tag || prev != "[" && (!word || lambdaWords[prev]) && !bytes.HasPrefix(raw[t.End:], []byte("["))
	case ":", "__attribute__", "__attribute", "__declspec", "alignas":
		unnamed = tag
	}
	return unnamed
}

// marker returns the line marker that says that what follows is at line of
// file, which may be one of the system's.
func marker(file string, line int, system bool) string {
	flags := ""
	if system {
		flags = " 3"
	}
	return fmt.Sprintf("# %d \"%s\"%s\n", line, strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(file), flags)
}

// renumbers reports whether a source may have a directive that makes its
// presumed positions differ from the real ones, in whatever spelling, or line
// ends that compilers count in another way.
func renumbers(b []byte) bool {
	for _, hash := range []string{"#", "%:", "??="} {
		for i := 0; ; i++ {
			n := bytes.Index(b[i:], []byte(hash))
			if n < 0 {
				break
			}
			i += n
			// Comments may stand in front of a directive.
			before := bytes.TrimRight(b[:i], " \t\f\v")
			if len(before) > 0 && before[len(before)-1] != '\n' && !bytes.HasSuffix(before, []byte("*/")) {
				continue
			}
			after := bytes.TrimLeft(b[i+len(hash):], " \t\f\v")
			if len(after) > 0 && (isDigit(after[0]) || after[0] == '/' || after[0] == '\\' || bytes.HasPrefix(after, []byte("line")) || bytes.HasPrefix(after, []byte("??/"))) {
				return true
			}
		}
	}
	for i, c := range b {
		if c == '\r' && (i+1 == len(b) || b[i+1] != '\n') {
			return true
		}
	}
	return false
}

// sources holds the lines of source files.
type sources map[string][][]byte

// line returns a line, or nil if the file can't be read or counts its lines in
// another way.
func (s sources) line(at sourceLine) []byte {
	l, known := s[at.file]
	if !known {
		if b, err := os.ReadFile(at.file); err == nil && !renumbers(b) {
			l = bytes.SplitAfter(b, []byte("\n"))
		}
		s[at.file] = l
	}
	if at.line < 1 || at.line > len(l) {
		return nil
	}
	return l[at.line-1]
}

// complete reports whether what begins in a line of source also ends there: its
// parentheses do, and a statement or block. A site reads the line where the
// invocation of the macro ends that it stems from, and the preprocessor's output
// shows where that begins.
func complete(line []byte) bool {
	lex := NewLexer(line, 0)
	depth, last := 0, ""
	for {
		t := lex.Next()
		if t.Kind == EOF {
			return depth == 0 && (last == ";" || last == "{" || last == "}")
		}
		last = string(line[t.Off:t.End])
		switch last {
		case "(":
			depth++
		case ")":
			depth = max(0, depth-1)
		}
	}
}

// completeSites reports whether the lines of all sites are complete, and those of
// the source as it is.
func (u *Unit) completeSites(s sources) bool {
	if u.renumbered {
		return false
	}
	for _, site := range u.Sites {
		if !bytes.HasPrefix(u.Text[site.Off:], []byte("__PRETTY_FUNCTION__")) && !complete(s.line(site.at)) {
			return false
		}
	}
	return true
}

// pin completes what there is to know of the positions in a unit of C++, and
// reports whether that is all: every site is pinned, and its source can be read.
func (u *Unit) pin() bool {
	s := sources{}
	ok := u.completeSites(s) && !slices.ContainsFunc(u.Sites, func(s Site) bool { return !s.Pinned })
	if ok && u.Clang {
		h := sha256.New()
		for _, at := range u.unnamed {
			text := s.line(at)
			ok = ok && text != nil
			fmt.Fprintf(h, "%s:%d %s", at.file, at.line, text)
		}
		u.Unnamed = hex.EncodeToString(h.Sum(nil))
	}
	if !ok {
		u.unpin()
	}
	return ok
}

func (u *Unit) unpin() {
	u.Unnamed = ""
	for i := range u.Sites {
		u.Sites[i].Pinned = false
	}
}
