package autoep

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/verify/evolve"
)

// sysHeader declares what programs use of the C library: its own headers would take longer to compile
// than all the rest.
const sysHeader = `#ifdef __cplusplus
extern "C" {
#endif
typedef struct _IO_FILE FILE;
int printf(const char *, ...);
FILE *fopen(const char *, const char *);
char *fgets(char *, int, FILE *);
int fclose(FILE *);
#ifdef __cplusplus
}
// What refers to an object by its base, and no compiler sees through that.
template <class B> B &as(B &&b) { return b; }
#endif
`

// slurp reads the first line of a file, as a number.
const slurp = `static int slurp(const char *name) {
  char line[64];
  int r = 0;
  FILE *f = fopen(name, "r");
  if (!f) return -1;
  if (fgets(line, sizeof line, f))
    for (char *p = line; *p && *p != '\n'; p++) r = (r * 31 + *p) % 10007;
  fclose(f);
  return r;
}`

// far calls a function elsewhere than in this thread.
const far = `#ifdef __cplusplus
extern "C" {
#endif
int pthread_create(unsigned long *, const void *, void *(*)(void *), void *);
int pthread_join(unsigned long, void **);
int pipe(int *), fork(void), close(int), waitpid(int, int *, int);
long read(int, void *, unsigned long), write(int, const void *, unsigned long);
void _exit(int) __attribute__((noreturn));
#ifdef __cplusplus
}
#endif
struct far { int (*f)(int); int n; };
static void *far_start(void *p) {
  struct far *x = (struct far *)p;
  x->n = x->f(x->n);
  return 0;
}
static int in_thread(int (*f)(int), int n) {
  struct far x = {f, n};
  unsigned long t;
  if (pthread_create(&t, 0, far_start, &x)) return -1;
  pthread_join(t, 0);
  return x.n;
}
static int in_child(int (*f)(int), int n) {
  int p[2], r = -1, pid;
  if (pipe(p)) return -1;
  pid = fork();
  if (pid == 0) {
    r = f(n);
    write(p[1], &r, sizeof r);
    _exit(0);
  }
  close(p[1]);
  read(p[0], &r, sizeof r);
  close(p[0]);
  waitpid(pid, 0, 0);
  return r;
}`

// revision renders all files. They are in one directory, so that an include needs no flags.
func (m *model) revision() *evolve.Revision {
	r := &evolve.Revision{Files: maps.Clone(m.data), Flags: m.flags}
	if r.Files == nil {
		r.Files = map[string]string{}
	}
	r.Files["sys.h"] = sysHeader
	for _, u := range m.units {
		r.Files[u.name+".h"] = m.header(u)
		if !u.alone {
			r.Files[m.source(u)] = m.body(u)
		}
	}
	for i, l := range m.libs {
		lib := evolve.Library{Name: l.name, Shared: l.shared, Flags: l.flags, Deps: m.libDeps(i)}
		for _, u := range m.units {
			if u.lib == i && !u.alone && u.outside == "" {
				lib.Sources = append(lib.Sources, m.source(u))
			}
		}
		if l.backwards {
			slices.Reverse(lib.Sources)
		}
		r.Libraries = append(r.Libraries, lib)
	}
	for _, u := range m.units {
		if u.outside != "" {
			r.Libraries = append(r.Libraries, evolve.Library{Name: u.outside, Sources: []string{m.source(u)}})
		}
	}
	if !m.plain {
		r.Files["state.h"] = stateHeader
	}
	for _, t := range m.tests {
		name := t.name + m.ext()
		r.Files[name] = m.testSource(t)
		deps, data := m.testDeps(t)
		r.Tests = append(r.Tests, evolve.Test{Name: t.name, Sources: []string{name}, Deps: deps, Data: data, Args: t.args})
	}
	return r
}

func (m *model) ext() string {
	if m.plain {
		return ".c"
	}
	return ".cc"
}

func (m *model) source(u *unit) string {
	if u.c {
		return u.name + ".c"
	}
	return u.name + m.ext()
}

// libDeps are earlier libraries that one refers to.
func (m *model) libDeps(lib int) (deps []string) {
	need := map[int]bool{}
	for _, u := range m.units {
		if u.lib == lib && u.outside == "" {
			for _, o := range m.refs(u, true, true) {
				need[o.lib] = true
			}
		}
	}
	for i := lib - 1; i >= 0; i-- { // the order in which a linker needs archives
		if need[i] {
			deps = append(deps, m.libs[i].name)
		}
	}
	return deps
}

