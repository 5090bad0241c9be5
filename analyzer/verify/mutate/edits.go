package mutate

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/token"
)

// edit replaces ranges of a source's text.
type edit struct {
	kind  string
	where string // function or record, for reports
	parts []part
}

// part replaces text[off:end] by new.
type part struct {
	off, end int
	new      string
}

func (e *edit) apply(text []byte) []byte {
	parts := slices.Clone(e.parts)
	slices.SortStableFunc(parts, func(a, b part) int { return a.off - b.off })
	var out []byte
	pos := 0
	for _, p := range parts {
		if p.off < pos {
			return nil // overlapping
		}
		out = append(append(out, text[pos:p.off]...), p.new...)
		pos = p.end
	}
	return append(out, text[pos:]...)
}

// Kinds of edits that must not change what is emitted: they measure precision,
// and if the code does change (because of __LINE__, say) they count like any
// other.
var neutral = map[string]bool{}

// kind is a kind of edits with its generator.
type kind struct {
	name string
	gen  generator
}

// generator adds all edits of a kind.
type generator = func(s *source, add addFunc)

// addFunc adds an edit.
type addFunc func(where string, parts ...part)

// replace adds an edit for each of texts, which replaces text[off:end].
func (add addFunc) replace(where string, off, end int, texts ...string) {
	for _, x := range texts {
		add(where, part{off, end, x})
	}
}

// replaceToken adds an edit for each of texts, which replaces t.
func (add addFunc) replaceToken(where string, t lexeme, texts ...string) {
	add.replace(where, t.Off, t.End, texts...)
}

// insert adds an edit for each of texts, which inserts it.
func (add addFunc) insert(where string, off int, texts ...string) {
	add.replace(where, off, off, texts...)
}

// around puts text before and after each element of list.
func around(before string, list []string, after string) []string {
	var out []string
	for _, x := range list {
		out = append(out, before+x+after)
	}
	return out
}

