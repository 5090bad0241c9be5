package refgraph

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/linkmodel"
)

// plain is a program that the reference understands: no archives, no tentative
// or unique definitions, no version scripts.
type plain []plainFile

type plainFile struct {
	bsymbolic bool
	needs     []int
	units     [][]plainComp
}

type plainComp struct {
	name, hash   string
	static, root bool
	weak         bool
	visibility   string // "", "hidden" or "protected"
	group        string
	links        []string
}

func (c plainComp) String() string {
	var words []string
	for _, w := range []struct {
		set  bool
		word string
	}{{c.static, "static"}, {c.weak, "weak"}, {c.root, "root"}, {c.visibility != "", c.visibility}, {c.group != "", "group=" + c.group}} {
		if w.set {
			words = append(words, w.word)
		}
	}
	return strings.Join(append(words, c.name, c.hash, "->", strings.Join(c.links, " ")), " ")
}

func (p plain) prog() prog {
	var out prog
	for i, f := range p {
		if i > 0 {
			words := []string{"lib"}
			if f.bsymbolic {
				words = append(words, "bsymbolic")
			}
			for _, n := range f.needs {
				words = append(words, fmt.Sprint("needs=", n))
			}
			out = append(out, strings.Join(words, " "))
		}
		for _, u := range f.units {
			var lines []string
			for _, c := range u {
				lines = append(lines, c.String())
			}
			out = append(out, strings.Join(lines, "\n"))
		}
	}
	return out
}

func (p plain) hash(t testing.TB) (h Hash, undecided bool) {
	c := p.prog().closure(t)
	return c.Hash, len(c.c.contested) > 0 || len(c.Duplicates) > 0 || c.Unusual != ""
}

// newPlain makes a small program from choices: few components with few different
// hashes, so that equal ones are frequent.
func newPlain(choose func(n int) int) plain {
	one := func(n int) bool { return choose(n) == 0 }
	p := make(plain, 1+choose(4))
	externals, statics := []string{"main", "f", "g"}, []string{"x", "y"}
	for i := range p {
		if i > 0 {
			p[i].bsymbolic = one(5)
			for k := range i {
				if k > 0 && one(6) {
					p[i].needs = append(p[i].needs, k)
				}
			}
			if one(6) { // the same unit as in another file
				other := p[choose(i)].units
				if u := other[choose(len(other))]; !slices.ContainsFunc(u, func(c plainComp) bool { return c.name == "main" }) {
					p[i].units = append(p[i].units, u)
				}
			}
		}
		for k := range 1 + choose(2) {
			var u []plainComp
			rooted := false
			for _, e := range externals {
				if e == "main" && (i > 0 || k > 0) || !one(3) && e != "main" || e == "main" && one(8) {
					continue
				}
				c := plainComp{name: e, hash: fmt.Sprint(choose(2)), weak: one(2)}
				if one(4) {
					c.visibility = []string{"hidden", "hidden", "hidden", "protected"}[choose(4)] // protected: the link is unusual
				}
				if e != "main" && one(4) {
					c.group, c.weak = e, true
				}
				u = append(u, c)
			}
			for _, s := range statics {
				if one(2) {
					c := plainComp{name: s, hash: fmt.Sprint(choose(2)), static: true, root: !rooted && one(4)}
					rooted = rooted || c.root
					if c.root && one(4) {
						c.group = "i"
					}
					u = append(u, c)
				}
			}
			mode := ""
			if one(8) {
				mode = []string{"?", "!"}[choose(2)]
			}
			for j := range u {
				for range choose(3) {
					to := append(slices.Clone(externals), statics...)[choose(5)]
					own := slices.IndexFunc(u, func(c plainComp) bool { return c.name == to })
					switch {
					case own >= 0 && !u[own].static && one(3):
						to = "=" + to
					case own < 0:
						to = mode + to
					}
					if !slices.Contains(u[j].links, to) && !slices.Contains(u[j].links, "="+to) {
						u[j].links = append(u[j].links, to)
					}
				}
			}
			p[i].units = append(p[i].units, u)
		}
	}
	return p
}

