package linkmodel

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
)

// The model against the real thing: random units in assembly are linked into an
// executable and shared libraries by each linker there is, and the program says
// where each reference has led, which units it has, and in which order they were
// initialised.

var realityTime = flag.Duration("reality", 0, "compare with real linkers for this long, instead of with a few programs")

// world is a program for both.
type world struct {
	units   []worldUnit
	files   []worldFile
	symbols int
	dropped map[int]bool // symbols that the linker doesn't accept
}

type worldUnit struct {
	defs     []worldDef
	refs     []worldRef
	root     bool
	priority int    // of the initialiser, or 0
	group    string // of the initialiser
}

type worldDef struct {
	sym     int
	binding manifest.Binding
	vis     manifest.Visibility
	group   string
	code    bool
}

type worldRef struct {
	sym  int
	weak bool
	vis  manifest.Visibility
}

type worldFile struct {
	entries   []Entry
	bsymbolic bool
	forced    []int
}

func (w *world) add(u worldUnit) int32 {
	w.units = append(w.units, u)
	return int32(len(w.units) - 1)
}

// newWorld makes a program with many symbols and few archives, or with few
// symbols and many archives, as lazy says.
func newWorld(choose func(n int) int, lazy bool) *world {
	w := &world{dropped: map[int]bool{}}
	one := func(n int) bool { return choose(n) == 0 }
	w.symbols = 200
	if lazy {
		w.symbols = 14 + choose(10)
	}
	libraries := choose(5)
	unit := func(member bool) int32 {
		u := worldUnit{root: one(3)}
		if u.root && one(4) {
			u.priority = 101 + choose(3)
		}
		if u.root && one(5) {
			u.group = fmt.Sprint("g", choose(4))
		}
		return w.add(u)
	}
	lineOf := func(file int) []Entry {
		var line []Entry
		group, archive := 0, 0
		n := 2 + choose(4)
		if lazy {
			n = 2 + choose(8)
		}
		open := false
		for range n {
			g := 0
			if lazy && one(4) {
				if open = !open; open {
					group++
				}
			}
			if open {
				g = group
			}
			switch {
			case lazy && !one(3):
				archive++
				for range 1 + choose(4) {
					line = append(line, Entry{Unit: unit(true), Lazy: true, Archive: archive, Group: g})
				}
				if one(6) { // once more, for a cycle
					last := line[len(line)-1]
					for _, e := range slices.Clone(line) {
						if e.Archive == archive {
							e.Archive, e.Group = archive+1, last.Group
							line = append(line, e)
						}
					}
					archive++
				}
			case file > 1 && one(5) && len(w.files) > 0:
				// The same unit as in another file.
				other := w.files[choose(len(w.files))]
				if len(other.entries) == 0 {
					continue
				}
				e := other.entries[choose(len(other.entries))]
				if e.Library == 0 && !slices.ContainsFunc(line, func(x Entry) bool { return x.Unit == e.Unit && x.Library == 0 }) {
					line = append(line, Entry{Unit: e.Unit})
				}
			default:
				line = append(line, Entry{Unit: unit(false), Group: g})
			}
		}
		return line
	}
	w.files = make([]worldFile, 1)
	for i := 1; i <= libraries; i++ {
		w.files = append(w.files, worldFile{entries: lineOf(i), bsymbolic: one(5)})
	}
	// The lines in the order of the loader: each library follows on the line of
	// the executable, or of one library, or of more.
	w.files[0].entries = lineOf(0)
	insert := func(f, library int) {
		e := &w.files[f].entries
		at := choose(len(*e) + 1)
		group := 0
		if at > 0 && at < len(*e) && (*e)[at].Group == (*e)[at-1].Group {
			group = (*e)[at].Group
			if (*e)[at].Lazy && (*e)[at-1].Archive == (*e)[at].Archive {
				at = len(*e) // not inside of an archive
				group = 0
			}
		}
		*e = slices.Insert(*e, at, Entry{Library: int32(library), Group: group})
	}
	for i := 1; i <= libraries; i++ {
		insert(0, i)
		for k := 1; k < i; k++ { // the other way would be a cycle for the build
			if one(5) {
				insert(k, i)
			}
		}
	}
	w.sortFiles()
	bindings := []manifest.Binding{
		manifest.Binding_BINDING_GLOBAL, manifest.Binding_BINDING_GLOBAL, manifest.Binding_BINDING_GLOBAL, manifest.Binding_BINDING_WEAK,
		manifest.Binding_BINDING_WEAK, manifest.Binding_BINDING_WEAK, manifest.Binding_BINDING_WEAK, manifest.Binding_BINDING_UNIQUE, manifest.Binding_BINDING_COMMON,
	}
	visibility := func() manifest.Visibility {
		if one(6) {
			return manifest.Visibility(1 + choose(3))
		}
		return manifest.Visibility_VISIBILITY_DEFAULT
	}
	commons := one(6) // what becomes of several is unusual
	for s := range w.symbols {
		used := map[int]bool{}
		binding := choose(len(bindings) + 4)
		constrained := one(3)
		vis := func() manifest.Visibility {
			if constrained {
				return visibility()
			}
			return manifest.Visibility_VISIBILITY_DEFAULT
		}
		for range 1 + choose(4) {
			k := choose(len(w.units))
			if used[k] {
				continue
			}
			used[k] = true
			// A function and a variable with one name are treated in ways of
			// their own.
			d := worldDef{sym: s, vis: vis(), code: s%2 == 0 && binding < len(bindings) && bindings[binding] < manifest.Binding_BINDING_UNIQUE}
			if binding < len(bindings) {
				d.binding = bindings[binding]
			} else {
				d.binding = bindings[choose(len(bindings))]
			}
			if d.binding == manifest.Binding_BINDING_COMMON && !commons {
				d.binding = manifest.Binding_BINDING_GLOBAL
			}
			if d.binding != manifest.Binding_BINDING_COMMON && one(3) {
				d.group = fmt.Sprint("s", s)
				if one(6) {
					d.group = fmt.Sprint("s", max(s-1, 0))
				}
			}
			w.units[k].defs = append(w.units[k].defs, d)
		}
		refs := 2 + choose(4)
		if lazy {
			refs = 1 + choose(3)
		}
		seen := map[int]bool{}
		for range refs {
			k := choose(len(w.units))
			if seen[k] {
				continue
			}
			seen[k] = true
			if used[k] && lazy {
				continue
			}
			w.units[k].refs = append(w.units[k].refs, worldRef{s, one(4), vis()})
		}
	}
	for i := range w.units {
		refs := w.units[i].refs
		for k := range refs {
			j := k + choose(len(refs)-k)
			refs[k], refs[j] = refs[j], refs[k]
		}
	}
	if lazy && one(3) {
		w.files[0].forced = append(w.files[0].forced, choose(w.symbols))
	}
	return w
}