// kinds lists all kinds of edits in a fixed order. Those of C++ follow.
var kinds = []kind{
	{"constant", eachToken(func(s *source, i int, t lexeme) []string {
		if t.Kind != token.Number {
			return nil
		}
		v, suffix, ok := parseInt(t.s)
		if !ok {
			return nil
		}
		return []string{fmt.Sprint(v+1) + suffix, fmt.Sprint(v^1) + suffix, fmt.Sprint(v*2+16) + suffix}
	})},
	{"constant-type", eachToken(func(s *source, i int, t lexeme) []string {
		if _, suffix, ok := parseInt(t.s); t.Kind == token.Number && ok && suffix == "" {
			return []string{t.s + "u", t.s + "LL", t.s + ".0", "(char)" + t.s}
		}
		return nil
	})},
	{"float", eachToken(func(s *source, i int, t lexeme) []string {
		if _, _, ok := parseInt(t.s); t.Kind != token.Number || ok || strings.HasPrefix(t.s, "0x") {
			return nil
		}
		return []string{"(" + t.s + "+1e-9)", t.s + "f", "-" + t.s}
	})},
	{"character", eachToken(func(s *source, i int, t lexeme) []string {
		if t.Kind == token.Char {
			return []string{`'\1'`, `'Z'`, "L" + t.s}
		}
		return nil
	})},
	{"string", eachToken(func(s *source, i int, t lexeme) []string {
		if t.Kind != token.String || !strings.HasPrefix(t.s, `"`) || len(t.s) < 2 {
			return nil
		}
		in := t.s[1 : len(t.s)-1]
		return []string{`"` + in + `x"`, `"x` + in + `"`, t.s + ` "\0y"`, `""`}
	})},
	{"operator", eachToken(func(s *source, i int, t lexeme) []string { return operators[t.s] })},
	{"assignment", eachToken(func(s *source, i int, t lexeme) []string { return assignments[t.s] })},
	{"unary", eachToken(func(s *source, i int, t lexeme) []string {
		p := s.at(s.prev(i))
		switch {
		case t.s == "!" || t.s == "~":
			return []string{"", "!!", "~", "-"}
		case t.s == "++":
			return []string{"--"}
		case t.s == "--":
			return []string{"++"}
		case t.Kind == token.Ident && !s.keyword(t.s) && t.fn >= 0 && (p == "=" || p == "(" || p == "return" || p == ","):
			return []string{"!" + t.s, "-" + t.s, "~" + t.s, "++" + t.s, "&" + t.s, "*" + t.s}
		}
		return nil
	})},
	{"condition", perToken(func(s *source, add addFunc, i int, t lexeme) {
		if n := s.next(i); (t.s == "if" || t.s == "while") && s.at(n) == "(" && s.toks[n].match > 0 {
			o, c := s.toks[n], s.toks[s.toks[n].match]
			add(s.where(i), part{o.End, o.End, "!("}, part{c.Off, c.Off, ")"})
			add.replace(s.where(i), o.End, c.Off, "1", "0")
			add(s.where(i), part{o.End, o.End, "0 && ("}, part{c.Off, c.Off, ")"})
		}
	})},
	{"type", eachToken(func(s *source, i int, t lexeme) []string { return types[t.s] })},
	{"declared-type", perToken(func(s *source, add addFunc, i int, t lexeme) {
		// The type of a field, local, parameter, typedef, or the result.
		p, n := s.at(s.prev(i)), s.next(i)
		if t.Kind != token.Ident || n >= len(s.toks) || !(s.toks[n].Kind == token.Ident || s.at(n) == "*") {
			return
		}
		if p == ";" || p == "{" || p == "}" || p == "(" || p == "," || p == "const" || p == "static" || p == "typedef" || p == "extern" {
			add.replaceToken(s.where(i), t, "short", "double", "struct tasting_unknown *", "unsigned char", "volatile "+t.s, "const "+t.s, t.s+" *")
		}
	})},
	{"qualifier", eachToken(func(s *source, i int, t lexeme) []string {
		switch t.s {
		case "const", "volatile", "restrict", "register":
			return []string{"", "volatile", "const"}
		case "*":
			if p := s.prev(i); p >= 0 && (s.toks[p].Kind == token.Ident && s.keyword(s.at(p)) || s.at(p) == "*") {
				return []string{"* restrict", "* const", "* volatile", "volatile *", "const *"}
			}
		}
		return nil
	})},
	{"storage", eachToken(func(s *source, i int, t lexeme) []string {
		switch t.s {
		case "static", "extern", "inline", "register", "__inline":
			return []string{"", "static", "extern", "inline", "extern inline", "static inline", "static _Thread_local", "_Thread_local"}
		}
		return nil
	})},
	{"storage-local", perStatement(func(s *source, add addFunc, f function, b, e int) {
		if s.declares(f, b) {
			add.insert(f.name, s.toks[b].Off, "static ", "register ", "volatile ", "_Alignas(64) ", "const ", "static _Thread_local ")
		}
	})},
	{"linkage", perFunction(func(s *source, add addFunc, f function) {
		add.insert(f.name, s.toks[f.head].Off, "static ", "extern ", "inline ", "static inline ", "extern inline ", "_Noreturn ")
		add.insert(f.name, s.toks[f.end-1].End, "\nextern __typeof__("+f.name+") "+f.name+";\n", "\nextern __typeof__("+f.name+") tasting_alias __attribute__((alias(\""+f.name+"\")));\n")
	})},
	{"attribute-function", perFunction(func(s *source, add addFunc, f function) {
		add.insert(f.name, s.toks[f.head].Off, around("__attribute__((", functionAttributes, ")) ")...)
	})},
	{"attribute-declaration", func(s *source, add addFunc) {
		// On a further declaration, before the first or after the last use.
		s.functions(func(f function) {
			for _, x := range functionAttributes {
				add(f.name, insert(s.toks[f.end-1].End, "\n__attribute__(("+x+")) extern __typeof__("+f.name+") "+f.name+";\n"))
			}
		})
		s.prototypes(func(name string, b, e int) {
			for _, x := range functionAttributes {
				add(name, insert(s.toks[b].Off, "__attribute__(("+x+")) "))
				add(name, insert(s.toks[e].Off, " __attribute__(("+x+"))"))
			}
		})
	}},
	{"attribute-variable", func(s *source, add addFunc) {
		s.variables(func(name string, b, e int) {
			add.insert(name, s.toks[b].Off, around("__attribute__((", variableAttributes, ")) ")...)
		})
		s.statements(func(f function, b, e int) {
			if s.declares(f, b) {
				add.insert(f.name, s.toks[b].Off, around("__attribute__((", variableAttributes, ")) ")...)
			}
		})
	}},
	{"attribute-record", func(s *source, add addFunc) {
		for _, r := range s.records {
			if r.kind == "enum" {
				add(r.name, insert(s.toks[r.end].End, " __attribute__((packed))"))
				continue
			}
			add.insert(r.name, s.toks[r.end].End, around(" __attribute__((", []string{"packed", "aligned(16)", "aligned(64)", "may_alias", "ms_struct", "packed, aligned(2)", "transparent_union"}, "))")...)
			for _, e := range r.fieldEnds {
				add.insert(r.name, s.toks[e].Off, around(" __attribute__((", []string{"packed", "aligned(16)", "aligned(2)"}, "))")...)
			}
		}
	}},
	{"attribute-argument", perToken(func(s *source, add addFunc, i int, t lexeme) {
		if n := s.next(i); t.s == "__attribute__" && s.at(n) == "(" && s.toks[n].match > 0 {
			m := s.toks[n].match
			add(s.where(i), part{t.Off, s.toks[m].End, ""})
			for k := n; k < m; k++ {
				switch x := s.toks[k]; {
				case x.Kind == token.Number:
					if v, suffix, ok := parseInt(x.s); ok {
						add(s.where(i), part{x.Off, x.End, fmt.Sprint(v+1) + suffix})
					}
				case x.Kind == token.String:
					add(s.where(i), part{x.Off, x.End, `"default"`})
				}
			}
		}
	})},
	{"pragma", func(s *source, add addFunc) {
		s.functions(func(f function) {
			add.insert(f.name, s.toks[f.head].Off, around("\n#pragma ", pragmas, "\n")...)
		})
		for _, r := range s.records {
			if p := s.toks[r.body]; p.depth == 0 {
				add.insert(r.name, s.lineStart(p.Off), around("#pragma ", []string{"pack(1)", "pack(push, 2)", "ms_struct on"}, "\n")...)
			}
		}
	}},
	{"pragma-loop", func(s *source, add addFunc) {
		s.statements(func(f function, b, e int) {
			if x := s.at(b); x == "for" || x == "while" || x == "do" {
				add.insert(f.name, s.toks[b].Off, around("\n#pragma ", []string{"clang loop unroll(full)", "clang loop unroll(disable)", "clang loop vectorize(disable)", "unroll(4)", "nounroll", "clang loop vectorize_width(2)"}, "\n")...)
			}
		})
		s.functions(func(f function) {
			add.insert(f.name, s.toks[f.body].End, around("\n#pragma ", []string{"STDC FP_CONTRACT OFF", "clang fp reassociate(on)", "STDC FENV_ACCESS ON", "clang fp contract(fast)"}, "\n")...)
		})
	}},
	{"macro", func(s *source, add addFunc) {
		for i, t := range s.toks {
			if !t.own || t.directive != "define" {
				continue
			}
			add.replaceToken("macro", t, operators[t.s]...)
			if v, suffix, ok := parseInt(t.s); ok && t.Kind == token.Number {
				add("macro", part{t.Off, t.End, fmt.Sprint(v+1) + suffix})
			}
			if t.Kind == token.String {
				add("macro", part{t.Off, t.End, `"x"`})
			}
			if i > 0 && s.toks[i-1].directive != "define" {
				add("macro", part{t.Off, t.End, t.s + "_undefined"})
			}
		}
	}},
	{"initializer", perToken(func(s *source, add addFunc, i int, t lexeme) {
		if t.s != "{" || t.match < 0 || s.at(s.prev(i)) != "=" && s.at(s.prev(i)) != "," && s.at(s.prev(i)) != "{" {
			return
		}
		var commas []int
		for k := i + 1; k < t.match; k++ {
			if s.toks[k].s == "," && s.toks[k].depth == t.depth+1 {
				commas = append(commas, k)
			}
		}
		last := s.toks[t.match].Off
		add(s.where(i), insert(last, ", 1"))
		add(s.where(i), part{t.End, last, "0"})
		if len(commas) > 0 {
			k := commas[len(commas)-1]
			add(s.where(i), part{s.toks[k].Off, last, ""})
			first := s.toks[commas[0]]
			second := last
			if len(commas) > 1 {
				second = s.toks[commas[1]].Off
			}
			a, b := string(s.text[t.End:first.Off]), string(s.text[first.End:second])
			add(s.where(i), part{t.End, first.Off, b}, part{first.End, second, a})
		}
	})},
	{"enum", func(s *source, add addFunc) {
		for _, r := range s.records {
			if r.kind != "enum" {
				continue
			}
			add(r.name, insert(s.toks[r.body].End, "tasting_first, "))
			for _, e := range append(slices.Clone(r.fieldEnds), r.end) {
				if p := s.prev(e); s.toks[p].Kind == token.Ident {
					add(r.name, insert(s.toks[p].End, " = 77"))
				}
				add(r.name, insert(s.toks[e].Off, ", tasting_between"))
			}
		}
	}},
	{"field-order", func(s *source, add addFunc) {
		s.fields(func(r record, b, m, e int) {
			// Exchange two neighbouring fields.
			x, y := string(s.text[b:m]), string(s.text[m:e])
			add(r.name, part{b, m, y}, part{m, e, x})
		})
	}},
	{"field", func(s *source, add addFunc) {
		for _, r := range s.records {
			if r.kind == "enum" {
				continue
			}
			for _, e := range r.fieldEnds {
				add(r.name, insert(s.toks[e].End, " char tasting_field;"))
				add.insert(r.name, s.toks[e].Off, " : 3", "[2]")
			}
			add(r.name, insert(s.toks[r.body].End, " long tasting_field;"))
			if r.kind == "struct" {
				add(r.name, s.word(r, "union"))
			} else {
				add(r.name, s.word(r, "struct"))
			}
		}
	}},
	{"array-size", perToken(func(s *source, add addFunc, i int, t lexeme) {
		if t.s == "[" && t.match > i+1 && t.directive == "" {
			c := s.toks[t.match]
			add(s.where(i), insert(c.Off, " + 1"))
			add(s.where(i), part{t.End, t.End, "("}, part{c.Off, c.Off, ") * 2"})
		}
	})},
	{"bit-field", perToken(func(s *source, add addFunc, i int, t lexeme) {
		if n := s.next(i); t.s == ":" && n < len(s.toks) && s.toks[n].Kind == token.Number && t.fn < 0 {
			if v, _, ok := parseInt(s.at(n)); ok {
				add.replaceToken(s.where(i), s.toks[n], fmt.Sprint(v+1), fmt.Sprint(max(v, 2)-1))
			}
		}
	})},
	{"asm", func(s *source, add addFunc) {
		s.statements(func(f function, b, e int) {
			add.insert(f.name, s.toks[b].Off, around("__asm__ volatile(", []string{`"nop"`, `"# %0" :: "r"(1)`, `"" ::: "memory"`, `"call tasting_unknown"`}, "); ")...)
		})
		s.functions(func(f function) {
			add(f.name, insert(s.toks[f.head].Off, `__asm__(".globl tasting_asm\ntasting_asm: nop"); `))
		})
		s.own(func(i int, t lexeme) {
			if t.s != "__asm__" && t.s != "asm" && t.s != "__asm" {
				return
			}
			for k := i; k < len(s.toks) && k < i+40; k++ {
				if s.toks[k].Kind == token.String {
					add(s.where(i), insert(s.toks[k].Off, `"nop;" `))
				}
			}
		})
	}},
	{"call-added", func(s *source, add addFunc) {
		names := append([]string{"__builtin_trap", "abort", "tasting_unknown"}, s.callable()...)
		n := 0
		s.statements(func(f function, b, e int) {
			for range 2 {
				add(f.name, insert(s.toks[b].Off, names[n%len(names)]+"(); "))
				n++
			}
		})
	}},
	{"call-target", func(s *source, add addFunc) {
		names := s.callable()
		s.own(func(i int, t lexeme) {
			if t.fn < 0 || t.Kind != token.Ident || s.keyword(t.s) || s.at(s.next(i)) != "(" || len(names) == 0 {
				return
			}
			for k := range 3 {
				add(s.where(i), part{t.Off, t.End, names[(i+k)%len(names)]})
			}
		})
	}},
	{"call-arguments", perToken(func(s *source, add addFunc, i int, t lexeme) {
		if t.fn < 0 || t.s != "," || t.depth == 0 {
			return
		}
		// Exchange the single-token arguments around a comma.
		a, b := s.prev(i), s.next(i)
		if b < len(s.toks) {
			add(s.where(i), s.exchange(a, a+1, b, b+1)...)
		}
	})},
	{"variable", perToken(func(s *source, add addFunc, i int, t lexeme) {
		// Another variable of the function or the unit.
		if t.fn < 0 || t.Kind != token.Ident || s.keyword(t.s) {
			return
		}
		f := s.funcs[t.fn]
		names := slices.Concat(f.params, f.locals, s.globals)
		if !slices.Contains(names, t.s) || len(names) < 2 {
			return
		}
		for k := range 2 {
			if x := names[(i+k)%len(names)]; x != t.s {
				add(f.name, part{t.Off, t.End, x})
			}
		}
	})},
	{"member", func(s *source, add addFunc) {
		var members []string
		s.own(func(i int, t lexeme) {
			if p := s.at(s.prev(i)); (p == "." || p == "->") && t.Kind == token.Ident {
				members = append(members, t.s)
			}
		})
		s.own(func(i int, t lexeme) {
			if p := s.at(s.prev(i)); (p == "." || p == "->") && t.Kind == token.Ident {
				for k := range 3 {
					if x := members[(i*7+k*13)%len(members)]; x != t.s {
						add(s.where(i), part{t.Off, t.End, x})
					}
				}
			}
		})
	}},
	{"statement-deleted", func(s *source, add addFunc) {
		s.statements(func(f function, b, e int) { add(f.name, part{s.toks[b].Off, s.toks[e].End, ";"}) })
	}},
	{"statement-doubled", perStatement(func(s *source, add addFunc, f function, b, e int) {
		x := string(s.text[s.toks[b].Off:s.toks[e].End])
		if !strings.Contains(x, "#") {
			add(f.name, insert(s.toks[e].End, " "+x))
		}
	})},
	{"statement-order", func(s *source, add addFunc) {
		pb, pe, pf := -1, -1, ""
		s.statements(func(f function, b, e int) {
			if pf == f.name && pe+1 == b {
				add(f.name, s.exchange(pb, pe+1, b, e+1)...)
			}
			pb, pe, pf = b, e, f.name
		})
	}},
	{"return", perStatement(func(s *source, add addFunc, f function, b, e int) {
		if s.at(b) == "return" && e > b+1 {
			add.replace(f.name, s.toks[b].End, s.toks[e].Off, " 0", " 1")
		} else {
			add(f.name, insert(s.toks[b].Off, "return 0; "))
		}
	})},
	{"cast", perToken(func(s *source, add addFunc, i int, t lexeme) {
		p := s.at(s.prev(i))
		if t.fn >= 0 && (t.Kind == token.Ident && !s.keyword(t.s) || t.Kind == token.Number) && (operators[p] != nil || p == "=" || p == "return" || p == "(" || p == ",") {
			add.insert(s.where(i), t.Off, "(char)", "(unsigned)", "(short)", "(long long)", "(void *)", "(_Bool)")
		}
		if t.s == "(" && t.match == i+2 && t.fn >= 0 && s.keyword(s.at(i+1)) {
			add(s.where(i), part{t.Off, s.toks[t.match].End, ""})
		}
	})},
	{"sizeof", perToken(func(s *source, add addFunc, i int, t lexeme) {
		if n := s.next(i); t.s == "sizeof" && s.at(n) == "(" && s.toks[n].match > 0 {
			c := s.toks[s.toks[n].match]
			add(s.where(i), part{s.toks[n].Off, c.End, "(char)"})
			add(s.where(i), part{t.Off, t.End, "_Alignof"})
			add(s.where(i), insert(c.Off, "*"))
			add(s.where(i), part{c.Off, c.Off, "[2]"})
		}
	})},
	{"case", perToken(func(s *source, add addFunc, i int, t lexeme) {
		if t.fn < 0 || t.s != "case" && t.s != "default" {
			return
		}
		for k := i; k < len(s.toks) && k < i+12; k++ {
			if s.toks[k].s == ":" {
				add(s.where(i), part{t.Off, s.toks[k].End, ""})
				if t.s == "case" {
					add.insert(s.where(i), s.toks[k].Off, " + 100", " ... 1000000")
					add(s.where(i), part{t.Off, s.toks[k].End, "default:"})
				}
				break
			}
		}
	})},
	{"jump", func(s *source, add addFunc) {
		s.own(func(i int, t lexeme) {
			if t.fn < 0 {
				return
			}
			f := s.funcs[t.fn]
			switch t.s {
			case "break", "continue":
				for _, x := range []string{"", "break", "continue"} {
					if x != t.s {
						add(f.name, part{t.Off, t.End, x})
					}
				}
			case "goto":
				if n := s.next(i); n < len(s.toks) {
					for _, l := range f.labels {
						if l != s.at(n) {
							add(f.name, part{s.toks[n].Off, s.toks[n].End, l})
						}
					}
				}
			}
		})
		s.statements(func(f function, b, e int) {
			for _, l := range f.labels {
				add(f.name, insert(s.toks[b].Off, "goto "+l+"; "))
			}
		})
	}},
	{"label-moved", perStatement(func(s *source, add addFunc, f function, b, e int) {
		p := s.prev(b)
		if s.at(p) == ":" && slices.Contains(f.labels, s.at(s.prev(p))) {
			l := s.toks[s.prev(p)]
			add(f.name, part{l.Off, s.toks[p].End, ""}, insert(s.toks[e].End, " "+l.s+": ;"))
		}
	})},
	{"builtin", perToken(func(s *source, add addFunc, i int, t lexeme) {
		p := s.at(s.prev(i))
		if t.fn >= 0 && t.Kind == token.Ident && !s.keyword(t.s) && s.at(s.next(i)) != "(" && (p == "=" || p == "return" || operators[p] != nil) {
			add.replaceToken(s.where(i), t, "__builtin_LINE()", "__LINE__", "__builtin_expect("+t.s+", 1)", "sizeof("+t.s+")", "__builtin_constant_p("+t.s+")", "(int)__func__[0]", "(*(volatile __typeof__("+t.s+") *)&"+t.s+")", "__builtin_object_size(&"+t.s+", 0)")
		}
	})},
	{"vla", perFunction(func(s *source, add addFunc, f function) {
		add.insert(f.name, s.toks[f.body].End, around(" volatile char tasting_vla[1 + (unsigned char)(long)", f.params, "]; tasting_vla[0] = sizeof tasting_vla;")...)
		for _, g := range s.callable()[:min(3, len(s.callable()))] {
			add(f.name, insert(s.toks[f.body].End, " volatile char tasting_vla[1 + !"+g+"]; tasting_vla[0] = 1;"))
		}
	})},
	{"prototype", func(s *source, add addFunc) {
		s.prototypes(func(name string, b, e int) {
			add(name, part{s.toks[b].Off, s.toks[e].End, ""})
			add.insert(name, s.toks[b].Off, "static ", "inline ")
			add(name, insert(s.toks[e].Off, ` __asm__("tasting_label")`))
		})
	}},
	{"variable-definition", func(s *source, add addFunc) {
		s.variables(func(name string, b, e int) {
			add.insert(name, s.toks[b].Off, "static ", "const ", "volatile ", "extern ", "_Thread_local ")
			add(name, insert(s.toks[e].Off, " = {1}"))
		})
	}},

	// Neutral edits.
	{"=comment", perToken(func(s *source, add addFunc, i int, t lexeme) {
		if t.directive == "" && t.Kind != token.Punct {
			add(s.where(i), insert(t.Off, "/* tasting */ "))
		}
	})},
	{"=layout", perToken(func(s *source, add addFunc, i int, t lexeme) {
		if t.directive == "" && (t.s == "{" || t.s == ";") {
			add(s.where(i), insert(t.End, "\n\n    "))
		}
	})},
	{"=rename-local", perFunction(func(s *source, add addFunc, f function) {
		for _, name := range append(slices.Clone(f.locals), f.params...) {
			add(f.name, s.rename(name, f.head, f.end)...)
		}
	})},
	{"=rename-static", func(s *source, add addFunc) {
		for _, name := range s.statics {
			add(name, s.rename(name, 0, len(s.toks))...)
		}
	}},
	{"=rename-label", perFunction(func(s *source, add addFunc, f function) {
		for _, name := range f.labels {
			add(f.name, s.rename(name, f.body, f.end)...)
		}
	})},
	{"=redundant-declaration", perFunction(func(s *source, add addFunc, f function) {
		head := s.text[s.toks[f.head].Off:s.toks[f.body].Off]
		if !bytes.Contains(head, []byte("#")) {
			add(f.name, insert(s.toks[f.end-1].End, "\n"+strings.TrimSpace(string(head))+";\n"))
		}
	})},
	{"=order-of-functions", func(s *source, add addFunc) {
		for k := 0; k+1 < len(s.funcs); k++ {
			f, g := s.funcs[k], s.funcs[k+1]
			if !s.toks[f.body].own || !s.toks[g.body].own || f.end != g.head {
				continue
			}
			add(f.name, s.exchange(f.head, f.end, g.head, g.end)...)
		}
	}},
	{"=parentheses", perStatement(func(s *source, add addFunc, f function, b, e int) {
		if s.at(b) == "return" && e > b+1 {
			add(f.name, insert(s.toks[b].End, " ("), insert(s.toks[e].Off, ")"))
		}
		for k := b; k < e; k++ {
			if s.toks[k].s == "=" && s.toks[k].depth == s.toks[b].depth && s.at(s.next(k)) != "{" && !s.declares(f, b) {
				add(f.name, insert(s.toks[k].End, " ("), insert(s.toks[e].Off, ")"))
			}
		}
	})},
	{"=block", perStatement(func(s *source, add addFunc, f function, b, e int) {
		if !s.declares(f, b) {
			add(f.name, insert(s.toks[b].Off, "{ "), insert(s.toks[e].End, " }"))
		}
	})},
	{"=unused", perFunction(func(s *source, add addFunc, f function) {
		add.insert(f.name, s.toks[f.head].Off, "struct tasting_unused { int x; }; ", "typedef int tasting_unused; ", "extern int tasting_unused(int); ", "static int tasting_unused(int x) { return x; } ", "enum tasting_unused { TASTING_A }; ", "\n#define TASTING_UNUSED 1\n ", "\n#pragma GCC diagnostic ignored \"-Wall\"\n ", "extern int tasting_unused; ")
	})},
	{"=spelling", eachToken(func(s *source, i int, t lexeme) []string {
		if v, suffix, ok := parseInt(t.s); ok && suffix == "" && t.Kind == token.Number && t.s[0] != '0' && v < 1<<31 {
			return []string{fmt.Sprintf("%#x", v)}
		}
		p, n := s.at(s.prev(i)), s.at(s.next(i))
		switch {
		case t.s == "unsigned" && n != "int" && n != "long" && n != "char" && n != "short" && p != "long" && p != "short":
			return []string{"unsigned int"}
		case t.s == "int" && p != "unsigned" && p != "long" && p != "short" && p != "signed":
			return []string{"signed int"}
		}
		return nil
	})},
	{"=tag", func(s *source, add addFunc) {
		for _, r := range s.records {
			if r.name != "" {
				add(r.name, s.rename(r.name, 0, len(s.toks))...)
			}
		}
	}},
}