// refs are the units that a header or a source refers to, in their order.
func (m *model) refs(u *unit, header, source bool) []*unit {
	need := map[*unit]bool{}
	terms := func(in bool, body []term) {
		for _, t := range body {
			for _, o := range m.owners(t) {
				need[o] = need[o] || in && header || !in && source
			}
		}
	}
	for _, c := range u.classes {
		if _, b := m.class(c.base); b != nil && header {
			need[b] = true
		}
		for _, f := range c.methods {
			terms(!c.anonymous && m.inHeader(u, f), f.body)
		}
	}
	for _, t := range u.templates {
		terms(true, t.body)
	}
	for _, f := range u.functions {
		terms(!f.private && m.inHeader(u, f), f.body)
	}
	for _, o := range m.units {
		for _, f := range o.functions { // defined here, declared there
			if f.at == u.name {
				terms(false, f.body)
				need[o] = need[o] || source
			}
		}
		for _, g := range o.globals {
			if o == u && g.at == "" || g.at == u.name {
				terms(g.inline, g.init)
				need[o] = need[o] || source
				for _, e := range g.table {
					need[m.unit(e[0])] = need[m.unit(e[0])] || source
				}
			}
		}
	}
	var list []*unit
	for _, o := range m.units {
		if need[o] && o != u {
			list = append(list, o)
		}
	}
	return list
}

// header renders the header of a unit.
func (m *model) header(u *unit) string {
	w := &writer{m: m, u: u}
	w.comments(u.comments)
	w.line("#ifndef %s_H\n#define %s_H", strings.ToUpper(u.name), strings.ToUpper(u.name))
	for _, o := range m.refs(u, true, false) {
		w.line("#include \"%s.h\"", o.name)
	}
	for _, d := range u.macros {
		w.macro(d)
	}
	w.open()
	if len(u.enums) > 0 {
		var list []string
		for _, e := range u.enums {
			if list = append(list, e.name); e.value >= 0 {
				list[len(list)-1] += fmt.Sprint(" = ", e.value)
			}
		}
		w.line("enum { %s };", strings.Join(list, ", "))
	}
	for _, f := range u.functions {
		if !f.static && !f.private && f.param != "T" {
			w.in(f.ns, "%s%s;", w.prefix(f, true, false), signature(f, f.name, true))
		}
	}
	for _, g := range u.globals {
		if !g.static && !g.inline {
			w.line("extern %s;", w.declarator(g))
		}
	}
	for _, g := range u.globals {
		if g.inline {
			w.global(g)
		}
	}
	for _, t := range u.templates {
		w.template(t)
	}
	for _, c := range u.classes {
		if !c.anonymous {
			w.class(c)
		}
	}
	for _, f := range u.functions {
		if !f.private && !f.static && m.inHeader(u, f) {
			w.in(f.ns, "%s%s%s", w.prefix(f, true, true), signature(f, f.name, f.param == "T"), w.block(f))
		}
	}
	w.close()
	w.line("#endif")
	return w.String()
}

