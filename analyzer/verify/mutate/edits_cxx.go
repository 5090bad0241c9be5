package mutate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/token"
)

// cxxKinds are the kinds of edits that C++ has besides those of C. The names
// rts-e1 to rts-e9 are the operators by which RTSCheck's AutoEP evolves
// programs (Zhu et al., ICSE 2019, table III).
var cxxKinds = []kind{
	{"rts-e1-base-added", func(s *source, add addFunc) {
		s.eachClass(func(ci int, c *class) {
			for _, b := range s.before(ci, 8) {
				for _, x := range []string{"public ", "public virtual "} {
					add(c.name, s.addBase(c, x+s.classes[b].path))
				}
			}
		})
	}},
	{"rts-e2-field-copied", func(s *source, add addFunc) {
		s.copies("variable", func(from, to int, d *decl, text string) {
			add(s.classes[to].name, s.member(to, text))
		})
	}},
	{"rts-e3-field-copied-changed", func(s *source, add addFunc) {
		s.copies("variable", func(from, to int, d *decl, text string) {
			end := d.e
			if d.init >= 0 {
				end = d.init
			}
			for _, x := range []string{" = 77;", "{};"} {
				add(s.classes[to].name, s.member(to, s.code(d.b, end)+x))
			}
		})
	}},
	{"rts-e4-method-copied", func(s *source, add addFunc) {
		s.copies("function", func(from, to int, d *decl, text string) {
			add(s.classes[to].name, s.member(to, text))
		})
	}},
	{"rts-e5-method-copied-changed", func(s *source, add addFunc) {
		s.copies("function", func(from, to int, d *decl, text string) {
			for k := d.b; k <= d.e; k++ {
				if x := s.larger(k); x != "" {
					add(s.classes[to].name, s.member(to, s.code(d.b, k)+" "+x+" "+s.code(k+1, d.e+1)))
				}
			}
		})
	}},
	{"rts-e6-next-program", func(s *source, add addFunc) { nextProgram(s, add) }},
	{"rts-e7-constant-increased", eachToken(func(s *source, i int, t lexeme) []string {
		if x := s.larger(i); x != "" {
			return []string{x}
		}
		return nil
	})},
	{"rts-e8-base-removed", func(s *source, add addFunc) {
		s.eachClass(func(ci int, c *class) {
			for k, b := range c.bases {
				from, to := s.prev(b.b), b.e // with the comma or colon before
				if k == 0 && len(c.bases) > 1 {
					from, to = b.b, c.bases[1].b
				}
				add(c.name, part{s.toks[from].Off, s.toks[to].Off, " "})
			}
		})
	}},
	{"rts-e9-method-removed", func(s *source, add addFunc) {
		s.eachMember("function", func(ci int, d *decl) {
			parts := []part{{s.toks[d.b].Off, s.toks[d.e].End, ""}}
			for k := range s.decls {
				if o := &s.decls[k]; o.class < 0 && o.outer == s.classes[ci].name && o.name == d.name && d.body < 0 {
					parts = append(parts, part{s.toks[o.b].Off, s.toks[o.e].End, ""})
					break
				}
			}
			add(s.classes[ci].name+"::"+d.name, parts...)
		})
	}},

	// Classes, bases, virtual functions.
	{"c++-virtual", func(s *source, add addFunc) {
		s.eachMember("function", func(ci int, d *decl) {
			if k, ok := s.in("virtual", d.b, d.open); ok {
				add(d.name, part{s.toks[k].Off, s.toks[k].End, ""})
			} else {
				add(d.name, insert(s.toks[d.begin].Off, "virtual "))
			}
		})
	}},
	{"c++-override-specifier", func(s *source, add addFunc) {
		s.eachMember("function", func(ci int, d *decl) {
			for _, w := range []string{"override", "final"} {
				if k, ok := s.in(w, d.open, s.tail(d)); ok {
					add(d.name, part{s.toks[k].Off, s.toks[k].End, ""})
					add(d.name, part{s.toks[k].Off, s.toks[k].End, "override final"})
				} else {
					add(d.name, insert(s.toks[s.tail(d)].Off, " "+w+" "))
				}
			}
		})
		s.eachClass(func(ci int, c *class) {
			if c.nameTok < 0 {
				return
			}
			if n := s.next(c.nameTok); s.at(n) == "final" {
				add(c.name, part{s.toks[n].Off, s.toks[n].End, ""})
			} else {
				add(c.name, insert(s.toks[c.nameTok].End, " final"))
			}
		})
	}},
	{"c++-override-added", func(s *source, add addFunc) {
		s.eachClass(func(ci int, c *class) {
			for _, a := range s.ancestors[ci] {
				for _, m := range s.classes[a].members {
					d := &s.decls[m]
					if d.kind != "function" || d.name == s.classes[a].name {
						continue
					}
					head := strings.ReplaceAll(s.code(d.begin, s.tail(d)), "virtual ", "")
					if strings.HasPrefix(d.name, "~") {
						add(c.name, s.member(ci, "~"+c.name+"() { __builtin_trap(); }"))
						add(c.name, s.member(ci, "~"+c.name+"() override;"))
						continue
					}
					for _, body := range []string{" { __builtin_trap(); }", " { return {}; }", " { while (true) { } }", ";"} {
						add(c.name, s.member(ci, head+body))
					}
				}
			}
		})
	}},
	{"c++-override-removed", func(s *source, add addFunc) {
		s.eachMember("function", func(ci int, d *decl) {
			_, o := s.in("override", d.open, s.tail(d))
			if _, f := s.in("final", d.open, s.tail(d)); (o || f) && d.body >= 0 {
				add(s.classes[ci].name+"::"+d.name, part{s.toks[d.b].Off, s.toks[d.e].End, ""})
			}
		})
	}},
	{"c++-override-hides", func(s *source, add addFunc) {
		// Another signature: no longer an override.
		s.eachMember("function", func(ci int, d *decl) {
			parts := []part{}
			for _, w := range []string{"override", "final"} {
				if k, ok := s.in(w, d.open, s.tail(d)); ok {
					parts = append(parts, part{s.toks[k].Off, s.toks[k].End, ""})
				}
			}
			if len(parts) == 0 {
				return
			}
			c := s.toks[d.open].match
			x := "int = 0"
			if c > d.open+1 {
				x = ", int = 0"
			}
			add(d.name, append(slices.Clone(parts), insert(s.toks[c].Off, x))...)
			if k := s.next(c); s.at(k) == "const" {
				add(d.name, append(slices.Clone(parts), part{s.toks[k].Off, s.toks[k].End, ""})...)
			}
		})
	}},
	{"c++-pure", func(s *source, add addFunc) {
		s.eachMember("function", func(ci int, d *decl) {
			if d.body >= 0 {
				add(d.name, part{s.toks[s.tail(d)].Off, s.toks[d.e].End, " = 0;"})
			} else if d.init >= 0 && s.at(s.next(d.init)) == "0" {
				add(d.name, part{s.toks[d.init].Off, s.toks[d.e].End, " { __builtin_trap(); }"})
				add(d.name, part{s.toks[d.init].Off, s.toks[d.e].Off, ""})
			} else if d.init < 0 {
				add(d.name, insert(s.toks[d.e].Off, " = 0"))
			}
		})
	}},
	{"c++-covariant", func(s *source, add addFunc) {
		s.eachMember("function", func(ci int, d *decl) {
			for k := d.begin; k < d.nameTok; k++ {
				t := s.toks[k]
				if n := s.at(s.next(k)); n != "*" && n != "&" || t.directive != "" || t.Kind != token.Ident {
					continue
				}
				if b := s.classOf(t.s, s.classes[ci].end); b >= 0 || t.s == s.classes[ci].name {
					add(d.name, part{t.Off, t.End, s.classes[ci].name})
					for _, a := range s.ancestors[ci] {
						add(d.name, part{t.Off, t.End, s.classes[a].name})
					}
				}
			}
		})
	}},
	{"c++-base", func(s *source, add addFunc) {
		s.eachClass(func(ci int, c *class) {
			for k, b := range c.bases {
				if v, ok := s.in("virtual", b.b, b.e); ok {
					add(c.name, part{s.toks[v].Off, s.toks[v].End, ""})
				} else {
					add(c.name, insert(s.toks[b.b].Off, "virtual "))
				}
				access := false
				for _, w := range []string{"public", "protected", "private"} {
					v, ok := s.in(w, b.b, b.e)
					access = access || ok
					for _, x := range []string{"public", "protected", "private", ""} {
						if ok && x != w {
							add(c.name, part{s.toks[v].Off, s.toks[v].End, x})
						}
					}
				}
				if !access {
					add(c.name, insert(s.toks[b.b].Off, "private "))
				}
				if k > 0 {
					p := c.bases[k-1]
					add(c.name, part{s.toks[p.b].Off, s.toks[p.e-1].End, s.code(b.b, b.e)}, part{s.toks[b.b].Off, s.toks[b.e-1].End, s.code(p.b, p.e)})
				}
				for _, o := range s.before(ci, 4) {
					add(c.name, part{s.toks[b.b].Off, s.toks[b.e-1].End, "public ::" + s.classes[o].path})
				}
			}
		})
	}},
	{"c++-hierarchy-used", func(s *source, add addFunc) {
		// The class in a cast, a handler, typeid, new, throw.
		s.own(func(i int, t lexeme) {
			if t.fn < 0 || t.Kind != token.Ident {
				return
			}
			ci := s.classOf(t.s, i)
			if ci < 0 {
				return
			}
			for _, k := range slices.Concat(s.ancestors[ci], s.derived[ci][:min(4, len(s.derived[ci]))]) {
				add(s.where(i), part{t.Off, t.End, s.classes[k].name})
			}
		})
	}},
	{"c++-field-hides", func(s *source, add addFunc) {
		s.eachClass(func(ci int, c *class) {
			for _, a := range s.ancestors[ci] {
				for _, m := range s.classes[a].members {
					d := &s.decls[m]
					switch {
					case d.name == "" || d.name == s.classes[a].name || strings.HasPrefix(d.name, "~"):
					case d.kind == "variable":
						add(c.name, s.member(ci, s.code(d.b, d.e+1)))
						add(c.name, s.member(ci, "short "+d.name+" = 5;"))
						add(c.name, s.member(ci, "static constexpr int "+d.name+" = 5;"))
					case d.kind == "function":
						add(c.name, s.member(ci, "template <typename... T> int "+d.name+"(T &&...) const { return 5; }"))
					}
				}
			}
		})
	}},
	{"c++-member-initializer", func(s *source, add addFunc) {
		for _, d := range s.decls {
			if d.kind == "function" && d.colon >= 0 && d.body >= 0 {
				l := s.list(d.colon+1, d.body)
				for k, r := range l {
					last := s.toks[s.prev(r[1])]
					if last.match > r[0] {
						o := s.toks[last.match]
						for _, x := range []string{"", "1", "{}", "0"} {
							add(d.name, part{o.End, last.Off, x})
						}
					}
					switch {
					case len(l) == 1:
						add(d.name, part{s.toks[d.colon].Off, s.toks[d.body].Off, " "})
					case k > 0:
						add(d.name, part{s.toks[s.prev(r[0])].Off, last.End, ""})
						p := l[k-1]
						add(d.name, part{s.toks[p[0]].Off, s.toks[s.prev(p[1])].End, s.code(r[0], r[1])}, part{s.toks[r[0]].Off, last.End, s.code(p[0], p[1])})
					}
				}
			}
		}
		s.eachMember("variable", func(ci int, d *decl) {
			if d.init >= 0 {
				add(d.name, part{s.toks[d.init].Off, s.toks[d.e].Off, ""})
				add(d.name, part{s.toks[d.init].Off, s.toks[d.e].Off, "{}"})
			} else {
				for _, x := range []string{"{}", "{7}", " = 7", "{nullptr}"} {
					add(d.name, insert(s.toks[d.e].Off, x))
				}
			}
		})
	}},
	{"c++-special-member", func(s *source, add addFunc) {
		s.eachClass(func(ci int, c *class) {
			if c.name == "" {
				return
			}
			for _, x := range []string{
				"X() = default;", "X() {}", "X() = delete;", "X();", "X(const X &) = default;", "X(const X &) = delete;", "X(const X &) {}", "X(X &&) = default;", "X(X &&) noexcept {}",
				"X &operator=(const X &) = default;", "X &operator=(const X &) { return *this; }", "X &operator=(X &&) = default;", "X &operator=(const X &) = delete;", "explicit X(const X &) = default;", "X(const X &);",
			} {
				add(c.name, s.member(ci, strings.ReplaceAll(x, "X", c.name)))
			}
		})
		s.eachMember("function", func(ci int, d *decl) {
			if d.init < 0 {
				if n := s.toks[d.open].match; d.body >= 0 {
					add(d.name, part{s.toks[s.tail(d)].Off, s.toks[d.e].End, " = default;"})
					add(d.name, part{s.toks[s.tail(d)].Off, s.toks[d.e].End, " = delete;"})
				} else if n > 0 {
					add(d.name, insert(s.toks[d.e].Off, " = delete"))
					add(d.name, insert(s.toks[d.e].Off, " = default"))
				}
				return
			}
			for _, x := range []string{" = default;", " = delete;", " {}", ";", " { __builtin_trap(); }"} {
				add(d.name, part{s.toks[d.init].Off, s.toks[d.e].End, x})
			}
		})
	}},
	{"c++-destructor", func(s *source, add addFunc) {
		s.eachClass(func(ci int, c *class) {
			for _, x := range []string{"~X() {}", "~X() { __builtin_trap(); }", "~X();", "virtual ~X() {}", "~X() noexcept(false) { throw 1; }", "~X() = default;", "protected: ~X() = default; public:", "virtual ~X() = default;", "~X() = delete;", "constexpr ~X() {}"} {
				if c.name != "" {
					add(c.name, s.member(ci, strings.ReplaceAll(x, "X", c.name)))
				}
			}
		})
		for _, d := range s.decls {
			if !strings.HasPrefix(d.name, "~") {
				continue
			}
			if d.body >= 0 {
				add(d.name, part{s.toks[d.body].End, s.toks[s.toks[d.body].match].Off, ""})
				add(d.name, insert(s.toks[d.body].End, " __builtin_trap();"))
				add(d.name, insert(s.toks[d.body].End, " extern int tasting_unknown(); tasting_unknown();"))
			}
			if d.class >= 0 {
				add(d.name, part{s.toks[d.b].Off, s.toks[d.e].End, ""})
			}
		}
	}},
	{"c++-conversion", func(s *source, add addFunc) {
		s.eachClass(func(ci int, c *class) {
			for _, x := range []string{
				"operator int() const { return 7; }", "operator bool() const { return true; }", "explicit operator bool() const { return false; }", "template <typename T> operator T() const { return T(); }",
				"operator const char *() const { return \"x\"; }", "X(int) {}", "template <typename T> X(const T &) {}", "X(decltype(nullptr)) {}", "template <typename... T> explicit X(T &&...) {}",
			} {
				add(c.name, s.member(ci, strings.ReplaceAll(x, "X", c.name)))
			}
		})
		s.eachMember("function", func(ci int, d *decl) {
			if k, ok := s.in("explicit", d.b, d.open); ok {
				add(d.name, part{s.toks[k].Off, s.toks[k].End, ""})
			} else if d.name == s.classes[ci].name {
				add(d.name, insert(s.toks[d.begin].Off, "explicit "))
			}
		})
	}},
	{"c++-operator", func(s *source, add addFunc) {
		s.own(func(i int, t lexeme) {
			if t.s == "operator" {
				n := s.toks[s.next(i)]
				for _, x := range append(slices.Clone(operators[n.s]), map[string][]string{"=": {"+="}, "+=": {"-="}, "[": {}, "<": {">"}, "++": {"--"}, "==": {"!="}, "<<": {">>"}}[n.s]...) {
					add(s.where(i), part{n.Off, n.End, x})
				}
			}
		})
		s.eachClass(func(ci int, c *class) {
			for _, x := range []string{
				"X *operator&() { return nullptr; }", "template <typename T> T &&operator,(T &&t) const { return static_cast<T &&>(t); }", "X *operator->() { return this; }", "bool operator!() const { return true; }",
				"static void *operator new(decltype(sizeof 0)) { return nullptr; }", "void operator delete(void *) {}", "static void *operator new[](decltype(sizeof 0)) { return nullptr; }", "void operator delete(X *, std::destroying_delete_t);",
				"template <typename T> int operator+(const T &) const { return 1; }", "template <typename T> bool operator==(const T &) const { return true; }", "template <typename T> int operator[](const T &) const { return 1; }",
				"template <typename... T> int operator()(T &&...) const { return 1; }", "friend auto operator<=>(const X &, const X &) = default;", "bool operator==(const X &) const = default;", "template <typename T> X &operator=(const T &) { return *this; }",
			} {
				add(c.name, s.member(ci, strings.ReplaceAll(x, "X", c.name)))
			}
		})
	}},
	{"c++-friend", func(s *source, add addFunc) {
		names := s.called()
		s.eachClass(func(ci int, c *class) {
			add(c.name, s.member(ci, strings.ReplaceAll("friend bool operator==(const X &, const X &) { return true; }", "X", c.name)))
			for k := range min(6, len(names)) {
				x := names[(ci*7+k*5)%len(names)]
				add(c.name, s.member(ci, "template <typename... T> friend int "+x+"(const "+c.name+" &, T &&...) { return 1; }"))
				add(c.name, s.member(ci, "friend int "+x+"("+c.name+" &) { return 1; }"))
			}
		})
		s.own(func(i int, t lexeme) {
			if t.s == "friend" {
				add(s.where(i), part{t.Off, t.End, ""})
			}
		})
	}},

	// Functions.
	{"c++-default-argument", func(s *source, add addFunc) {
		s.eachParameter(func(d *decl, b, e int) {
			if k, ok := s.in("=", b, e); ok {
				for _, x := range []string{"", "= 1 ", "= {}", "= 0"} {
					add(d.name, part{s.toks[k].Off, s.toks[s.prev(e)].End, x})
				}
			} else if s.at(e) == ")" { // of the last one
				for _, x := range []string{" = {}", " = 1", " = nullptr"} {
					add(d.name, insert(s.toks[s.prev(e)].End, x))
				}
			}
		})
	}},
	{"c++-parameter", func(s *source, add addFunc) {
		// By value, by reference.
		s.eachParameter(func(d *decl, b, e int) {
			for k := b; k < e; k++ {
				switch t := s.toks[k]; t.s {
				case "&", "&&":
					for _, x := range []string{"", "&", "&&", "*"} {
						add(d.name, part{t.Off, t.End, x})
					}
				case "const":
					add(d.name, part{t.Off, t.End, ""})
				}
			}
			if n := s.prev(e); n > b && s.toks[n].Kind == token.Ident {
				add(d.name, insert(s.toks[n].Off, "&"), insert(s.toks[b].Off, "const "))
				add(d.name, insert(s.toks[n].Off, "&&"))
				add(d.name, insert(s.toks[n].Off, "const "))
				add(d.name, insert(s.toks[n].Off, "..."))
				add(d.name, insert(s.toks[s.next(n)].Off, ", ..."))
			}
		})
	}},
	{"c++-specifier", func(s *source, add addFunc) {
		for i := range s.decls {
			d := &s.decls[i]
			if d.kind != "function" && d.kind != "variable" {
				continue
			}
			words := []string{"constexpr", "consteval", "inline", "static", "extern", "friend"}
			if d.kind == "variable" {
				words = []string{"constexpr", "constinit", "inline", "static", "extern", "mutable", "thread_local", "volatile", "const"}
			}
			for _, w := range words {
				if k, ok := s.in(w, d.begin, d.nameTok); ok {
					add(d.name, part{s.toks[k].Off, s.toks[k].End, ""})
				} else {
					add(d.name, insert(s.toks[d.begin].Off, w+" "))
				}
			}
			if d.kind == "variable" {
				add(d.name, insert(s.toks[d.begin].Off, "inline static "))
				add(d.name, insert(s.toks[d.begin].Off, "static constexpr "))
			}
		}
	}},
	{"c++-function-qualifier", func(s *source, add addFunc) {
		for i := range s.decls {
			d := &s.decls[i]
			if d.kind != "function" {
				continue
			}
			c := s.toks[d.open].match
			for _, w := range []string{"const", "noexcept", "volatile", "&", "&&"} {
				if k, ok := s.in(w, c, s.tail(d)); ok {
					add(d.name, part{s.toks[k].Off, s.toks[k].End, ""})
				} else if w == "noexcept" {
					if k, ok := s.in("const", c, s.tail(d)); ok {
						c = k
					}
					add(d.name, insert(s.toks[c].End, " noexcept "))
					add(d.name, insert(s.toks[c].End, " noexcept(false) "))
				} else {
					add(d.name, insert(s.toks[c].End, " "+w+" "))
				}
			}
		}
	}},
	{"c++-overload", func(s *source, add addFunc) {
		// A function that may be a better choice for calls that follow.
		for i := range s.decls {
			d := &s.decls[i]
			if d.kind != "function" || d.outer != "" || strings.HasPrefix(d.name, "~") {
				continue
			}
			result := strings.NewReplacer("virtual ", "", "explicit ", "").Replace(s.code(d.begin, d.nameTok))
			params := s.list(d.open+1, s.toks[d.open].match)
			heads := []string{"template <typename... T> " + result + " " + d.name + "(T &&...)"}
			for k := range params {
				for _, x := range []string{"int", "long", "double", "const char *", "bool", "const T &", "T *"} {
					list := ""
					for j, p := range params {
						if j > 0 {
							list += ", "
						}
						if j == k {
							list += x
						} else {
							list += s.code(p[0], p[1])
						}
					}
					head := result + " " + d.name + "(" + list + ")"
					if strings.Contains(x, "T") {
						head = "template <typename T> " + head
					}
					heads = append(heads, head)
				}
			}
			for k, h := range heads {
				add(d.name, insert(s.toks[d.b].Off, h+" { __builtin_trap(); }\n"))
				if k < 3 {
					add(d.name, insert(s.toks[d.e].End, "\n"+h+" { __builtin_trap(); }\n"))
					add(d.name, insert(s.toks[d.b].Off, h+" = delete;\n"))
				}
			}
		}
	}},
	{"c++-adl", func(s *source, add addFunc) {
		// Functions that calls find because of their arguments' class.
		names := s.called()
		s.eachClass(func(ci int, c *class) {
			if c.path == "" || len(names) == 0 || s.at(s.next(c.end)) != ";" {
				return
			}
			for k := range 8 {
				x := names[(ci*11+k*3)%len(names)]
				for _, f := range []string{"inline int F(const X &) { return 1; }", "template <typename... T> int F(const X &, T &&...) { return 1; }", "template <typename... T> int F(T &&...) { return 1; }"} {
					add(c.name, insert(s.toks[s.next(c.end)].End, "\n"+strings.NewReplacer("F", x, "X", c.path).Replace(f)+"\n"))
				}
			}
		})
	}},
	{"c++-return-type", func(s *source, add addFunc) {
		for i := range s.decls {
			d := &s.decls[i]
			if d.kind != "function" || d.nameTok <= d.begin {
				continue
			}
			p := s.prev(d.nameTok)
			if t := s.toks[p]; t.s == "&" || t.s == "*" || t.s == "&&" {
				add(d.name, part{t.Off, t.End, ""})
			} else if s.toks[p].Kind == token.Ident {
				add(d.name, insert(t.End, " &"))
				add(d.name, part{t.Off, t.End, "auto"})
				add(d.name, part{t.Off, t.End, "decltype(auto)"})
			}
		}
	}},

	// Statements and expressions.
	{"c++-exception", func(s *source, add addFunc) {
		s.own(func(i int, t lexeme) {
			switch n := s.next(i); {
			case t.s == "catch" && s.at(n) == "(" && s.toks[n].match > n:
				o, c := s.toks[n], s.toks[s.toks[n].match]
				for _, x := range []string{"...", "int", "const char *", "..., int"} {
					add(s.where(i), part{o.End, c.Off, x})
				}
				if k, ok := s.in("&", n+1, s.toks[n].match); ok {
					add(s.where(i), part{s.toks[k].Off, s.toks[k].End, ""})
				}
				if b := s.next(s.toks[n].match); s.at(b) == "{" {
					add(s.where(i), insert(s.toks[b].End, " throw;"))
					add(s.where(i), part{t.Off, s.toks[s.toks[b].match].End, "catch (...) { throw; }"})
				}
			case t.s == "throw":
				for _, x := range []string{"", "throw 1, "} {
					add(s.where(i), part{t.Off, t.End, x})
				}
			case t.s == "noexcept" && s.at(n) == "(" && s.toks[n].match > n:
				o, c := s.toks[n], s.toks[s.toks[n].match]
				add(s.where(i), part{o.End, c.Off, "true"})
				add(s.where(i), part{o.End, c.Off, "false"})
			}
		})
		s.statements(func(f function, b, e int) {
			add(f.name, insert(s.toks[b].Off, "throw 1; "))
			if !s.declares(f, b) {
				add(f.name, insert(s.toks[b].Off, "try { "), insert(s.toks[e].End, " } catch (...) { }"))
				add(f.name, insert(s.toks[b].Off, "try { "), insert(s.toks[e].End, " } catch (int) { throw; }"))
			}
		})
	}},
	{"c++-lambda", func(s *source, add addFunc) {
		s.own(func(i int, t lexeme) {
			p := s.at(s.prev(i))
			n := s.at(s.next(t.match))
			if t.s != "[" || t.match < 0 || n != "(" && n != "{" || p == "]" || p == "delete" || s.toks[s.prev(i)].Kind == token.Ident && !s.keyword(p) || p == "operator" || p == "auto" {
				return
			}
			c := s.toks[t.match]
			for _, x := range []string{"", "=", "&", "this", "=, this", "*this", "tasting_init = 1"} {
				add(s.where(i), part{t.End, c.Off, x})
			}
			for _, r := range s.list(i+1, t.match) {
				x := s.toks[r[0]]
				switch {
				case x.s == "&" && r[1] > r[0]+1:
					add(s.where(i), part{x.Off, x.End, ""})
				case x.Kind == token.Ident && !s.keyword(x.s):
					add(s.where(i), insert(x.Off, "&"))
					add(s.where(i), insert(x.End, " = 7"))
				}
			}
			if n == "(" {
				m := s.toks[s.toks[s.next(t.match)].match]
				for _, x := range []string{" mutable", " noexcept", " -> long", " -> bool", " constexpr"} {
					add(s.where(i), insert(m.End, x))
				}
			}
		})
	}},
	{"c++-range-for", func(s *source, add addFunc) {
		s.own(func(i int, t lexeme) {
			n := s.next(i)
			if t.s != "for" || s.at(n) != "(" || s.toks[n].match < 0 {
				return
			}
			colon, ok := s.in(":", n+1, s.toks[n].match)
			if !ok {
				return
			}
			v := s.prev(colon)
			for _, x := range []string{"auto ", "auto &", "auto &&", "const auto &", "int ", "volatile auto &"} {
				add(s.where(i), part{s.toks[n+1].Off, s.toks[v].Off, x})
			}
		})
	}},
	{"c++-auto", func(s *source, add addFunc) {
		s.own(func(i int, t lexeme) {
			if t.s == "auto" {
				for _, x := range []string{"const auto", "int", "auto &", "auto *", "decltype(auto)", "const auto &", "auto &&", "long", "double"} {
					add(s.where(i), part{t.Off, t.End, x})
				}
			}
		})
		s.statements(func(f function, b, e int) {
			if k, ok := s.in("=", b, e); ok && s.declares(f, b) {
				for _, x := range []string{"auto ", "auto &&", "const auto &"} {
					add(f.name, part{s.toks[b].Off, s.toks[s.prev(k)].Off, x})
				}
			}
		})
	}},
	{"c++-structured-binding", func(s *source, add addFunc) {
		s.own(func(i int, t lexeme) {
			p := s.toks[max(s.prev(i), 0)]
			if t.s != "[" || t.match < 0 || p.s != "auto" && s.at(s.prev(s.prev(i))) != "auto" {
				return
			}
			l := s.list(i+1, t.match)
			if len(l) > 1 {
				a, b := s.toks[l[0][0]], s.toks[l[1][0]]
				add(s.where(i), part{a.Off, a.End, b.s}, part{b.Off, b.End, a.s})
			}
			if p.s == "auto" {
				add(s.where(i), insert(p.End, " &"))
				add(s.where(i), insert(p.End, " &&"))
				add(s.where(i), insert(p.Off, "const "))
			} else if p.s == "&" || p.s == "&&" {
				add(s.where(i), part{p.Off, p.End, ""})
			}
		})
	}},
	{"c++-static-local", func(s *source, add addFunc) {
		s.functions(func(f function) {
			at := s.toks[f.body].End
			add(f.name, insert(at, " extern int tasting_unknown(); static int tasting_local = tasting_unknown(); "))
			add(f.name, insert(at, " extern int tasting_unknown(); thread_local int tasting_local = tasting_unknown(); "))
			for k := range min(3, len(s.classes)) {
				if c := s.classes[len(s.classes)-1-(f.body*3+k)%len(s.classes)]; c.path != "" && s.toks[c.body].own && c.end < f.body {
					for _, x := range []string{" static ", " ", " thread_local ", " const "} {
						add(f.name, insert(at, x+c.path+" tasting_local{}; "))
					}
				}
			}
		})
		s.statements(func(f function, b, e int) {
			if s.declares(f, b) {
				for _, x := range []string{"static ", "thread_local ", "static const ", "constexpr ", "static constexpr "} {
					add(f.name, insert(s.toks[b].Off, x))
				}
			}
			if w := s.toks[b]; w.s == "static" || w.s == "thread_local" || w.s == "constexpr" || w.s == "const" {
				add(f.name, part{w.Off, w.End, ""})
			}
		})
	}},
	{"c++-cast", func(s *source, add addFunc) {
		s.own(func(i int, t lexeme) {
			casts := []string{"static_cast", "dynamic_cast", "reinterpret_cast", "const_cast"}
			n := s.next(i)
			if !slices.Contains(casts, t.s) || s.at(n) != "<" {
				return
			}
			for _, x := range casts {
				if x != t.s {
					add(s.where(i), part{t.Off, t.End, x})
				}
			}
			if a := s.angle(n); a > 0 {
				for _, x := range []string{"int", "bool", "unsigned char", "void *"} {
					add(s.where(i), part{s.toks[n].End, s.toks[a].Off, x})
				}
			}
		})
	}},
	{"c++-qualified-call", func(s *source, add addFunc) {
		// A qualified name suppresses virtual dispatch and ADL.
		var names []string
		for _, c := range s.classes {
			if s.toks[c.body].own && c.name != "" && !slices.Contains(names, c.name) {
				names = append(names, c.name)
			}
		}
		s.own(func(i int, t lexeme) {
			p := s.prev(i)
			if t.fn < 0 || t.Kind != token.Ident || s.keyword(t.s) || s.at(s.next(i)) != "(" {
				return
			}
			switch s.at(p) {
			case ".", "->":
				for k := range min(4, len(names)) {
					add(s.where(i), insert(t.Off, names[(i+k)%len(names)]+"::"))
				}
			case "::":
				add(s.where(i), part{s.toks[s.prev(p)].Off, t.Off, ""})
			default:
				add(s.where(i), part{t.Off, t.End, "(" + t.s + ")"}) // no ADL
				add(s.where(i), insert(t.Off, "::"))
				add(s.where(i), insert(t.Off, "this->"))
			}
		})
	}},
	{"c++-construction", func(s *source, add addFunc) {
		s.own(func(i int, t lexeme) {
			n := s.next(i)
			if t.fn < 0 || t.Kind != token.Ident || s.keyword(t.s) || n >= len(s.toks) || s.toks[n].match < n {
				return
			}
			o, c := s.toks[n], s.toks[s.toks[n].match]
			switch s.at(n) {
			case "(":
				if s.classOf(t.s, i) >= 0 || s.toks[s.prev(i)].Kind == token.Ident && !s.keyword(s.at(s.prev(i))) {
					add(s.where(i), part{o.Off, o.End, "{"}, part{c.Off, c.End, "}"})
					add(s.where(i), part{o.End, c.Off, ""})
				}
			case "{":
				if s.at(s.prev(i)) != ")" {
					add(s.where(i), part{o.Off, o.End, "("}, part{c.Off, c.End, ")"})
					add(s.where(i), part{o.End, c.Off, ""})
				}
			}
		})
	}},
	{"c++-new", eachToken(func(s *source, i int, t lexeme) []string {
		switch {
		case t.s == "new" && s.at(s.prev(i)) != "operator":
			return []string{"::new", "*new", "new (nullptr)"}
		case t.s == "delete" && s.at(s.prev(i)) != "operator" && s.at(s.prev(i)) != "=":
			return []string{"::delete", "(void)", "delete[]"}
		case t.s == "nullptr":
			return []string{"0", "{}"}
		case t.s == "true":
			return []string{"false"}
		case t.s == "false":
			return []string{"true"}
		case t.s == "this":
			return []string{"(this + 1)", "nullptr"}
		case t.s == "move" && s.at(s.next(i)) == "(":
			return []string{""}
		}
		return nil
	})},
	{"c++-constexpr-if", func(s *source, add addFunc) {
		s.own(func(i int, t lexeme) {
			if n := s.next(i); t.s == "if" && s.at(n) == "constexpr" {
				add(s.where(i), part{s.toks[n].Off, s.toks[n].End, ""})
			} else if t.s == "if" && s.at(n) == "(" {
				add(s.where(i), insert(t.End, " constexpr"))
				add(s.where(i), part{t.End, s.toks[s.toks[n].match].End, " consteval"})
			}
		})
	}},

	// Templates.
	{"c++-template-argument", func(s *source, add addFunc) {
		s.eachTemplateList(func(i int, head bool, l [][2]int) {
			if head {
				return
			}
			for k, r := range l {
				p := part{s.toks[r[0]].Off, s.toks[s.prev(r[1])].End, ""}
				for _, x := range []string{"int", "char", "unsigned long", "3", "const " + s.code(r[0], r[1]), s.code(r[0], r[1]) + " *", s.code(r[0], r[1]) + " + 1"} {
					add(s.where(i), part{p.off, p.end, x})
				}
				if k > 0 {
					q := l[k-1]
					add(s.where(i), part{s.toks[q[0]].Off, s.toks[s.prev(q[1])].End, s.code(r[0], r[1])}, part{p.off, p.end, s.code(q[0], q[1])})
					add(s.where(i), part{s.toks[s.prev(r[0])].Off, p.end, ""})
				}
			}
		})
	}},
	{"c++-template-parameter", func(s *source, add addFunc) {
		s.eachTemplateList(func(i int, head bool, l [][2]int) {
			if !head {
				return
			}
			for _, r := range l {
				end := s.toks[s.prev(r[1])].End
				if k, ok := s.in("=", r[0], r[1]); ok {
					for _, x := range []string{"", "= int", "= 1", "= void", "= long"} {
						add(s.where(i), part{s.toks[k].Off, end, x})
					}
				} else {
					for _, x := range []string{" = int", " = 1"} {
						add(s.where(i), insert(end, x))
					}
					add(s.where(i), insert(end, ", typename tasting_parameter = int"))
				}
				if s.at(r[0]) == "int" || s.at(r[0]) == "unsigned" || s.at(r[0]) == "bool" {
					add(s.where(i), part{s.toks[r[0]].Off, s.toks[r[0]].End, "long"})
					add(s.where(i), part{s.toks[r[0]].Off, s.toks[r[0]].End, "auto"})
				}
			}
		})
	}},
	{"c++-specialization", func(s *source, add addFunc) {
		for i := range s.decls {
			d := &s.decls[i]
			o := s.next(d.b)
			if d.begin == d.b || d.class >= 0 || s.at(o) != "<" || d.outer != "" {
				continue
			}
			l := s.list(o+1, s.angle(o))
			after := insert(s.toks[d.e].End, "")
			name, text := d.name, ""
			if d.kind == "class" {
				for _, c := range s.classes {
					if c.body == d.body {
						name, text = c.kind+" "+c.name, s.code(c.body, c.end+1)
						if s.at(s.next(c.nameTok)) == "<" || c.name == "" {
							name = ""
						}
					}
				}
			}
			if name == "" || len(l) == 0 || s.at(l[0][0]) != "typename" && s.at(l[0][0]) != "class" || s.toks[l[0][0]+1].Kind != token.Ident {
				if len(l) > 0 && d.kind == "class" && name != "" && s.toks[l[0][0]].Kind == token.Ident {
					for _, x := range []string{"1", "2", "3", "true", "false"} {
						after.new = "\ntemplate <> " + name + "<" + x + "> " + text + ";\n"
						add(name, after)
					}
				}
				continue
			}
			param := s.at(l[0][0] + 1)
			rest := strings.Repeat(", int", len(l)-1)
			replace := func(text, by string) string {
				var b strings.Builder
				lex := token.New([]byte(text), 0)
				for pos := 0; ; {
					t := lex.Next()
					b.WriteString(text[pos:t.Off])
					if t.Kind == token.EOF {
						return b.String()
					}
					if pos = t.End; text[t.Off:t.End] == param {
						b.WriteString(by)
					} else {
						b.WriteString(text[t.Off:t.End])
					}
				}
			}
			for _, x := range []string{"int", "char", "double", "long", "bool", "unsigned"} {
				switch d.kind {
				case "class":
					after.new = "\ntemplate <> " + name + "<" + x + rest + "> " + replace(text, x) + ";\n"
					add(name, after)
					after.new = "\ntemplate <> " + name + "<" + x + rest + "> { };\n"
					add(name, after)
					after.new = "\ntemplate " + name + "<" + x + rest + ">;\n"
					add(name, after)
					after.new = "\nextern template " + name + "<" + x + rest + ">;\n"
					add(name, after)
				case "function":
					head := replace(s.code(d.begin, s.tail(d)), x)
					for _, body := range []string{" { __builtin_trap(); }", ";", " = delete;"} {
						after.new = "\ntemplate <> " + head + body + "\n"
						add(name, after)
					}
					after.new = "\ntemplate " + head + ";\n"
					add(name, after)
					after.new = "\nextern template " + head + ";\n"
					add(name, after)
				case "variable":
					after.new = "\ntemplate <> " + replace(s.code(d.begin, d.nameTok), x) + " " + name + "<" + x + rest + ">{};\n"
					add(name, after)
				}
			}
			if d.kind == "class" {
				for _, x := range []string{"*", "&", " const", "[3]"} {
					if len(l) == 1 {
						after.new = "\ntemplate <typename " + param + "> " + name + "<" + param + x + "> " + text + ";\n"
						add(name, after)
						after.new = "\ntemplate <typename " + param + "> " + name + "<" + param + x + "> { };\n"
						add(name, after)
					}
				}
			}
		}
	}},
	{"c++-concept", func(s *source, add addFunc) {
		s.own(func(i int, t lexeme) {
			switch n := s.next(i); t.s {
			case "concept":
				for k := n; k < len(s.toks) && s.at(k) != ";"; k++ {
					if s.at(k) == "=" {
						e := s.skip(k, len(s.toks)) - 1
						for _, x := range []string{"true", "false", "sizeof(int) == 4", "!(" + s.code(k+1, e) + ")"} {
							add(s.where(i), part{s.toks[k].End, s.toks[e].Off, " " + x})
						}
						break
					}
				}
			case "requires":
				for _, x := range []string{"requires true && ", "requires (!true) && "} {
					add(s.where(i), part{t.Off, t.End, x})
				}
			case "template":
				if a := s.angle(n); s.at(n) == "<" && a > n+1 {
					p := s.at(s.prev(a))
					for _, x := range []string{" requires true ", " requires (sizeof(" + p + ") > 4) ", " requires false ", " requires requires(" + p + " x) { x + x; } "} {
						add(s.where(i), insert(s.toks[a].End, x))
					}
				}
			case "typename", "class":
				if p := s.at(s.prev(i)); p == "<" || p == "," {
					for _, d := range s.decls {
						if d.kind == "other" && s.at(d.begin) == "concept" && d.e < i {
							add(s.where(i), part{t.Off, t.End, s.at(s.next(d.begin))})
						}
					}
				}
			}
		})
	}},

	// Namespaces and variables.
	{"c++-using", func(s *source, add addFunc) {
		var spaces []string
		for i, t := range s.toks {
			if n := s.next(i); t.own && t.directive == "" && t.s == "namespace" && n < len(s.toks) && s.toks[n].Kind == token.Ident && !slices.Contains(spaces, s.at(n)) && s.at(s.next(n)) == "{" {
				spaces = append(spaces, s.at(n))
			}
			if t.own && t.s == "using" && t.directive == "" {
				if e := s.skip(i, len(s.toks)); e < len(s.toks) {
					add(s.where(i), part{t.Off, s.toks[e-1].End, ""})
				}
			}
		}
		n := 0
		s.functions(func(f function) {
			for k := range min(2, len(spaces)) {
				x := spaces[(n+k)%len(spaces)]
				add(f.name, insert(s.toks[f.body].End, " using namespace "+x+"; "))
				add(f.name, insert(s.toks[f.head].Off, "using namespace "+x+"; "))
			}
			n++
		})
		s.eachClass(func(ci int, c *class) {
			for _, a := range s.ancestors[ci] {
				b := s.classes[a].name
				add(c.name, s.member(ci, "using "+b+"::"+b+";"))
				for _, m := range s.classes[a].members {
					if d := s.decls[m]; d.name != "" && !strings.HasPrefix(d.name, "~") && d.name != b {
						add(c.name, s.member(ci, "public: using "+b+"::"+d.name+";"))
					}
				}
			}
		})
	}},
	{"c++-namespace", func(s *source, add addFunc) {
		for i := range s.decls {
			d := &s.decls[i]
			if d.class >= 0 || d.kind != "function" && d.kind != "variable" && d.kind != "class" {
				continue
			}
			for _, x := range []string{"namespace", "inline namespace tasting", "extern \"C\"", "extern \"C++\"", "namespace tasting"} {
				add(d.name, insert(s.toks[d.b].Off, x+" { "), insert(s.toks[d.e].End, " }"))
			}
		}
		s.own(func(i int, t lexeme) {
			n := s.next(i)
			if t.s != "namespace" || n >= len(s.toks) || s.at(s.prev(i)) == "using" {
				return
			}
			switch {
			case s.at(n) == "{":
				add("namespace", insert(t.End, " tasting"))
			case s.at(s.prev(i)) == "inline":
				add("namespace", part{s.toks[s.prev(i)].Off, t.Off, ""})
			case s.at(s.next(n)) == "{":
				add("namespace", insert(t.Off, "inline "))
				add("namespace", part{s.toks[n].Off, s.toks[n].End, ""})
			}
		})
	}},
	{"c++-dynamic-initializer", func(s *source, add addFunc) {
		prev := -1
		for i := range s.decls {
			d := &s.decls[i]
			if d.kind != "variable" || d.class >= 0 {
				continue
			}
			for _, x := range []string{"101", "65535"} {
				add(d.name, insert(s.toks[d.b].Off, "__attribute__((init_priority("+x+"))) "))
			}
			for _, x := range []string{"constinit ", "constexpr ", "inline ", "thread_local ", "[[clang::no_destroy]] ", "const ", "static "} {
				add(d.name, insert(s.toks[d.b].Off, x))
			}
			if d.init >= 0 && s.at(d.init) == "=" {
				add(d.name, insert(s.toks[d.b].Off, "extern int tasting_unknown(); "), insert(s.toks[d.init].End, " tasting_unknown(),"))
				add(d.name, insert(s.toks[d.b].Off, "extern int tasting_unknown(); "), part{s.toks[d.init].Off, s.toks[d.e].Off, "= tasting_unknown() ? "}, insert(s.toks[d.e].Off, s.code(d.init+1, d.e)+" : "+s.code(d.init+1, d.e)))
			}
			if prev >= 0 && s.decls[prev].e+1 == d.b {
				p := &s.decls[prev]
				add(d.name, part{s.toks[p.b].Off, s.toks[p.e].End, s.code(d.b, d.e+1)}, part{s.toks[d.b].Off, s.toks[d.e].End, s.code(p.b, p.e+1)})
			}
			prev = i
		}
		s.eachClass(func(ci int, c *class) {
			if n := s.next(c.end); c.path != "" && s.at(n) == ";" {
				for _, x := range []string{"static X tasting_object;", "X tasting_object;", "inline X tasting_object;", "static thread_local X tasting_object;", "__attribute__((init_priority(200))) X tasting_object;", "static X *tasting_object = new X;"} {
					add(c.name, insert(s.toks[n].End, "\n"+strings.ReplaceAll(x, "X", c.path)+"\n"))
				}
			}
		})
	}},
	{"c++-enum-type", func(s *source, add addFunc) {
		for _, r := range s.records {
			if r.kind != "enum" {
				continue
			}
			word := r.body
			for s.at(word) != "enum" {
				word = s.prev(word)
			}
			colon, typed := s.in(":", word, r.body)
			for _, x := range []string{": char", ": unsigned long", ": short", ": bool"} {
				if typed {
					add(r.name, part{s.toks[colon].Off, s.toks[r.body].Off, x + " "})
				} else {
					add(r.name, insert(s.toks[r.body].Off, x+" "))
				}
			}
			if typed {
				add(r.name, part{s.toks[colon].Off, s.toks[r.body].Off, ""})
			}
			if n := s.next(word); s.at(n) == "class" || s.at(n) == "struct" {
				add(r.name, part{s.toks[n].Off, s.toks[n].End, ""})
			} else {
				add(r.name, insert(s.toks[word].End, " class"))
			}
		}
	}},
	{"c++-attribute", func(s *source, add addFunc) {
		for i := range s.decls {
			d := &s.decls[i]
			switch d.kind {
			case "function":
				for _, x := range cxxFunctionAttributes {
					add(d.name, insert(s.toks[d.begin].Off, "[["+x+"]] "))
				}
			case "variable":
				for _, x := range cxxVariableAttributes {
					add(d.name, insert(s.toks[d.begin].Off, x+" "))
				}
			}
		}
		s.eachClass(func(ci int, c *class) {
			for _, x := range []string{"alignas(32)", "[[clang::trivial_abi]]", "[[gnu::packed]]", "[[gnu::visibility(\"hidden\")]]", "[[gnu::may_alias]]", "[[gnu::abi_tag(\"tasting\")]]", "[[clang::lto_visibility_public]]", "[[nodiscard]]", "[[gnu::aligned(64)]]",
				"[[clang::ptrauth_vtable_pointer(no_authentication)]]", "[[gnu::type_visibility(\"hidden\")]]", "[[gnu::ms_struct]]", "[[clang::preferred_name(int)]]", "__attribute__((novtable))", "__attribute__((empty_bases))", "[[clang::standalone_debug]]", "[[gnu::warn_unused]]", "[[clang::uninitialized]]"} {
				add(c.name, insert(s.toks[c.word].End, " "+x))
			}
		})
		s.statements(func(f function, b, e int) {
			for _, x := range []string{"[[likely]] ", "[[unlikely]] ", "[[assume(true)]]; ", "[[clang::noinline]] ", "[[clang::always_inline]] ", "[[clang::nomerge]] ", "[[clang::musttail]] ", "__builtin_assume(false); ", "[[clang::noconvergent]] ", "[[clang::code_align(64)]] "} {
				add(f.name, insert(s.toks[b].Off, x))
			}
		})
	}},
	{"c++-layout", func(s *source, add addFunc) {
		// What decides the offsets of fields and the shape of virtual tables.
		s.eachClass(func(ci int, c *class) {
			for _, x := range []string{"virtual void tasting_first();", "virtual void tasting_first() {}", "char tasting_field;", "struct { } tasting_empty;", "[[no_unique_address]] struct { } tasting_empty;", "static int tasting_field;", "inline static int tasting_field = 1;", "private: int tasting_field = 3; public:", "union { int tasting_a; double tasting_b; };", "alignas(64) char tasting_field;", "int : 0;"} {
				add(c.name, s.member(ci, x))
				add(c.name, insert(s.toks[c.end].Off, " "+x+" "))
			}
		})
		s.eachMember("function", func(ci int, d *decl) {
			// Exchange it with the next one: the order of virtual functions.
			l := s.classes[ci].members
			for k := 0; k+1 < len(l); k++ {
				n := &s.decls[l[k+1]]
				if &s.decls[l[k]] == d && n.kind == "function" && n.b > d.e {
					add(d.name, part{s.toks[d.b].Off, s.toks[d.e].End, s.code(n.b, n.e+1)}, part{s.toks[n.b].Off, s.toks[n.e].End, s.code(d.b, d.e+1)})
				}
			}
		})
	}},

	// Neutral edits.
	{"=c++-unused", func(s *source, add addFunc) {
		unused := []string{"using tasting_unused = int;", "template <typename T> struct tasting_unused { T x; };", "template <typename T> T tasting_unused(T x) { return x; }", "inline int tasting_unused(int x) { return x; }",
			"class tasting_unused;", "enum class tasting_unused : char;", "static_assert(sizeof(char) == 1);", "struct tasting_unused { virtual ~tasting_unused() {} virtual int f() { return 1; } };", "template <typename T> concept tasting_unused = sizeof(T) > 1;",
			"namespace tasting_unused { }", "template <typename T> constexpr int tasting_unused = 1;", "extern template struct tasting_unused<int>;", "static const int tasting_unused = 3;", "constexpr int tasting_unused(int x) { return x + 1; }", "namespace { struct tasting_unused { int f() { return 2; } }; }", "using namespace tasting_unused;", "inline int tasting_unused = 3;"}
		for _, d := range s.decls {
			if d.class < 0 {
				for _, x := range unused {
					add(d.name, insert(s.toks[d.b].Off, x+" "))
				}
			}
		}
		s.statements(func(f function, b, e int) {
			for _, x := range []string{"using tasting_unused = int; ", "struct tasting_unused { int x; }; ", "static_assert(true); ", "; ", "(void)0; ", "enum { tasting_unused }; "} {
				add(f.name, insert(s.toks[b].Off, x))
			}
		})
	}},
	{"=c++-unused-member", func(s *source, add addFunc) {
		s.eachClass(func(ci int, c *class) {
			for _, x := range []string{"using tasting_unused = int;", "typedef int tasting_unused;", "friend class tasting_unused;", "int tasting_unused() const;", "int tasting_unused(int x) { return x; }", "template <typename T> T tasting_unused(T x) { return x; }",
				"struct tasting_unused { int x; };", "enum { tasting_unused };", "static constexpr int tasting_unused = 3;", "static int tasting_unused;", "static_assert(true);", "friend int tasting_unused(int x) { return x; }"} {
				add(c.name, s.member(ci, x))
			}
		})
	}},
	{"=c++-access", func(s *source, add addFunc) {
		s.eachClass(func(ci int, c *class) {
			x := "public:"
			if c.kind == "class" {
				x = "private:"
			}
			add(c.name, insert(s.toks[c.body].End, " "+x+" "))
			add(c.name, insert(s.toks[c.end].Off, " protected: "))
			for k := c.body + 1; k < c.end; k++ {
				switch t := s.toks[k]; {
				case t.match > k:
					k = t.match
				case (t.s == "private" || t.s == "protected" || t.s == "public") && s.at(s.next(k)) == ":":
					add(c.name, part{t.Off, t.End, "public: " + t.s})
					add(c.name, part{t.Off, t.End, "public"})
				}
			}
		})
	}},
	{"=c++-spelling", func(s *source, add addFunc) {
		s.own(func(i int, t lexeme) {
			n, p := s.next(i), s.prev(i)
			inCode := t.fn >= 0 && s.at(p) != "operator"
			replace := func(x string) { add(s.where(i), part{t.Off, t.End, x}) }
			switch {
			case t.s == "&&" && inCode && (s.at(p) == ")" || s.toks[p].Kind == token.Number):
				replace(" and ")
			case t.s == "||" && inCode:
				replace(" or ")
			case t.s == "!" && inCode:
				replace(" not ")
			case t.s == "class" && (s.at(p) == "<" || s.at(p) == ","):
				replace("typename")
			case t.s == "typename" && (s.at(p) == "<" || s.at(p) == ","):
				replace("class")
			case t.s == "(" && t.match == n && t.fn < 0 && s.toks[p].Kind == token.Ident:
				add(s.where(i), insert(t.End, "void"))
			case t.s == "const" && s.toks[n].Kind == token.Ident && (s.at(s.next(n)) == "&" || s.at(s.next(n)) == "*"):
				add(s.where(i), part{t.Off, s.toks[n].End, s.at(n) + " const"})
			case t.s == "override" && t.fn < 0:
				replace("")
			}
		})
		s.eachMember("function", func(ci int, d *decl) {
			if p := s.prev(d.nameTok); p == d.begin && s.toks[p].Kind == token.Ident && (types[s.at(p)] != nil || s.at(p) == "bool") && s.at(s.next(s.toks[d.open].match)) == "{" {
				add(d.name, part{s.toks[p].Off, s.toks[p].End, "auto"}, insert(s.toks[s.toks[d.open].match].End, " -> "+s.at(p)))
			}
			if _, ok := s.in("override", d.open, s.tail(d)); ok && s.at(d.begin) != "virtual" {
				add(d.name, insert(s.toks[d.begin].Off, "virtual "))
			}
		})
	}},
	{"=c++-rename-template-parameter", func(s *source, add addFunc) {
		for i := range s.decls {
			if d := &s.decls[i]; d.begin > d.b {
				o := s.next(d.b)
				for _, r := range s.list(o+1, max(s.angle(o), o+1)) {
					k := s.prev(r[1])
					if e, ok := s.in("=", r[0], r[1]); ok {
						k = s.prev(e)
					}
					if k > r[0] && s.toks[k].Kind == token.Ident && !s.keyword(s.at(k)) {
						add(d.name, s.rename(s.at(k), d.b, d.e+1)...)
					}
				}
			}
		}
	}},
	{"=c++-order", func(s *source, add addFunc) {
		// Exchange neighbouring declarations of classes, aliases, templates.
		for i := 0; i+1 < len(s.decls); i++ {
			d, n := &s.decls[i], &s.decls[i+1]
			if d.class < 0 && n.class < 0 && n.b == d.e+1 && d.kind != "variable" && n.kind != "variable" {
				add(d.name, part{s.toks[d.b].Off, s.toks[d.e].End, s.code(n.b, n.e+1)}, part{s.toks[n.b].Off, s.toks[n.e].End, s.code(d.b, d.e+1)})
			}
		}
	}},
}