// at is the place of a component: file, unit, number.
type at [3]int

func (p plain) comp(a at) plainComp { return p[a[0]].units[a[1]][a[2]] }

// discarded says whether the linker drops a component because the file has its
// group already.
func (p plain) discarded(a at) bool {
	group := p.comp(a).group
	for _, u := range p[a[0]].units[:a[1]] {
		if group != "" && slices.ContainsFunc(u, func(c plainComp) bool { return c.group == group }) {
			return true
		}
	}
	return false
}

// winner is the definition of a symbol in a file, and the visibility that all
// its mentions there give it.
func (p plain) winner(file int, name string) (found bool, d at, visibility string) {
	worse := func(v string) {
		if v == "hidden" || v == "protected" && visibility == "" {
			visibility = v
		}
	}
	for i, u := range p[file].units {
		for k, c := range u {
			if c.name == name && !c.static {
				worse(c.visibility)
				if a := (at{file, i, k}); !p.discarded(a) && (!found || p.comp(d).weak && !c.weak) {
					found, d = true, a
				}
			}
			defined := slices.ContainsFunc(u, func(c plainComp) bool { return c.name == name })
			if slices.Contains(c.links, "!"+name) && !defined {
				worse("hidden")
			}
		}
	}
	return found, d, visibility
}

// resolve returns what a link leads to.
func (p plain) resolve(from at, link string) (at, bool) {
	name := strings.TrimLeft(link, "?!=")
	for k, c := range p[from[0]].units[from[1]] {
		if c.name == name && (c.static || link[0] == '=') {
			return at{from[0], from[1], k}, true
		}
	}
	return p.bound(from[0], name)
}

func (p plain) bound(file int, name string) (at, bool) {
	found, d, visibility := p.winner(file, name)
	if visibility != "" || found && p[file].bsymbolic {
		return d, found
	}
	for i := range p {
		if found, d, visibility := p.winner(i, name); found && visibility != "hidden" {
			return d, true
		}
	}
	return at{}, false
}

// initOrder is that of glibc.
func (p plain) initOrder() (order []int) {
	seen := make([]bool, len(p))
	var visit func(i int)
	visit = func(i int) {
		if !seen[i] {
			seen[i] = true
			for _, n := range p[i].needs {
				visit(n)
			}
			order = append(order, i)
		}
	}
	for i := len(p) - 1; i > 0; i-- {
		visit(i)
	}
	return append(order, 0)
}

// exact is the reference for identity: the closure written down in full. What
// runs says only which roots run in which order; the identity of programs has
// them by file, and the libraries that need others if that may matter.
func (p plain) exact(identity bool) string {
	var b strings.Builder
	number := map[at]int{}
	var order []at
	refer := func(d at) {
		n, ok := number[d]
		if !ok {
			n = len(order)
			number[d] = n
			order = append(order, d)
		}
		fmt.Fprint(&b, n, " ")
	}
	if d, ok := p.bound(0, "main"); ok {
		refer(d)
	}
	files := p.initOrder()
	if identity {
		slices.Sort(files)
	}
	for _, i := range files {
		separated := !identity
		for k, u := range p[i].units {
			for j, c := range u {
				if a := (at{i, k, j}); c.root && !p.discarded(a) {
					if !separated {
						b.WriteString("; ")
						if identity && i == 0 {
							b.WriteString("executable ")
						}
						separated = true
					}
					refer(a)
				}
			}
		}
		if identity { // the shape of the link
			fmt.Fprint(&b, "; ", p[i].bsymbolic, p[i].needs, separated)
		}
	}
	for i := 0; i < len(order); i++ {
		c := p.comp(order[i])
		name := c.name
		if c.static {
			name = ""
		}
		fmt.Fprintf(&b, "\n%d %s %s %v:", i, name, c.hash, c.weak)
		for _, l := range c.links {
			b.WriteString(" (")
			if d, ok := p.resolve(order[i], l); ok {
				refer(d)
			}
			b.WriteString(")")
		}
	}
	return b.String()
}