// sortFiles numbers the files in the order of the loader.
func (w *world) sortFiles() {
	number := map[int32]int32{0: 0}
	order := []int32{0}
	for i := 0; i < len(order); i++ {
		for _, e := range w.files[order[i]].entries {
			if _, ok := number[e.Library]; !ok {
				number[e.Library] = int32(len(order))
				order = append(order, e.Library)
			}
		}
	}
	var files []worldFile
	for _, f := range order {
		x := w.files[f]
		for i := range x.entries {
			x.entries[i].Library = number[x.entries[i].Library]
		}
		files = append(files, x)
	}
	w.files = files
}

// program returns what the model sees.
func (w *world) program(linker Linker) (*Table, *Program) {
	t := NewTable()
	for _, u := range w.units {
		m := &manifest.Manifest{Units: []*manifest.Unit{{Exact: true}}}
		var list []int32
		defined := map[int]bool{}
		add := func(c *manifest.Component) {
			list = append(list, int32(len(m.Components)))
			m.Components = append(m.Components, c)
		}
		for _, d := range u.defs {
			defined[d.sym] = true
			c := &manifest.Component{Group: d.group}
			if !w.dropped[d.sym] {
				c.Definitions = []*manifest.Definition{{Name: fmt.Sprint("s", d.sym), Binding: d.binding, Visibility: d.vis}}
			}
			add(c)
		}
		if u.root {
			add(&manifest.Component{Root: "constructor", Group: u.group})
		}
		for _, r := range u.refs {
			if !defined[r.sym] && !w.dropped[r.sym] {
				m.Units[0].References = append(m.Units[0].References, &manifest.Reference{Name: fmt.Sprint("s", r.sym), Weak: r.weak, Visibility: r.vis})
			}
		}
		t.Add(m, 0, list)
	}
	p := new(Program)
	for _, f := range w.files {
		x := File{Entries: f.entries, Bsymbolic: f.bsymbolic, Linker: linker}
		for _, s := range f.forced { // of the executable
			p.Needs = append(p.Needs, t.Symbol(fmt.Sprint("s", s)))
		}
		p.Files = append(p.Files, x)
	}
	return t, p
}

