package component

import (
	"regexp"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/clangast"
	"github.com/rules-tasting/rules_tasting/analyzer/ctext"
)

// # What shows how a compiler optimises
//
// What a compiler inlines, and which constants it propagates, depends on all of a
// unit: a static function that gets a second caller may no longer be inlined into
// the first one. Nearly always that can't be seen, and a function's own definition
// and what it refers to decide what it does. But
//   - some builtins tell: __builtin_constant_p, __builtin_object_size,
//     __builtin_return_address;
//   - a floating-point operation on constants is calculated by the compiler, with
//     another sign of NaN; a product and a sum become one operation, which rounds
//     once, if they meet in one function, and the processor has that operation;
//     under -ffast-math, results depend on all calculations around;
//   - a function such as cosh of a constant is calculated by the compiler, and not
//     to the last bit as the C library does; so are products and quotients of
//     complex numbers;
//   - clang leaves memory out that is allocated and freed, and says that there was
//     enough.
//
// With the hash of a component of an optimised unit that has one of these counts
// the text of the unit.

// inliner is what is known of how a unit is optimised.
type inliner struct {
	optimises bool
	loose     bool // -ffast-math, or a part of it
	clang     bool
}

func newInliner(u *ctext.Unit) inliner {
	x := inliner{clang: u.Clang}
	for _, flags := range append([][]string{u.Flags}, u.Variants...) {
		for _, f := range flags {
			f = strings.TrimPrefix(f, "cc1:")
			x.optimises = x.optimises || strings.HasPrefix(f, "-O") && f != "-O0"
			x.loose = x.loose || f == "-Ofast" || looseFlags[f]
		}
	}
	return x
}

var looseFlags = wordSet(`-ffast-math -ffinite-math-only -fno-trapping-math -fno-signed-zeros -fassociative-math -freciprocal-math -funsafe-math-optimizations
	-fno-honor-nans -fno-honor-infinities`)

// seesInlining notes what of the node n of a component can tell how the unit is
// optimised.
func (b *builder) seesInlining(s *stream, n *clangast.Node) {
	if !b.inliner.optimises || s.whole {
		return
	}
	if b.inliner.loose || calculates[n.Attr("opcode")] && n.Kind != "UnaryOperator" {
		s.whole = slices.ContainsFunc(n.Types, func(t clangast.Type) bool {
			return t.Key == "type" && (isFloating(t.Qual) || isFloating(t.Desugared))
		})
	}
	for _, r := range n.Refs {
		if r.Kind != "FunctionDecl" {
			continue
		}
		f, builtin := strings.CutPrefix(r.Name, "__builtin_")
		switch {
		case builtin && tellsInlining[f]:
			s.told = s.told || !b.isToupper(n) // which does the same either way
		case inexact.MatchString(f), b.inliner.clang && allocates[f]:
			s.whole = true
		}
	}
}

var (
	calculates    = wordSet(`+ - * / += -= *= /=`)
	tellsInlining = wordSet(`constant_p object_size dynamic_object_size return_address frame_address extract_return_addr stack_address`)
	allocates     = wordSet(`malloc calloc realloc reallocf aligned_alloc memalign valloc pvalloc vec_malloc vec_calloc strdup strndup`)
)

// wholeUnit says whether the text of the unit counts with the component. The C
// library's functions that check bounds are told, but if they do nothing wrong it
// is the same to them.
func (c *comp) wholeUnit() bool {
	return c.body.whole || c.body.told && !(c.ent.artificial && c.ent.gnuInline)
}

func isFloating(typ string) bool {
	return (strings.Contains(typ, "double") || strings.Contains(typ, "loat")) && !strings.HasSuffix(typ, "*")
}

// inexact are the functions of libm whose results aren't those that rounding the
// exact ones gives, or have another sign if they are no numbers.
var inexact = regexp.MustCompile(`^(c?(a?(sin|cos|tan)(h|pi)?|exp|exp2|exp10|expm1|exp2m1|exp10m1|log|log2|log10|log1p|log2p1|log10p1|logp1|pow|pown|powr|powi|pow10)|c(sqrt|abs)|` +
	`atan2|atan2pi|cbrt|sqrt|rsqrt|rootn|compoundn|hypot|fma|fmod|remainder|remquo|fdim|erfc?|[tl]?gamma|sincos|sincospi|[jy][01n]|scalb|drem)(f|l|f[0-9]+x?|d[0-9]+)?(_r)?$`)

// isToupper says whether the reference n to __builtin_constant_p is one of the
// macros toupper and tolower of glibc.
func (b *builder) isToupper(n *clangast.Node) bool {
	if n.Begin < 0 {
		return false
	}
	text := b.unit.Text
	lex := ctext.NewLexer(text, n.Begin)
	depth := 0
	var words []string
	for t := lex.Next(); t.Kind != ctext.EOF; t = lex.Next() {
		switch w := string(text[t.Off:t.End]); {
		case w == "(":
			depth++
		case w == ")" && depth > 0:
			depth--
		case depth == 0:
			if words = append(words, w); len(words) == 6 {
				return slices.Equal(words, []string{"__builtin_constant_p", ")", "{", "int", "__c", "="})
			}
		}
	}
	return false
}