// Equal hashes mean equal programs, and equal programs have equal hashes. Ties in
// a group are broken by names: there the hash may distinguish more, so that the
// test demands one direction always and counts the exceptions of the other.
func TestHashIsExact(t *testing.T) {
	n := 60_000
	if testing.Short() {
		n = 6_000
	}
	r := rand.New(rand.NewPCG(1, 2))
	byHash, byExact := map[Hash]string{}, map[string]Hash{}
	text := map[Hash]prog{}
	repeated, finer, undecided := 0, 0, 0
	for range n {
		p := newPlain(r.IntN)
		runs, e := p.exact(false), p.exact(true)
		h, open := p.hash(t)
		if other, ok := byHash[h]; ok {
			repeated++
			if other != runs {
				t.Fatalf("two programs have one hash:\n%q\n%s\n--\n%q\n%s", p.prog(), runs, text[h], other)
			}
		}
		byHash[h], text[h] = runs, p.prog()
		if open {
			undecided++
			continue
		}
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
	if undecided > n/4 {
		t.Errorf("in %d of %d programs something isn't decided", undecided, n)
	}
	t.Logf("%d programs, %d met again, %d told apart needlessly, %d with something that isn't decided", n, repeated, finer, undecided)
}

// The order of components in a unit doesn't count, nor what is unreachable;
// whatever is reachable does.
func TestInvariance(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		p := newPlain(r.IntN)
		want, open := p.hash(t)
		shuffled := make(plain, len(p))
		for i, f := range p {
			shuffled[i] = f
			shuffled[i].units = nil
			for _, u := range f.units {
				u = slices.Clone(u)
				r.Shuffle(len(u), func(a, b int) { u[a], u[b] = u[b], u[a] })
				shuffled[i].units = append(shuffled[i].units, u)
			}
		}
		if open {
			continue
		}
		if got, _ := shuffled.hash(t); got != want {
			t.Fatalf("order of components counts:\n%q", p.prog())
		}
		pool := NewPool()
		reachable := map[at]bool{}
		linked := p.prog().add(t, pool, nil, linkmodel.GNU)
		closure := pool.NewComposer().Compose(linked, Roots{Symbols: []string{"main"}})
		place := map[int32]at{}
		u := int32(0)
		for i, f := range p {
			for k := range f.units {
				place[u] = at{i, k}
				u++
			}
		}
		for _, m := range closure.Members() {
			a := place[m.Unit]
			name := pool.units[m.Unit].comps[m.Component].name
			a[2] = slices.IndexFunc(p[a[0]].units[a[1]], func(c plainComp) bool { return c.name == name })
			reachable[a] = true
		}
		for i, f := range p {
			for k, unit := range f.units {
				for j := range unit {
					changed := slices.Clone(p)
					changed[i].units = slices.Clone(f.units)
					changed[i].units[k] = slices.Clone(unit)
					changed[i].units[k][j].hash = "changed"
					got, _ := changed.hash(t)
					if (got != want) != reachable[at{i, k, j}] {
						t.Fatalf("changed %s in file %d: hash changed %v, reachable %v\n%q", unit[j].name, i, got != want, reachable[at{i, k, j}], p.prog())
					}
				}
			}
		}
	}
}

func FuzzHash(f *testing.F) {
	f.Add([]byte("0123456789"), []byte("0123456780"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		p, q := newPlain(choices(a)), newPlain(choices(b))
		x, _ := p.hash(t)
		y, _ := q.hash(t)
		if x == y && p.exact(false) != q.exact(false) {
			t.Errorf("two programs have one hash:\n%s\n--\n%s", p.exact(false), q.exact(false))
		}
	})
}

// choices makes choices from bytes.
func choices(b []byte) func(int) int {
	return func(n int) int {
		if len(b) == 0 {
			return 0
		}
		c := int(b[0]) % n
		b = b[1:]
		return c
	}
}