func init() {
	for _, k := range cxxKinds {
		gen := k.gen
		kinds = append(kinds, kind{k.name, func(s *source, add addFunc) {
			if s.cxx {
				gen(s, add)
			}
		}})
	}
	for i, k := range kinds {
		if name, ok := strings.CutPrefix(k.name, "="); ok {
			kinds[i].name = name
			neutral[name] = true
		}
	}
}

var operators = map[string][]string{
	"+": {"-", "*", "|"}, "-": {"+", "/"}, "*": {"+"}, "/": {"*", "%"}, "%": {"/", "*"},
	"<<": {">>"}, ">>": {"<<"}, "&": {"|", "^", "&&"}, "|": {"&", "^", "||"}, "^": {"|"},
	"<": {"<=", ">", "!="}, "<=": {"<", ">="}, ">": {">=", "<"}, ">=": {">", "<="},
	"==": {"!=", "<="}, "!=": {"==", ">"}, "&&": {"||", "&"}, "||": {"&&", "|"},
	"?": {"? 0 :"}, "->": {"->tasting."},
}

var assignments = map[string][]string{
	"=": {"+=", "|=", "=-", "=!"}, "+=": {"-=", "="}, "-=": {"+=", "="}, "*=": {"+="}, "/=": {"*="}, "|=": {"&=", "^="},
	"&=": {"|="}, "^=": {"|="}, "<<=": {">>="}, ">>=": {"<<="}, "%=": {"/="},
}

