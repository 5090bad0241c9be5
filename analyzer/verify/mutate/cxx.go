package mutate

import (
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/words"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/token"
)

// decl is a declaration of C++ at namespace or class scope: toks[b:e+1].
type decl struct {
	kind  string // function, variable (or field), class, enum, using, other
	name  string // "operator+" of operators
	outer string // A in A::f
	class int    // index of the class that it is a member of, -1 if none
	b, e  int
	// begin is the first token after template <...>; toks[b:begin] is empty for
	// what isn't a template.
	begin int
	// nameTok is the first token of the name, open the parenthesis of the
	// parameters, body the brace of a function, colon what begins the member
	// initialisers, init the = or { of an initialiser (= default and = 0
	// included). All are -1 if there are none.
	nameTok, open, body, colon, init int
}

// class is the definition of a class, struct or union.
type class struct {
	kind, name string
	// path is the qualified name, "" for templates and what has no name.
	path string
	// word is the token of the keyword, nameTok that of the name, -1 if none.
	word, nameTok int
	body, end     int
	bases         []base
	members       []int // indices of decls
}

// base is one base class of a class: toks[b:e].
type base struct {
	b, e int
	name int // the last identifier that isn't a template argument
}

// declarations of toks[i:end], the members of class or of a namespace whose
// qualified name is path.
func (s *source) scan(i, end, class int, path string) {
	for i < end {
		i = s.declaration(i, end, class, path)
	}
}

// declaration reads one declaration and returns the index of what follows.
func (s *source) declaration(b, end, class int, path string) int {
	if s.toks[b].directive != "" || s.at(b) == ";" || s.at(b) == "}" {
		return b + 1
	}
	n := s.next(b)
	// A macro on a line of its own, such as FMT_BEGIN_NAMESPACE.
	if t := s.toks[b]; t.Kind == token.Ident && t.s == strings.ToUpper(t.s) {
		last := b
		if s.at(n) == "(" && s.toks[n].match > n {
			last = s.toks[n].match
		}
		if n := s.next(last); n < end && s.toks[n].Kind == token.Ident && strings.Contains(string(s.text[s.toks[last].End:s.toks[n].Off]), "\n") {
			return n
		}
	}
	switch first := s.at(b); {
	case class >= 0 && s.at(n) == ":" && (first == "public" || first == "protected" || first == "private"):
		return n + 1
	case first == "namespace" || first == "inline" && s.at(n) == "namespace" || first == "extern" && n < len(s.toks) && s.toks[n].Kind == token.String:
		name := ""
		for k := n; k < end; k = s.next(k) {
			switch t := s.toks[k]; {
			case t.s == "{" && t.match > k:
				if first != "extern" && name != "" {
					path += name + "::"
				}
				s.scan(k+1, t.match, class, path)
				return t.match + 1
			case t.s == ";" || t.s == "=" || t.s == "(" && first == "extern":
				if first == "extern" {
					return s.entity(b, end, class, path)
				}
				return s.skip(k, end)
			case t.Kind == token.Ident && !s.keyword(t.s):
				name = t.s
			}
		}
		return end
	}
	return s.entity(b, end, class, path)
}

// skip returns what follows the next semicolon.
func (s *source) skip(i, end int) int {
	for ; i < end; i++ {
		if t := s.toks[i]; t.directive == "" && t.s == ";" {
			return i + 1
		} else if t.match > i {
			i = t.match
		}
	}
	return end
}

// Words with parentheses before those of the parameters.
var notNames = words.Set("__attribute__ alignas decltype noexcept explicit requires __declspec asm __asm__ static_assert sizeof")

// reading is a declaration that is being read.
type reading struct {
	*source
	d                   decl
	id                  int // index of the class defined here
	classWord, enumWord int
	last                int    // of a variable, the token in front of its initialiser
	path                string // as in scan
}

