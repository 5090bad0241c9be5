package refgraph

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
)

// tu builds a manifest from one line per component:
//
//	[static|weak|shared|root]... NAME HASH [-> LINK...]
//
// "shared" is an interchangeable local. A link is to the component of that name
// if the manifest has one, to the symbol otherwise.
func tu(t testing.TB, name, text string) Source {
	t.Helper()
	m := &manifest.Manifest{Rung: manifest.Rung_RUNG_FUNCTION, Source: name}
	own := map[string]uint32{}
	var links [][]string
	for line := range strings.Lines(text) {
		def, to, _ := strings.Cut(line, "->")
		f := strings.Fields(def)
		if len(f) == 0 {
			continue
		}
		c := &manifest.Component{Kind: manifest.Kind_KIND_FUNCTION, Linkage: manifest.Linkage_LINKAGE_EXTERNAL}
		for len(f) > 2 {
			switch f[0] {
			case "static":
				c.Linkage = manifest.Linkage_LINKAGE_LOCAL
			case "shared":
				c.Linkage, c.Interchangeable = manifest.Linkage_LINKAGE_LOCAL, true
			case "weak":
				c.Linkage = manifest.Linkage_LINKAGE_WEAK
			case "root":
				c.Root = "constructor"
			default:
				t.Fatalf("line %q", line)
			}
			f = f[1:]
		}
		c.Name = f[0]
		c.LocalHash = hash16(f[1])
		own[c.Name] = uint32(len(m.Components))
		m.Components = append(m.Components, c)
		links = append(links, strings.Fields(to))
	}
	for i, l := range links {
		for _, to := range l {
			k, ok := own[to]
			if !ok {
				k = uint32(len(m.Symbols))*2 + 1
				m.Symbols = append(m.Symbols, to)
			} else {
				k *= 2
			}
			m.Components[i].Links = append(m.Components[i].Links, k)
		}
	}
	b, err := manifest.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if m, err = manifest.Unmarshal(b); err != nil {
		t.Fatal(err)
	}
	return Source{name, m}
}

func hash16(s string) []byte { return binary.BigEndian.AppendUint64([]byte("12345678"), fnv(s)) }

func fnv(s string) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range []byte(s) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}

func codeHash(sources ...Source) Hash {
	return New(sources).Closure(Roots{Symbols: []string{"main"}}).Hash()
}