var types = map[string][]string{
	"int": {"long", "short", "unsigned", "char", "float", "_Bool"}, "char": {"signed char", "unsigned char", "short", "int"},
	"unsigned": {"signed", "unsigned long"}, "long": {"int", "short", "unsigned long"}, "short": {"int", "char"},
	"float": {"double"}, "double": {"float", "long double"}, "size_t": {"int", "unsigned", "long"}, "void": {"int"},
	"uint8_t": {"signed char", "unsigned short"}, "uint32_t": {"int", "unsigned long"}, "uint64_t": {"long", "unsigned"}, "signed": {"unsigned"},
}

var functionAttributes = []string{
	"noinline", "always_inline", "cold", "hot", "pure", "const", "noreturn", "nonnull", "returns_nonnull", "malloc", "weak", "used", "unused",
	"section(\"tasting\")", "visibility(\"hidden\")", "visibility(\"protected\")", "aligned(64)", "constructor", "constructor(200)", "destructor",
	"optnone, noinline", "minsize", "flatten", "leaf", "nothrow", "target(\"avx2\")", "target(\"sse4.2\")", "no_stack_protector", "no_builtin", "no_builtin(\"memcpy\")",
	"patchable_function_entry(2)", "zero_call_used_regs(\"used\")", "naked", "ms_abi", "preserve_most", "regcall", "returns_twice", "convergent", "nouwtable",
	"retain, used", "deprecated", "warn_unused_result", "alloc_size(1)", "assume_aligned(32)", "disable_tail_calls", "strict_gs_check", "no_instrument_function",
	"xray_always_instrument", "ifunc(\"tasting\")", "alias(\"tasting\")", "gnu_inline", "artificial", "noduplicate", "speculative_load_hardening", "nocf_check", "error(\"x\")", "weakref(\"x\")", "no_split_stack", "not_tail_called", "cleanup(x)", "no_profile_instrument_function", "force_align_arg_pointer",
}