// assembly returns the text of a unit. It records where its definitions are and
// where its references lead in a section of probes: address, unit, symbol, kind.
func (w *world) assembly(k int) string {
	var b strings.Builder
	u := w.units[k]
	probe := func(section, address string, sym, kind int) {
		fmt.Fprintf(&b, " .section probes,\"aw%s\n .quad %s\n .long %d, %d\n .quad %d\n", section, address, k, sym, kind)
	}
	probe(`",@progbits`, "0", 0, 2)
	visibility := func(sym int, v manifest.Visibility) {
		if v != manifest.Visibility_VISIBILITY_DEFAULT {
			fmt.Fprintf(&b, " .%s s%d\n", []string{"", "internal", "hidden", "protected"}[v], sym)
		}
	}
	defined := map[int]bool{}
	for _, d := range u.defs {
		if w.dropped[d.sym] {
			continue
		}
		defined[d.sym] = true
		if d.binding == manifest.Binding_BINDING_COMMON {
			fmt.Fprintf(&b, " .comm s%d,8,8\n", d.sym)
			visibility(d.sym, d.vis)
			continue
		}
		section, flags, kind := ".data", "aw", "object"
		if d.code {
			section, flags, kind = ".text", "ax", "function"
		}
		group := `",@progbits`
		if d.group != "" {
			group = `G",@progbits,` + d.group + ",comdat"
		}
		fmt.Fprintf(&b, " .section %s.s%d,\"%s%s\n", section, d.sym, flags, group)
		switch d.binding {
		case manifest.Binding_BINDING_GLOBAL:
			fmt.Fprintf(&b, " .globl s%d\n", d.sym)
		case manifest.Binding_BINDING_WEAK:
			fmt.Fprintf(&b, " .weak s%d\n", d.sym)
		case manifest.Binding_BINDING_UNIQUE:
			fmt.Fprintf(&b, " .weak s%d\n", d.sym) // as compilers do
			kind = "gnu_unique_object"
		}
		visibility(d.sym, d.vis)
		fmt.Fprintf(&b, " .type s%[1]d,@%[2]s\n .size s%[1]d,8\ns%[1]d:\n.Ls%[1]d: .quad %[1]d\n", d.sym, kind)
		probe(group, fmt.Sprint(".Ls", d.sym), d.sym, 1)
	}
	for _, r := range u.refs {
		if w.dropped[r.sym] {
			continue
		}
		if !defined[r.sym] {
			visibility(r.sym, r.vis)
			if r.weak {
				fmt.Fprintf(&b, " .weak s%d\n", r.sym)
			}
		}
		probe(`",@progbits`, fmt.Sprint("s", r.sym), r.sym, 0)
	}
	if u.root {
		group := `",@init_array`
		if u.group != "" {
			group = `G",@init_array,` + u.group + ",comdat"
		}
		priority := ""
		if u.priority > 0 {
			priority = fmt.Sprintf(".%05d", u.priority)
		}
		text := fmt.Sprintf("init %d\\n", k)
		fmt.Fprintf(&b, ` .section .init_array%s,"aw%s
 .balign 8
 .quad .Linit
 .text
.Linit: mov $1,%%eax
 mov $1,%%edi
 lea .Lsay(%%rip),%%rsi
 mov $%d,%%edx
 syscall
 ret
 .section .rodata
.Lsay: .ascii "%s"
`, priority, group, len(text)-1, text)
	}
	b.WriteString(` .section .note.GNU-stack,"",@progbits` + "\n")
	return b.String()
}

