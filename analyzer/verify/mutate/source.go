package mutate

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/words"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/token"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/witness"
)

// source is the text that the mutation campaign edits: a translation unit with
// all its headers in one file, but before macro expansion, so that comments,
// macros, conditionals and pragmas can be edited as well as code.
type source struct {
	name string
	text []byte
	cxx  bool
	toks []lexeme
	// funcs are the function definitions, in order.
	funcs []function
	// records are the bodies of structs, unions and enums.
	records []record
	// statics, names and fields are the names declared in the unit's own files.
	statics []string
	globals []string
	// decls and classes are those of C++. The classes of system headers are
	// among them, without members.
	decls   []decl
	classes []class
	// byName are the classes of each name, ancestors and derived those that each
	// class is derived from, and the reverse.
	byName             map[string][]int
	ancestors, derived [][]int
	// conds are the conditionals of C++ sources that are open, and branches the
	// indices of tokens where branches of conditionals begin and end.
	conds    []cond
	branches []branch
}

// cond is an #if: its present branch, or all that follow, are left out.
type cond struct{ out, rest bool }

type branch struct {
	tok  int
	word string
}

// lexeme is a token that may be edited: comments aren't tokens, and directives
// are split into tokens like other lines.
type lexeme struct {
	token.Token
	s string
	// own is true in the unit's own files, false in system headers.
	own bool
	// directive is the name of the directive that the token belongs to.
	directive string
	// depth of brackets of any kind, at this token (of an opening bracket: the
	// depth outside).
	depth int
	// match is the index of the matching bracket, -1 if there is none.
	match int
	// fn is the index of the function whose body holds the token, -1 outside.
	fn int
}

// function is a definition: toks[head:body] is everything before its body,
// toks[body:end] the body with its braces.
type function struct {
	name            string
	head, body, end int
	static          bool
	params          []string
	locals          []string
	labels          []string
}

type record struct {
	kind       string // struct, union, enum
	name       string
	body, end  int
	fieldEnds  []int // indices of the ; or , that end a field or enumerator
	enumerator []string
}

// rewriteIncludes returns the unit's text with all headers in place of their
// #include lines, macros unexpanded.
func rewriteIncludes(ctx context.Context, argv []string) ([]byte, error) {
	flags, text, src, err := witness.SplitArgs(argv)
	if err != nil {
		return nil, err
	}
	how := "-fdirectives-only" // of gcc
	if version, err := exec.CommandContext(ctx, argv[0], "--version").Output(); err != nil {
		return nil, fmt.Errorf("%s can't be started: %w", argv[0], err)
	} else if bytes.Contains(version, []byte("clang version")) {
		how = "-frewrite-includes"
	}
	cmd := exec.CommandContext(ctx, argv[0], slices.Concat(flags, text, []string{"-w", "-E", how, src})...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, witness.CompileError(ctx, src, err, stderr.String())
	}
	return out, nil
}

// readSource lexes text. With main, only what is in the file of that name is
// the unit's own.
func readSource(name string, text []byte, cxx, main bool) *source {
	s := &source{name: name, text: text, cxx: cxx}
	own := true
	skip := 0 // depth of #if 0 blocks, where the rewriter keeps #include lines
	lex := token.New(text, 0)
	for {
		t := lex.Next()
		if t.Kind == token.EOF {
			break
		}
		str := string(text[t.Off:t.End])
		switch t.Kind {
		case token.Marker:
			f := strings.Fields(str)
			own = true
			for _, x := range f[min(len(f), 3):] {
				if x == "3" {
					own = false
				}
			}
			if strings.Contains(str, `"<`) || main && !strings.Contains(str, strconv.Quote(name)) {
				own = false
			}
			continue
		case token.Pragma:
			end := t.End
			for end < len(text) && text[end-1] == '\\' { // continued directive
				next := bytes.IndexByte(text[end+1:], '\n')
				if next < 0 {
					end = len(text)
				} else {
					end += 1 + next
				}
			}
			skip = s.directive(t.Off, end, own, skip)
			lex = token.New(text, min(end, len(text)))
			continue
		}
		if skip > 0 {
			continue
		}
		s.toks = append(s.toks, lexeme{Token: t, s: str, own: own, match: -1, fn: -1})
	}
	s.structure()
	return s
}