var variableAttributes = []string{
	"aligned(64)", "section(\"tasting\")", "weak", "used", "visibility(\"hidden\")", "tls_model(\"local-exec\")", "unused", "retain, used", "common", "nocommon",
	"selectany", "uninitialized", "mode(DI)", "vector_size(16)", "address_space(256)", "may_alias", "packed", "alias(\"tasting\")", "no_sanitize(\"address\")", "model(\"large\")", "nodebug", "annotate(\"x\")", "btf_decl_tag(\"x\")",
}

var pragmas = []string{
	"pack(1)", "pack(push, 2)", "clang optimize off", "STDC FP_CONTRACT OFF", "clang fp reassociate(on)", "GCC visibility push(hidden)", "clang section text=\"tasting\"",
	"clang section bss=\"tasting\" data=\"tasting\" rodata=\"tasting\"", "ms_struct on", "clang attribute push(__attribute__((noinline)), apply_to = function)", "weak tasting_unknown", "redefine_extname memcpy tasting_memcpy",
	"STDC FENV_ACCESS ON", "float_control(precise, off)", "clang force_cuda_host_device begin", "clang arc_cf_code_audited begin", "unknown tasting", "optimize(\"t\", off)", "STDC FENV_ROUND FE_UPWARD", "STDC CX_LIMITED_RANGE ON", "clang loop unroll(full)", "comment(lib, \"tasting\")", "message \"x\"",
}