// body renders the source of a unit.
func (m *model) body(u *unit) string {
	w := &writer{m: m, u: u}
	w.comments(u.comments)
	w.line("#include \"sys.h\"")
	for _, name := range u.includes {
		w.line("#include \"%s.h\"", name)
	}
	w.line("#include \"%s.h\"", u.name)
	for _, o := range m.refs(u, false, true) {
		w.line("#include \"%s.h\"", o.name)
	}
	if u.optional != "" {
		w.line("#if __has_include(\"%[1]s.h\")\n#include \"%[1]s.h\"\n#endif", u.optional)
		w.line("#ifndef OPTIONAL\n#define OPTIONAL 3\n#endif")
	}
	for _, s := range u.usings {
		w.line("using %s;", s)
	}
	for _, helper := range [][2]string{{opData, slurp}, {opFar, far}} {
		if slices.ContainsFunc(u.functions, func(f *function) bool {
			return slices.ContainsFunc(f.body, func(t term) bool { return t.op == helper[0] })
		}) {
			w.line("%s", helper[1])
		}
	}
	w.open()
	for _, f := range u.functions {
		if f.static || f.private {
			w.in(f.ns, "%s%s;", w.prefix(f, false, false), signature(f, f.name, true))
		}
	}
	for _, c := range u.classes {
		if c.anonymous {
			w.line("namespace {")
			w.class(c)
			w.line("}")
		}
	}
	for _, o := range m.units { // what is defined here, wherever it is declared
		for _, g := range o.globals {
			if (o == u && g.at == "" || g.at == u.name) && !g.inline {
				w.global(g)
			}
		}
	}
	for _, c := range u.classes {
		w.members(c)
	}
	for _, o := range m.units {
		for _, f := range o.functions {
			if (o == u && f.at == "" || f.at == u.name) && (f.static || f.private || !m.inHeader(u, f)) {
				if f.chooser != "" {
					w.chosen(f)
					continue
				}
				w.in(f.ns, "%s%s%s", w.prefix(f, false, true), signature(f, f.name, false), w.block(f))
			}
		}
	}
	for i, b := range u.boots {
		attr := ""
		if b.constructor {
			attr = "__attribute__((constructor)) "
		}
		w.line("%[1]svoid boot_%[2]s%[3]d(void);\n%[1]svoid boot_%[2]s%[3]d(void) { %[4]s = (%[4]s + %[5]d) %% 997; }",
			attr, u.name, i, b.global, b.k)
	}
	w.close()
	return w.String()
}

// writer writes a file of a unit.
type writer struct {
	strings.Builder
	m *model
	u *unit
}

func (w *writer) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

// in writes a line in a namespace, if it isn't empty.
func (w *writer) in(ns, format string, args ...any) {
	if s := fmt.Sprintf(format, args...); ns != "" {
		w.line("namespace %s {\n%s\n}", ns, s)
	} else {
		w.line("%s", s)
	}
}

func (w *writer) comments(n int) {
	for i := range n {
		w.line("// Note %d.\n", i+1)
	}
}

// open and close are a namespace, or C.
func (w *writer) open() {
	if w.u.c && !w.m.plain {
		w.line("#ifdef __cplusplus\nextern \"C\" {\n#endif")
	} else if w.u.ns != "" {
		w.line("namespace %s {", w.u.ns)
	}
}

func (w *writer) close() {
	if w.u.c && !w.m.plain {
		w.line("#ifdef __cplusplus\n}\n#endif")
	} else if w.u.ns != "" {
		w.line("}")
	}
}

func (w *writer) macro(d *macro) {
	if d.guarded {
		w.line("#ifndef %s", d.name)
	}
	if d.function {
		w.line("#define %s(x) ((x) * 2 + %d)", d.name, d.k)
	} else {
		w.line("#define %s %d", d.name, d.k)
	}
	if d.guarded {
		w.line("#endif")
	}
}

func (w *writer) template(t *template) {
	if t.class {
		w.line("template <class T> struct %s { static const int value = %d; };", t.name, t.body[0].k)
		for _, s := range t.specs {
			w.line("template <> struct %s<%s> { static const int value = %d; };", t.name, s.typ, s.k)
		}
		return
	}
	w.line("template <class T> int %s(T n)%s", t.name, w.block(&function{body: t.body}))
	for _, s := range t.specs {
		w.line("template <> inline int %s<%s>(%s n) { return (int)n + %d; }", t.name, s.typ, s.typ, s.k)
	}
}

func (w *writer) class(c *class) {
	head := "struct "
	if c.align > 0 {
		head += fmt.Sprintf("__attribute__((aligned(%d))) ", c.align)
	}
	head += c.name
	if c.base != "" {
		virtual := ""
		if c.vbase {
			virtual = "virtual "
		}
		_, b := w.m.class(c.base)
		head += " : " + virtual + w.name(b, c.base)
	}
	w.line("%s {", head)
	for _, f := range c.fields {
		switch {
		case f.static:
			w.line("  static %s %s;", f.typ, f.name)
		case w.u.c || w.m.plain:
			w.line("  %s %s;", f.typ, f.name)
		default:
			w.line("  %s %s = %d;", f.typ, f.name, f.k)
		}
	}
	for _, name := range c.usings {
		_, b := w.m.class(c.base)
		w.line("  using %s::%s;", w.name(b, c.base), name)
	}
	for _, f := range c.methods {
		head := w.prefix(f, true, true) + signature(f, f.name, true)
		if f.static {
			head = "static " + head
		} else if f.virtual {
			head = "virtual " + head
		}
		if c.anonymous || w.m.inHeader(w.u, f) {
			w.line("  %s%s", head, w.block(f))
		} else {
			w.line("  %s;", head)
		}
	}
	if c.vdtor {
		w.line("  virtual ~%s() {}", c.name)
	}
	w.line("};")
}

