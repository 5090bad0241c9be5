// Package canonical compares the walk of refgraph with the canonical form that proofs/ proves to be complete and sound.
//
// A generator makes small programs. refgraph hashes each of them. The program that is extracted from the proof writes down
// the canonical form of each of them. Both must agree for all pairs: equal hashes exactly if the forms are equal.
//
// What the generator decides itself is the link: which definition a symbol is bound to. The proof has an arbitrary binding.
package canonical

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/refgraph"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/linkmodel"
)

var (
	proven = flag.String("proven", "", "the program that is extracted from the proof")
	count  = flag.Int("programs", 100_000, "how many programs are compared by -proven")
	update = flag.Bool("update", false, "write testdata/classes.txt from what -proven says")
)

// A program is one executable.
type program struct {
	units [][]component
	// idle has the names of functions that an execution didn't enter, if the program is traced.
	traced bool
	idle   []string
}

type component struct {
	name     string
	symbol   bool // others may refer to it
	weak     bool
	function bool
	root     bool // it is one by itself
	set      string
	content  int
	links    []link
}

// A link is to a component of the unit by its index, or to a symbol.
type link struct {
	own    int
	symbol string
}

func clone(p program) program {
	p.units = slices.Clone(p.units)
	for i, u := range p.units {
		p.units[i] = slices.Clone(u)
		for k := range u {
			p.units[i][k].links = slices.Clone(u[k].links)
		}
	}
	p.idle = slices.Clone(p.idle)
	return p
}

var symbols = []string{"f", "g", "h", "undefined", "__start_set", "__stop_set"}

type chooser struct{ *rand.Rand }

func (r chooser) one(n int) bool { return r.IntN(n) == 0 }

func (r chooser) link(unit []component) link {
	if r.one(2) {
		return link{own: r.IntN(len(unit))}
	}
	return link{symbol: symbols[r.IntN(len(symbols))]}
}

// generate makes programs of few components with few different contents, so that equal ones are frequent. Every second one is
// an edit of an earlier one.
func generate(n int) []program {
	r := chooser{rand.New(rand.NewPCG(55, 9))}
	var list []program
	for len(list) < n {
		p := r.program()
		if len(list) > 0 && r.one(2) {
			p = clone(list[max(0, len(list)-1-r.IntN(50))])
			for range 1 + r.IntN(2) {
				r.edit(&p)
			}
		}
		if p.usual() {
			list = append(list, p)
		}
	}
	return list
}

func (r chooser) program() program {
	var p program
	defined := map[string]bool{}
	most := 3
	if r.one(10) {
		most = 12
	}
	for i := range 1 + r.IntN(3) {
		var u []component
		if i == 0 {
			u = append(u, component{name: "main", symbol: true, function: true})
		}
		for _, s := range symbols[:3] {
			if r.one(2) {
				c := component{name: s, symbol: true, weak: r.one(2), function: !r.one(3), content: r.IntN(2)}
				c.weak = c.weak || defined[s] // two strong definitions are an error
				defined[s] = defined[s] || !c.weak
				u = append(u, c)
			}
		}
		for k := range 1 + r.IntN(most) {
			u = append(u, component{name: fmt.Sprint("local", k), function: !r.one(3), content: r.IntN(2)})
		}
		switch k := len(u) - 1; r.IntN(4) { // one at most: the order of several in a unit is that of their hashes
		case 0:
			u[k].root = true
		case 1:
			u[k].set = "set"
		}
		for k := range u {
			for range r.IntN(4) {
				u[k].links = append(u[k].links, r.link(u))
			}
		}
		p.units = append(p.units, u)
	}
	if p.traced = r.one(3); p.traced {
		for _, name := range []string{"f", "g", "h", "local0", "local1", "local2"} {
			if r.one(2) {
				p.idle = append(p.idle, name)
			}
		}
	}
	return p
}

