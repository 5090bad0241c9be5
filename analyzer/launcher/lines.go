package launcher

import (
	"bytes"
	"context"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/lazyregexp"
	"github.com/rules-tasting/rules_tasting/analyzer/token"
)

// mark stands for __LINE__ in the text that the preprocessor makes for askLines.
const mark = "__TASTING_LINE__"

const line = "__LINE__"

const builtinLine = "__builtin_LINE"

// builtins say where they stand, or where the caller does of the function whose
// default argument they are.
var builtins = []string{builtinLine, "__builtin_FUNCSIG", "__builtin_source_location", "__builtin_COLUMN"}

// asked is what of a unit asks for the line that it is on. It stays the same as long
// as all tokens do.
type asked struct {
	Files []string // whose text has something that does
	// Elsewhere says that it may be a line of any file: that of a caller of a function;
	// or that a directive asks, for which the preprocessor has a mark instead of a line.
	Elsewhere bool
}

// askLines has the preprocessor run, and returns what asks for lines in its text. No
// directive of the unit does.
func askLines(ctx context.Context, u *unit) (*asked, error) {
	args := append(slices.Clone(u.rest), "-E", "-w", "-U"+line, "-D"+line+"="+mark)
	text, err := exec.CommandContext(ctx, u.compiler, args...).Output()
	if err != nil {
		return nil, err
	}
	return asking(text), nil
}

// asking finds the files whose lines of a preprocessed text have mark in them, or a
// builtin; and whether a builtin stands where it could be that of a caller: it has
// to be in the body of a function, and not in parentheses behind "=".
func asking(text []byte) *asked {
	if markersInside(text) {
		return &asked{Elsewhere: true}
	}
	files := map[string]bool{}
	file, builtin := "", false
	for line := range bytes.Lines(text) {
		if f := marker(line); f != "" {
			file = f
			continue
		}
		by := slices.ContainsFunc(builtins, func(b string) bool { return bytes.Contains(line, []byte(b)) })
		builtin = builtin || by
		// A pragma may expand macros that the preprocessor's text still has.
		if by || bytes.Contains(line, []byte(mark)) || slices.ContainsFunc(pragmaWords(line), func(w string) bool { return !harmless[w] }) {
			files[file] = true
		}
	}
	return &asked{Files: slices.Sorted(maps.Keys(files)), Elsewhere: builtin && !inBodies(text)}
}

// markersInside tells whether a raw string has a line that begins as a marker does.
func markersInside(text []byte) bool {
	lex := token.New(text, 0)
	for t := lex.Next(); t.Kind != token.EOF; t = lex.Next() {
		if t.Kind != token.Marker && t.Kind != token.Pragma && bytes.Contains(text[t.Off:t.End], []byte("\n#")) {
			return true
		}
	}
	return false
}

// verbatimPragma matches pragmas in which compilers expand no macros.
var verbatimPragma = lazyregexp.New(`^#\s*pragma\s+(?:once|push_macro|pop_macro|(?:GCC|clang)\s+(?:diagnostic|system_header|visibility|poison|push_options|pop_options|optimize|target))\b`)

// harmless are words of pragmas that nobody defines as macros that ask for lines.
var harmless = map[string]bool{"GCC": true, "clang": true, "pack": true, "push": true, "pop": true, "unroll": true, "ivdep": true, "novector": true, "loop": true, "STDC": true, "FP_CONTRACT": true, "ON": true, "OFF": true, "DEFAULT": true}

// pragmaWords returns the words in a line of a preprocessed text that compilers may
// still expand: those of most pragmas.
func pragmaWords(line []byte) (words []string) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 || line[0] != '#' || verbatimPragma.Match(line) {
		return nil
	}
	rest, ok := bytes.CutPrefix(bytes.TrimLeft(line[1:], " \t"), []byte("pragma"))
	if !ok {
		return nil
	}
	for _, w := range anyWord.FindAll(rest, -1) {
		words = append(words, string(w))
	}
	return words
}

// in tells whether one of the files in moved is asked for a line.
func (a *asked) in(moved map[string]*scan) bool {
	return a.Elsewhere || slices.ContainsFunc(a.Files, func(f string) bool { return moved[f] != nil })
}

