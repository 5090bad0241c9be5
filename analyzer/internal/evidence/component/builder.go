package component

import (
	"bytes"
	"math"
	"math/big"
	"sort"
	"strconv"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/words"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/clangast"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/token"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/tu"
)

// target is the declaration that an id of the dump refers to.
type target struct {
	ent   *entity
	field string // of record ent
	local int    // the number of a local variable or parameter, from 1
	enum  string // value of an enumerator
}

// frame is the state of a node on the way from the root of the tree.
type frame struct {
	kind string
	// children counts those entered so far.
	children int
	deep     bool // types of children are written at depth pointee
	open     bool // the node was opened in the stream
	skip     bool // the nodes below are ignored
	scope    bool // a block inside a block that ends the life of something
	leave    func(n *clangast.Node) error
}

// function is the state of a function definition.
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
	anon  map[string]*entity   // LINE:COLUMN of unnamed tags
	lines []int                // offsets of line starts of the text
	types map[string]*typeText // parsed type strings

	stack []frame
	skip  int
	scope

	comps []*comp
	// weights are the types of all variables, compound literals and initial values.
	weights []weight
	// late is an entity that was used before its last declaration: the compiler knew less of it there than
	// the tree says. See code-late/typedef-redeclared.
	late string
}

// scope is the state of the declaration that is being read. It is restored behind it.
type scope struct {
	fn        *function
	cur       *stream // where nodes are written; nil between declarations
	decl      *stream // where attributes of the declaration go
	owner     *entity // whose declaration that is
	typedefOf *entity
	unnamed   *[]*entity // unnamed tags that the typedef gives a name
	enum      *enumState
}

// enumState computes the values of enumerators: the dump doesn't have implicit ones.
type enumState struct {
	next, lo, hi *big.Int
	members      int
	hasInit      bool     // of the enumerator being read
	explicit     *big.Int // its value
	ids          []clangast.ID
	doubt        string // why the values may differ from the dump's
}

func newBuilder(u *tu.Unit) (*builder, error) {
	x, err := tu.Scan(u.Text)
	if err != nil {
		return nil, err
	}
	b := &builder{unit: u, x: x, ids: map[clangast.ID]target{}, anon: map[string]*entity{}, lines: []int{0}, types: map[string]*typeText{}}
	b.resolver = resolver{ordinary: map[string]*entity{}, tags: map[string]*entity{}, cut: math.MaxInt}
	for i, c := range u.Text {
		if c == '\n' {
			b.lines = append(b.lines, i+1)
		}
	}
	return b, nil
}

// entityIn returns the entity of a key, which is made if there is none.
func entityIn(m map[string]*entity, key string, made entity) *entity {
	e := m[key]
	if e == nil {
		e = &made
		m[key] = e
	}
	return e
}

// ordinaryEntity returns the file-scope function, variable or typedef of that name.
func (b *builder) ordinaryEntity(name string, kind entityKind) *entity {
	return entityIn(b.ordinary, name, entity{kind: kind, name: name, sym: name})
}

func (b *builder) tagEntity(name string) *entity {
	return entityIn(b.tags, name, entity{kind: entRecord, name: name})
}

func (b *builder) anonEntity(at string) *entity {
	return entityIn(b.anon, at, entity{kind: entRecord})
}

// lineColumn returns the LINE:COLUMN of an offset, as clang prints it.
func (b *builder) lineColumn(off int) string {
	line := sort.SearchInts(b.lines, off+1)
	return strconv.Itoa(line) + ":" + strconv.Itoa(off-b.lines[line-1]+1)
}

// bind sets the target of an id, until the end of the function if there is one.
func (b *builder) bind(id clangast.ID, t target) {
	b.ids[id] = t
	if b.fn != nil {
		b.fn.ids = append(b.fn.ids, id)
	}
}

// named returns the entity of a name in a type string, or nil. No type hides another one of its name: see
// localType.
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

// resolveType parses a type string and resolves its names.
func (b *builder) resolveType(s *stream, qual string) *typeUse {
	u := &typeUse{text: b.parseType(qual)}
	s.addDoubt(u.text.doubt)
	for _, n := range u.text.names {
		e := b.named(n)
		if e == nil {
			s.addDoubt("type " + n.name)
			s.h.str(n.name)
			continue
		}
		u.ents = append(u.ents, e)
	}
	return u
}

// writeType writes a type string to s at depth d, and returns it.
func (b *builder) writeType(s *stream, qual string, d depth) *typeUse {
	u := b.resolveType(s, qual)
	s.h.str(u.text.literal)
	for _, e := range u.ents {
		s.use(e, u.text.depthOf(e, d))
	}
	return u
}

// writeAttributes writes the declarations with attributes in [from, to) of the external declaration that
// n is in. A negative bound is that of the declaration.
func (b *builder) writeAttributes(s *stream, n *clangast.Node, from, to int) {
	if n.Begin < 0 {
		return
	}
	begin, end, doubt := b.x.Extent(n.Begin, nodeEnd(n))
	s.addDoubt(doubt)
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

// writeBounds writes the bounds of arrays among the parameters in [begin, end): the dump has the types of
// pointers, but a definition evaluates the bounds. See code-data/vla-parameter.
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
				s.addDoubt("parameter with a variable bound")
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

// nodeEnd returns the offset behind the last token of a node.
func nodeEnd(n *clangast.Node) int { return n.End + n.EndLen }