var cxxFunctionAttributes = []string{
	"gnu::noinline", "gnu::always_inline", "gnu::cold", "gnu::pure", "gnu::const", "noreturn", "nodiscard", "maybe_unused", "deprecated", "gnu::weak", "gnu::used", "gnu::section(\"tasting\")", "gnu::visibility(\"hidden\")",
	"gnu::abi_tag(\"tasting\")", "clang::internal_linkage", "clang::exclude_from_explicit_instantiation", "clang::no_sanitize(\"thread\")", "clang::optnone", "gnu::returns_nonnull", "gnu::malloc", "gnu::target(\"avx2\")", "clang::not_tail_called", "clang::disable_tail_calls",
	"clang::no_speculative_load_hardening", "gnu::nothrow", "clang::annotate(\"x\")", "gnu::constructor", "gnu::gnu_inline", "clang::preserve_most", "gnu::aligned(64)", "clang::min_vector_width(512)", "clang::nouwtable", "clang::reinitializes", "gnu::flatten",
}

var cxxVariableAttributes = []string{
	"[[no_unique_address]]", "alignas(32)", "[[maybe_unused]]", "[[gnu::section(\"tasting\")]]", "[[gnu::weak]]", "[[gnu::used]]", "[[gnu::visibility(\"hidden\")]]", "[[gnu::packed]]", "[[clang::no_destroy]]", "[[clang::always_destroy]]",
	"[[clang::require_constant_initialization]]", "[[gnu::abi_tag(\"tasting\")]]", "[[clang::internal_linkage]]", "[[gnu::tls_model(\"local-exec\")]]", "[[clang::nodebug]]", "[[gnu::aligned(64)]]", "[[clang::annotate(\"x\")]]", "[[gnu::retain]]",
}