// directive adds the tokens of a directive and returns the new depth of
// skipped blocks.
func (s *source) directive(off, end int, own bool, skip int) int {
	line := s.text[off+1 : end]
	f := strings.Fields(string(line))
	word := ""
	if len(f) > 0 {
		word = f[0]
	}
	switch {
	case s.cxx:
		skip = s.conditional(word, f)
	case strings.HasPrefix(word, "if"):
		if skip > 0 || word == "if" && len(f) > 1 && f[1] == "0" {
			return skip + 1
		}
	case word == "endif" && skip > 0:
		return skip - 1
	case word == "else" || word == "elif":
		if skip == 1 {
			return 0
		}
	}
	if skip > 0 || word != "define" && word != "pragma" {
		return skip
	}
	lex := token.New(line, 0)
	for i := 0; ; i++ {
		t := lex.Next()
		if t.Kind == token.EOF {
			return skip
		}
		if i == 0 { // the directive's own name
			continue
		}
		t.Off += off + 1
		t.End += off + 1
		s.toks = append(s.toks, lexeme{Token: t, s: string(s.text[t.Off:t.End]), own: own, directive: word, match: -1, fn: -1})
	}
}

// conditional follows a directive of C++ and returns 1 if what comes next is
// left out. Branches of a class or function have to be known there, where
// brackets nest deeply. The rewriter has evaluated #if and #elif, but not
// #ifdef: all branches of it are read.
func (s *source) conditional(word string, f []string) int {
	skip := func() int {
		for _, c := range s.conds {
			if c.out {
				return 1
			}
		}
		return 0
	}
	arg := ""
	if len(f) > 1 {
		arg = f[1]
	}
	top := len(s.conds) - 1
	switch {
	case strings.HasPrefix(word, "if"):
		s.conds = append(s.conds, cond{out: word == "if" && arg == "0", rest: word == "if" && arg == "1"})
	case top < 0:
	case word == "elif" && !s.conds[top].rest:
		s.conds[top] = cond{out: arg == "0", rest: arg == "1"}
	case strings.HasPrefix(word, "el"):
		s.conds[top].out = s.conds[top].rest
	case word == "endif":
		s.conds = s.conds[:top]
	}
	if strings.HasPrefix(word, "if") || strings.HasPrefix(word, "el") || word == "endif" {
		s.branches = append(s.branches, branch{len(s.toks), word})
	}
	return skip()
}

// keyword reports a keyword of the source's language.
func (s *source) keyword(w string) bool { return keywords[w] || s.cxx && cxxKeywords[w] }

var keywords = words.Set(`auto break case char const continue default do double else enum extern float for goto if inline int long register
		restrict return short signed sizeof static struct switch typedef union unsigned void volatile while _Alignas _Alignof _Atomic _Bool _Complex
		_Generic _Imaginary _Noreturn _Static_assert _Thread_local asm __asm__ __attribute__ __extension__ __inline __inline__ __restrict __volatile__ typeof __typeof__ defined`)

var cxxKeywords = words.Set(`alignas alignof and bool catch char8_t char16_t char32_t class co_await co_return co_yield concept consteval constexpr constinit
	const_cast decltype delete dynamic_cast explicit export false friend mutable namespace new noexcept not nullptr operator or private protected public
	reinterpret_cast requires static_assert static_cast template this thread_local throw true try typeid typename using virtual wchar_t`)

// structure finds brackets, functions, records and names. It knows C only as
// far as edits need it: an edit that makes no sense doesn't compile, and is
// thrown away.
func (s *source) structure() {
	var stack []int
	var saved [][]int
	branches := s.branches
	for i := range s.toks {
		// Every branch of a conditional starts with the same open brackets.
		for ; len(branches) > 0 && branches[0].tok <= i; branches = branches[1:] {
			switch top, word := len(saved)-1, branches[0].word; {
			case strings.HasPrefix(word, "if"):
				saved = append(saved, slices.Clone(stack))
			case top < 0:
			case word == "endif":
				saved = saved[:top]
			default:
				stack = slices.Clone(saved[top])
			}
		}
		t := &s.toks[i]
		if t.directive != "" {
			t.depth = len(stack)
			continue
		}
		switch t.s {
		case ")", "]", "}":
			if n := len(stack); n > 0 {
				open := stack[n-1]
				stack = stack[:n-1]
				s.toks[open].match, t.match = i, open
			}
		}
		t.depth = len(stack)
		switch t.s {
		case "(", "[", "{":
			stack = append(stack, i)
		}
	}
	if s.cxx {
		s.scan(0, len(s.toks), -1, "")
		s.relate()
		return
	}
	start := 0 // of the present external declaration
	for i := 0; i < len(s.toks); i++ {
		t := &s.toks[i]
		if t.directive != "" || t.depth > 0 {
			continue
		}
		switch {
		case t.s == "{" && t.match > i && s.isFunction(start, i):
			s.addFunction(start, i, t.match+1)
			i = t.match
			start = i + 1
		case t.s == "{" && t.match > i:
			i = t.match
		case t.s == ";":
			s.addGlobals(start, i)
			start = i + 1
		}
	}
	for i := range s.toks {
		s.addRecord(i)
	}
}

// code returns the index of the next token after i that isn't in a directive.
func (s *source) next(i int) int {
	for i++; i < len(s.toks) && s.toks[i].directive != ""; i++ {
	}
	return i
}