// entity is declaration for what is neither a namespace nor a macro.
func (s *source) entity(b, end, class int, path string) int {
	x := &reading{source: s, d: decl{kind: "variable", class: class, b: b, begin: b, nameTok: -1, open: -1, body: -1, colon: -1, init: -1}, id: -1, classWord: -1, enumWord: -1, last: -1, path: path}
	d := &x.d
	for s.at(d.begin) == "template" && s.at(s.next(d.begin)) == "<" {
		a := s.angle(s.next(d.begin))
		if a < 0 {
			return s.skip(b, end)
		}
		d.begin = s.next(a)
	}
	switch s.at(d.begin) {
	case "using", "typedef":
		d.kind = "using"
	case "static_assert", "concept", "template":
		d.kind = "other"
	}
	for j := d.begin; j < end; j++ {
		t := s.toks[j]
		if t.directive != "" {
			continue
		}
		p := s.prev(j)
		switch {
		case t.s == "operator" && d.open < 0:
			if !x.operator(j, end) {
				return s.skip(j, end)
			}
			j = s.toks[d.open].match
		case t.s == "(" || t.s == "[":
			if t.match < 0 {
				return j + 1
			}
			if t.s == "(" && d.open < 0 && d.init < 0 && d.kind == "variable" && p >= d.begin && s.toks[p].Kind == token.Ident && !s.keyword(s.at(p)) && !notNames[s.at(p)] {
				d.open, d.nameTok, d.name = j, p, s.at(p)
				if s.at(s.prev(p)) == "~" {
					d.nameTok, d.name = s.prev(p), "~"+d.name
				}
			}
			j = t.match
		case t.s == "<" && d.init < 0 && p >= d.begin && s.toks[p].Kind == token.Ident:
			if a := s.angle(j); a > 0 {
				j = a
			}
		case t.s == "=" && d.init < 0:
			d.init = j
			if d.open < 0 {
				x.last = p
			}
		case t.s == "," && d.open >= 0 && d.colon < 0 && d.init < 0: // T v(1), w{2};
			d.init = j
		case t.s == ":" && d.open >= 0 && d.colon < 0 && d.init < 0:
			d.colon = j
		case (t.s == "class" || t.s == "struct" || t.s == "union") && x.classWord < 0 && d.open < 0 && d.init < 0 && x.enumWord < 0:
			x.classWord = j
		case t.s == "enum" && d.open < 0 && d.init < 0:
			x.enumWord = j
		case t.s == "{":
			if t.match < 0 {
				return j + 1
			}
			if x.brace(j) {
				s.addDecl(*d)
				return d.e + 1
			}
			j = t.match
		case t.s == ";":
			x.finish(j)
			s.addDecl(*d)
			return j + 1
		}
	}
	return end
}

// operator reads the name of an operator, up to its parameters.
func (x *reading) operator(j, end int) bool {
	d := &x.d
	d.nameTok, d.name = j, "operator"
	k := x.next(j)
	if x.at(k) == "(" && x.toks[k].match == x.next(k) {
		d.name, k = "operator()", x.next(x.toks[k].match)
	}
	for ; k < end && x.at(k) != "(" && x.at(k) != ";"; k = x.next(k) {
		d.name += x.at(k)
	}
	if x.at(k) != "(" || x.toks[k].match < 0 {
		return false
	}
	d.open, d.kind = k, "function"
	return true
}

// brace reads what is in braces, and tells whether they end the declaration.
func (x *reading) brace(j int) bool {
	d, p := &x.d, x.prev(j)
	word := x.toks[p].Kind == token.Ident && (!x.keyword(x.at(p)) || x.at(p) == "final") || x.at(p) == ">"
	switch {
	case x.enumWord >= 0 && d.init < 0:
		d.kind, d.body, d.name = "enum", j, x.addEnum(x.enumWord, j)
	case x.classWord >= 0 && x.id < 0 && d.init < 0 && (d.open < 0 || word):
		d.kind, d.open, d.nameTok, d.body = "class", -1, -1, j
		x.id = x.addClass(*d, x.classWord, j, x.path)
		d.name = x.classes[x.id].name
	case d.open >= 0 && d.init < 0 && d.colon >= 0 && word: // a member initialiser
	case d.open >= 0 && d.init < 0:
		d.kind, d.body, d.e = "function", j, x.toks[j].match
		for n := x.next(d.e); x.at(n) == "catch"; n = x.next(d.e) {
			if o := x.next(n); x.at(o) == "(" && x.at(x.next(x.toks[o].match)) == "{" {
				d.e = x.toks[x.next(x.toks[o].match)].match
			} else {
				break
			}
		}
		return true
	case d.init < 0:
		d.init, x.last = j, p
	}
	return false
}