// edit changes a program. Many edits don't change what is reached.
func (r chooser) edit(p *program) {
	i := r.IntN(len(p.units))
	u := p.units[i]
	c := &u[r.IntN(len(u))]
	switch r.IntN(10) {
	case 0:
		c.content = 1 - c.content
	case 1, 7, 8:
		if len(c.links) > 0 {
			c.links[r.IntN(len(c.links))] = r.link(u)
		}
	case 2:
		if len(c.links) > 1 {
			c.links[0], c.links[1] = c.links[1], c.links[0]
		}
	case 3:
		if !c.symbol {
			c.name += "renamed"
		}
	case 4: // another order of components
		order := r.Perm(len(u))
		moved := make([]component, len(u))
		for from, to := range order {
			moved[to] = u[from]
			for k, l := range moved[to].links {
				if l.symbol == "" {
					moved[to].links[k].own = order[l.own]
				}
			}
		}
		p.units[i] = moved
	case 5: // what nobody refers to
		p.units[i] = append(u, component{name: "added", function: true, content: r.IntN(2)})
	case 9: // another component is in the set
		for k := range u {
			for _, other := range p.units {
				last := &other[len(other)-1]
				if (u[k].root || u[k].set != "") && (last.root || last.set != "") {
					u[k].root, u[k].set, last.root, last.set = last.root, last.set, u[k].root, u[k].set
				}
			}
		}
	case 6: // another order of units
		if k := r.IntN(len(p.units)); i > 0 && k > 0 {
			p.units[i], p.units[k] = p.units[k], p.units[i]
		}
	}
}

// usual reports whether nothing but the walk tells two such programs apart. A set of one component is a case of its own: refgraph
// writes that its reference might have several targets.
func (p program) usual() bool {
	sets := 0
	for _, u := range p.units {
		for _, c := range u {
			if c.set != "" {
				sets++
			}
		}
	}
	return sets != 1
}

// manifest returns the manifest of a unit.
func unitOf(u []component) *manifest.Manifest {
	m := &manifest.Manifest{Rung: manifest.Rung_RUNG_OBJECT, Units: []*manifest.Unit{{Exact: true}}}
	numbers := map[string]int{}
	for _, c := range u {
		x := &manifest.Component{Name: c.name, Kind: manifest.Kind_KIND_VARIABLE, Linkage: manifest.Linkage_LINKAGE_LOCAL, LocalHash: fmt.Appendf(nil, "%016d", c.content)}
		if c.function {
			x.Kind, x.Entries = manifest.Kind_KIND_FUNCTION, []string{c.name}
		}
		if c.symbol {
			d := &manifest.Definition{Name: c.name, Binding: manifest.Binding_BINDING_GLOBAL}
			x.Linkage = manifest.Linkage_LINKAGE_EXTERNAL
			if c.weak {
				x.Linkage, d.Binding = manifest.Linkage_LINKAGE_WEAK, manifest.Binding_BINDING_WEAK
			}
			x.Definitions = append(x.Definitions, d)
		}
		if c.root {
			x.Root = "constructor"
		}
		if c.set != "" {
			x.Root = refgraph.LinkerSet + c.set
		}
		for _, l := range c.links {
			if l.symbol == "" {
				x.Links = append(x.Links, uint32(2*l.own))
				continue
			}
			n, ok := numbers[l.symbol]
			if !ok {
				n = len(m.Symbols)
				numbers[l.symbol] = n
				m.Symbols = append(m.Symbols, l.symbol)
				if !slices.ContainsFunc(u, func(c component) bool { return c.symbol && c.name == l.symbol }) {
					m.Units[0].References = append(m.Units[0].References, &manifest.Reference{Name: l.symbol})
				}
			}
			x.Links = append(x.Links, uint32(2*n+1))
		}
		m.Components = append(m.Components, x)
	}
	return m
}

// hash returns what refgraph makes of a program.
func (p program) hash(t *testing.T) refgraph.Hash {
	pool := refgraph.NewPool()
	x := &linkmodel.Program{Files: []linkmodel.File{{Name: "executable"}}}
	for _, u := range p.units {
		x.Files[0].Entries = append(x.Files[0].Entries, linkmodel.Entry{Unit: pool.Add(unitOf(u))[0]})
	}
	roots := refgraph.Roots{Symbols: []string{"main"}, System: func(string) string { return "" }}
	if p.traced {
		roots.Idle = map[string]bool{}
		for _, name := range p.idle {
			roots.Idle[name] = true
		}
	}
	closure := pool.NewComposer().Compose(x, roots)
	if closure.Unusual != "" || len(closure.Duplicates) > 0 {
		t.Fatalf("%s, %q: %+v", closure.Unusual, closure.Duplicates, p)
	}
	return closure.Hash
}

// at is a component: its unit and its index there.
type at struct{ unit, index int }

// taken returns the component that the linker takes for a symbol: the first strong definition, or else the first weak one.
func (p program) taken(symbol string) (found at, ok bool) {
	weak := false
	for i, u := range p.units {
		for k, c := range u {
			if c.symbol && c.name == symbol && (!ok || weak && !c.weak) {
				found, ok, weak = at{i, k}, true, c.weak
			}
		}
	}
	return found, ok
}

