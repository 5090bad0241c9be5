package refgraph

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/symname"
)

// Cases
//
// GoogleTest makes each test case by a factory, whose CreateTest is called for the cases that a filter selects, and for no
// others. The closure of a case is the test's closure in which the factories of all other cases are stubs. What can't be
// attributed to a factory (main, listeners, environments, registration, SetUpTestSuite, a case that is registered by hand) is
// in the closure of every case.
//
// The walk is shared: it begins with all factories as stubs, and goes on from the factories of one case after the other.

// ByCases has the additional results for Roots.Cases.
type ByCases struct {
	// Cases are the rest, and the test cases of GoogleTest by their IDs. NoCases is why there are none.
	Cases   []Case
	NoCases string
}

// Case is the part of a program that a test case reaches. See ByCases.
type Case struct {
	// ID is symname.TestCase of its factories: all instantiations of a case have one ID. The rest has the ID "": it is what
	// every case reaches.
	ID   string
	Hash Hash
}

// findCases sets x.Cases. Files and initialisers are those of Closure.initialisers.
func (x *Closure) findCases(files []int32, initialisers [][]int32) {
	c := x.c
	factories := map[string][]int32{}
	for _, id := range c.order {
		if name := symname.TestCase(c.comp(id).name); name != "" {
			factories[name] = append(factories[name], id)
		}
	}
	if len(factories) == 0 {
		x.NoCases = "no factory of GoogleTest's is reached"
	} else {
		x.NoCases = cmp.Or(x.seesFunctions(), c.mixesCases(factories))
	}
	if x.NoCases != "" {
		return
	}
	// Members and others read the walk of the whole program.
	whole := c.walk
	c.walk = walk{numbers: make([]int32, len(whole.numbers)), text: whole.text}
	c.stubs = map[int32]bool{}
	for _, list := range factories {
		for _, id := range list {
			c.stubs[id] = true
		}
	}
	defer func() { c.walk, c.stubs = whole, nil }()
	// What components see of their places names nodes by numbers of a walk, so the walk of each case has its own.
	ofWalk := func() []byte { return append(additionsText(x.orders()), x.files()...) }

	h := sha256.New()
	kind := "tasting cases 2"
	if c.idle != nil {
		kind = "tasting trace cases 2"
	}
	x.writeCode(h, kind, files, initialisers)
	h.Write(x.ofLink)
	h.Write(ofWalk())
	rest := Case{}
	h.Sum(rest.Hash[:0])
	x.Cases = []Case{rest}
	common, placed := len(c.order), len(c.placed)
	for _, name := range slices.Sorted(maps.Keys(factories)) {
		list := factories[name] // in the order of the shared walk
		slices.SortFunc(list, func(a, b int32) int { return int(c.numbers[a] - c.numbers[b]) })
		b := frame.New("tasting case 2")
		b.Bytes(rest.Hash[:])
		b.String(name)
		b.Int(len(list))
		for _, id := range list {
			b = binary.LittleEndian.AppendUint32(b, uint32(c.numbers[id]))
			delete(c.stubs, id)
			c.next = append(c.next, id)
		}
		h.Reset()
		h.Write(b)
		c.writeWalk(h)
		h.Write(ofWalk())
		one := Case{ID: name}
		h.Sum(one.Hash[:0])
		x.Cases = append(x.Cases, one)
		for _, id := range list {
			c.stubs[id] = true
		}
		for _, id := range c.order[common:] {
			c.numbers[id] = 0
		}
		c.order, c.placed = c.order[:common], c.placed[:placed]
	}
}

// caseRunners execute the cases that a filter selects.
var caseRunners = []string{
	"_Z13RUN_ALL_TESTSv", "_ZN7testing8UnitTest3RunEv", "_ZN7testing8internal12UnitTestImpl11RunAllTestsEv", "_ZN7testing9TestSuite3RunEv",
	"_ZN7testing8TestCase3RunEv", "_ZN7testing8TestInfo3RunEv",
}

// programStarters start programs, so perhaps the test itself with another filter.
var programStarters = []string{
	"execl", "execle", "execlp", "execv", "execve", "execveat", "execvp", "execvpe", "fexecve", "pidfd_spawn", "pidfd_spawnp", "posix_spawn", "posix_spawnp", "popen", "system", "wordexp",
}

// deathTestChild is the function of GoogleTest that executes one death test once more, by its name.
const deathTestChild = "_ZN7testing8internalL22ExecDeathTestChildMainEPv"

// filterReaders tell which cases are selected.
var filterReaders = []string{
	"FLAGS_gtest_filter", "_ZN7testing18FLAGS_gtest_filterE", "_ZN7testing18FLAGS_gtest_filterB5cxx11E",
	"_ZNK7testing8UnitTest17test_to_run_countEv", "_ZNK7testing8UnitTest23test_suite_to_run_countEv", "_ZNK7testing8UnitTest22test_case_to_run_countEv",
}

// mixesCases returns why a case may execute others, or the program do something else if cases are left out, or "".
func (c *Composer) mixesCases(factories map[string][]int32) string {
	for _, id := range c.usersOf(c.symbolSet(programStarters...)) {
		if c.comp(id).name != deathTestChild {
			return "it starts programs"
		}
	}
	withFactories, ownFlags := map[int32]bool{}, map[int32]bool{} // instances
	mixing := []int32{}                                           // nodes that lead to cases
	for _, list := range factories {
		mixing = append(mixing, list...)
		for _, id := range list {
			withFactories[c.within[id]] = true
		}
	}
	filters := c.symbolSet(filterReaders...)
	for s := range filters {
		for _, d := range c.linked.Definitions(nil, s) {
			ownFlags[d.In] = true
		}
	}
	for _, id := range c.usersOf(filters) {
		if in := c.within[id]; withFactories[in] || !ownFlags[in] {
			return "it asks which cases are selected"
		}
	}
	for s := range c.symbolSet(caseRunners...) {
		mixing = append(mixing, c.nodesOf(c.linked.Definitions(nil, s))...)
	}
	sources := map[int32][]int32{}
	for _, id := range c.order {
		for targets := range c.linksOf(id) {
			for _, to := range targets {
				sources[to] = append(sources[to], id)
			}
		}
	}
	isFactory, seen := map[int32]bool{}, map[int32]bool{}
	for _, id := range mixing {
		isFactory[id], seen[id] = symname.TestCase(c.comp(id).name) != "", true
	}
	for i := 0; i < len(mixing); i++ {
		for _, from := range sources[mixing[i]] {
			if isFactory[from] {
				return "a case may execute others"
			}
			if !seen[from] {
				seen[from] = true
				mixing = append(mixing, from)
			}
		}
	}
	return ""
}

// stubOfCase returns the digest of the factory of another case.
func (c *Composer) stubOfCase(id int32) digest {
	x := c.comp(id)
	b := frame.New("tasting case stub 1")
	b.String(x.name)
	b.Uint(uint64(x.align))
	b.String(withoutContent(c.pool.descriptions[x.description]))
	return digestOf(b)
}
