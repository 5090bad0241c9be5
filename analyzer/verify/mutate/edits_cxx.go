package mutate

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/token"
)

// cxxKinds are the kinds of edits that C++ has besides those of C. The names
// rts-e1 to rts-e9 are the operators by which RTSCheck's AutoEP evolves
// programs (Zhu et al., ICSE 2019, table III).
var cxxKinds = []kind{
	{"rts-e1-base-added", perClass(func(s *source, add addFunc, ci int, c *class) {
		for _, b := range s.before(ci, 8) {
			for _, x := range []string{"public ", "public virtual "} {
				add(c.name, s.addBase(c, x+s.classes[b].path))
			}
		}
	})},
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
	{"rts-e8-base-removed", perClass(func(s *source, add addFunc, ci int, c *class) {
		for k, b := range c.bases {
			from, to := s.prev(b.b), b.e // with the comma or colon before
			if k == 0 && len(c.bases) > 1 {
				from, to = b.b, c.bases[1].b
			}
			add(c.name, part{s.toks[from].Off, s.toks[to].Off, " "})
		}
	})},
	{"rts-e9-method-removed", perMethod(func(s *source, add addFunc, ci int, d *decl) {
		parts := []part{{s.toks[d.b].Off, s.toks[d.e].End, ""}}
		for k := range s.decls {
			if o := &s.decls[k]; o.class < 0 && o.outer == s.classes[ci].name && o.name == d.name && d.body < 0 {
				parts = append(parts, part{s.toks[o.b].Off, s.toks[o.e].End, ""})
				break
			}
		}
		add(s.classes[ci].name+"::"+d.name, parts...)
	})},

	// Classes, bases, virtual functions.
	{"c++-virtual", perMethod(func(s *source, add addFunc, ci int, d *decl) {
		s.toggle(add, d.name, "virtual", d.b, d.open, s.toks[d.begin].Off)
	})},
	{"c++-override-specifier", func(s *source, add addFunc) {
		s.eachMember("function", func(ci int, d *decl) {
			for _, w := range []string{"override", "final"} {
				if k, ok := s.in(w, d.open, s.tail(d)); ok {
					add.replaceToken(d.name, s.toks[k], "", "override final")
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
	{"c++-override-added", perClass(func(s *source, add addFunc, ci int, c *class) {
		for _, a := range s.ancestors[ci] {
			for _, m := range s.classes[a].members {
				d := &s.decls[m]
				if d.kind != "function" || d.name == s.classes[a].name {
					continue
				}
				head := strings.ReplaceAll(s.code(d.begin, s.tail(d)), "virtual ", "")
				if strings.HasPrefix(d.name, "~") {
					s.addMembers(add, ci, "~"+c.name+"() { __builtin_trap(); }", "~"+c.name+"() override;")
					continue
				}
				for _, body := range []string{" { __builtin_trap(); }", " { return {}; }", " { while (true) { } }", ";"} {
					add(c.name, s.member(ci, head+body))
				}
			}
		}
	})},
	{"c++-override-removed", perMethod(func(s *source, add addFunc, ci int, d *decl) {
		_, o := s.in("override", d.open, s.tail(d))
		if _, f := s.in("final", d.open, s.tail(d)); (o || f) && d.body >= 0 {
			add(s.classes[ci].name+"::"+d.name, part{s.toks[d.b].Off, s.toks[d.e].End, ""})
		}
	})},
	{"c++-override-hides", perMethod(func(s *source, add addFunc, ci int, d *decl) {
		// Another signature: no longer an override.
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
	})},
	{"c++-pure", perMethod(func(s *source, add addFunc, ci int, d *decl) {
		if d.body >= 0 {
			add(d.name, part{s.toks[s.tail(d)].Off, s.toks[d.e].End, " = 0;"})
		} else if d.init >= 0 && s.at(s.next(d.init)) == "0" {
			add(d.name, part{s.toks[d.init].Off, s.toks[d.e].End, " { __builtin_trap(); }"})
			add(d.name, part{s.toks[d.init].Off, s.toks[d.e].Off, ""})
		} else if d.init < 0 {
			add(d.name, insert(s.toks[d.e].Off, " = 0"))
		}
	})},
	{"c++-covariant", perMethod(func(s *source, add addFunc, ci int, d *decl) {
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
	})},
	{"c++-base", perClass(func(s *source, add addFunc, ci int, c *class) {
		for k, b := range c.bases {
			s.toggle(add, c.name, "virtual", b.b, b.e, s.toks[b.b].Off)
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
	})},
	{"c++-hierarchy-used", perToken(func(s *source, add addFunc, i int, t lexeme) {
		// The class in a cast, a handler, typeid, new, throw.
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
	})},
	{"c++-field-hides", perClass(func(s *source, add addFunc, ci int, c *class) {
		for _, a := range s.ancestors[ci] {
			for _, m := range s.classes[a].members {
				d := &s.decls[m]
				switch {
				case d.name == "" || d.name == s.classes[a].name || strings.HasPrefix(d.name, "~"):
				case d.kind == "variable":
					s.addMembers(add, ci, s.code(d.b, d.e+1), "short "+d.name+" = 5;", "static constexpr int "+d.name+" = 5;")
				case d.kind == "function":
					add(c.name, s.member(ci, "template <typename... T> int "+d.name+"(T &&...) const { return 5; }"))
				}
			}
		}
	})},
	{"c++-member-initializer", func(s *source, add addFunc) {
		for _, d := range s.decls {
			if d.kind == "function" && d.colon >= 0 && d.body >= 0 {
				l := s.list(d.colon+1, d.body)
				for k, r := range l {
					last := s.toks[s.prev(r[1])]
					if last.match > r[0] {
						o := s.toks[last.match]
						add.replace(d.name, o.End, last.Off, "", "1", "{}", "0")
					}
					switch {
					case len(l) == 1:
						add(d.name, part{s.toks[d.colon].Off, s.toks[d.body].Off, " "})
					case k > 0:
						add(d.name, part{s.toks[s.prev(r[0])].Off, last.End, ""})
						add(d.name, s.exchange(l[k-1][0], l[k-1][1], r[0], r[1])...)
					}
				}
			}
		}
		s.eachMember("variable", func(ci int, d *decl) {
			if d.init >= 0 {
				add.replace(d.name, s.toks[d.init].Off, s.toks[d.e].Off, "", "{}")
			} else {
				add.insert(d.name, s.toks[d.e].Off, "{}", "{7}", " = 7", "{nullptr}")
			}
		})
	}},
	{"c++-special-member", func(s *source, add addFunc) {
		s.eachClass(func(ci int, c *class) {
			if c.name == "" {
				return
			}
			s.addMembers(add, ci, withName(c.name,
				"X() = default;", "X() {}", "X() = delete;", "X();", "X(const X &) = default;", "X(const X &) = delete;", "X(const X &) {}", "X(X &&) = default;", "X(X &&) noexcept {}",
				"X &operator=(const X &) = default;", "X &operator=(const X &) { return *this; }", "X &operator=(X &&) = default;", "X &operator=(const X &) = delete;", "explicit X(const X &) = default;", "X(const X &);",
			)...)
		})
		s.eachMember("function", func(ci int, d *decl) {
			if d.init < 0 {
				if n := s.toks[d.open].match; d.body >= 0 {
					add.replace(d.name, s.toks[s.tail(d)].Off, s.toks[d.e].End, " = default;", " = delete;")
				} else if n > 0 {
					add.insert(d.name, s.toks[d.e].Off, " = delete", " = default")
				}
				return
			}
			add.replace(d.name, s.toks[d.init].Off, s.toks[d.e].End, " = default;", " = delete;", " {}", ";", " { __builtin_trap(); }")
		})
	}},
	{"c++-destructor", func(s *source, add addFunc) {
		s.eachClass(func(ci int, c *class) {
			if c.name != "" {
				s.addMembers(add, ci, withName(c.name, "~X() {}", "~X() { __builtin_trap(); }", "~X();", "virtual ~X() {}", "~X() noexcept(false) { throw 1; }", "~X() = default;", "protected: ~X() = default; public:", "virtual ~X() = default;", "~X() = delete;", "constexpr ~X() {}")...)
			}
		})
		for _, d := range s.decls {
			if !strings.HasPrefix(d.name, "~") {
				continue
			}
			if d.body >= 0 {
				add(d.name, part{s.toks[d.body].End, s.toks[s.toks[d.body].match].Off, ""})
				add.insert(d.name, s.toks[d.body].End, " __builtin_trap();", " extern int tasting_unknown(); tasting_unknown();")
			}
			if d.class >= 0 {
				add(d.name, part{s.toks[d.b].Off, s.toks[d.e].End, ""})
			}
		}
	}},
	{"c++-conversion", func(s *source, add addFunc) {
		s.eachClass(func(ci int, c *class) {
			s.addMembers(add, ci, withName(c.name,
				"operator int() const { return 7; }", "operator bool() const { return true; }", "explicit operator bool() const { return false; }", "template <typename T> operator T() const { return T(); }",
				"operator const char *() const { return \"x\"; }", "X(int) {}", "template <typename T> X(const T &) {}", "X(decltype(nullptr)) {}", "template <typename... T> explicit X(T &&...) {}",
			)...)
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
				add.replaceToken(s.where(i), n, append(slices.Clone(operators[n.s]), map[string][]string{"=": {"+="}, "+=": {"-="}, "[": {}, "<": {">"}, "++": {"--"}, "==": {"!="}, "<<": {">>"}}[n.s]...)...)
			}
		})
		s.eachClass(func(ci int, c *class) {
			s.addMembers(add, ci, withName(c.name,
				"X *operator&() { return nullptr; }", "template <typename T> T &&operator,(T &&t) const { return static_cast<T &&>(t); }", "X *operator->() { return this; }", "bool operator!() const { return true; }",
				"static void *operator new(decltype(sizeof 0)) { return nullptr; }", "void operator delete(void *) {}", "static void *operator new[](decltype(sizeof 0)) { return nullptr; }", "void operator delete(X *, std::destroying_delete_t);",
				"template <typename T> int operator+(const T &) const { return 1; }", "template <typename T> bool operator==(const T &) const { return true; }", "template <typename T> int operator[](const T &) const { return 1; }",
				"template <typename... T> int operator()(T &&...) const { return 1; }", "friend auto operator<=>(const X &, const X &) = default;", "bool operator==(const X &) const = default;", "template <typename T> X &operator=(const T &) { return *this; }",
			)...)
		})
	}},
	{"c++-friend", func(s *source, add addFunc) {
		names := s.called()
		s.eachClass(func(ci int, c *class) {
			add(c.name, s.member(ci, strings.ReplaceAll("friend bool operator==(const X &, const X &) { return true; }", "X", c.name)))
			for k := range min(6, len(names)) {
				x := names[(ci*7+k*5)%len(names)]
				s.addMembers(add, ci, "template <typename... T> friend int "+x+"(const "+c.name+" &, T &&...) { return 1; }", "friend int "+x+"("+c.name+" &) { return 1; }")
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
				add.replace(d.name, s.toks[k].Off, s.toks[s.prev(e)].End, "", "= 1 ", "= {}", "= 0")
			} else if s.at(e) == ")" { // of the last one
				add.insert(d.name, s.toks[s.prev(e)].End, " = {}", " = 1", " = nullptr")
			}
		})
	}},
	{"c++-parameter", func(s *source, add addFunc) {
		// By value, by reference.
		s.eachParameter(func(d *decl, b, e int) {
			for k := b; k < e; k++ {
				switch t := s.toks[k]; t.s {
				case "&", "&&":
					add.replaceToken(d.name, t, "", "&", "&&", "*")
				case "const":
					add(d.name, part{t.Off, t.End, ""})
				}
			}
			if n := s.prev(e); n > b && s.toks[n].Kind == token.Ident {
				add(d.name, insert(s.toks[n].Off, "&"), insert(s.toks[b].Off, "const "))
				add.insert(d.name, s.toks[n].Off, "&&", "const ", "...")
				add(d.name, insert(s.toks[s.next(n)].Off, ", ..."))
			}
		})
	}},
	{"c++-specifier", func(s *source, add addFunc) {
		for d := range s.declared("function", "variable") {
			words := []string{"constexpr", "consteval", "inline", "static", "extern", "friend"}
			if d.kind == "variable" {
				words = []string{"constexpr", "constinit", "inline", "static", "extern", "mutable", "thread_local", "volatile", "const"}
			}
			for _, w := range words {
				s.toggle(add, d.name, w, d.begin, d.nameTok, s.toks[d.begin].Off)
			}
			if d.kind == "variable" {
				add.insert(d.name, s.toks[d.begin].Off, "inline static ", "static constexpr ")
			}
		}
	}},
	{"c++-function-qualifier", func(s *source, add addFunc) {
		for d := range s.declared("function") {
			c := s.toks[d.open].match
			for _, w := range []string{"const", "noexcept", "volatile", "&", "&&"} {
				if k, ok := s.in(w, c, s.tail(d)); ok {
					add(d.name, part{s.toks[k].Off, s.toks[k].End, ""})
				} else if w == "noexcept" {
					if k, ok := s.in("const", c, s.tail(d)); ok {
						c = k
					}
					add.insert(d.name, s.toks[c].End, " noexcept ", " noexcept(false) ")
				} else {
					add(d.name, insert(s.toks[c].End, " "+w+" "))
				}
			}
		}
	}},
	{"c++-overload", func(s *source, add addFunc) {
		// A function that may be a better choice for calls that follow.
		for d := range s.declared("function") {
			if d.outer != "" || strings.HasPrefix(d.name, "~") {
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
		for d := range s.declared("function") {
			if d.nameTok <= d.begin {
				continue
			}
			p := s.prev(d.nameTok)
			if t := s.toks[p]; t.s == "&" || t.s == "*" || t.s == "&&" {
				add(d.name, part{t.Off, t.End, ""})
			} else if s.toks[p].Kind == token.Ident {
				add(d.name, insert(t.End, " &"))
				add.replaceToken(d.name, t, "auto", "decltype(auto)")
			}
		}
	}},

	// Statements and expressions.
	{"c++-exception", func(s *source, add addFunc) {
		s.own(func(i int, t lexeme) {
			switch n := s.next(i); {
			case t.s == "catch" && s.at(n) == "(" && s.toks[n].match > n:
				o, c := s.toks[n], s.toks[s.toks[n].match]
				add.replace(s.where(i), o.End, c.Off, "...", "int", "const char *", "..., int")
				if k, ok := s.in("&", n+1, s.toks[n].match); ok {
					add(s.where(i), part{s.toks[k].Off, s.toks[k].End, ""})
				}
				if b := s.next(s.toks[n].match); s.at(b) == "{" {
					add(s.where(i), insert(s.toks[b].End, " throw;"))
					add(s.where(i), part{t.Off, s.toks[s.toks[b].match].End, "catch (...) { throw; }"})
				}
			case t.s == "throw":
				add.replaceToken(s.where(i), t, "", "throw 1, ")
			case t.s == "noexcept" && s.at(n) == "(" && s.toks[n].match > n:
				o, c := s.toks[n], s.toks[s.toks[n].match]
				add.replace(s.where(i), o.End, c.Off, "true", "false")
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
	{"c++-lambda", perToken(func(s *source, add addFunc, i int, t lexeme) {
		p := s.at(s.prev(i))
		n := s.at(s.next(t.match))
		if t.s != "[" || t.match < 0 || n != "(" && n != "{" || p == "]" || p == "delete" || s.toks[s.prev(i)].Kind == token.Ident && !s.keyword(p) || p == "operator" || p == "auto" {
			return
		}
		c := s.toks[t.match]
		add.replace(s.where(i), t.End, c.Off, "", "=", "&", "this", "=, this", "*this", "tasting_init = 1")
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
			add.insert(s.where(i), m.End, " mutable", " noexcept", " -> long", " -> bool", " constexpr")
		}
	})},
	{"c++-range-for", perToken(func(s *source, add addFunc, i int, t lexeme) {
		n := s.next(i)
		if t.s != "for" || s.at(n) != "(" || s.toks[n].match < 0 {
			return
		}
		colon, ok := s.in(":", n+1, s.toks[n].match)
		if !ok {
			return
		}
		v := s.prev(colon)
		add.replace(s.where(i), s.toks[n+1].Off, s.toks[v].Off, "auto ", "auto &", "auto &&", "const auto &", "int ", "volatile auto &")
	})},
	{"c++-auto", func(s *source, add addFunc) {
		s.own(func(i int, t lexeme) {
			if t.s == "auto" {
				add.replaceToken(s.where(i), t, "const auto", "int", "auto &", "auto *", "decltype(auto)", "const auto &", "auto &&", "long", "double")
			}
		})
		s.statements(func(f function, b, e int) {
			if k, ok := s.in("=", b, e); ok && s.declares(f, b) {
				add.replace(f.name, s.toks[b].Off, s.toks[s.prev(k)].Off, "auto ", "auto &&", "const auto &")
			}
		})
	}},
	{"c++-structured-binding", perToken(func(s *source, add addFunc, i int, t lexeme) {
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
			add.insert(s.where(i), p.End, " &", " &&")
			add(s.where(i), insert(p.Off, "const "))
		} else if p.s == "&" || p.s == "&&" {
			add(s.where(i), part{p.Off, p.End, ""})
		}
	})},
	{"c++-static-local", func(s *source, add addFunc) {
		s.functions(func(f function) {
			at := s.toks[f.body].End
			add.insert(f.name, at, " extern int tasting_unknown(); static int tasting_local = tasting_unknown(); ", " extern int tasting_unknown(); thread_local int tasting_local = tasting_unknown(); ")
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
				add.insert(f.name, s.toks[b].Off, "static ", "thread_local ", "static const ", "constexpr ", "static constexpr ")
			}
			if w := s.toks[b]; w.s == "static" || w.s == "thread_local" || w.s == "constexpr" || w.s == "const" {
				add(f.name, part{w.Off, w.End, ""})
			}
		})
	}},
	{"c++-cast", perToken(func(s *source, add addFunc, i int, t lexeme) {
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
			add.replace(s.where(i), s.toks[n].End, s.toks[a].Off, "int", "bool", "unsigned char", "void *")
		}
	})},
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
				add.insert(s.where(i), t.Off, "::", "this->")
			}
		})
	}},
	{"c++-construction", perToken(func(s *source, add addFunc, i int, t lexeme) {
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
	})},
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
	{"c++-constexpr-if", perToken(func(s *source, add addFunc, i int, t lexeme) {
		if n := s.next(i); t.s == "if" && s.at(n) == "constexpr" {
			add(s.where(i), part{s.toks[n].Off, s.toks[n].End, ""})
		} else if t.s == "if" && s.at(n) == "(" {
			add(s.where(i), insert(t.End, " constexpr"))
			add(s.where(i), part{t.End, s.toks[s.toks[n].match].End, " consteval"})
		}
	})},

	// Templates.
	{"c++-template-argument", func(s *source, add addFunc) {
		s.eachTemplateList(func(i int, head bool, l [][2]int) {
			if head {
				return
			}
			for k, r := range l {
				end := s.toks[s.prev(r[1])].End
				add.replace(s.where(i), s.toks[r[0]].Off, end, "int", "char", "unsigned long", "3", "const "+s.code(r[0], r[1]), s.code(r[0], r[1])+" *", s.code(r[0], r[1])+" + 1")
				if k > 0 {
					add(s.where(i), s.exchange(l[k-1][0], l[k-1][1], r[0], r[1])...)
					add(s.where(i), part{s.toks[s.prev(r[0])].Off, end, ""})
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
					add.replace(s.where(i), s.toks[k].Off, end, "", "= int", "= 1", "= void", "= long")
				} else {
					add.insert(s.where(i), end, " = int", " = 1")
					add(s.where(i), insert(end, ", typename tasting_parameter = int"))
				}
				if s.at(r[0]) == "int" || s.at(r[0]) == "unsigned" || s.at(r[0]) == "bool" {
					add.replaceToken(s.where(i), s.toks[r[0]], "long", "auto")
				}
			}
		})
	}},
	{"c++-specialization", specializations},
	{"c++-concept", perToken(func(s *source, add addFunc, i int, t lexeme) {
		switch n := s.next(i); t.s {
		case "concept":
			for k := n; k < len(s.toks) && s.at(k) != ";"; k++ {
				if s.at(k) == "=" {
					e := s.skip(k, len(s.toks)) - 1
					add.replace(s.where(i), s.toks[k].End, s.toks[e].Off, " true", " false", " sizeof(int) == 4", " !("+s.code(k+1, e)+")")
					break
				}
			}
		case "requires":
			add.replaceToken(s.where(i), t, "requires true && ", "requires (!true) && ")
		case "template":
			if a := s.angle(n); s.at(n) == "<" && a > n+1 {
				p := s.at(s.prev(a))
				add.insert(s.where(i), s.toks[a].End, " requires true ", " requires (sizeof("+p+") > 4) ", " requires false ", " requires requires("+p+" x) { x + x; } ")
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
	})},

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
		for d := range s.declared("function", "variable", "class") {
			if d.class >= 0 {
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
			add.insert(d.name, s.toks[d.b].Off, around("__attribute__((init_priority(", []string{"101", "65535"}, "))) ")...)
			add.insert(d.name, s.toks[d.b].Off, "constinit ", "constexpr ", "inline ", "thread_local ", "[[clang::no_destroy]] ", "const ", "static ")
			if d.init >= 0 && s.at(d.init) == "=" {
				add(d.name, insert(s.toks[d.b].Off, "extern int tasting_unknown(); "), insert(s.toks[d.init].End, " tasting_unknown(),"))
				add(d.name, insert(s.toks[d.b].Off, "extern int tasting_unknown(); "), part{s.toks[d.init].Off, s.toks[d.e].Off, "= tasting_unknown() ? "}, insert(s.toks[d.e].Off, s.code(d.init+1, d.e)+" : "+s.code(d.init+1, d.e)))
			}
			if prev >= 0 && s.decls[prev].e+1 == d.b {
				p := &s.decls[prev]
				add(d.name, s.exchange(p.b, p.e+1, d.b, d.e+1)...)
			}
			prev = i
		}
		s.eachClass(func(ci int, c *class) {
			if n := s.next(c.end); c.path != "" && s.at(n) == ";" {
				add.insert(c.name, s.toks[n].End, around("\n", withName(c.path, "static X tasting_object;", "X tasting_object;", "inline X tasting_object;", "static thread_local X tasting_object;", "__attribute__((init_priority(200))) X tasting_object;", "static X *tasting_object = new X;"), "\n")...)
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
		for d := range s.declared("function", "variable") {
			switch d.kind {
			case "function":
				add.insert(d.name, s.toks[d.begin].Off, around("[[", cxxFunctionAttributes, "]] ")...)
			case "variable":
				add.insert(d.name, s.toks[d.begin].Off, around("", cxxVariableAttributes, " ")...)
			}
		}
		s.eachClass(func(ci int, c *class) {
			add.insert(c.name, s.toks[c.word].End, around(" ", []string{"alignas(32)", "[[clang::trivial_abi]]", "[[gnu::packed]]", "[[gnu::visibility(\"hidden\")]]", "[[gnu::may_alias]]", "[[gnu::abi_tag(\"tasting\")]]", "[[clang::lto_visibility_public]]", "[[nodiscard]]", "[[gnu::aligned(64)]]",
				"[[clang::ptrauth_vtable_pointer(no_authentication)]]", "[[gnu::type_visibility(\"hidden\")]]", "[[gnu::ms_struct]]", "[[clang::preferred_name(int)]]", "__attribute__((novtable))", "__attribute__((empty_bases))", "[[clang::standalone_debug]]", "[[gnu::warn_unused]]", "[[clang::uninitialized]]"}, "")...)
		})
		s.statements(func(f function, b, e int) {
			add.insert(f.name, s.toks[b].Off, "[[likely]] ", "[[unlikely]] ", "[[assume(true)]]; ", "[[clang::noinline]] ", "[[clang::always_inline]] ", "[[clang::nomerge]] ", "[[clang::musttail]] ", "__builtin_assume(false); ", "[[clang::noconvergent]] ", "[[clang::code_align(64)]] ")
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
					add(d.name, s.exchange(d.b, d.e+1, n.b, n.e+1)...)
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
				add.insert(d.name, s.toks[d.b].Off, around("", unused, " ")...)
			}
		}
		s.statements(func(f function, b, e int) {
			add.insert(f.name, s.toks[b].Off, "using tasting_unused = int; ", "struct tasting_unused { int x; }; ", "static_assert(true); ", "; ", "(void)0; ", "enum { tasting_unused }; ")
		})
	}},
	{"=c++-unused-member", perClass(func(s *source, add addFunc, ci int, c *class) {
		s.addMembers(add, ci, "using tasting_unused = int;", "typedef int tasting_unused;", "friend class tasting_unused;", "int tasting_unused() const;", "int tasting_unused(int x) { return x; }", "template <typename T> T tasting_unused(T x) { return x; }",
			"struct tasting_unused { int x; };", "enum { tasting_unused };", "static constexpr int tasting_unused = 3;", "static int tasting_unused;", "static_assert(true);", "friend int tasting_unused(int x) { return x; }")
	})},
	{"=c++-access", perClass(func(s *source, add addFunc, ci int, c *class) {
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
				add.replaceToken(c.name, t, "public: "+t.s, "public")
			}
		}
	})},
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
				add(d.name, s.exchange(d.b, d.e+1, n.b, n.e+1)...)
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

// specializations adds specialisations and instantiations behind each template at namespace scope.
func specializations(s *source, add addFunc) {
	for d := range s.declared("class", "function", "variable") {
		o := s.next(d.b)
		if d.begin == d.b || d.class >= 0 || s.at(o) != "<" || d.outer != "" {
			continue
		}
		l := s.list(o+1, s.angle(o))
		after := s.toks[d.e].End
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
		if name == "" || len(l) == 0 {
			continue
		}
		first := l[0][0]
		if s.at(first) != "typename" && s.at(first) != "class" || s.toks[first+1].Kind != token.Ident {
			if d.kind == "class" && s.toks[first].Kind == token.Ident {
				add.insert(name, after, around("\ntemplate <> "+name+"<", []string{"1", "2", "3", "true", "false"}, "> "+text+";\n")...)
			}
			continue
		}
		param := s.at(first + 1)
		rest := strings.Repeat(", int", len(l)-1)
		for _, x := range []string{"int", "char", "double", "long", "bool", "unsigned"} {
			id := name + "<" + x + rest + ">"
			switch d.kind {
			case "class":
				add.insert(name, after, "\ntemplate <> "+id+" "+replaceToken(text, param, x)+";\n", "\ntemplate <> "+id+" { };\n", "\ntemplate "+id+";\n", "\nextern template "+id+";\n")
			case "function":
				head := replaceToken(s.code(d.begin, s.tail(d)), param, x)
				add.insert(name, after, around("\ntemplate <> "+head, []string{" { __builtin_trap(); }", ";", " = delete;"}, "\n")...)
				add.insert(name, after, "\ntemplate "+head+";\n", "\nextern template "+head+";\n")
			case "variable":
				add.insert(name, after, "\ntemplate <> "+replaceToken(s.code(d.begin, d.nameTok), param, x)+" "+id+"{};\n")
			}
		}
		if d.kind == "class" && len(l) == 1 {
			for _, x := range []string{"*", "&", " const", "[3]"} {
				head := "\ntemplate <typename " + param + "> " + name + "<" + param + x + ">"
				add.insert(name, after, head+" "+text+";\n", head+" { };\n")
			}
		}
	}
}

// replaceToken puts another text in the place of each token of text that is old.
func replaceToken(text, old, by string) string {
	var b strings.Builder
	lex := token.New([]byte(text), 0)
	for pos := 0; ; {
		t := lex.Next()
		b.WriteString(text[pos:t.Off])
		if t.Kind == token.EOF {
			return b.String()
		}
		if pos = t.End; text[t.Off:t.End] == old {
			b.WriteString(by)
		} else {
			b.WriteString(text[t.Off:t.End])
		}
	}
}

func (s *source) eachClass(f func(ci int, c *class)) {
	for ci := range s.classes {
		if c := &s.classes[ci]; s.toks[c.body].own {
			f(ci, c)
		}
	}
}

func perClass(f func(s *source, add addFunc, ci int, c *class)) generator {
	return func(s *source, add addFunc) { s.eachClass(func(ci int, c *class) { f(s, add, ci, c) }) }
}

func perMethod(f func(s *source, add addFunc, ci int, d *decl)) generator {
	return func(s *source, add addFunc) { s.eachMember("function", func(ci int, d *decl) { f(s, add, ci, d) }) }
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

// declared returns the declarations of some kinds.
func (s *source) declared(kinds ...string) iter.Seq[*decl] {
	return func(yield func(*decl) bool) {
		for i := range s.decls {
			if d := &s.decls[i]; slices.Contains(kinds, d.kind) && !yield(d) {
				return
			}
		}
	}
}

// eachParameter calls f for parameters of functions: toks[b:e].
func (s *source) eachParameter(f func(d *decl, b, e int)) {
	for d := range s.declared("function") {
		for _, r := range s.list(d.open+1, s.toks[d.open].match) {
			f(d, r[0], r[1])
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

// addMembers adds an edit for each of texts, which adds it to a class as member does.
func (s *source) addMembers(add addFunc, ci int, texts ...string) {
	for _, x := range texts {
		add(s.classes[ci].name, s.member(ci, x))
	}
}

// withName puts the name of a class in the place of X in texts.
func withName(class string, texts ...string) []string {
	for i, x := range texts {
		texts[i] = strings.ReplaceAll(x, "X", class)
	}
	return texts
}

// toggle adds an edit that deletes word if toks[b:e] have it, as in finds it, or else one that inserts it at off.
func (s *source) toggle(add addFunc, where, word string, b, e, off int) {
	if k, ok := s.in(word, b, e); ok {
		add.replaceToken(where, s.toks[k], "")
	} else {
		add.insert(where, off, word+" ")
	}
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