// finish settles at a semicolon what the declaration is.
func (x *reading) finish(j int) {
	d := &x.d
	d.e = j
	switch {
	case d.kind != "variable":
	case d.open >= 0:
		d.kind = "function"
	case x.classWord == d.begin && x.at(x.prev(j)) == d.name || x.at(d.begin) == "friend":
		d.kind = "other"
	default:
		if x.last < 0 {
			x.last = x.prev(j)
		}
		for k := x.last; k > d.begin; k = x.prev(k) {
			if t := x.toks[k]; t.match >= 0 && t.match < k {
				k = t.match
			} else if t.Kind == token.Ident && !x.keyword(t.s) && x.at(x.prev(k)) != ":" {
				d.nameTok, d.name = k, t.s
				break
			}
		}
		if d.nameTok < 0 || x.classWord >= 0 && x.next(x.classWord) == d.nameTok {
			d.kind = "other"
		}
	}
}

// angle returns the index of the > that belongs to the < at i, -1 if there is
// none.
func (s *source) angle(i int) int {
	depth := 0
	for j := i; j < len(s.toks) && j < i+500; j++ {
		t := s.toks[j]
		switch {
		case t.directive != "":
		case t.s == "<":
			depth++
		case t.s == ">":
			depth--
		case t.s == ">>":
			depth -= 2
		case t.s == ";" || t.s == ")" || t.s == "}":
			return -1
		case t.match > j:
			j = t.match
		}
		if depth <= 0 {
			return j
		}
	}
	return -1
}

func (s *source) addDecl(d decl) {
	if !s.toks[d.b].own || !s.toks[d.e].own {
		return
	}
	if d.nameTok >= 0 && s.at(s.prev(d.nameTok)) == "::" {
		d.outer = s.at(s.prev(s.prev(d.nameTok)))
	}
	k := len(s.decls)
	s.decls = append(s.decls, d)
	if d.class >= 0 {
		s.classes[d.class].members = append(s.classes[d.class].members, k)
	}
	switch {
	case d.kind == "function" && d.body >= 0:
		s.addFunction(d.begin, d.body, d.e+1)
		s.funcs[len(s.funcs)-1].name = d.name
	case d.kind == "variable" && d.class < 0:
		s.globals = append(s.globals, d.name)
	}
}

func (s *source) addClass(d decl, word, body int, path string) int {
	c := class{kind: s.at(word), word: word, nameTok: -1, body: body, end: s.toks[body].match}
	colon := -1
	for k := s.next(word); k < body; k = s.next(k) {
		t := s.toks[k]
		if t.s == ":" {
			colon = k
			break
		}
		switch {
		case t.match > k:
			k = t.match
		case t.s == "<" && c.nameTok >= 0:
			if a := s.angle(k); a > 0 {
				k = a
			}
			path = "\x00" // a specialisation
		case t.Kind == token.Ident && t.s != "final" && !s.keyword(t.s):
			c.nameTok, c.name = k, t.s
		}
	}
	if c.name != "" && d.begin == d.b && !strings.Contains(path, "\x00") {
		c.path = path + c.name
	} else {
		path = "\x00"
	}
	if colon >= 0 {
		at := base{b: s.next(colon), name: -1}
		for k := at.b; k <= body; k = s.next(k) {
			t := s.toks[k]
			switch {
			case t.s == "," || k == body:
				at.e = k
				if at.name >= 0 {
					c.bases = append(c.bases, at)
				}
				at = base{b: s.next(k), name: -1}
			case t.s == "<":
				if a := s.angle(k); a > 0 {
					k = a
				}
			case t.Kind == token.Ident && !s.keyword(t.s):
				at.name = k
			}
		}
	}
	id := len(s.classes)
	s.classes = append(s.classes, c)
	s.scan(body+1, c.end, id, path+c.name+"::")
	if s.toks[body].own {
		r := record{kind: c.kind, name: c.name, body: body, end: c.end}
		for _, m := range s.classes[id].members {
			if s.decls[m].kind == "variable" {
				r.fieldEnds = append(r.fieldEnds, s.decls[m].e)
			}
		}
		s.records = append(s.records, r)
	}
	return id
}