// write appends what main.ml of proofs/ reads of a program.
func (p program) write(b []byte, name func(string) int) []byte {
	number := func(n int) { b = strconv.AppendInt(append(b, ' '), int64(n), 10) }
	nodes := map[at]int{}
	var self, set []int
	for i, u := range p.units {
		for k, c := range u {
			n := len(nodes)
			nodes[at{i, k}] = n
			if c.root || c.set != "" {
				self = append(self, n)
			}
			if c.set != "" {
				set = append(set, n)
			}
		}
	}
	list := func(l []int) {
		number(len(l))
		for _, n := range l {
			number(n)
		}
	}
	names := func(on bool, s string) {
		if !on {
			number(0)
			return
		}
		list([]int{name(s)})
	}
	bool := func(on bool) int {
		if on {
			return 1
		}
		return 0
	}
	number(bool(p.traced))
	number(len(nodes))
	for i, u := range p.units {
		for k, c := range u {
			number(4*bool(c.function) + 2*bool(c.symbol) + bool(c.weak))
			names(c.symbol, c.name)
			names(c.function, c.name)
			number(c.content)
			taken, _ := p.taken(c.name)
			idle := p.traced && c.function && slices.Contains(p.idle, c.name)
			number(bool(idle && !c.root && c.set == "" && (!c.symbol || taken == at{i, k}))) // whether it is a stub
			number(len(c.links))
			for _, l := range c.links {
				switch to, ok := p.taken(l.symbol); {
				case l.symbol == "":
					list([]int{nodes[at{i, l.own}]})
				case strings.HasSuffix(l.symbol, "_set"):
					list(set)
				case ok:
					list([]int{nodes[to]})
				default:
					number(0)
				}
			}
		}
	}
	number(2)
	number(name("main"))
	main, _ := p.taken("main")
	list([]int{nodes[main]})
	number(name("initialisers"))
	list(self)
	return append(b, '\n')
}

// sample is how many programs are compared without the proof.
const sample = 3000

// classes runs the program of the proof: for each program, which is the first that equals it.
func classes(t *testing.T, programs []program) []int {
	t.Helper()
	known := map[string]int{}
	name := func(s string) int {
		if _, ok := known[s]; !ok {
			known[s] = len(known)
		}
		return known[s]
	}
	b := strconv.AppendInt(nil, int64(len(programs)), 10)
	for _, p := range programs {
		b = p.write(b, name)
	}
	cmd := exec.Command(*proven)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(b), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(out))
}

func parse(t *testing.T, text string) (list []int) {
	t.Helper()
	for _, word := range strings.Fields(text) {
		n, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, n)
	}
	return list
}

// compare fails if refgraph's hashes and the proof's classes differ for any pair of programs.
func compare(t *testing.T, programs []program, want []int) {
	t.Helper()
	if len(want) != len(programs) {
		t.Fatalf("%d classes of %d programs", len(want), len(programs))
	}
	first := map[refgraph.Hash]int{}
	repeated := 0
	for i, p := range programs {
		h := p.hash(t)
		k, ok := first[h]
		if !ok {
			k = i
			first[h] = i
		} else {
			repeated++
		}
		if k != want[i] {
			t.Fatalf("program %d equals %d by its hash, and %d by its canonical form:\n%+v\n%+v\n%+v", i, k, want[i], p, programs[k], programs[want[i]])
		}
	}
	t.Logf("%d programs, %d different ones: no pair differs", len(programs), len(first))
	if repeated < len(programs)/10 || len(first) < len(programs)/10 {
		t.Errorf("only %d of %d programs were met twice: the test proves little", repeated, len(programs))
	}
}

// The first programs, with what the proof says of them.
func TestSample(t *testing.T) {
	b, err := os.ReadFile("testdata/classes.txt")
	if err != nil {
		t.Fatal(err)
	}
	compare(t, generate(sample), parse(t, string(b)))
}

// All programs: proofs/check.sh runs this.
func TestProven(t *testing.T) {
	if *proven == "" {
		t.Skip("no -proven")
	}
	programs := generate(*count)
	want := classes(t, programs)
	compare(t, programs, want)
	if *update {
		if err := os.WriteFile("testdata/classes.txt", []byte(strings.Trim(fmt.Sprint(want[:sample]), "[]")+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}
