package component

import (
	"math/big"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/clangast"
	"github.com/rules-tasting/rules_tasting/analyzer/ctext"
)

// enumerator is a named constant: only its value matters to a user.
type enumerator struct {
	value string
	ent   *entity // its enum, if that counts as a whole
}

// target is what an id of the dump stands for.
type target struct {
	ent   *entity
	field string // of record ent
	local int    // 1 + number of a local variable, parameter
	enum  string // value of an enumerator
}

// frame is the state of one node on the way from the root of the tree.
type frame struct {
	kind  string
	begin int
	// children counts those entered so far.
	children int
	deep     bool // types of children count at depth pointee
	open     bool // the node was written to the stream: close it
	skip     bool // nothing below counts
	scope    bool // a block inside a block that ends the life of something
	leave    func(n *clangast.Node) error
}

// function is the state of the function definition being read.
type function struct {
	ent    *entity
	ids    []clangast.ID // to be forgotten at its end
	locals int
	labels map[clangast.ID]int
	names  map[string][]*entity // types declared inside
	tags   map[string][]*entity
	bodyAt int
}

// builder is the visitor that turns a dump into components.
type builder struct {
	unit *ctext.Unit
	x    *ctext.Index
	resolver
	ids   map[clangast.ID]target
	anon  map[string]*entity // LINE:COLUMN of unnamed tags
	lines []int              // offsets of line starts of the text

	stack []frame
	skip  int
	scope

	// protectParens is true if parentheses restrict the optimiser.
	protectParens bool

	lead, prevEnd int // extent of the external declaration being read

	comps []*comp
	asm   int
	// extra collects declarations of kinds that act on the whole unit, or
	// that aren't known.
	extra     *stream
	fallbacks []fallback
	unknown   string // why the unit can't be known, or ""
}

// scope is what changes with the declaration being read, and is restored
// behind it.
type scope struct {
	fn        *function
	cur       *stream // where nodes are written; nil between declarations
	decl      *stream // where attributes of the declaration go
	owner     *entity // whose declaration that is
	typedefOf *entity
	unnamed   []*entity // unnamed tags that the typedef names
	enum      *enumState
}

// enumState computes the values of an enum's enumerators, because the dump
// doesn't have the implicit ones.
type enumState struct {
	next, lo, hi *big.Int
	members      int
	hasInit      bool     // of the enumerator being read
	explicit     *big.Int // its value
	unknown      bool     // some value isn't in the dump
	sites        string   // positions that its values may come from
}

type fallback struct{ component, reason string }

func newBuilder(u *ctext.Unit) *builder {
	b := &builder{unit: u, x: ctext.Scan(u.Text), ids: map[clangast.ID]target{}, anon: map[string]*entity{}, extra: newStream()}
	for _, flags := range append([][]string{u.Flags}, u.Variants...) {
		b.protectParens = b.protectParens || slices.Contains(flags, "-fprotect-parens")
	}
	b.resolver = resolver{map[string]*entity{}, map[string]*entity{}, map[string]enumerator{}}
	b.lines = []int{0}
	for i, c := range u.Text {
		if c == '\n' {
			b.lines = append(b.lines, i+1)
		}
	}
	return b
}

// ordinaryEntity returns the file-scope function, variable or typedef NAME.
func (b *builder) ordinaryEntity(name string, kind entityKind) *entity {
	e := b.ordinary[name]
	if e == nil {
		e = &entity{kind: kind, name: name, sym: name}
		b.ordinary[name] = e
	}
	return e
}

func (b *builder) tagEntity(name string) *entity {
	e := b.tags[name]
	if e == nil {
		e = &entity{kind: entRecord, name: name}
		b.tags[name] = e
	}
	return e
}

func (b *builder) anonEntity(at string) *entity {
	e := b.anon[at]
	if e == nil {
		e = &entity{kind: entRecord}
		b.anon[at] = e
	}
	return e
}

