package component

import (
	"bytes"
	"math"
	"math/big"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/words"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/clangast"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/token"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/tu"
)

// target is what an id of the dump stands for.
type target struct {
	ent   *entity
	field string // of record ent
	local int    // 1 + number of a local variable, parameter
	enum  string // value of an enumerator
}

// frame is the state of one node on the way from the root of the tree.
type frame struct {
	kind string
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
	names  map[string]*entity // types declared inside
	tags   map[string]*entity
	bodyAt int
}

// builder is the visitor that turns a dump into components.
type builder struct {
	unit *tu.Unit
	x    *tu.Index
	resolver
	ids   map[clangast.ID]target
	anon  map[string]*entity // LINE:COLUMN of unnamed tags
	lines []int              // offsets of line starts of the text

	stack []frame
	skip  int
	scope

	comps []*comp
	// weights are the types of all variables, and of what else takes room.
	weights []weight
	// late is what is used before all is said of it: a compiler knew less of it there than at the
	// end of the unit. What it knew, and of what it had compiled first, isn't in the tree.
	late string
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
	ids          []clangast.ID
	doubt        string // why its values may be others than the dump's
}

func newBuilder(u *tu.Unit) (*builder, error) {
	x, err := tu.Scan(u.Text)
	if err != nil {
		return nil, err
	}
	b := &builder{unit: u, x: x, ids: map[clangast.ID]target{}, anon: map[string]*entity{}}
	b.resolver = resolver{ordinary: map[string]*entity{}, tags: map[string]*entity{}, cut: math.MaxInt}
	b.lines = []int{0}
	for i, c := range u.Text {
		if c == '\n' {
			b.lines = append(b.lines, i+1)
		}
	}
	return b, nil
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

// named returns what a name in a type string stands for, or nil. No type hides
// another of its name: see localType.
func (b *builder) named(n typeName) *entity {
	switch {
	case n.anon:
		return b.anonEntity(n.name)
	case n.tag:
		if b.fn != nil && b.fn.tags[n.name] != nil {
			return b.fn.tags[n.name]
		}
		return b.tagEntity(n.name)
	}
	if b.fn != nil && b.fn.names[n.name] != nil {
		return b.fn.names[n.name]
	}
	if e := b.ordinary[n.name]; e != nil && e.kind == entTypedef {
		return e
	}
	// A tag that has its name from a typedef, as clang prints some types.
	return b.tags[n.name]
}

// resolveType parses a type string and finds what its names stand for.
func (b *builder) resolveType(s *stream, qual string) *typeUse {
	u := &typeUse{text: parseType(qual)}
	if u.text.doubt != "" {
		s.doubts(u.text.doubt)
	}
	for _, n := range u.text.names {
		e := b.named(n)
		if e == nil {
			s.doubts("type " + n.name)
			s.h.str(n.name)
			continue
		}
		u.ents = append(u.ents, e)
	}
	return u
}

// writeType writes a type string to s at depth d, and returns what it stands for.
func (b *builder) writeType(s *stream, qual string, d depth) *typeUse {
	u := b.resolveType(s, qual)
	s.h.str(u.text.literal)
	for _, e := range u.ents {
		s.use(e, u.text.depthOf(e, d))
	}
	return u
}

// writeAttributes writes what has attributes in [from, to) of the external declaration that n is,
// or is in; negative bounds are its own.
func (b *builder) writeAttributes(s *stream, n *clangast.Node, from, to int) {
	if n.Begin < 0 {
		return
	}
	begin, end, doubt := b.x.Extent(n.Begin, nodeEnd(n))
	if doubt != "" {
		s.doubts(doubt)
	}
	if from >= 0 {
		begin = from
	}
	if to >= 0 {
		end = to
	}
	text, said := b.x.Attributes(b.unit.Text, begin, end)
	s.h.str(text)
	if s.attributed = text != ""; !said {
		s.attributes = text
	}
}

// writeBounds writes the bounds of arrays among the parameters in [begin, end):
// their types are those of pointers in the dump. A definition evaluates them.
func (b *builder) writeBounds(s *stream, begin, end int, definition bool) {
	text := b.unit.Text
	if bytes.IndexByte(text[begin:end], '[') < 0 {
		return
	}
	lex := token.New(text, begin)
	depth, attribute := 0, 0 // of brackets
	for t := lex.Next(); t.Kind != token.EOF && t.Off < end; t = lex.Next() {
		w := string(text[t.Off:t.End])
		if w == "[" {
			if depth++; attribute == 0 && t.End < len(text) && text[t.End] == '[' {
				attribute = depth
			}
		}
		if depth > 0 && attribute == 0 {
			s.h.str(w)
			if definition && t.Kind == token.Ident && !boundWords[w] {
				s.doubts("parameter with a variable bound")
			}
		}
		if w == "]" {
			if depth == attribute {
				attribute = 0
			}
			depth--
		}
	}
}

var boundWords = words.Set(`static const volatile restrict __restrict __restrict__ __const`)

// nodeEnd is the offset behind the node's last token.
func nodeEnd(n *clangast.Node) int { return n.End + n.EndLen }