// Each case holds two programs and whether they are to be told apart.
func TestPairs(t *testing.T) {
	type prog []string // manifests
	for _, tc := range []struct {
		name string
		a, b prog
		same bool
	}{
		{"body", prog{"main 1 -> f", "f 1"}, prog{"main 1 -> f", "f 2"}, false},
		{"unreachable", prog{"main 1 -> f", "f 1 \n g 1"}, prog{"main 1 -> f", "f 1 \n g 2"}, true},
		{"unreachable added", prog{"main 1 -> f", "f 1"}, prog{"main 1 -> f", "f 1 \n g 2 -> f"}, true},
		{"definition appears", prog{"main 1 -> f", "g 1"}, prog{"main 1 -> f", "f 1"}, false},
		{"moved function", prog{"main 1 -> f g", "f 1 -> g \n g 2"}, prog{"main 1 -> f g", "f 1 -> g", "g 2"}, true},
		{"moved into main's file", prog{"main 1 -> f", "f 1"}, prog{"main 1 -> f \n f 1"}, true},
		{"library split", prog{"main 1 -> f", "f 1 -> g \n g 2 -> h \n h 3"}, prog{"main 1 -> f", "h 3", "g 2 -> h", "f 1 -> g"}, true},
		{"local renamed", prog{"main 1 -> x \n static x 2"}, prog{"main 1 -> y \n static y 2"}, true},
		{"order of links", prog{"main 1 -> f g", "f 1 \n g 2"}, prog{"main 1 -> g f", "f 1 \n g 2"}, false},
		{"exchanged definitions", prog{"main 1 -> f g", "f 1 \n g 2"}, prog{"main 1 -> f g", "f 2 \n g 1"}, false},

		// Strongly connected groups.
		// design: m <-> o, o -> k. A change in k must be seen through m.
		{"child of another member", prog{"main 1 -> m", "m 1 -> o \n o 2 -> m k \n k 3"}, prog{"main 1 -> m", "m 1 -> o \n o 2 -> m k \n k 4"}, false},
		{"other member", prog{"main 1 -> m", "m 1 -> o \n o 2 -> m"}, prog{"main 1 -> m", "m 1 -> o \n o 3 -> m"}, false},
		// Same members, same children, other edges: the sorted form can't tell.
		{"members exchange children", prog{"main 1 -> m", "m 1 -> o k \n o 2 -> m l \n k 3 \n l 4"}, prog{"main 1 -> m", "m 1 -> o l \n o 2 -> m k \n k 3 \n l 4"}, false},
		{"entry into a group", prog{"main 1 -> x \n static x 1 -> y \n static y 2 -> x"}, prog{"main 1 -> y \n static x 1 -> y \n static y 2 -> x"}, false},
		{"self reference", prog{"main 1 -> f", "f 1 -> f"}, prog{"main 1 -> f", "f 1"}, false},
		{"group renamed", prog{"main 1 -> x \n static x 1 -> y \n static y 2 -> x"}, prog{"main 1 -> b \n static b 1 -> a \n static a 2 -> b"}, true},
		{"group moved", prog{"main 1 -> m", "m 1 -> o \n o 2 -> m"}, prog{"main 1 -> m", "o 2 -> m", "m 1 -> o"}, true},

		// Sharing.
		{"static variable is split", // moving g takes a copy of x along
			prog{"main 1 -> f g", "f 1 -> x \n g 2 -> x \n static x 3"},
			prog{"main 1 -> f g", "f 1 -> x \n static x 3", "g 2 -> x \n static x 3"}, false},
		{"equal statics are exchanged",
			prog{"main 1 -> f g", "f 1 -> x y \n g 2 -> x y \n static x 3 \n static y 3"},
			prog{"main 1 -> f g", "f 1 -> x y \n g 2 -> y x \n static x 3 \n static y 3"}, false},
		{"equal statics are renamed",
			prog{"main 1 -> f g", "f 1 -> x y \n g 2 -> x y \n static x 3 \n static y 3"},
			prog{"main 1 -> f g", "f 1 -> y x \n g 2 -> y x \n static x 3 \n static y 3"}, true},
		{"header's static function is split",
			prog{"main 1 -> f g", "f 1 -> s \n g 2 -> s \n shared s 3"},
			prog{"main 1 -> f g", "f 1 -> s \n shared s 3", "g 2 -> s \n shared s 3"}, true},
		{"header's recursive static functions are split",
			prog{"main 1 -> f g", "f 1 -> s \n g 2 -> s \n shared s 3 -> t \n shared t 4 -> s"},
			prog{"main 1 -> f g", "f 1 -> s \n shared s 3 -> t \n shared t 4 -> s", "g 2 -> s \n shared s 3 -> t \n shared t 4 -> s"}, true},
		{"header's static function with a static variable is split",
			prog{"main 1 -> f g", "f 1 -> s \n g 2 -> s \n shared s 3 -> n \n static n 4"},
			prog{"main 1 -> f g", "f 1 -> s \n shared s 3 -> n \n static n 4", "g 2 -> s \n shared s 3 -> n \n static n 4"}, false},
		{"header's functions around a static variable are split",
			prog{"main 1 -> f g", "f 1 -> r \n g 2 -> r \n shared r 5 -> s \n shared s 3 -> n \n static n 4"},
			prog{"main 1 -> f g", "f 1 -> r \n shared r 5 -> s \n shared s 3 -> n \n static n 4", "g 2 -> r \n shared r 5 -> s \n shared s 3 -> n \n static n 4"}, false},
		{"twins outside the closure",
			prog{"main 1 -> f", "f 1 -> x \n static x 3"},
			prog{"main 1 -> f", "f 1 -> x \n static x 3", "g 2 -> x \n static x 3"}, true},

		// Several definitions.
		{"copy of an inline function",
			prog{"main 1 -> f w \n weak w 5", "f 1"},
			prog{"main 1 -> f w \n weak w 5", "f 1 -> w \n weak w 5"}, false}, // f links to it now
		{"copy of an inline function that nobody here needs",
			prog{"main 1 -> f w \n weak w 5", "f 1"},
			prog{"main 1 -> f w \n weak w 5", "f 1 \n weak w 5"}, true},
		{"copies refer to copies",
			prog{"main 1 -> v \n weak v 5 -> w \n weak w 6 -> v", "f 1"},
			prog{"main 1 -> v \n weak v 5 -> w \n weak w 6 -> v", "weak v 5 -> w \n weak w 6 -> v \n f 1"}, true},
		{"weak default is overridden", prog{"main 1 -> w", "weak w 5"}, prog{"main 1 -> w", "weak w 5", "w 6"}, false},
		{"overriding definition changes", prog{"main 1 -> w", "weak w 5", "w 6"}, prog{"main 1 -> w", "weak w 5", "w 7"}, false},
		{"weak default changes", prog{"main 1 -> w", "weak w 5", "w 6"}, prog{"main 1 -> w", "weak w 7", "w 6"}, false},
		{"order of definitions", prog{"main 1 -> w", "weak w 5", "weak w 6"}, prog{"main 1 -> w", "weak w 6", "weak w 5"}, false},
		{"overridden in its own file", prog{"main 1 -> w \n weak w 5", "w 6"}, prog{"main 1 -> w \n weak w 5", "w 7"}, false},
		{"inlined definition", // main has seen one, then the other body of w
			prog{"main 1 -> w \n weak w 5", "weak w 6"}, prog{"main 1 -> w", "weak w 5", "weak w 6"}, false},
		{"members of one archive are grouped differently",
			prog{"main 1 -> w v", "weak w 5", "weak w 6 \n v 1"}, prog{"main 1 -> w v", "weak w 5 \n v 1", "weak w 6"}, false},
		{"weak becomes strong", prog{"main 1 -> w", "weak w 5"}, prog{"main 1 -> w", "w 5"}, false},
		{"local doesn't resolve", prog{"main 1 -> s", "static s 1"}, prog{"main 1 -> s", "static s 2"}, true},

		// Roots.
		{"constructor", prog{"main 1", "root static c 1"}, prog{"main 1", "root static c 2"}, false},
		{"constructor's callee", prog{"main 1", "root static c 1 -> f \n f 1"}, prog{"main 1", "root static c 1 -> f \n f 2"}, false},
		{"order of constructors", prog{"main 1", "root static c 1", "root static d 2"}, prog{"main 1", "root static d 2", "root static c 1"}, false},
		{"order of files without roots", prog{"main 1 -> f", "root static c 1", "f 1"}, prog{"f 1", "root static c 1", "main 1 -> f"}, true},
		{"two equal constructors", prog{"main 1", "root static c 1"}, prog{"main 1", "root static c 1", "root static c 1"}, false},
		{"root is defined", prog{"f 1"}, prog{"main 1 \n f 1"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			load := func(p prog) (s []Source) {
				for i, text := range p {
					s = append(s, tu(t, fmt.Sprint("tu", i), text))
				}
				return s
			}
			if same := codeHash(load(tc.a)...) == codeHash(load(tc.b)...); same != tc.same {
				t.Errorf("same hash: %v, want %v", same, tc.same)
			}
		})
	}
}

