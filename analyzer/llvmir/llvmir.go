// Package llvmir reads the text of a module of LLVM IR as clang's front end
// emits it, before any pass, and says for each function and variable what its
// content is and what it refers to.
//
// # Why IR
//
// C++ says little where things happen: a declaration calls constructors, a
// closing brace destructors, a cast a conversion, a class has a virtual table,
// a template is instantiated by a call. clang's dump of the syntax tree leaves
// much of that to the reader. The front end's own lowering says all of it: all
// that an optimiser and a code generator will ever see of a program is in its
// IR. So two functions with the same IR, under the same flags, are the same
// code, and what a function can reach is what its IR names.
//
// # What counts
//
// Numbered things (types, attribute groups, metadata, constants without a
// name) are replaced by a digest of what they stand for, so that their numbers,
// which depend on all of the module, don't count. References to functions and
// variables that are local to the module are numbered in the order of their
// first use; others are named, with the declaration that the user sees. Values
// and basic blocks are numbered by clang, for each function by itself.
//
// The language is that of https://llvm.org/docs/LangRef.html, as far as clang
// writes it. Whatever isn't understood is an error, never ignored.
package llvmir

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ErrIR says that a text isn't a complete module.
var ErrIR = errors.New("not the text of a complete LLVM IR module")

// Kind of a Global.
type Kind uint8

// The kinds of globals.
const (
	Function Kind = iota
	Variable
	Alias
	IFunc
)

// Linkage of a Global.
type Linkage uint8

// The linkages of definitions. Inline stands for definitions that are there for
// the optimiser only (available_externally): another module has the symbol.
const (
	External Linkage = iota
	Weak
	Local
	Inline
)

// Global is a definition.
type Global struct {
	// Symbol is the linker's name.
	Symbol  string
	Kind    Kind
	Linkage Linkage
	// Content is everything about the definition but its own name and the names
	// of local globals.
	Content []byte
	// Refs are the symbols that Content refers to, in order of first use;
	// those of local globals stand for the numbers in Content.
	Refs []string
	// AddressTaken is true if anything but a call refers to it.
	AddressTaken bool
	// Weak is true if one of Refs may stay undefined.
	Weak bool
	// Asm is true if Content holds inline asm. Words are the identifiers in it,
	// sorted: they may be symbols.
	Asm   bool
	Words []string
	// Places is true if a string in Content holds what clang calls a lambda or a
	// type without a name: its position in the source.
	Places bool
	// Section is the section that the source asks for.
	Section string
	// Position orders the definitions of a module as they are emitted.
	Position int
	// Appended is true for the module's tables for the linker (llvm.global_ctors).
	Appended bool
}

// Module is a translation unit.
type Module struct {
	Globals []*Global
	// Asm is the text of file-scope asm, in order.
	Asm []string
	// State is what holds for all of the module: target, flags, options for the
	// linker.
	State []string
}

// definition is a named thing of the module.
type definition struct {
	text []byte // after "NAME = ", or all of a declaration or definition
	body []byte // of a function
	pos  int    // in the module

	digest string // memoised, "" if not
	refs   []string
	words  []string
	asm    bool
	places bool
}

type reader struct {
	globals map[string]*definition // with '@'
	other   map[string]*definition // types, attributes, metadata, comdats, by name with sigil
	taken   map[string]bool        // symbols that are used by other than a call
	weak    map[string]bool        // symbols of declarations that may stay undefined
	stack   []string
}