// nextProgram composes two to four edits of the other kinds.
func nextProgram(s *source, add addFunc) {
	var pool []edit
	for _, k := range kinds {
		// Not those that compile rarely: they would spoil the others.
		if k.name != "rts-e6-next-program" && (strings.HasPrefix(k.name, "rts-") || strings.HasPrefix(k.name, "c++-") || slices.Contains([]string{"constant", "operator", "condition", "statement-deleted"}, k.name)) {
			k.gen(s, func(where string, parts ...part) {
				if len(parts) > 0 {
					pool = append(pool, edit{k.name, where, parts})
				}
			})
		}
	}
	byKind := map[string][]edit{}
	var names []string
	for _, e := range pool {
		if byKind[e.kind] == nil {
			names = append(names, e.kind)
		}
		byKind[e.kind] = append(byKind[e.kind], e)
	}
	if len(names) == 0 {
		return
	}
	rng := rand.New(rand.NewPCG(6, uint64(len(pool))))
	for range 3000 {
		var parts []part
		for range 2 + rng.IntN(3) {
			l := byKind[names[rng.IntN(len(names))]]
			parts = append(parts, l[rng.IntN(len(l))].parts...)
		}
		add("several places", parts...)
	}
}

func (s *source) eachClass(f func(ci int, c *class)) {
	for ci := range s.classes {
		if c := &s.classes[ci]; s.toks[c.body].own {
			f(ci, c)
		}
	}
}