// All members of a group share one global hash.
func TestGroupSharesHash(t *testing.T) {
	g := New([]Source{tu(t, "a", "main 1 -> m \n m 1 -> o \n o 2 -> m k \n k 3")})
	global := map[string]Hash{}
	for _, m := range g.Closure(Roots{Symbols: []string{"main"}}).Members() {
		global[m.Component.Name] = m.Global
	}
	if global["m"] != global["o"] {
		t.Error("m and o reach each other but have different global hashes")
	}
	if global["m"] == global["k"] || global["m"] == global["main"] {
		t.Error("different components have the same global hash")
	}
}

func TestManyRootSetsOneGraph(t *testing.T) {
	s := []Source{tu(t, "a", "t1 1 -> f \n t2 2 -> g"), tu(t, "b", "f 1 -> h \n g 2 -> h \n h 3")}
	g := New(s)
	for _, root := range []string{"t1", "t2", "h"} {
		if got, want := g.Closure(Roots{Symbols: []string{root}}).Hash(), New(s).Closure(Roots{Symbols: []string{root}}).Hash(); got != want {
			t.Errorf("root %s: %x in a shared graph, %x alone", root, got, want)
		}
	}
	if g.Closure(Roots{Symbols: []string{"t1"}}).Hash() == g.Closure(Roots{Symbols: []string{"t2"}}).Hash() {
		t.Error("t1 and t2 have the same hash")
	}
}