// members are those that aren't in the header.
func (w *writer) members(c *class) {
	if c.anonymous || w.m.plain || w.u.c {
		return
	}
	for _, f := range c.fields {
		if f.static {
			w.line("%s %s::%s = %d;", f.typ, c.name, f.name, f.k)
		}
	}
	for _, f := range c.methods {
		if !w.m.inHeader(w.u, f) {
			w.line("%s%s", signature(f, c.name+"::"+f.name, false), w.block(f))
		}
	}
}

// declarator is a global's type and name, without an initialiser.
func (w *writer) declarator(g *global) string {
	s := g.typ + " " + g.name
	if g.constant {
		s = "const " + s
	}
	if len(g.table) > 0 {
		s = fmt.Sprintf("int (*const %s[%d])(int)", g.name, len(g.table))
	}
	if g.align > 0 {
		s += fmt.Sprintf(" __attribute__((aligned(%d)))", g.align)
	}
	return s
}

func (w *writer) global(g *global) {
	s := w.declarator(g)
	if g.static {
		s = "static " + s
	}
	switch {
	case len(g.table) > 0:
		var list []string
		for _, e := range g.table {
			list = append(list, w.name(w.m.unit(e[0]), e[1]))
		}
		s += " = {" + strings.Join(list, ", ") + "}"
	case len(g.init) > 0:
		inline := ""
		if g.inline {
			inline, s = "inline ", "inline "+s
		} else {
			inline = "static "
		}
		w.line("%sint init_%s(int n)%s", inline, g.name, w.block(&function{body: g.init}))
		s += fmt.Sprintf(" = init_%s(2)", g.name)
	default:
		s += fmt.Sprint(" = ", g.k)
	}
	w.line("%s;", s)
}

// prefix is what stands in front of a function's declaration.
func (w *writer) prefix(f *function, header, definition bool) (s string) {
	if f.noinline {
		s += "__attribute__((noinline)) "
	}
	if f.weak && definition { // a weak declaration needs no definition
		s += "__attribute__((weak)) "
	}
	switch {
	case f.param == "T":
	case f.static && !header:
		s += "static "
	case header && f.inline && slices.Contains(w.u.functions, f) && w.m.inHeader(w.u, f):
		if s += "inline "; w.u.c || w.m.plain {
			s += "static "
		}
	}
	return s
}

// signature is a function's type and name; defaults are in declarations.
func signature(f *function, name string, declaration bool) string {
	s := "int " + name + "(" + f.param + " n"
	if f.param == "T" {
		s = "template <class T> " + s
	}
	if f.deflt > 0 && declaration {
		s += fmt.Sprint(" = ", f.deflt)
	}
	if f.second > 0 {
		if s += ", int d"; declaration {
			s += fmt.Sprint(" = ", f.second)
		}
	}
	return s + ")"
}

// block is a function's body. The result stays below 10007.
func (w *writer) block(f *function) string {
	var b strings.Builder
	b.WriteString(" {\n  int r = 0;\n")
	add := "r = (r * 3 + %s) %% 10007;"
	for _, t := range f.body {
		switch x := w.expr(t); t.op {
		case opStore, opSet:
			fmt.Fprintf(&b, "  %s = (%s + r + %d) %% 997;\n", x, x, t.k)
		case opCount:
			fmt.Fprintf(&b, "  { static int count = %d; "+add+" }\n", t.k, "(count = (count + 1) % 997)")
		case opList:
			fmt.Fprintf(&b, "  { static const int list[] = {%d, %d, %d, %d}; "+add+" }\n", t.k, t.k+3, t.k+1, t.k+2, "list[n & 3]")
		case opRaise:
			fmt.Fprintf(&b, "  try { if (n > 0) throw %s(); } catch (%s &) { r += 5; } catch (%s &) { r += 6; } catch (...) { r += 7; }\n",
				x, w.nameOf(w.m.owner(t), "X0"), w.nameOf(w.m.owner(t), "X1"))
		case opThrow:
			fmt.Fprintf(&b, "  try { if (n > 1) throw (%s)%d; } catch (int x) { r += x; } catch (long) { r += 7; } catch (...) { r += 8; }\n", t.arg, t.k)
		default:
			fmt.Fprintf(&b, "  "+add+"\n", x)
		}
	}
	b.WriteString("  return r;\n}")
	return b.String()
}