// Parse reads the text of a module.
func Parse(b []byte) (*Module, error) {
	r := &reader{globals: map[string]*definition{}, other: map[string]*definition{}, weak: map[string]bool{}, taken: map[string]bool{}}
	m := &Module{}
	var fn *definition
	var begin int
	var named []string
	for off := 0; off < len(b); {
		end := bytes.IndexByte(b[off:], '\n')
		if end < 0 {
			return nil, fmt.Errorf("%w: the last line has no end", ErrIR)
		}
		line := b[off : off+end]
		next := off + end + 1
		pos := off
		off = next
		if fn != nil {
			if len(line) == 1 && line[0] == '}' {
				fn.body = b[begin:pos]
				fn = nil
			}
			continue
		}
		define := func(table map[string]*definition, name string, text []byte) (*definition, error) {
			if name == "" || table[name] != nil {
				return nil, fmt.Errorf("%w: %q is defined twice", ErrIR, name)
			}
			d := &definition{text: text, pos: pos}
			table[name] = d
			return d, nil
		}
		var err error
		switch {
		case len(line) == 0 || line[0] == ';':
		case bytes.HasPrefix(line, []byte("define ")):
			if !bytes.HasSuffix(line, []byte(" {")) {
				return nil, fmt.Errorf("%w: a function without a body", ErrIR)
			}
			fn, err = define(r.globals, symbolIn(line), line[:len(line)-2])
			begin = next
		case bytes.HasPrefix(line, []byte("declare ")):
			_, err = define(r.globals, symbolIn(line), line)
		case bytes.HasPrefix(line, []byte("module asm ")):
			m.Asm = append(m.Asm, unquote(string(line[len("module asm "):])))
		case bytes.HasPrefix(line, []byte("source_filename = ")):
		case bytes.HasPrefix(line, []byte("target ")):
			m.State = append(m.State, string(line))
		case bytes.HasPrefix(line, []byte("attributes #")):
			name, text, ok := bytes.Cut(line[len("attributes "):], []byte(" = "))
			if !ok {
				return nil, fmt.Errorf("%w: %.80s", ErrIR, line)
			}
			_, err = define(r.other, string(name), text)
		case line[0] == '@' || line[0] == '%' || line[0] == '$' || line[0] == '!':
			n := nameLen(line)
			text, ok := bytes.CutPrefix(line[n:], []byte(" = "))
			if !ok {
				return nil, fmt.Errorf("%w: %.80s", ErrIR, line)
			}
			name := string(line[:n])
			switch {
			case line[0] == '@':
				_, err = define(r.globals, name, text)
			case len(line) > 1 && line[0] == '!' && !digit(line[1]):
				named = append(named, name)
				_, err = define(r.other, name, text)
			case len(line) > 1 && line[0] == '%' && digit(line[1]):
				return nil, fmt.Errorf("%w: type %s has no name", ErrIR, name)
			default:
				_, err = define(r.other, name, text)
			}
		default:
			return nil, fmt.Errorf("%w: %.80s", ErrIR, line)
		}
		if err != nil {
			return nil, err
		}
	}
	if fn != nil {
		return nil, fmt.Errorf("%w: a function has no end", ErrIR)
	}
	if r.other["!llvm.ident"] == nil {
		return nil, fmt.Errorf("%w: it has no llvm.ident", ErrIR)
	}
	for _, name := range named {
		w := &writer{}
		if err := r.write(w, r.other[name].text, false); err != nil {
			return nil, err
		}
		if len(w.refs) > 0 {
			return nil, fmt.Errorf("%w: %s refers to globals", ErrIR, name)
		}
		if name != "!llvm.ident" {
			m.State = append(m.State, name+" = "+string(w.out))
		}
	}
	for name, d := range r.globals {
		if d.declares() && d.has("extern_weak") {
			r.weak[symbol(name)] = true
		}
	}
	for name, d := range r.globals {
		g, err := r.global(name, d)
		if err != nil {
			return nil, err
		}
		if g != nil {
			m.Globals = append(m.Globals, g)
		}
	}
	for _, g := range m.Globals {
		g.AddressTaken = r.taken[g.Symbol]
	}
	slices.SortFunc(m.Globals, func(a, b *Global) int { return strings.Compare(a.Symbol, b.Symbol) })
	return m, nil
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// symbolIn returns the first @name of a line, outside of quotes.
func symbolIn(line []byte) string {
	for i := 0; i < len(line); {
		switch line[i] {
		case '"':
			i += quoted(line[i:])
		case '@':
			return string(line[i : i+nameLen(line[i:])])
		case '%', '$':
			i += nameLen(line[i:])
		default:
			i++
		}
	}
	return ""
}

// quoted returns the length of the quoted string at the start of s. Quotes in
// it are escaped as \22.
func quoted(s []byte) int {
	if i := bytes.IndexByte(s[1:], '"'); i >= 0 {
		return i + 2
	}
	return len(s)
}

// nameLen returns the length of the name at the start of s, sigil included.
func nameLen(s []byte) int {
	if len(s) > 1 && s[1] == '"' {
		return 1 + quoted(s[1:])
	}
	n := 1
	for n < len(s) && (s[n] == '_' || s[n] == '.' || s[n] == '$' || s[n] == '-' || digit(s[n]) || s[n] >= 'a' && s[n] <= 'z' || s[n] >= 'A' && s[n] <= 'Z') {
		n++
	}
	return n
}

// unquote decodes a quoted string or name, \XX escapes included.
func unquote(s string) string {
	s = strings.TrimSuffix(strings.TrimPrefix(s, `"`), `"`)
	if !strings.Contains(s, `\`) {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+2 < len(s) {
			if v, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				out.WriteByte(byte(v))
				i += 2
				continue
			}
		}
		if s[i] == '\\' && i+1 < len(s) && s[i+1] == '\\' {
			i++
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

// symbol returns the linker's name of @name; \01 at its start keeps the
// linker's name from being mangled.
func symbol(name string) string { return strings.TrimPrefix(unquote(name[1:]), "\x01") }

// words returns the words of a definition's head, before any type or value.
func head(text []byte) []string {
	var out []string
	for _, w := range strings.Fields(string(text[:min(len(text), 400)])) {
		if strings.ContainsAny(w, "%@{[") {
			break
		}
		out = append(out, w)
	}
	return out
}

// global describes a definition, nil for a declaration and what is written out
// where it is used.
func (r *reader) global(name string, d *definition) (*Global, error) {
	if d.declares() || d.inlined() {
		return nil, nil
	}
	g := &Global{Symbol: symbol(name), Kind: d.kind(), Linkage: d.linkage(), Position: d.pos}
	w := &writer{self: name, words: map[string]bool{}}
	if err := r.write(w, d.text, true); err != nil {
		return nil, err
	}
	if d.body != nil {
		w.out = append(w.out, '\n')
		if err := r.write(w, d.body, false); err != nil {
			return nil, err
		}
	}
	g.Content, g.Refs, g.Asm, g.Places = w.out, w.refs, w.asm, w.places
	g.Weak = slices.ContainsFunc(g.Refs, func(s string) bool { return r.weak[s] })
	for s := range w.words {
		g.Words = append(g.Words, s)
	}
	slices.Sort(g.Words)
	if _, rest, ok := bytes.Cut(d.text, []byte(`, section "`)); ok || bytes.Contains(d.text, []byte(` section "`)) {
		if !ok {
			_, rest, _ = bytes.Cut(d.text, []byte(` section "`))
		}
		s, _, _ := bytes.Cut(rest, []byte(`"`))
		g.Section = string(s)
	}
	g.Appended = slices.Contains(head(d.text), "appending")
	return g, nil
}