func TestExported(t *testing.T) {
	a := New([]Source{tu(t, "a", "main 1"), tu(t, "b", "plugin 1")})
	b := New([]Source{tu(t, "a", "main 1"), tu(t, "b", "plugin 2")})
	hash := func(g *Graph, exported bool) Hash {
		return g.Closure(Roots{Symbols: []string{"main"}, Exported: exported}).Hash()
	}
	if hash(a, false) != hash(b, false) {
		t.Error("an unreachable function counts")
	}
	if hash(a, true) == hash(b, true) {
		t.Error("an exported function doesn't count")
	}
}

func TestMembers(t *testing.T) {
	g := New([]Source{
		tu(t, "a", "main 1 -> f x \n static x 2"),
		tu(t, "b", "f 1 -> x gone \n static x 2 \n root static c 3 \n dead 4"),
	})
	var got []string
	members := g.Closure(Roots{Symbols: []string{"main", "nowhere"}}).Members()
	for _, m := range members {
		var links []string
		for _, l := range m.Links {
			links = append(links, members[l].Source+"/"+members[l].Component.Name)
		}
		got = append(got, fmt.Sprint(m.Source, "/", m.Component.Name, m.Roots, links))
	}
	want := []string{"a/main[main] [b/f a/x]", "b/c[constructor] []", "b/f[] [b/x]", "a/x[] []", "b/x[] []"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// program is a random program for the comparison with a plain reference.
type program struct {
	files [][]comp
}

type comp struct {
	name, hash   string
	static, root bool
	weak         bool
	links        []string
}

// newProgram makes a small program from choices: few components with few
// different hashes, so that equal ones are frequent. Definitions of one symbol
// never have equal hashes: copies are the one thing that the reference doesn't
// know about.
func newProgram(choose func(n int) int) program {
	p := program{files: make([][]comp, 1+choose(3))}
	externals := []string{"main", "f", "g"}
	statics := []string{"x", "y"}
	for i := range p.files {
		for _, e := range externals {
			if choose(3) == 0 || i == 0 && e == "main" {
				hash := fmt.Sprint(i*2 + choose(2))
				if len(p.files) == 1 {
					hash = fmt.Sprint(choose(2))
				}
				p.files[i] = append(p.files[i], comp{name: e, hash: hash, weak: choose(4) == 0})
			}
		}
		for _, s := range statics {
			if choose(2) == 0 {
				root := !slices.ContainsFunc(p.files[i], func(c comp) bool { return c.root }) && choose(4) == 0
				p.files[i] = append(p.files[i], comp{name: s, hash: fmt.Sprint(choose(2)), static: true, root: root})
			}
		}
		for k := range p.files[i] {
			for range choose(3) {
				to := append(slices.Clone(externals), statics...)[choose(5)]
				if !slices.Contains(p.files[i][k].links, to) {
					p.files[i][k].links = append(p.files[i][k].links, to)
				}
			}
		}
	}
	return p
}

func (p program) sources(t testing.TB) (s []Source) {
	for i, f := range p.files {
		var b strings.Builder
		for _, c := range f {
			if c.static {
				b.WriteString("static ")
			}
			if c.weak {
				b.WriteString("weak ")
			}
			if c.root {
				b.WriteString("root ")
			}
			fmt.Fprintln(&b, c.name, c.hash, "->", strings.Join(c.links, " "))
		}
		s = append(s, tu(t, fmt.Sprint(i), b.String()))
	}
	return s
}

// resolve is the reference for resolution: definitions of name as seen from a
// file, own first.
func (p program) resolve(file int, name string) (defs [][2]int) {
	static := false
	for k, c := range p.files[file] {
		if c.name == name {
			defs = append(defs, [2]int{file, k})
			static = c.static
		}
	}
	for i, f := range p.files {
		for k, c := range f {
			if c.name == name && !c.static && !static && !slices.Contains(defs, [2]int{i, k}) {
				defs = append(defs, [2]int{i, k})
			}
		}
	}
	return defs
}

// exact is the reference for identity: the closure written down in full, and
// the placement of all definitions if some link has several.
func (p program) exact() string {
	var b strings.Builder
	number := map[[2]int]int{}
	var order [][2]int
	ambiguous := false
	refer := func(defs [][2]int) {
		ambiguous = ambiguous || len(defs) > 1
		b.WriteString("(")
		for _, d := range defs {
			n, ok := number[d]
			if !ok {
				n = len(order)
				number[d] = n
				order = append(order, d)
			}
			fmt.Fprint(&b, n, " ")
		}
		b.WriteString(")")
	}
	var mains, roots [][2]int
	for i, f := range p.files {
		for k, c := range f {
			if c.name == "main" {
				mains = append(mains, [2]int{i, k})
			}
			if c.root {
				roots = append(roots, [2]int{i, k})
			}
		}
	}
	refer(mains)
	for _, r := range roots {
		refer([][2]int{r})
	}
	for i := 0; i < len(order); i++ {
		c := p.files[order[i][0]][order[i][1]]
		name := c.name
		if c.static {
			name = ""
		}
		fmt.Fprintf(&b, "\n%d %s %s %v:", i, name, c.hash, c.weak)
		for _, l := range c.links {
			refer(p.resolve(order[i][0], l))
		}
	}
	if ambiguous {
		for _, f := range p.files {
			var defs, needs []string
			for _, c := range f {
				if !c.static {
					defs = append(defs, fmt.Sprint(c.name, c.weak))
				}
				for _, l := range c.links {
					if !slices.ContainsFunc(f, func(c comp) bool { return c.name == l }) {
						needs = append(needs, l)
					}
				}
			}
			slices.Sort(defs)
			slices.Sort(needs)
			fmt.Fprint(&b, "\nfile ", defs, slices.Compact(needs))
		}
	}
	return b.String()
}

// The hash and the exact description agree about which programs are equal.
// Ties in a group are broken by names: there the hash may distinguish more, so
// that the test demands one direction always and counts the exceptions of the
// other. A file has one root at most: the reference knows nothing of their order.
func TestHashIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	byHash := map[Hash]string{}
	byExact := map[string]Hash{}
	n, repeated, finer := 60000, 0, 0
	for range n {
		p := newProgram(r.IntN)
		e, h := p.exact(), codeHash(p.sources(t)...)
		if other, ok := byHash[h]; ok {
			repeated++
			if other != e {
				t.Fatalf("two programs have one hash:\n%s\n--\n%s", e, other)
			}
		}
		byHash[h] = e
		if other, ok := byExact[e]; ok && other != h {
			finer++
		}
		byExact[e] = h
	}
	if repeated < n/10 {
		t.Errorf("only %d of %d programs were met twice: the test proves little", repeated, n)
	}
	if finer > n/200 {
		t.Errorf("%d of %d equal programs have different hashes", finer, n)
	}
	t.Logf("%d programs, %d met again, %d told apart needlessly", n, repeated, finer)
}

// Renaming locals, reordering components and changing what is unreachable
// keep the hash; changing any reachable local hash changes it.
func TestInvariance(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		p := newProgram(r.IntN)
		s := p.sources(t)
		want := codeHash(s...)

		shuffled := program{files: make([][]comp, len(p.files))}
		for i, f := range p.files {
			shuffled.files[i] = slices.Clone(f)
			r.Shuffle(len(f), func(a, b int) {
				shuffled.files[i][a], shuffled.files[i][b] = shuffled.files[i][b], shuffled.files[i][a]
			})
		}
		if got := codeHash(shuffled.sources(t)...); got != want {
			t.Fatalf("order of components counts:\n%s", p.exact())
		}

		closure := New(s).Closure(Roots{Symbols: []string{"main"}})
		reachable := map[string]bool{}
		for _, m := range closure.Members() {
			reachable[m.Source+"/"+m.Component.Name] = true
		}
		for i := range p.files {
			for k := range p.files[i] {
				c := &p.files[i][k]
				old := c.hash
				c.hash = "changed"
				got := codeHash(p.sources(t)...)
				c.hash = old
				if changed := got != want; changed != reachable[fmt.Sprint(i)+"/"+c.name] {
					t.Fatalf("changed %s in file %d: hash changed %v, reachable %v\n%s", c.name, i, changed, !changed, p.exact())
				}
			}
		}
	}
}