func (s *source) prev(i int) int {
	for i--; i >= 0 && s.toks[i].directive != ""; i-- {
	}
	return i
}

func (s *source) at(i int) string {
	if i < 0 || i >= len(s.toks) {
		return ""
	}
	return s.toks[i].s
}

func (s *source) isFunction(start, brace int) bool {
	p := s.prev(brace)
	if s.at(p) != ")" || p < start {
		return false
	}
	for i := start; i < brace; i++ {
		if s.toks[i].s == "=" && s.toks[i].depth == 0 && s.toks[i].directive == "" {
			return false
		}
	}
	return true
}

func (s *source) addFunction(start, brace, end int) {
	f := function{head: start, body: brace, end: end}
	// The name is before the first parenthesis at depth 0 that follows an
	// identifier.
	open := -1
	for i := start; i < brace; i++ {
		t := s.toks[i]
		if t.directive != "" || t.depth > s.toks[brace].depth {
			continue
		}
		if t.s == "static" {
			f.static = true
		}
		p := s.prev(i)
		if t.s == "(" && open < 0 && p >= start && s.toks[p].Kind == token.Ident && !s.keyword(s.at(p)) && s.at(p) != "__attribute__" {
			f.name, open = s.at(p), i
		}
	}
	if f.name == "" && !s.cxx {
		return
	}
	k := len(s.funcs)
	for i := brace; i < end; i++ {
		s.toks[i].fn = k
	}
	for i := open; open >= 0 && i < s.toks[open].match; i++ {
		n := s.at(s.next(i))
		if s.toks[i].Kind == token.Ident && !s.keyword(s.toks[i].s) && (n == "," || n == ")" || n == "[") {
			f.params = append(f.params, s.toks[i].s)
		}
	}
	for i := brace; i < end; i++ {
		t := s.toks[i]
		if t.directive != "" || t.Kind != token.Ident || s.keyword(t.s) {
			continue
		}
		p, n := s.at(s.prev(i)), s.at(s.next(i))
		pi := s.prev(i)
		if n == ":" && (p == ";" || p == "{" || p == "}" || p == ":") {
			f.labels = append(f.labels, t.s)
		}
		typeBefore := p == "*" && s.toks[s.prev(pi)].Kind == token.Ident && (s.at(s.prev(s.prev(pi))) == ";" || s.at(s.prev(s.prev(pi))) == "{" || s.at(s.prev(s.prev(pi))) == "}") ||
			s.toks[pi].Kind == token.Ident && p != "return" && p != "goto" && p != "else" && p != "case" && p != "sizeof"
		if typeBefore && (n == "=" || n == ";" || n == "," || n == "[") {
			f.locals = append(f.locals, t.s)
		}
	}
	s.funcs = append(s.funcs, f)
	if f.static && s.toks[brace].own {
		s.statics = append(s.statics, f.name)
	}
}

// addGlobals notes the names of variables at file scope.
func (s *source) addGlobals(start, end int) {
	if end <= start || !s.toks[end].own || s.at(start) == "typedef" {
		return
	}
	for i := start; i < end; i++ {
		t := s.toks[i]
		n := s.at(s.next(i))
		if t.directive == "" && t.depth == 0 && t.Kind == token.Ident && !s.keyword(t.s) && i > start && (n == "=" || n == ";" || n == "[") {
			s.globals = append(s.globals, t.s)
			return
		}
	}
}

func (s *source) addRecord(i int) {
	kind := s.toks[i].s
	if s.toks[i].directive != "" || kind != "struct" && kind != "union" && kind != "enum" {
		return
	}
	r := record{kind: kind}
	j := s.next(i)
	if j < len(s.toks) && s.toks[j].Kind == token.Ident {
		r.name = s.toks[j].s
		j = s.next(j)
	}
	if s.at(j) != "{" || s.toks[j].match < 0 || !s.toks[j].own {
		return
	}
	r.body, r.end = j, s.toks[j].match
	sep := ";"
	if kind == "enum" {
		sep = ","
	}
	for k := j + 1; k < r.end; k++ {
		if s.toks[k].directive == "" && s.toks[k].depth == s.toks[j].depth+1 {
			if s.toks[k].s == sep {
				r.fieldEnds = append(r.fieldEnds, k)
			}
			p := s.at(s.prev(k))
			if kind == "enum" && s.toks[k].Kind == token.Ident && (p == "{" || p == ",") {
				r.enumerator = append(r.enumerator, s.toks[k].s)
			}
		}
	}
	s.records = append(s.records, r)
}

// parseInt reads a decimal, octal or hexadecimal literal without its suffix.
func parseInt(s string) (v uint64, suffix string, ok bool) {
	digits := strings.TrimRight(s, "uUlL")
	v, err := strconv.ParseUint(digits, 0, 64)
	return v, s[len(digits):], err == nil
}