func (d *definition) kind() Kind {
	if bytes.HasPrefix(d.text, []byte("define ")) || bytes.HasPrefix(d.text, []byte("declare ")) {
		return Function
	}
	for _, w := range head(d.text) {
		switch w {
		case "alias":
			return Alias
		case "ifunc":
			return IFunc
		case "global", "constant":
			return Variable
		}
	}
	return Variable
}

func (d *definition) has(words ...string) bool {
	for _, w := range head(d.text) {
		if slices.Contains(words, w) {
			return true
		}
		if w == "global" || w == "constant" || w == "alias" || w == "ifunc" {
			return false
		}
	}
	return false
}

func (d *definition) declares() bool {
	if bytes.HasPrefix(d.text, []byte("declare ")) {
		return true
	}
	return !bytes.HasPrefix(d.text, []byte("define ")) && d.has("external", "extern_weak")
}

// inlined reports a constant without a name of its own (a string literal): its
// content takes its place.
func (d *definition) inlined() bool {
	if !d.has("private") || bytes.HasPrefix(d.text, []byte("define ")) {
		return false
	}
	return slices.Contains(head(d.text), "constant")
}

func (d *definition) linkage() Linkage {
	switch {
	case d.has("private", "internal"):
		return Local
	case d.has("available_externally"):
		return Inline
	case d.has("linkonce", "linkonce_odr", "weak", "weak_odr", "common"):
		return Weak
	}
	return External
}

var place = regexp.MustCompile(`\((lambda|unnamed|anonymous)( [a-z]+)? at `)