func FuzzHash(f *testing.F) {
	f.Add([]byte("0123456789"), []byte("0123456780"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		choices := func(b []byte) func(int) int {
			return func(n int) int {
				if len(b) == 0 {
					return 0
				}
				c := int(b[0]) % n
				b = b[1:]
				return c
			}
		}
		p, q := newProgram(choices(a)), newProgram(choices(b))
		if codeHash(p.sources(t)...) == codeHash(q.sources(t)...) && p.exact() != q.exact() {
			t.Errorf("two programs have one hash:\n%s\n--\n%s", p.exact(), q.exact())
		}
	})
}

// A chain of 300,000 calls must not exhaust the stack.
func TestDeepChain(t *testing.T) {
	g := New([]Source{chain(300_000)})
	if n := len(g.Closure(Roots{Symbols: []string{"main"}}).Members()); n != 300_000 {
		t.Errorf("%d members", n)
	}
}

func chain(n int) Source {
	m := &manifest.Manifest{}
	for i := range n {
		c := &manifest.Component{Name: fmt.Sprintf("f%08d", i), Kind: manifest.Kind_KIND_FUNCTION, Linkage: manifest.Linkage_LINKAGE_EXTERNAL, LocalHash: hash16(fmt.Sprint(i))}
		if i == 0 {
			c.Name = "main"
		}
		if i+1 < n {
			c.Links = []uint32{2 * uint32(i+1)}
		}
		m.Components = append(m.Components, c)
	}
	return Source{"chain", m}
}