// runtimeSource prints the probes of the file that it is linked into.
const runtimeSource = `
#include <stdio.h>
#include <unistd.h>
struct probe { char *address; int unit, symbol; long kind; };
extern struct probe __start_probes[] __attribute__((visibility("hidden"))), __stop_probes[] __attribute__((visibility("hidden")));
static struct probe none __attribute__((section("probes"), used)) = { 0, -1, 0, 3 };
__attribute__((destructor)) static void say(void)
{
	for (struct probe *p = __start_probes; p < __stop_probes; p++) {
		char line[100];
		if (p->kind == 3)
			continue;
		int n = snprintf(line, sizeof line, "probe %d %ld %d %d %p\n", FILE_NUMBER, p->kind, p->unit, p->symbol, (void *)p->address);
		if (write(1, line, n) != n)
			_exit(3);
	}
}
#ifdef MAIN
int main(void) { return 0; }
#endif
`

var complaint = regexp.MustCompile(`\bs(\d+)\b`)

// build links w in dir and returns what it prints. Symbols that the linker or the
// loader complains about are dropped.
func (w *world) build(t *testing.T, dir, linker string) string {
	t.Helper()
	stale := make([]bool, len(w.units))
	assemble := func() {
		for k := range w.units {
			if stale[k] {
				continue
			}
			stale[k] = true
			cmd := exec.Command("as", "-o", fmt.Sprintf("%s/u%d.o", dir, k))
			cmd.Stdin = strings.NewReader(w.assembly(k))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("as: %v\n%s\n%s", err, out, w.assembly(k))
			}
		}
	}
	for try := 0; ; try++ {
		assemble()
		out, err := w.link(dir, linker)
		if err == nil {
			cmd := exec.Command(dir + "/file0")
			cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			var stdout []byte
			stdout, err = cmd.Output()
			if err == nil {
				return string(stdout)
			}
			out = stderr.String()
		}
		dropped := 0
		for _, m := range complaint.FindAllStringSubmatch(out, -1) {
			s, _ := strconv.Atoi(m[1])
			if !w.dropped[s] {
				w.dropped[s] = true
				dropped++
			}
		}
		if dropped == 0 || try > 50 {
			t.Fatalf("%s: %v\n%s", linker, err, out)
		}
		for k, u := range w.units {
			stale[k] = !slices.ContainsFunc(u.defs, func(d worldDef) bool { return w.dropped[d.sym] }) &&
				!slices.ContainsFunc(u.refs, func(r worldRef) bool { return w.dropped[r.sym] })
		}
	}
}

func (w *world) link(dir, linker string) (string, error) {
	for _, i := range w.initOrder() { // what is needed first
		f := w.files[i]
		args := []string{"-fuse-ld=" + linker, "-nostartfiles", "-nodefaultlibs", fmt.Sprintf("-o%s/file%d", dir, i), fmt.Sprintf("%s/rt%d.o", dir, i), "-Wl,--no-as-needed", "-Wl,-z,notext"}
		if linker == "lld" {
			args = append(args, "-Wl,--error-limit=0")
		}
		if i == 0 {
			args = append(args[:1], args[3:]...)
			args = append(args, "-pie")
		} else {
			args[3] = fmt.Sprintf("-o%s/libfile%d.so", dir, i)
			args = append(args, "-shared", fmt.Sprintf("-Wl,-soname,libfile%d.so", i))
		}
		if f.bsymbolic {
			args = append(args, "-Wl,-Bsymbolic")
		}
		for _, s := range f.forced {
			args = append(args, fmt.Sprintf("-Wl,-u,s%d", s))
		}
		args = append(args, fmt.Sprintf("-Wl,-rpath-link,%s", dir))
		group := 0
		to := func(g int) {
			if g != group {
				if group > 0 {
					args = append(args, "-Wl,--end-group")
				}
				if g > 0 {
					args = append(args, "-Wl,--start-group")
				}
				group = g
			}
		}
		for k := 0; k < len(f.entries); {
			e := f.entries[k]
			to(e.Group)
			switch {
			case e.Library != 0:
				args = append(args, fmt.Sprintf("%s/libfile%d.so", dir, e.Library))
				k++
			case !e.Lazy:
				args = append(args, fmt.Sprintf("%s/u%d.o", dir, e.Unit))
				k++
			default:
				name := fmt.Sprintf("%s/lib%d_%d.a", dir, i, e.Archive)
				end := endOfArchive(f.entries, k)
				members := []string{}
				for _, m := range f.entries[k:end] {
					members = append(members, fmt.Sprintf("%s/u%d.o", dir, m.Unit))
				}
				if linker == "lld" && e.Archive%2 == 0 && e.Group == 0 {
					args = append(append(append(args, "-Wl,--start-lib"), members...), "-Wl,--end-lib")
				} else {
					os.Remove(name)
					if out, err := exec.Command("ar", append([]string{"rcs", name}, members...)...).CombinedOutput(); err != nil {
						return string(out), err
					}
					args = append(args, name)
				}
				k = end
			}
		}
		to(0)
		args = append(args, "-lc")
		if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
			return string(out), err
		}
	}
	return "", nil
}