// position returns LINE:COLUMN of an offset, as clang prints it.
func (b *builder) position(off int) string {
	lo, hi := 0, len(b.lines)
	for lo < hi {
		if mid := (lo + hi) / 2; b.lines[mid] <= off {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return itoa(lo) + ":" + itoa(off-b.lines[lo-1]+1)
}

func itoa(i int) string { return big.NewInt(int64(i)).String() }

// candidates returns everything that a name in a type string may mean: the
// dump doesn't say which scope the name was found in.
func (b *builder) candidates(n typeName) (ents []*entity, ok bool) {
	switch {
	case n.anon:
		return []*entity{b.anonEntity(n.name)}, true
	case n.tag:
		if b.fn != nil {
			ents = append(ents, b.fn.tags[n.name]...)
		}
		if e := b.tags[n.name]; e != nil || len(ents) == 0 {
			ents = append(ents, b.tagEntity(n.name))
		}
		return ents, true
	}
	if b.fn != nil {
		ents = append(ents, b.fn.names[n.name]...)
	}
	if e := b.ordinary[n.name]; e != nil && e.kind == entTypedef {
		ents = append(ents, e)
	}
	if len(ents) == 0 { // C++ style use of a tag, as clang prints some types
		if e := b.tags[n.name]; e != nil {
			ents = append(ents, e)
		}
	}
	return ents, len(ents) > 0
}

// writeType writes a type string to s at depth d.
func (b *builder) writeType(s *stream, qual string, d depth) {
	t := parseType(qual)
	if t.opaque {
		s.markOpaque("type " + strings.ReplaceAll(t.literal, "\x00", "?"))
	}
	s.h.str(t.literal)
	for _, n := range t.names {
		ents, ok := b.candidates(n)
		if !ok {
			s.markOpaque("unknown type name " + n.name)
			s.h.str(n.name)
		}
		for _, e := range ents {
			s.use(e, t.depthOf(e, d))
		}
	}
}

func (b *builder) resolveType(s *stream, qual string) *typeUse {
	t := parseType(qual)
	u := &typeUse{text: t}
	if t.opaque {
		s.markOpaque("type")
	}
	for _, n := range t.names {
		ents, ok := b.candidates(n)
		if !ok {
			s.markOpaque("unknown type name " + n.name)
		}
		u.ents = append(u.ents, ents...)
	}
	return u
}

// writeText writes the tokens of a range and collects its identifiers.
func (b *builder) writeText(s *stream, begin, end int) {
	lex := ctext.NewLexer(b.unit.Text, begin)
	s.h.tag('t')
	for {
		t := lex.Next()
		if t.Kind == ctext.EOF || t.Off >= end {
			break
		}
		text := string(b.unit.Text[t.Off:t.End])
		s.h.str(text)
		switch t.Kind {
		case ctext.Ident:
			s.word(text)
		case ctext.Pragma:
			for _, w := range ctext.Words([]byte(text)) {
				s.word(w)
			}
		}
	}
	s.h.tag('T')
}

// writeSpans writes the text of attribute specifiers in [begin, end). Strings
// in them (alias, ifunc) name symbols.
func (b *builder) writeSpans(s *stream, spans []ctext.Span) {
	for _, sp := range spans {
		b.writeText(s, sp.Begin, sp.End)
		for _, w := range ctext.Words(b.unit.Text[sp.Begin:sp.End]) {
			s.word(w)
		}
	}
}

// asmSymbols collects the words of all string literals in a range: asm text
// refers to symbols by name.
func (b *builder) asmSymbols(s *stream, begin, end int) {
	s.symbols = append(s.symbols, ctext.Words(ctext.StringContents(b.unit.Text[begin:end]))...)
}

// finishBody completes the stream of a definition in [begin, end): pragmas in
// force, attributes inside, and the whole token text where the nodes don't
// say everything.
func (b *builder) finishBody(s *stream, begin, end int, what string) sealed {
	if begin >= 0 {
		if st := b.x.PragmaState(begin); st != "" {
			s.h.str("pragma " + st)
			for _, w := range ctext.Words([]byte(st)) {
				s.word(w)
			}
		}
		b.writeSpans(s, ctext.Within(b.x.Attributes, begin, end))
		if asm := ctext.Within(b.x.Asm, begin, end); len(asm) > 0 {
			s.markOpaque("asm")
			for _, a := range asm {
				b.asmSymbols(s, a.Begin, a.End)
			}
		}
		if len(ctext.Within(b.x.Pragmas, begin, end)) > 0 {
			s.markOpaque("pragma inside a definition")
		}
		b.writeSites(s, begin, end)
	}
	if s.opaque != "" {
		if begin >= 0 {
			b.writeText(s, begin, end)
		}
		b.fallbacks = append(b.fallbacks, fallback{what, "token text besides the syntax tree: " + s.opaque})
	}
	return s.seal()
}

// writeSites writes the positions that tokens in [begin, end) read. Values that
// the dump computes from them are those of the normalised text: wrong ones.
func (b *builder) writeSites(s *stream, begin, end int) {
	for _, site := range b.unit.Sites {
		if site.Off >= begin && site.Off < end {
			s.h.str("at " + site.Position)
			s.markOpaque("source position")
		}
	}
}

// nodeEnd is the offset behind the node's last token.
func nodeEnd(n *clangast.Node) int { return n.End + n.EndLen }

// declEnd returns the end of the external declaration whose last known token
// ends at off: the next semicolon outside brackets.
func (b *builder) declEnd(off int) int {
	lex := ctext.NewLexer(b.unit.Text, off)
	depth := 0
	for {
		t := lex.Next()
		if t.Kind == ctext.EOF {
			return len(b.unit.Text)
		}
		if t.Kind != ctext.Punct || t.End-t.Off != 1 {
			continue
		}
		switch b.unit.Text[t.Off] {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			if depth--; depth < 0 {
				return t.Off
			}
		case ';':
			if depth == 0 {
				return t.End
			}
		}
	}
}