// Components per second should not depend on their number.
func BenchmarkNew(b *testing.B) {
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := randomSources(n)
			b.ResetTimer()
			for b.Loop() {
				New(s)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/component")
		})
	}
}

// Further root sets cost next to nothing.
func BenchmarkClosureHash(b *testing.B) {
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			g := New(randomSources(n))
			b.ResetTimer()
			for i := 0; b.Loop(); i++ {
				g.Closure(Roots{Symbols: []string{fmt.Sprintf("f%08d", i%n)}}).Hash()
			}
		})
	}
}

// randomSources makes files of 100 components with 6 links each, a third of
// them to other files; every hundredth link closes a cycle.
func randomSources(n int) []Source {
	r := rand.New(rand.NewPCG(5, 6))
	var out []Source
	for base := 0; base < n; base += 100 {
		m := &manifest.Manifest{}
		symbols := map[string]uint32{}
		for i := range 100 {
			c := &manifest.Component{Name: fmt.Sprintf("f%08d", base+i), Kind: manifest.Kind_KIND_FUNCTION, Linkage: manifest.Linkage_LINKAGE_EXTERNAL, LocalHash: hash16(fmt.Sprint(base + i))}
			for range 6 {
				switch to := base + i + 1 + r.IntN(40); {
				case r.IntN(100) == 0:
					c.Links = append(c.Links, 2*uint32(r.IntN(i+1)))
				case r.IntN(3) == 0 && n > base+200:
					to = base + 100 + r.IntN(n-base-100)
					name := fmt.Sprintf("f%08d", to)
					k, ok := symbols[name]
					if !ok {
						k = uint32(len(m.Symbols))
						symbols[name] = k
						m.Symbols = append(m.Symbols, name)
					}
					c.Links = append(c.Links, 2*k+1)
				case to < base+100:
					c.Links = append(c.Links, 2*uint32(to-base))
				}
			}
			m.Components = append(m.Components, c)
		}
		out = append(out, Source{fmt.Sprint(base), m})
	}
	return out
}