// eachMember calls f for the members of classes that are of a kind.
func (s *source) eachMember(kind string, f func(ci int, d *decl)) {
	s.eachClass(func(ci int, c *class) {
		for _, m := range c.members {
			if s.decls[m].kind == kind {
				f(ci, &s.decls[m])
			}
		}
	})
}

// eachParameter calls f for parameters of functions: toks[b:e].
func (s *source) eachParameter(f func(d *decl, b, e int)) {
	for i := range s.decls {
		if d := &s.decls[i]; d.kind == "function" {
			for _, r := range s.list(d.open+1, s.toks[d.open].match) {
				f(d, r[0], r[1])
			}
		}
	}
}

// eachTemplateList calls f for lists of template arguments, and for those of
// parameters (head).
func (s *source) eachTemplateList(f func(i int, head bool, l [][2]int)) {
	s.own(func(i int, t lexeme) {
		p := s.prev(i)
		if t.s != "<" || p < 0 || s.toks[p].Kind != token.Ident || strings.HasSuffix(s.at(p), "_cast") || s.at(p) == "operator" {
			return
		}
		if a := s.angle(i); a > i+1 && s.at(a) == ">" {
			f(i, s.at(p) == "template", s.list(i+1, a))
		}
	})
}

// before returns up to n named classes that are complete before class ci:
// first the nearest.
func (s *source) before(ci, n int) []int {
	var out []int
	for k := len(s.classes) - 1; k >= 0 && len(out) < n; k-- {
		if c := &s.classes[k]; c.path != "" && c.kind != "union" && c.end < s.classes[ci].word && s.toks[c.body].own {
			out = append(out, k)
		}
	}
	return out
}