type seenStats struct{ programs, references, decided, undefined, unusual, members, initialisers, dropped, symbols int }

// compare links w by the model and compares.
func (w *world) compare(t *testing.T, out string, linker Linker, stats *seenStats) {
	t.Helper()
	table, program := w.program(linker)
	l := NewLinked(table)
	l.Link(program)
	type definition struct{ file, unit, sym int }
	at := map[string]definition{}
	var present []LinkedUnit
	type reference struct {
		definition
		address string
	}
	var refs []reference
	var inits []int
	for line := range strings.Lines(out) {
		var file, kind, unit, sym int
		var address string
		if n, _ := fmt.Sscanf(line, "probe %d %d %d %d %s", &file, &kind, &unit, &sym, &address); n == 5 {
			switch kind {
			case 0:
				refs = append(refs, reference{definition{file, unit, sym}, address})
			case 1:
				at[address] = definition{file, unit, sym}
			case 2:
				present = append(present, LinkedUnit{int32(file), int32(unit)})
			}
		} else if n, _ := fmt.Sscanf(line, "init %d", &unit); n == 1 {
			inits = append(inits, unit)
		} else {
			t.Fatalf("output %q", line)
		}
	}
	stats.programs++
	stats.dropped += len(w.dropped)
	stats.symbols += w.symbols
	byFile := func(a, b LinkedUnit) int { return int(a.File - b.File) }
	slices.SortStableFunc(present, byFile)
	if l.Unusual != "" {
		stats.unusual++
		for _, x := range present {
			if !slices.Contains(l.Units, x) {
				t.Errorf("unusual, and unit %d in file %d isn't among what may be linked", x.Unit, x.File)
			}
		}
		return
	}
	if !slices.Equal(present, l.Units) {
		t.Errorf("linked units (file, unit) %v, the model says %v", present, l.Units)
		return
	}
	for _, x := range present {
		if slices.ContainsFunc(program.Files[x.File].Entries, func(e Entry) bool { return e.Unit == x.Unit && e.Lazy }) {
			stats.members++
		}
	}
	for _, r := range refs {
		s := table.Lookup(fmt.Sprint("s", r.sym))
		if s == None {
			continue
		}
		places := l.Resolve(nil, int32(r.file), s)
		stats.references++
		found := len(places) == 0
		where := "undefined"
		if r.address != "(nil)" {
			where = "a common symbol"
			found = false
			if d, ok := at[r.address]; ok {
				where = fmt.Sprintf("unit %d of file %d", d.unit, d.file)
				found = false
				for _, p := range places {
					in := l.Units[p.In]
					found = found || int(in.File) == d.file && int(in.Unit) == d.unit
				}
			} else {
				for _, p := range places {
					for _, d := range table.Unit(l.Units[p.In].Unit).Defs {
						found = found || d.Symbol == s && d.Binding == manifest.Binding_BINDING_COMMON
					}
				}
			}
		}
		found = found || l.Ambiguous(s)
		switch {
		case len(places) == 0:
			stats.undefined++
		case len(places) == 1 && !l.Ambiguous(s):
			stats.decided++
		}
		if !found {
			var want []string
			for _, p := range places {
				want = append(want, fmt.Sprintf("unit %d of file %d", l.Units[p.In].Unit, l.Units[p.In].File))
			}
			t.Errorf("s%d in unit %d of file %d is bound to %s, the model says %v (ambiguous %v)\n%s", r.sym, r.unit, r.file, where, want, l.Ambiguous(s), w.about(map[int]bool{r.sym: true}))
		}
	}
	// Initialisers by file and priority, files by glibc's order.
	var want []int
	for _, f := range w.initOrder() {
		type initialiser struct{ priority, unit int }
		var list []initialiser
		for i, in := range l.Units {
			u := w.units[in.Unit]
			if in.File != f || !u.root || u.group != "" && l.IsDiscarded(int32(i), table.Symbol(u.group)) {
				continue
			}
			priority := u.priority
			if priority == 0 {
				priority = 1 << 16
			}
			list = append(list, initialiser{priority, int(in.Unit)})
		}
		slices.SortStableFunc(list, func(a, b initialiser) int { return a.priority - b.priority })
		for _, x := range list {
			want = append(want, x.unit)
		}
	}
	stats.initialisers += len(inits)
	if !slices.Equal(inits, want) {
		t.Errorf("initialised units %v, the model says %v", inits, want)
	}
}