// scope is an open brace.
type scope struct {
	body bool // it is in the body of a function
	// Of the declaration or statement around it:
	parens  []bool // open parentheses; true behind "="
	called  bool   // it has parentheses
	tagged  bool   // it has class, struct, union, enum or namespace
	initial bool   // it has "="
	result  bool   // behind its parentheses there is a type, or a constraint
	members bool   // behind its parentheses there are initialisers of members
	based   bool   // behind class, struct, union or enum there is ":", up to a semicolon
	// Of the braces themselves: they are the outermost of a body, a builtin is in
	// them, a statement ends in them.
	outer, asks, ends bool
}

// next is the scope at its next declaration or statement.
func (s scope) next() scope {
	return scope{body: s.body, outer: s.outer, asks: s.asks, ends: s.ends}
}

// nesting is where in a text a reader of its tokens is.
type nesting struct {
	scope            // the innermost
	open     []scope // around it
	prev     string  // word
	template int     // open angles behind "template"
	inner    int     // parentheses in them
}

// inBodies tells whether all builtins of a text are in bodies of functions, and
// none of them in parentheses that have a "=" in front of it.
func inBodies(text []byte) bool {
	lex := token.New(text, 0)
	n := &nesting{}
	for {
		t := lex.Next()
		if t.Kind == token.EOF {
			return true
		}
		if t.Kind == token.Marker || t.Kind == token.Pragma {
			continue
		}
		word := string(text[t.Off:t.End])
		if t.Kind != token.Ident && t.Kind != token.Punct {
			word = "literal"
		}
		builtin := slices.Contains(builtins, word)
		switch {
		case n.inAngles(word):
			if builtin {
				return false
			}
		case word == "[" && t.End < len(text) && text[t.End] == '[': // an attribute
			if !skipAttribute(lex, text) {
				return false
			}
			continue
		case builtin:
			if !n.inBody() {
				return false
			}
			n.asks = true
		case !n.read(word):
			return false
		}
		n.prev = word
	}
}

// inAngles tells whether a word is in the angles behind "template".
func (n *nesting) inAngles(word string) bool {
	if n.template == 0 && (n.prev != "template" || word != "<") {
		return false
	}
	switch {
	case word == "(" || word == "{":
		n.inner++
	case word == ")" || word == "}":
		n.inner--
	case n.inner > 0:
	case word == "<":
		n.template++
	case word == ">":
		n.template--
	case word == ">>":
		n.template = max(0, n.template-2)
	}
	if n.inner >= 0 && (word != ";" || n.inner > 0) {
		return true
	}
	// The angles weren't all brackets. All others were closed, and none had a
	// builtin in it.
	n.template, n.inner = 0, 0
	return false
}

// inBody tells whether a builtin may be here.
func (n *nesting) inBody() bool {
	behind := slices.Contains(n.parens, true)
	for _, o := range n.open {
		behind = behind || o.body && slices.Contains(o.parens, true)
	}
	return n.body && !behind
}

// read goes on behind a word. It says false if it doesn't understand the text, or a builtin
// that it has read turns out not to be in a body.
func (n *nesting) read(word string) bool {
	switch word {
	case "(":
		n.parens = append(n.parens, false)
	case ")":
		if len(n.parens) == 0 {
			return false
		}
		n.parens = n.parens[:len(n.parens)-1]
		n.called = true
	case "=":
		if k := len(n.parens); k > 0 {
			n.parens[k-1] = true
		} else {
			n.initial = true
		}
	case ":":
		n.based = n.based || n.tagged && len(n.parens) == 0
		access := n.prev == "public" || n.prev == "private" || n.prev == "protected"
		n.initial = n.initial || !n.called && !access // a bit-field may have an initialiser
		n.members = n.members || n.called && len(n.parens) == 0
	case "->", "requires":
		n.result = n.result || n.called && len(n.parens) == 0
	case "class", "struct", "union", "enum", "namespace":
		n.tagged = true
	case "if", "for", "while", "switch", "do", "try", "return":
		n.ends = n.ends || len(n.parens) == 0 // it can't be in an initialiser
	case "{":
		n.enter()
	case "}":
		return n.leave()
	case ";":
		if len(n.parens) == 0 {
			n.ends = true
			n.scope = n.next()
		}
	}
	return true
}