// chosen writes a function that is one of two, and its resolver.
func (w *writer) chosen(f *function) {
	other := &function{body: append(slices.Clip(f.body), num(77))}
	c := ""
	if !w.m.plain {
		c = `extern "C" `
	}
	w.line("static int %[1]s_a(int n)%[2]s\nstatic int %[1]s_b(int n)%[3]s", f.name, w.block(f), w.block(other))
	w.line("%[1]sint (*resolve_%[2]s_%[3]s(void))(int) { return %[4]s(2) & 1 ? %[3]s_a : %[3]s_b; }", c, w.u.name, f.name, f.chooser)
	w.line("%s __attribute__((ifunc(\"resolve_%s_%s\")));", signature(f, f.name, true), w.u.name, f.name)
}

// name is that of something in a unit, wherever it is used.
func (w *writer) name(u *unit, name string) string {
	if f := u.function(name); f != nil && f.ns != "" {
		name = f.ns + "::" + name
	}
	if u.ns != "" {
		name = u.ns + "::" + name
	}
	return name
}

// expressions are how terms are rendered, a leading ? for those that are guarded by n: calls, which pass a lower one.
// NAME is a term's name, FULL the same with its namespaces; OF and ARG are its classes, TEXT its text and K its number.
var expressions = map[string]string{
	opConst:  "K",
	opParam:  "(int)n",
	opSecond: "d",
	opField:  "FULL",
	opStore:  "FULL",
	opEnum:   "FULL",
	opGlobal: "FULL",
	opSet:    "FULL",
	opMacro:  "NAMETEXT",
	opSelf:   "?NAME(n - 1)",
	opSuper:  "?OF::NAME(n - 1)",
	opObject: "?OF().NAME(n - 1)",
	opUpcast: "?as<OF>(ARG()).NAME(n - 1)",
	opLocal:  "?Local().NAME(n - 1)",
	opSize:   "(int)sizeof(OF)",
	opAlign:  "(int)__alignof__(OF)",
	opAlignG: "(int)__alignof__(FULL)",
	opBase:   "(int)__is_base_of(OF, ARG)",
	opPoly:   "(__is_polymorphic(OF) + 2 * __has_virtual_destructor(OF))",
	opCall:   "?FULL((int)n - 1)",
	opFar:    "?in_TEXT(FULL, (int)n - 1)",
	opBare:   "?NAME((int)n - 1)",
	opTable:  "?FULL[n & 1]((int)n - 1)",
	opFuncT:  "?FULL<TEXT>((TEXT)(n - 1))",
	opClassT: "FULL<TEXT>::value",
	opChar:   "((char)200 < 0)",
	opRaise:  "OF",
	opText:   `"TEXT"[n & 3]`,
	opLine:   "__LINE__",
	opData:   `?slurp("NAME")`,
}

// expr renders a term.
func (w *writer) expr(t term) string {
	class := func(name string) string {
		if _, u := w.m.class(name); u == nil {
			return name
		} else if w.m.plain {
			return "struct " + name
		} else {
			return w.name(u, name)
		}
	}
	format, guarded := strings.CutPrefix(expressions[t.op], "?")
	text := strings.NewReplacer("NAME", t.name, "FULL", w.nameOf(w.m.owner(t), t.name), "OF", class(t.of), "ARG", class(t.arg), "TEXT", t.arg, "K", strconv.Itoa(t.k)).Replace(format)
	if guarded {
		return "(n > 0 ? " + text + " : 0)"
	}
	return text
}

func (w *writer) nameOf(u *unit, name string) string {
	if u == nil {
		return name
	}
	return w.name(u, name)
}