// initOrder is the order in which glibc 2.35 and later initialise: libraries
// after those that they need, otherwise the last loaded first, then the
// executable.
func (w *world) initOrder() (order []int32) {
	seen := make([]bool, len(w.files))
	var visit func(f int32)
	visit = func(f int32) {
		if !seen[f] {
			seen[f] = true
			for _, e := range w.files[f].entries {
				if e.Library != 0 {
					visit(e.Library)
				}
			}
			order = append(order, f)
		}
	}
	for f := len(w.files) - 1; f > 0; f-- {
		visit(int32(f))
	}
	return append(order, 0)
}

func (w *world) String() string {
	var b strings.Builder
	for i, f := range w.files {
		fmt.Fprintf(&b, "file %d: bsymbolic %v forced %v entries {unit library lazy archive group} %v\n", i, f.bsymbolic, f.forced, f.entries)
	}
	if len(w.units)*w.symbols < 1000 {
		for i, u := range w.units {
			fmt.Fprintf(&b, "unit %d: %+v\n", i, u)
		}
	}
	return b.String()
}

// about prints what a test says of some symbols.
func (w *world) about(symbols map[int]bool) string {
	var b strings.Builder
	for i, u := range w.units {
		for _, d := range u.defs {
			if symbols[d.sym] {
				fmt.Fprintf(&b, "unit %d defines %+v\n", i, d)
			}
		}
		for _, r := range u.refs {
			if symbols[r.sym] {
				fmt.Fprintf(&b, "unit %d refers to %+v\n", i, r)
			}
		}
	}
	return b.String()
}

func TestReality(t *testing.T) {
	for _, tool := range []string{"gcc", "as", "ar"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	if out, err := exec.Command("gcc", "-dumpmachine").Output(); err != nil || !strings.HasPrefix(string(out), "x86_64") {
		t.Skip("the programs are for x86-64")
	}
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/rt.c", []byte(runtimeSource), 0o666); err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		args := []string{"-c", "-O1", "-fPIC", fmt.Sprint("-DFILE_NUMBER=", i), "-o", fmt.Sprintf("%s/rt%d.o", dir, i), dir + "/rt.c"}
		if i == 0 {
			args = append(args, "-DMAIN")
		}
		if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	programs := uint64(16)
	if testing.Short() {
		programs = 4
	}
	kinds := map[string]Linker{"bfd": GNU, "gold": Gold, "lld": LLD, "mold": Mold}
	for _, linker := range []string{"bfd", "gold", "lld", "mold"} {
		t.Run(linker, func(t *testing.T) {
			if _, err := exec.LookPath("ld." + linker); err != nil {
				t.Skip(err)
			}
			var stats seenStats
			seed := uint64(1)
			if *realityTime > 0 {
				seed = uint64(time.Now().UnixNano())
			}
			start := time.Now()
			for n := uint64(0); n < programs || time.Since(start) < *realityTime; n++ {
				r := rand.New(rand.NewPCG(seed, n))
				w := newWorld(r.IntN, n%4 != 0)
				sub := filepath.Join(dir, "w")
				_ = os.RemoveAll(sub)
				if err := os.Mkdir(sub, 0o777); err != nil {
					t.Fatal(err)
				}
				for i := range 6 {
					if err := os.Symlink(fmt.Sprintf("../rt%d.o", i), fmt.Sprintf("%s/rt%d.o", sub, i)); err != nil {
						t.Fatal(err)
					}
				}
				out := w.build(t, sub, linker)
				w.compare(t, out, kinds[linker], &stats)
				if t.Failed() {
					t.Fatalf("program %d of seed %d\n%s", n, seed, w)
				}
			}
			t.Logf("%+v", stats)
		})
	}
}