func (s *source) addEnum(word, body int) string {
	r := record{kind: "enum", body: body, end: s.toks[body].match}
	for k := s.next(word); k < body && s.at(k) != ":"; k = s.next(k) {
		if s.toks[k].Kind == token.Ident && !s.keyword(s.at(k)) {
			r.name = s.at(k)
		}
	}
	for k := s.next(body); k < r.end; k = s.next(k) {
		switch t := s.toks[k]; {
		case t.match > k:
			k = t.match
		case t.s == ",":
			r.fieldEnds = append(r.fieldEnds, k)
		case t.Kind == token.Ident && (s.at(s.prev(k)) == "{" || s.at(s.prev(k)) == ","):
			r.enumerator = append(r.enumerator, t.s)
		}
	}
	if s.toks[body].own {
		s.records = append(s.records, r)
	}
	return r.name
}

// classOf returns the index of the last class called name before token i, -1
// if there is none.
func (s *source) classOf(name string, i int) int {
	l := s.byName[name]
	for k := len(l) - 1; k >= 0; k-- {
		if s.classes[l[k]].end < i {
			return l[k]
		}
	}
	return -1
}

// relate finds the classes that each class is derived from, directly and
// indirectly, and those that are derived from it.
func (s *source) relate() {
	s.byName = map[string][]int{}
	s.ancestors, s.derived = make([][]int, len(s.classes)), make([][]int, len(s.classes))
	order := make([]int, len(s.classes)) // a base ends before what is derived from it
	for k, c := range s.classes {
		s.byName[c.name] = append(s.byName[c.name], k)
		order[k] = k
	}
	slices.SortFunc(order, func(a, b int) int { return s.classes[a].end - s.classes[b].end })
	for _, k := range order {
		for _, b := range s.classes[k].bases {
			if a := s.classOf(s.at(b.name), s.classes[k].word); a >= 0 && !slices.Contains(s.ancestors[k], a) {
				s.ancestors[k] = append(append(s.ancestors[k], a), s.ancestors[a]...)
			}
		}
		slices.Sort(s.ancestors[k])
		s.ancestors[k] = slices.Compact(s.ancestors[k])
		for _, a := range s.ancestors[k] {
			s.derived[a] = append(s.derived[a], k)
		}
	}
}

// code returns the text of toks[b:e].
func (s *source) code(b, e int) string {
	if b >= e {
		return ""
	}
	return string(s.text[s.toks[b].Off:s.toks[s.prev(e)].End])
}

// in reports whether a token of toks[b:e] outside of brackets is word, and
// where.
func (s *source) in(word string, b, e int) (int, bool) {
	for k := b; k < e; k++ {
		if t := s.toks[k]; t.directive == "" && t.s == word {
			return k, true
		} else if t.match > k {
			k = t.match
		}
	}
	return -1, false
}

// list returns the comma-separated elements of toks[b:e] as ranges.
func (s *source) list(b, e int) [][2]int {
	var out [][2]int
	from := b
	for k := b; k < e; k++ {
		switch t := s.toks[k]; {
		case t.directive != "":
		case t.s == ",":
			out = append(out, [2]int{from, k})
			from = k + 1
		case t.s == "<" && k > b && s.toks[s.prev(k)].Kind == token.Ident:
			if a := s.angle(k); a > 0 && a < e {
				k = a
			}
		case t.match > k:
			k = t.match
		}
	}
	if from < e {
		out = append(out, [2]int{from, e})
	}
	return out
}