func insert(off int, s string) part { return part{off, off, s} }

// exchange exchanges toks[b:e] and toks[c:f].
func (s *source) exchange(b, e, c, f int) []part {
	return []part{{s.toks[b].Off, s.toks[s.prev(e)].End, s.code(c, f)}, {s.toks[c].Off, s.toks[s.prev(f)].End, s.code(b, e)}}
}

// eachToken makes a generator of replacements of single tokens outside of
// macros.
func eachToken(f func(s *source, i int, t lexeme) []string) generator {
	return perToken(func(s *source, add addFunc, i int, t lexeme) { add.replaceToken(s.where(i), t, f(s, i, t)...) })
}

// perToken makes a generator of f for each token that source.own calls it for.
func perToken(f func(s *source, add addFunc, i int, t lexeme)) generator {
	return func(s *source, add addFunc) { s.own(func(i int, t lexeme) { f(s, add, i, t) }) }
}

func perFunction(f func(s *source, add addFunc, f function)) generator {
	return func(s *source, add addFunc) { s.functions(func(fn function) { f(s, add, fn) }) }
}

func perStatement(f func(s *source, add addFunc, f function, b, e int)) generator {
	return func(s *source, add addFunc) { s.statements(func(fn function, b, e int) { f(s, add, fn, b, e) }) }
}