// newInvocation makes units, and programs of some of them, with all that there
// is: archives, doubts, tentative, unique and versioned definitions, look-ups,
// twins, cycles, several copies.
func newInvocation(choose func(n int) int) (programs []prog) {
	one := func(n int) bool { return choose(n) == 0 }
	if one(2) {
		return newLibraries(choose)
	}
	externals := []string{"main", "f", "g", "h", "w", "v", "h@V"}
	locals := []string{"x", "y", "z"}
	var units []string
	for range 2 + choose(7) {
		var b strings.Builder
		component := func(name string) {
			fmt.Fprint(&b, name, " ", choose(2), " ->")
			links := append(slices.Clone(externals), locals...)
			if one(20) {
				links = append(links, "dlsym")
			}
			seen := map[string]bool{}
			for range choose(4) {
				l := links[choose(len(links))]
				if !seen[l] {
					seen[l] = true
					b.WriteString(" " + []string{"", "", "", "?", "!", "="}[choose(6)] + l)
				}
			}
			b.WriteString("\n")
		}
		for _, e := range externals {
			if !one(3) {
				continue
			}
			b.WriteString([]string{"", "", "weak ", "weak ", "weak ", "unique ", "common "}[choose(7)])
			b.WriteString([]string{"", "", "", "hidden ", "protected "}[choose(5)])
			if one(4) {
				b.WriteString("group=" + e + " ")
			}
			if one(12) {
				b.WriteString("root ")
			}
			component(e)
		}
		for _, l := range locals {
			if one(2) {
				b.WriteString([]string{"static ", "static ", "root static ", "root static group=i "}[choose(4)])
				component(l)
			}
		}
		if !slices.Contains(units, b.String()) {
			units = append(units, b.String())
		}
	}
	for range 1 + choose(6) {
		var p prog
		lib, lazy := 0, false
		for range 1 + choose(8) {
			switch choose(8) {
			case 0, 1:
				if lib < 4 {
					lib++
					lazy = false
					p = append(p, []string{"lib", "lib", "lib", "lib bsymbolic", "lib uncertain"}[choose(5)])
					if lib > 1 && one(4) {
						p[len(p)-1] += fmt.Sprint(" needs=", 1+choose(lib-1))
					}
					if lib > 1 && one(6) {
						p[len(p)-1] += " indirect"
					}
				}
			case 2:
				lazy = !lazy
				p = append(p, map[bool]string{true: "archive", false: "end"}[lazy])
			}
			p = append(p, units[choose(len(units))])
		}
		programs = append(programs, p)
	}
	return programs
}

// newLibraries makes units that many programs have in common: functions that refer to each other, in cycles as well,
// with copies of inline functions that may be compiled differently; and programs of them in which some are replaced.
func newLibraries(choose func(n int) int) (programs []prog) {
	one := func(n int) bool { return choose(n) == 0 }
	names, inline := []string{"f", "g", "h", "v", "a", "b"}, []string{"i", "j"}
	links := func(n int) string {
		var b strings.Builder
		for range choose(n) {
			b.WriteString(" " + []string{"", "", "", "="}[choose(4)] + append(names, inline...)[choose(len(names)+len(inline))])
		}
		return b.String()
	}
	content := map[string]string{}
	for _, i := range inline {
		content[i] = links(4)
	}
	var units []string
	for _, n := range names {
		var b strings.Builder
		fmt.Fprintf(&b, "%s 1 ->%s x\n", n, links(4))
		fmt.Fprintf(&b, "static x %d ->%s\n", choose(2), []string{"", "", " " + n, " =" + n, " y\nstatic y 1 -> x"}[choose(5)])
		for _, i := range inline {
			if one(2) {
				fmt.Fprintf(&b, "weak group=%s %s %d ->%s\n", i, i, choose(12)/11, content[i])
			}
		}
		units = append(units, b.String())
	}
	for range 2 + choose(4) {
		p := prog{"main 1 ->" + links(4) + []string{" backtrace_full", "", "", "", "", ""}[choose(6)]}
		if one(2) {
			i := inline[choose(2)]
			p[0] += fmt.Sprintf("\nweak group=%s %s 0 ->%s", i, i, content[i])
		}
		if one(5) {
			p[0] += "\n" + names[choose(len(names))] + " 2 ->" + links(2) // instead of a library's
		}
		for _, k := range []int{0, 1, 2, 3, 4, 5} {
			if one(6) {
				p = append(p, "lib")
			}
			if !one(8) && !strings.Contains(p[0], "\n"+names[k]+" ") {
				p = append(p, units[k])
			}
		}
		programs = append(programs, p)
	}
	return programs
}