// copies calls f for members of a kind and other classes to copy them to: those
// derived from theirs, their bases, and neighbours.
func (s *source) copies(kind string, f func(from, to int, d *decl, text string)) {
	s.eachMember(kind, func(ci int, d *decl) {
		if d.name == s.classes[ci].name || strings.HasPrefix(d.name, "~") {
			return
		}
		to := slices.Concat(s.ancestors[ci], s.derived[ci])
		for k := max(0, ci-2); k <= ci+2 && k < len(s.classes); k++ {
			to = append(to, k)
		}
		slices.Sort(to)
		for _, k := range slices.Compact(to) {
			if k != ci && s.toks[s.classes[k].body].own {
				f(ci, k, d, s.code(d.b, d.e+1))
			}
		}
	})
}

// addBase adds a base to the clause of c.
func (s *source) addBase(c *class, text string) part {
	if len(c.bases) > 0 {
		return insert(s.toks[c.body].Off, ", "+text+" ")
	}
	return insert(s.toks[c.body].Off, ": "+text+" ")
}

// member adds a public member at the beginning or end of a class: virtual
// functions and fields have an order.
func (s *source) member(ci int, text string) part {
	c := &s.classes[ci]
	if len(text)%2 == 0 {
		return insert(s.toks[c.end].Off, " public: "+text+" ")
	}
	back := "public:"
	if c.kind == "class" {
		back = "private:"
	}
	return insert(s.toks[c.body].End, " public: "+text+" "+back+" ")
}

// larger returns a larger constant than that at token i, "" if it is none.
func (s *source) larger(i int) string {
	t := s.toks[i]
	if t.Kind != token.Number || t.directive != "" {
		return ""
	}
	if v, suffix, ok := parseInt(t.s); ok {
		return fmt.Sprint(v+v/2+1) + suffix
	}
	if strings.HasPrefix(t.s, "0x") || strings.ContainsAny(t.s, "'_") {
		return ""
	}
	return "(" + t.s + " * 2 + 1)"
}

// tail returns the token before which specifiers of a function end: its body,
// initialisers, = or semicolon.
func (s *source) tail(d *decl) int {
	for _, k := range []int{d.init, d.colon, d.body} {
		if k >= 0 {
			return k
		}
	}
	return d.e
}

// called returns the names that the unit's own functions call.
func (s *source) called() []string {
	var out []string
	seen := map[string]bool{}
	s.own(func(i int, t lexeme) {
		if t.fn >= 0 && t.Kind == token.Ident && !s.keyword(t.s) && s.at(s.next(i)) == "(" && s.at(s.prev(i)) != "." && s.at(s.prev(i)) != "->" && !seen[t.s] {
			seen[t.s] = true
			out = append(out, t.s)
		}
	})
	return out
}