// own calls f for the tokens of the unit's own files outside of directives.
func (s *source) own(f func(i int, t lexeme)) {
	for i, t := range s.toks {
		if t.own && t.directive == "" {
			f(i, t)
		}
	}
}

func (s *source) where(i int) string {
	if fn := s.toks[i].fn; fn >= 0 {
		return s.funcs[fn].name
	}
	return "file scope"
}

func (s *source) functions(f func(function)) {
	for _, x := range s.funcs {
		if s.toks[x.body].own {
			f(x)
		}
	}
}

// statements calls f for simple statements: toks[b:e+1] ends with a semicolon.
func (s *source) statements(f func(fn function, b, e int)) {
	s.functions(func(fn function) {
		begin := fn.body + 1
		for i := fn.body + 1; i < fn.end-1; i++ {
			t := s.toks[i]
			if t.directive != "" {
				begin = i + 1
				continue
			}
			switch {
			case t.s == "{" || t.s == "}" || t.s == ":" && s.at(s.prev(i)) != ")":
				begin = i + 1
			case t.s == ")" && t.match > 0:
				if w := s.at(s.prev(t.match)); w == "if" || w == "while" || w == "for" || w == "switch" {
					begin = i + 1
				}
			case t.s == "else" || t.s == "do":
				begin = i + 1
			case t.s == ";":
				if begin < i && s.toks[begin].depth == t.depth && !s.inside(begin, i) {
					f(fn, begin, i)
				}
				begin = i + 1
			}
		}
	})
}