type invocationStats struct{ programs, contested, unusual int }

func checkInvocation(t testing.TB, choose func(n int) int, stats *invocationStats) {
	t.Helper()
	programs := newInvocation(choose)
	linker := linkmodel.Linker(choose(3))
	pool, known := NewPool(), map[string]int32{}
	var linked []*linkmodel.Program
	for _, p := range programs {
		linked = append(linked, p.add(t, pool, known, linker))
	}
	roots := func(pool *Pool) Roots {
		return Roots{Symbols: []string{"main", "f"}, Overrides: pool.Defined([]string{"h", "nowhere", "v"})}
	}
	composer := pool.NewComposer()
	for i, p := range linked {
		if s := pool.Symbols.Lookup("main"); s != linkmodel.None { // known from the start, as in an invocation
			p.Needs = []linkmodel.Symbol{s}
		}
		alone := NewPool()
		q := programs[i].add(t, alone, map[string]int32{}, linker)
		want := alone.NewComposer().Compose(q, roots(alone))
		members := membersOf(want)
		for k := range min(i, 3) + 2 {
			if k > 0 {
				composer.Compose(linked[choose(i+1)], roots(pool))
			}
			got := composer.Compose(p, roots(pool))
			if got.Hash != want.Hash || got.Unusual != want.Unusual || !slices.Equal(got.Unresolved, want.Unresolved) || !slices.Equal(got.Duplicates, want.Duplicates) {
				t.Errorf("program %d: hash %x, unknown %q, unresolved %q, duplicates %q; alone %x, %q, %q, %q\n%q", i,
					got.Hash[:4], got.Unusual, got.Unresolved, got.Duplicates, want.Hash[:4], want.Unusual, want.Unresolved, want.Duplicates, programs[i])
			}
			if !cmp.Equal(membersOf(got), members) {
				t.Errorf("program %d: members that aren't those of the program alone:\n%s\n%q", i, cmp.Diff(members, membersOf(got)), programs[i])
			}
		}
		stats.programs++
		if len(want.c.contested) > 0 {
			stats.contested++
		}
		if want.Unusual != "" {
			stats.unusual++
		}
	}
}

// membersOf returns the members of a closure without what is a pool's.
func membersOf(x *Closure) []Member {
	list := x.Members()
	for i := range list {
		list[i].Unit = 0
	}
	return list
}

// A program's hash doesn't depend on what was composed before, nor on what else
// is in the pool.
func TestIndependent(t *testing.T) {
	n := 5_000
	if testing.Short() {
		n = 600
	}
	r := rand.New(rand.NewPCG(7, 8))
	var stats invocationStats
	for i := range n {
		if checkInvocation(t, r.IntN, &stats); t.Failed() {
			t.Fatal("invocation ", i)
		}
	}
	t.Logf("%+v", stats)
	if stats.contested < stats.programs/10 || stats.unusual < stats.programs/20 || stats.contested > stats.programs*9/10 || stats.unusual > stats.programs*9/10 {
		t.Error("the programs don't cover what they are to cover")
	}
}

func FuzzIndependent(f *testing.F) {
	f.Add([]byte("012345678901234567890123456789"))
	f.Fuzz(func(t *testing.T, b []byte) {
		checkInvocation(t, choices(b), new(invocationStats))
	})
}