// enter goes into braces.
func (n *nesting) enter() {
	behind := n.result
	switch n.prev {
	case ")", "const", "noexcept", "override", "final", "mutable", "try", "&", "&&":
		behind = true
	case "}":
		behind = n.members
	}
	// The members of a class in a body aren't in one.
	body := n.body && !n.tagged || n.called && !n.tagged && !n.initial && len(n.parens) == 0 && behind
	n.members = n.members && !behind // the brace of a member's initialiser
	n.open = append(n.open, n.scope)
	n.scope = scope{body: body, outer: body && !n.body}
}

// leave goes out of braces.
func (n *nesting) leave() bool {
	if len(n.open) == 0 || len(n.parens) > 0 {
		return false
	}
	asks := n.asks
	if n.outer && asks && !n.ends {
		return false // the initialiser of a member with parentheses
	}
	n.scope = n.open[len(n.open)-1]
	n.open = n.open[:len(n.open)-1]
	n.asks = n.asks || asks
	if len(n.parens) == 0 && !n.members && !n.based {
		n.scope = n.next() // most likely it ends a declaration
	}
	return true
}

// skipAttribute goes on behind "]]" from the first "[" of an attribute.
func skipAttribute(lex *token.Lexer, text []byte) bool {
	for depth := 1; depth > 0; {
		t := lex.Next()
		switch {
		case t.Kind == token.EOF:
			return false
		case text[t.Off] == '[':
			depth++
		case text[t.Off] == ']':
			depth--
		case slices.Contains(builtins, string(text[t.Off:t.End])):
			return false
		}
	}
	return true
}

// conditional tells whether a directive may ask for the line that it is on: those of
// files that don't move are read with a mark there. Files are those of the unit, and
// what else defines macros.
func conditional(files []*scan) bool {
	reached := map[string]bool{} // words that the expansion of a directive may have
	reach := func(words []string) {
		for _, w := range words {
			reached[w] = true
			if fromCompiler.MatchString(w) {
				for _, x := range strings.Fields("_ L LL U UL ULL F long int short char signed unsigned float double") {
					reached[x] = true
				}
			}
		}
	}
	defined := map[string][]*macro{}
	for _, x := range files {
		reach(x.Conditions)
		for i := range x.Macros {
			m := &x.Macros[i]
			defined[m.Name] = append(defined[m.Name], m)
		}
	}
	expanded, pastes := map[string]bool{}, false
	for n := -1; n != len(reached); {
		n = len(reached)
		for name, all := range defined {
			if !reached[name] && pastes && composes(name, reached) {
				reached[name] = true
			}
			if !reached[name] || expanded[name] {
				continue
			}
			expanded[name] = true
			for _, m := range all {
				pastes = pastes || m.Pastes
				reach(m.Words)
			}
			n = -1 // to look once more
		}
		if reached[line] || pastes && composes(line, reached) {
			return true
		}
	}
	return false
}

// fromCompiler matches macros of the compiler that stand for words.
var fromCompiler = lazyregexp.New(`^__.*_(SUFFIX|TYPE|PREFIX)__$`)

// composes tells whether a word is two or more parts, one behind the other. Numbers,
// which may have letters, can be parts, too.
func composes(word string, parts map[string]bool) bool {
	ends := make([]bool, len(word)+1) // of parts
	ends[0] = true
	for i := range len(word) {
		for j := i + 1; ends[i] && j <= len(word); j++ {
			if j-i < len(word) && (word[i] >= '0' && word[i] <= '9' || parts[word[i:j]]) {
				ends[j] = true
			}
		}
	}
	return ends[len(word)]
}

// marker returns the file that a line marker names, or "": # LINE "FILE" FLAGS.
func marker(line []byte) string {
	if len(line) < 3 || line[0] != '#' || line[1] != ' ' || line[2] < '0' || line[2] > '9' {
		return ""
	}
	n, rest, ok := bytes.Cut(line[2:], []byte(` "`))
	end := bytes.LastIndexByte(rest, '"')
	if _, err := strconv.Atoi(string(n)); !ok || end < 0 || err != nil {
		return ""
	}
	quoted := string(rest[:end+1])
	if name, err := strconv.Unquote(`"` + quoted); err == nil {
		quoted = name
	}
	return filepath.Clean(quoted)
}