// inside reports a directive between two tokens: conditional text.
func (s *source) inside(b, e int) bool {
	return strings.Contains(string(s.text[s.toks[b].Off:s.toks[e].End]), "\n#")
}

// declares reports whether the statement at b looks like a declaration.
func (s *source) declares(f function, b int) bool {
	for k := b + 1; k < f.end && k < b+8; k++ {
		if slices.Contains(f.locals, s.at(k)) {
			p := s.at(s.prev(k))
			return p == "*" || s.toks[s.prev(k)].Kind == token.Ident && p != "return"
		}
		if x := s.at(k); x == ";" || x == "=" || x == "(" {
			return false
		}
	}
	return false
}

// prototypes calls f for the function declarations of the unit's own files.
func (s *source) prototypes(f func(name string, b, e int)) {
	s.declarations(func(b, e int) {
		p := s.prev(e)
		if s.at(p) == ")" && s.toks[p].match > b {
			if n := s.prev(s.toks[p].match); s.toks[n].Kind == token.Ident && !s.keyword(s.at(n)) && s.at(b) != "typedef" {
				f(s.at(n), b, e)
			}
		}
	})
}

func (s *source) variables(f func(name string, b, e int)) {
	s.declarations(func(b, e int) {
		if s.at(b) == "typedef" || s.at(s.prev(e)) == ")" {
			return
		}
		for k := b; k < e; k++ {
			if slices.Contains(s.globals, s.at(k)) && s.toks[k].depth == s.toks[b].depth {
				f(s.at(k), b, e)
				return
			}
		}
	})
}

func (s *source) declarations(f func(b, e int)) {
	for _, d := range s.decls {
		if d.class < 0 && d.body < 0 && d.kind != "other" {
			f(d.b, d.e)
		}
	}
	if s.cxx {
		return
	}
	b := 0
	for i := 0; i < len(s.toks); i++ {
		t := s.toks[i]
		switch {
		case t.directive != "":
			b = i + 1
		case t.depth > 0:
		case t.fn >= 0:
			b = i + 1
		case t.s == ";":
			if b < i && t.own {
				f(b, i)
			}
			b = i + 1
		}
	}
}

// fields calls f for neighbouring fields, as ranges of text.
func (s *source) fields(f func(r record, b, m, e int)) {
	for _, r := range s.records {
		begin := s.toks[r.body].End
		for k := 0; k+1 < len(r.fieldEnds); k++ {
			m, e := s.toks[r.fieldEnds[k]].End, s.toks[r.fieldEnds[k+1]].End
			if !strings.Contains(string(s.text[begin:e]), "\n#") {
				f(r, begin, m, e)
			}
			begin = m
		}
	}
}

// word replaces the keyword of a record.
func (s *source) word(r record, kind string) part {
	for k := r.body; k >= 0; k-- {
		if s.toks[k].s == r.kind {
			return part{s.toks[k].Off, s.toks[k].End, kind}
		}
	}
	return part{}
}

func (s *source) lineStart(off int) int {
	for off > 0 && s.text[off-1] != '\n' {
		off--
	}
	return off
}

// callable returns the names of the unit's own functions.
func (s *source) callable() []string {
	var out []string
	s.functions(func(f function) { out = append(out, f.name) })
	return out
}

// rename renames an identifier in toks[b:e], macros included, but not members.
func (s *source) rename(name string, b, e int) []part {
	var parts []part
	for i := b; i < e; i++ {
		t := s.toks[i]
		if t.s != name || t.Kind != token.Ident {
			continue
		}
		if p := s.at(s.prev(i)); p != "." && p != "->" {
			parts = append(parts, part{t.Off, t.End, name + "_renamed"})
		}
	}
	return parts
}