// writer collects the content of one definition.
type writer struct {
	self   string
	out    []byte
	refs   []string
	index  map[string]int
	locals map[string]int
	words  map[string]bool
	asm    bool
	places bool
}

func (w *writer) ref(symbol string) {
	if w.index == nil {
		w.index = map[string]int{}
	}
	if _, ok := w.index[symbol]; !ok {
		w.index[symbol] = len(w.refs)
		w.refs = append(w.refs, symbol)
	}
}

// write appends text, with everything numbered resolved. In the head of a
// function or the text of a variable its own name is left out.
func (r *reader) write(w *writer, text []byte, header bool) error {
	for len(text) > 0 {
		line := text
		if i := bytes.IndexByte(text, '\n'); i >= 0 {
			line, text = text[:i], text[i+1:]
		} else {
			text = nil
		}
		if len(line) == 0 {
			continue
		}
		if err := r.line(w, line, header); err != nil {
			return err
		}
		w.out = append(w.out, '\n')
	}
	return nil
}

func (r *reader) line(w *writer, s []byte, header bool) error {
	asm := bytes.Contains(s, []byte(" asm "))
	w.asm = w.asm || asm
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c == '"':
			n := quoted(s[i:])
			if asm && w.words != nil {
				identifiers(unquote(string(s[i:i+n])), w.words)
			}
			w.places = w.places || place.Match(s[i:i+n])
			w.out = append(w.out, s[i:i+n]...)
			i += n
		case c == ';':
			i = len(s)
		case c == '@':
			n := nameLen(s[i:])
			name := string(s[i : i+n])
			i += n
			if header && name == w.self {
				header = false
				w.out = append(w.out, '@')
				continue
			}
			if !called(s, i) {
				r.taken[symbol(name)] = true
			}
			if err := r.use(w, name); err != nil {
				return err
			}
		case c == '#' && i+1 < len(s) && digit(s[i+1]), c == '!' && i+1 < len(s) && digit(s[i+1]):
			n := nameLen(s[i:])
			if err := r.nested(w, string(s[i:i+n])); err != nil {
				return err
			}
			i += n
		case bytes.HasPrefix(s[i:], []byte("!srcloc !")):
			// Where asm is in the source.
			i += len("!srcloc ")
			n := nameLen(s[i:])
			if r.other[string(s[i:i+n])] == nil {
				return fmt.Errorf("%w: %s isn't defined", ErrIR, s[i:i+n])
			}
			i += n
		case c == '%':
			n := nameLen(s[i:])
			if name := string(s[i : i+n]); r.other[name] != nil {
				if err := r.nested(w, name); err != nil {
					return err
				}
			} else {
				w.out = append(w.out, s[i:i+n]...)
			}
			i += n
		case c == '$':
			n := nameLen(s[i:])
			name := string(s[i : i+n])
			d := r.other[name]
			if d == nil {
				return fmt.Errorf("%w: %s isn't defined", ErrIR, name)
			}
			if g := r.globals["@"+name[1:]]; g == nil || g.linkage() != Local {
				w.out = append(w.out, name...)
			}
			w.out = append(w.out, d.text...)
			i += n
		default:
			w.out = append(w.out, c)
			i++
		}
	}
	return nil
}

// called reports whether the name that ends at s[end] is that of the function
// which an instruction calls.
func called(s []byte, end int) bool {
	return end < len(s) && s[end] == '(' && (bytes.Contains(s[:end], []byte("call ")) || bytes.Contains(s[:end], []byte("invoke ")))
}

// use writes a reference to a global.
func (r *reader) use(w *writer, name string) error {
	d := r.globals[name]
	sym := symbol(name)
	switch {
	case d == nil:
		return fmt.Errorf("%w: %s is neither defined nor declared", ErrIR, name)
	case name == w.self:
		w.out = append(w.out, "@self"...)
		return nil
	case strings.HasPrefix(name, "@llvm."):
		w.out = append(w.out, name...)
		if f := mathFunction(name); f != "" {
			w.ref(f)
		}
		return nil
	case d.inlined():
		return r.nested(w, name)
	case d.linkage() == Local && !d.declares():
		if w.locals == nil {
			w.locals = map[string]int{}
		}
		n, ok := w.locals[sym]
		if !ok {
			n = len(w.locals)
			w.locals[sym] = n
		}
		w.ref(sym)
		w.out = fmt.Appendf(w.out, "@local %d", n)
		return nil
	}
	_, seen := w.index[sym]
	w.ref(sym)
	w.out = append(strconv.AppendQuote(append(w.out, '@'), sym), ' ')
	if d.declares() && !seen {
		// What the user knows of it: its declaration.
		w.out = append(w.out, '{')
		outer := w.self
		w.self = name
		err := r.line(w, d.text, true)
		w.self = outer
		w.out = append(w.out, '}')
		return err
	}
	return nil
}

// nested writes the digest of what a name stands for. References in it become
// references of w.
func (r *reader) nested(w *writer, name string) error {
	d := r.other[name]
	if name[0] == '@' {
		d = r.globals[name]
	}
	if d == nil {
		return fmt.Errorf("%w: %s isn't defined", ErrIR, name)
	}
	if i := slices.Index(r.stack, name); i >= 0 {
		// A loop's metadata refers to itself.
		if i != len(r.stack)-1 {
			return fmt.Errorf("%w: %s is part of a larger cycle", ErrIR, name)
		}
		w.out = append(w.out, "<itself>"...)
		return nil
	}
	if d.digest == "" {
		inner := &writer{self: name, words: map[string]bool{}}
		r.stack = append(r.stack, name)
		err := r.line(inner, d.text, false)
		r.stack = r.stack[:len(r.stack)-1]
		if err != nil {
			return err
		}
		if len(inner.locals) > 0 {
			// Their numbers depend on the user: write the content itself.
			return r.expand(w, name, d)
		}
		sum := sha256.Sum256(inner.out)
		d.digest = hex.EncodeToString(sum[:16])
		d.refs, d.asm, d.places = inner.refs, inner.asm, inner.places
		for s := range inner.words {
			d.words = append(d.words, s)
		}
	}
	w.out = append(append(append(w.out, '<'), d.digest...), '>')
	for _, s := range d.refs {
		w.ref(s)
	}
	for _, s := range d.words {
		if w.words != nil {
			w.words[s] = true
		}
	}
	w.asm, w.places = w.asm || d.asm, w.places || d.places
	return nil
}

// expand writes the content of d in place.
func (r *reader) expand(w *writer, name string, d *definition) error {
	r.stack = append(r.stack, name)
	w.out = append(w.out, '<')
	err := r.line(w, d.text, false)
	w.out = append(w.out, '>')
	r.stack = r.stack[:len(r.stack)-1]
	return err
}

// identifiers adds the identifiers in s to set.
func identifiers(s string, set map[string]bool) {
	begin := -1
	for i := 0; i <= len(s); i++ {
		if i < len(s) && (s[i] == '_' || s[i] == '$' || s[i] == '.' || digit(s[i]) || s[i] >= 'a' && s[i] <= 'z' || s[i] >= 'A' && s[i] <= 'Z') {
			if begin < 0 {
				begin = i
			}
			continue
		}
		if begin >= 0 && !digit(s[begin]) {
			set[s[begin:i]] = true
		}
		begin = -1
	}
}

// mathFunctions are the functions of libm that intrinsics stand for.
var mathFunctions = func() map[string]string {
	m := map[string]string{"maxnum": "fmax", "minnum": "fmin"}
	for _, f := range strings.Fields(`acos asin atan atan2 ceil cos cosh exp exp10 exp2 floor fma frexp ldexp llrint llround log log10 log2 lrint lround
		modf nearbyint pow rint round roundeven sin sincos sinh sqrt tan tanh trunc`) {
		m[f] = f
	}
	return m
}()

// mathFunction returns the function of libm that a call of an intrinsic such as
// @llvm.frexp.f80.i32 may become, or "".
func mathFunction(intrinsic string) string {
	name := strings.TrimPrefix(strings.TrimPrefix(intrinsic, "@llvm."), "experimental.constrained.")
	name, types, _ := strings.Cut(name, ".")
	f := mathFunctions[name]
	switch {
	case f == "" || strings.Contains(types, "f64"):
		return f
	case strings.Contains(types, "f32") || strings.Contains(types, "f16"):
		return f + "f"
	}
	return f + "l"
}
