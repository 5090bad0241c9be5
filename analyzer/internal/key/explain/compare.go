// Package explain says why two fingerprints of a test differ. It also records the
// parts of fingerprints next to the results of a test, so that a later fingerprint
// without a result can be compared with an earlier one.
//
// # Recorded entries
//
// Both are ordinary entries of a store. The content is in their logs.
//
//	SHA-256("tasting closure 1", key)    the recorded closure of the result
//	                                     under key (package fingerprint)
//	SHA-256("tasting history 1", label)  a File in JSON: the last keys that were
//	                                     recorded for the test of that label
//
// No entry decides about a replay, and none may delay or endanger one: a missing,
// damaged or forged entry costs an explanation. If two writers change a history at
// the same moment, one entry is lost.
//
// Closures contain names of files, functions and environment variables. They
// contain no values of variables or arguments (fingerprint.Run).
package explain

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/refgraph"
)

// Category is the kind of a difference.
type Category string

// categories are in the order of an explanation: differences outside the code, then
// changes of the code, then consequences of these.
var categories = []Category{
	AlwaysRun, DataChanged, ArgumentsChanged, EnvironmentChanged, LibraryChanged, RunChanged, LinkFlagsChanged, ContributionChanged,
	CompilerChanged, FlagsChanged, FallbackChanged,
	ComponentChanged, ComponentAdded, ComponentRemoved, LinksChanged, BindingChanged, RootsChanged, CompositionChanged,
}

const (
	// AlwaysRun: a reason to execute the test in any case. Key is the reason, as is
	// After if it is given now, or Before if it no longer is.
	AlwaysRun Category = "always-run"
	// DataChanged: a data file. Key is its path in the runfiles.
	DataChanged Category = "data"
	// ArgumentsChanged: the arguments of the test.
	ArgumentsChanged Category = "arguments"
	// EnvironmentChanged: an environment variable. Key is its name.
	EnvironmentChanged Category = "environment"
	// LibraryChanged: a shared library of the system. Key is its name.
	LibraryChanged Category = "system-library"
	// RunChanged: another part that a run adds, such as the working directory, the
	// machine, or the user being root.
	RunChanged Category = "run"
	// LinkFlagsChanged: the flags of the link. Gone and New list them; if both
	// are empty it is their order.
	LinkFlagsChanged Category = "link-flags"
	// ContributionChanged: another contribution that isn't code.
	ContributionChanged Category = "contribution"
	// CompilerChanged: the compiler of Units, or the clang that read them.
	CompilerChanged Category = "compiler"
	// FlagsChanged: the flags of Units, as for the link.
	FlagsChanged Category = "flags"
	// FallbackChanged: the rung of Units. Key is the new one.
	// Before and After are the rungs with their reasons.
	FallbackChanged Category = "fallback"
	// ComponentChanged: the definition of a component.
	ComponentChanged Category = "changed"
	// ComponentAdded: a component is reached now and wasn't before.
	ComponentAdded Category = "added"
	// ComponentRemoved: a component is no longer reached.
	ComponentRemoved Category = "removed"
	// LinksChanged: the definition is the same, but refers to other components. Gone
	// and New list them; if both are empty it is their order.
	LinksChanged Category = "links"
	// RootsChanged: execution now starts at a component, or no longer does. Before
	// and After are the reasons. Key is "order" if only the order of roots changed.
	RootsChanged Category = "roots"
	// BindingChanged: a symbol is bound to another definition, or the definition is
	// no longer known. Key is the symbol; Before and After are its definitions.
	BindingChanged Category = "binding"
	// CompositionChanged: the components are the same, but are put together
	// differently. Key is an addition (docs/contributing/encoding.md) or "roots". For
	// refgraph.Shape, Gone and New are symbols of the two sides whose definition isn't
	// known. For refgraph.Content, Before and After are reasons, Gone and New sources.
	CompositionChanged Category = "composition"
)

// Difference is one reason why two fingerprints aren't equal.
type Difference struct {
	Category Category `json:"category"`
	// Key names what differs. For components it is their ID.
	Key string `json:"key"`
	// Before and After are hashes unless Category says otherwise. One of them is
	// empty if Key was added or removed.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	// Gone and New are flags or IDs that only one side has; see also Category.
	Gone []string `json:"gone,omitempty"`
	New  []string `json:"new,omitempty"`
	// Kind of a component: function, variable, vtable, ...
	Kind string `json:"kind,omitempty"`
	// BeforeFile and AfterFile are where a component is defined.
	BeforeFile string `json:"before_file,omitempty"`
	AfterFile  string `json:"after_file,omitempty"`
	// Because is set if another difference changes the hash of a component too: then
	// its definition may be the same. It is "compiler", "flags" or "fallback" of the
	// unit, or "changed": a static component whose content is in the hash.
	Because Category `json:"because,omitempty"`
	// Units are the sources with a changed compiler, flag or rung. Components counts
	// the components of these that differ.
	Units      []string `json:"units,omitempty"`
	Components int      `json:"components,omitempty"`
	// Path is a shortest chain of references from a root to the component: in the
	// old version for a removed component, else in the new one.
	Path []string `json:"path,omitempty"`
}

// Comparison is the result of Compare.
type Comparison struct {
	Equal bool `json:"equal"`
	// Old and New are the fingerprints, or the keys of two recorded results.
	Old string `json:"old"`
	New string `json:"new"`
	// RunUnknown is true if one of the two wasn't run: arguments, environment and
	// system libraries were not compared.
	RunUnknown  bool         `json:"run_unknown,omitempty"`
	Differences []Difference `json:"differences"`
}

// Compare returns the differences of two fingerprints. Function match pairs
// components. A renamed function is one removed and one added component. A function
// that was moved to another file is no difference, since its fingerprint is equal.
//
// Differences are sorted by category. Within one, the components closest to a root
// come first.
func Compare(before, after *fingerprint.Report) *Comparison {
	c := &Comparison{Old: before.Fingerprint, New: after.Fingerprint, Differences: []Difference{}}
	c.Equal = before.Fingerprint == after.Fingerprint
	keys := before.Key != "" && after.Key != ""
	if keys {
		c.Old, c.New = before.Key, after.Key
		c.Equal = before.Key == after.Key
	}
	add := func(d ...Difference) { c.Differences = append(c.Differences, d...) }
	add(diffNamed(setOf(before.AlwaysRun), setOf(after.AlwaysRun), func(reason, x, y string) Difference {
		return Difference{Category: AlwaysRun, Key: reason, Before: x, After: y}
	})...)
	if c.Equal && keys {
		return c
	}
	add(diffContributions(before, after)...)
	if len(before.Run) > 0 && len(after.Run) > 0 {
		run := diffParts(before.Run, after.Run)
		c.Equal = c.Equal && len(run) == 0
		add(run...)
	} else {
		c.RunUnknown = !keys
	}
	if before.Fingerprint != after.Fingerprint {
		code := diffCode(before, after)
		add(code...)
		if codeOf(before) != codeOf(after) {
			add(diffBindings(before, after)...)
			add(diffAdditions(before, after, len(code) == 0)...)
		}
	}
	if !c.Equal && !slices.ContainsFunc(c.Differences, func(d Difference) bool { return d.Category != AlwaysRun }) {
		add(Difference{Category: RunChanged, Key: "the shard, or a value of the arguments or the environment"})
	}
	rank := map[Category]int{}
	for i, x := range categories {
		rank[x] = i
	}
	slices.SortStableFunc(c.Differences, func(a, b Difference) int {
		return cmp.Or(rank[a.Category]-rank[b.Category], cmp.Compare(len(a.Because), 0)-cmp.Compare(len(b.Because), 0),
			len(a.Path)-len(b.Path), strings.Compare(a.Key, b.Key))
	})
	return c
}

// diffBindings compares the bindings of symbols with several definitions.
func diffBindings(before, after *fingerprint.Report) []Difference {
	old := map[string]*fingerprint.Contested{}
	for i := range before.Contested {
		old[before.Contested[i].Symbol] = &before.Contested[i]
	}
	var l []Difference
	for i := range after.Contested {
		y := &after.Contested[i]
		x := old[y.Symbol]
		if x != nil && x.Winners == y.Winners && slices.Equal(x.Copies[:x.Winners], y.Copies[:y.Winners]) {
			continue
		}
		d := Difference{Category: BindingChanged, Key: y.Symbol, After: y.Text()}
		if x != nil {
			d.Before = x.Text()
		}
		l = append(l, d)
	}
	return l
}

// diffAdditions compares additions. If only is false, components differ as well: the
// shape of the link and orders of addresses may follow from these and are left out.
func diffAdditions(before, after *fingerprint.Report, only bool) []Difference {
	l := diffNamed(hashes(before.Additions), hashes(after.Additions), func(name, x, y string) Difference {
		d := Difference{Category: CompositionChanged, Key: name, Before: x, After: y}
		switch name {
		case refgraph.Shape:
			d.Gone, d.New = undecided(before), undecided(after)
		case refgraph.Content:
			d.Before, d.After = before.Unusual, after.Unusual
			for _, s := range diffNamed(hashes(before.Linked), hashes(after.Linked), func(source, x, y string) Difference {
				return Difference{Key: source, Before: x, After: y}
			}) {
				if s.After == "" {
					d.Gone = append(d.Gone, s.Key)
				} else {
					d.New = append(d.New, s.Key)
				}
			}
		}
		return d
	})
	if !only {
		return slices.DeleteFunc(l, func(d Difference) bool { return d.Key == refgraph.Shape || d.Key == refgraph.Types })
	}
	if len(l) == 0 {
		l = append(l, Difference{Category: CompositionChanged, Key: "roots", Before: codeOf(before), After: codeOf(after)})
	}
	return l
}

// undecided returns the symbols whose definition isn't known, each with its definitions.
func undecided(r *fingerprint.Report) (l []string) {
	for i := range r.Contested {
		if c := &r.Contested[i]; c.Winners != 1 {
			l = append(l, c.Text())
		}
	}
	return l
}

func codeOf(r *fingerprint.Report) string { return hashes(r.Contributions)["code"] }

// named are values by name. Values of the same name are joined.
type named map[string]string

func (m named) add(name, value string) {
	if old, ok := m[name]; ok {
		value = old + " " + value
	}
	m[name] = value
}

// setOf returns the elements of l, each as its own value.
func setOf(l []string) named {
	m := named{}
	for _, s := range l {
		m[s] = s
	}
	return m
}

// hashes returns contributions by name.
func hashes(l []fingerprint.Contribution) named {
	m := named{}
	for _, c := range l {
		m.add(c.Name, c.SHA256)
	}
	return m
}

// diffNamed returns a difference for each name whose values differ, sorted by name.
func diffNamed(before, after named, difference func(name, before, after string) Difference) []Difference {
	all := maps.Clone(before)
	maps.Copy(all, after)
	var diffs []Difference
	for _, n := range slices.Sorted(maps.Keys(all)) {
		x, inOld := before[n]
		y, inNew := after[n]
		if x != y || inOld != inNew {
			diffs = append(diffs, difference(n, x, y))
		}
	}
	return diffs
}

// diffContributions compares contributions. Code is left to diffCode.
func diffContributions(before, after *fingerprint.Report) []Difference {
	old, new := hashes(before.Contributions), hashes(after.Contributions)
	delete(old, "code")
	delete(new, "code")
	// Formats before 3 have no flags.
	flags := before.Format >= 3 && after.Format >= 3
	return diffNamed(old, new, func(name, x, y string) Difference {
		if file, ok := strings.CutPrefix(name, "data "); ok {
			return Difference{Category: DataChanged, Key: file, Before: x, After: y}
		}
		if name == "link flags" && flags {
			gone, come := diffLists(before.LinkFlags, after.LinkFlags)
			return Difference{Category: LinkFlagsChanged, Key: name, Gone: gone, New: come}
		}
		return Difference{Category: ContributionChanged, Key: name, Before: x, After: y}
	})
}

// diffLists returns the elements that only one of two lists has, in order.
func diffLists(before, after []string) (gone, come []string) {
	count := map[string]int{}
	for _, f := range before {
		count[f]++
	}
	for _, f := range after {
		if count[f]--; count[f] < 0 {
			come = append(come, f)
		}
	}
	for _, f := range slices.Backward(before) {
		if count[f] > 0 {
			count[f]--
			gone = append(gone, f)
		}
	}
	slices.Reverse(gone)
	return gone, come
}

func diffParts(before, after []fingerprint.Part) []Difference {
	collect := func(l []fingerprint.Part) named {
		m := named{}
		for _, p := range l {
			m.add(p.Name, p.Sum)
		}
		return m
	}
	return diffNamed(collect(before), collect(after), func(name, x, y string) Difference {
		d := Difference{Category: RunChanged, Key: name, Before: x, After: y}
		if name == fingerprint.PartArguments {
			d.Category = ArgumentsChanged
		} else if n, ok := strings.CutPrefix(name, fingerprint.PartEnvironment); ok {
			d.Category, d.Key = EnvironmentChanged, n
		} else if n, ok := strings.CutPrefix(name, fingerprint.PartLibrary); ok {
			d.Category, d.Key = LibraryChanged, n
		}
		return d
	})
}

// diffUnits compares units. The map has, for each source that differs, the first
// category in which it does.
func diffUnits(before, after *fingerprint.Report) ([]Difference, map[string]Category) {
	collect := func(r *fingerprint.Report) map[string]*fingerprint.Unit {
		m := map[string]*fingerprint.Unit{}
		for _, u := range r.Units {
			x := m[u.Source]
			if x == nil {
				m[u.Source] = &u
				continue
			}
			// Several targets have this source: join their units.
			x.Compiler, x.Clang, x.Rung = joinNew(x.Compiler, u.Compiler), joinNew(x.Clang, u.Clang), joinNew(x.Rung, u.Rung)
			x.Flags = slices.Concat(x.Flags, u.Flags)
			x.Fallbacks = slices.Concat(x.Fallbacks, u.Fallbacks)
		}
		return m
	}
	rung := func(u *fingerprint.Unit) string {
		if len(u.Fallbacks) == 0 {
			return u.Rung
		}
		return u.Rung + ": " + strings.Join(u.Fallbacks, "; ")
	}
	old, new := collect(before), collect(after)
	why := map[string]Category{}
	var diffs []Difference
	note := func(d Difference, source string) {
		if _, ok := why[source]; !ok {
			why[source] = d.Category
		}
		i := slices.IndexFunc(diffs, func(x Difference) bool {
			return x.Category == d.Category && x.Key == d.Key && x.Before == d.Before && x.After == d.After &&
				slices.Equal(x.Gone, d.Gone) && slices.Equal(x.New, d.New)
		})
		if i < 0 {
			i = len(diffs)
			diffs = append(diffs, d)
		}
		diffs[i].Units = append(diffs[i].Units, source)
	}
	for _, u := range after.Units {
		x, y := old[u.Source], new[u.Source]
		if x == nil || y == nil {
			continue
		}
		delete(new, u.Source) // once
		for _, d := range []Difference{{Key: "compiler", Before: x.Compiler, After: y.Compiler}, {Key: "clang", Before: x.Clang, After: y.Clang}} {
			if d.Category = CompilerChanged; d.Before != d.After {
				note(d, u.Source)
			}
		}
		if !slices.Equal(x.Flags, y.Flags) {
			gone, come := diffLists(x.Flags, y.Flags)
			note(Difference{Category: FlagsChanged, Key: "flags", Gone: gone, New: come}, u.Source)
		}
		if rung(x) != rung(y) {
			note(Difference{Category: FallbackChanged, Key: y.Rung, Before: rung(x), After: rung(y)}, u.Source)
		}
	}
	return diffs, why
}

// joinNew appends s to a list that doesn't end with it.
func joinNew(l, s string) string {
	if l == s || strings.HasSuffix(l, ", "+s) {
		return l
	}
	return l + ", " + s
}

// diffCode compares units, components and roots.
func diffCode(before, after *fingerprint.Report) []Difference {
	units, why := diffUnits(before, after)
	old, new := indexOf(before.Components), indexOf(after.Components)
	pairs := match(before.Components, after.Components, old)
	pathOld, pathNew := paths(before, old), paths(after, new)
	reached := make([]bool, len(before.Components))
	for _, k := range pairs {
		if k >= 0 {
			reached[k] = true
		}
	}
	// oldID returns the old ID of the component of a new one, and another string if there is none.
	oldID := func(id string) string {
		if i, ok := new[id]; ok && pairs[i] >= 0 {
			return before.Components[pairs[i]].ID
		}
		return "\x00" + id
	}
	changed := map[string]int{} // number of components that differ, by source
	var edited []int            // changed components of unchanged units
	var diffs []Difference
	for i := range after.Components {
		y := &after.Components[i]
		d := Difference{Key: y.ID, Kind: y.Kind, AfterFile: placeOf(y)}
		if pairs[i] < 0 {
			d.Category, d.After, d.Because = ComponentAdded, y.Local, why[y.Source]
			changed[y.Source]++
		} else {
			x := &before.Components[pairs[i]]
			d.BeforeFile = placeOf(x)
			switch {
			case x.Local != y.Local:
				d.Category, d.Before, d.After, d.Because = ComponentChanged, x.Local, y.Local, why[y.Source]
				if changed[y.Source]++; d.Because == "" {
					edited = append(edited, i)
				}
			case x.Kind != y.Kind || x.Linkage != y.Linkage:
				d.Category, d.Before, d.After = ComponentChanged, x.Linkage+" "+x.Kind, y.Linkage+" "+y.Kind
			case !slices.Equal(x.Symbols, y.Symbols):
				d.Category, d.Before, d.After = ComponentChanged, strings.Join(x.Symbols, " "), strings.Join(y.Symbols, " ")
			default:
				if slices.EqualFunc(x.Links, y.Links, func(x, y string) bool { return x == oldID(y) }) {
					continue
				}
				l := make([]string, len(y.Links))
				for i, id := range y.Links {
					l[i] = oldID(id)
				}
				d.Category = LinksChanged
				d.Gone, d.New = diffLists(x.Links, l)
				for i := range d.New {
					d.New[i] = strings.TrimPrefix(d.New[i], "\x00")
				}
			}
		}
		d.Path = pathNew(i)
		diffs = append(diffs, d)
	}
	for k := range before.Components {
		if x := &before.Components[k]; !reached[k] {
			diffs = append(diffs, Difference{Category: ComponentRemoved, Key: x.ID, Before: x.Local, Kind: x.Kind, BeforeFile: placeOf(x), Because: why[x.Source], Path: pathOld(k)})
			changed[x.Source]++
		}
	}
	follows := followers(after.Components, edited)
	for i := range diffs {
		if d := &diffs[i]; d.Category == ComponentChanged && follows[d.Key] {
			d.Because = ComponentChanged
		}
	}
	for i := range units {
		for _, u := range units[i].Units {
			// Counted once, for the first difference of a source.
			if why[u] == units[i].Category {
				units[i].Components += changed[u]
				delete(changed, u)
			}
		}
	}
	roots := diffRoots(before, after, oldID, len(diffs) == 0)
	return slices.Concat(units, diffs, roots)
}

// indexOf returns the index of each component by its ID.
func indexOf(components []fingerprint.Component) map[string]int {
	index := make(map[string]int, len(components))
	for i := range components {
		index[components[i].ID] = i
	}
	return index
}

// followers returns the IDs of changed components whose hash contains that of another
// changed component: a static one that they refer to, directly or through static ones.
// Static functions that call each other aren't followers.
func followers(components []fingerprint.Component, changed []int) map[string]bool {
	index := make(map[string]int, len(changed))
	for _, i := range changed {
		index[components[i].ID] = i
	}
	callers := map[int][]int{}
	calls := map[int]bool{}
	for _, i := range changed {
		for _, to := range components[i].Links {
			if k, ok := index[to]; ok && k != i && components[k].Linkage == "local" {
				callers[k] = append(callers[k], i)
				calls[i] = true
			}
		}
	}
	follows := map[string]bool{}
	var queue []int
	for _, i := range changed {
		if !calls[i] {
			queue = append(queue, i)
		}
	}
	for len(queue) > 0 {
		i := queue[0]
		queue = queue[1:]
		for _, k := range callers[i] {
			if !follows[components[k].ID] {
				follows[components[k].ID] = true
				queue = append(queue, k)
			}
		}
	}
	return follows
}

// diffRoots compares roots. If order is true, it also reports another order of equal roots.
func diffRoots(before, after *fingerprint.Report, oldID func(string) string, order bool) []Difference {
	old, new, newID := named{}, named{}, map[string]string{}
	for _, x := range before.Roots {
		old[x.Component] = strings.Join(x.Why, ", ")
	}
	var l []string
	for _, y := range after.Roots {
		id := oldID(y.Component)
		new[id], newID[id] = strings.Join(y.Why, ", "), y.Component
		l = append(l, id)
	}
	diffs := diffNamed(old, new, func(id, x, y string) Difference {
		return Difference{Category: RootsChanged, Key: cmp.Or(newID[id], id), Before: x, After: y}
	})
	if order && len(diffs) == 0 && !slices.EqualFunc(before.Roots, l, func(x fingerprint.Root, id string) bool { return x.Component == id }) {
		diffs = append(diffs, Difference{Category: RootsChanged, Key: "order", Before: rootList(before), After: rootList(after)})
	}
	return diffs
}

func rootList(r *fingerprint.Report) string {
	var l []string
	for _, x := range r.Roots {
		l = append(l, x.Component)
	}
	return strings.Join(l, " ")
}

// placeOf returns the file that defines a component, or else its source.
func placeOf(c *fingerprint.Component) string { return cmp.Or(c.File, c.Source) }

// match returns, for each component of after, the index of its counterpart in before,
// or -1. Names alone don't identify components: an ID has the source only if the name
// isn't unique, compilers number the local variables and initialisers of a unit, and a
// definition may have moved. Two components are counterparts if they have in common,
// tried in this order:
//
//	ID and local hash
//	source, name without a number at its end, and local hash
//	ID
//	source and name
//	name and local hash
//	name
//
// If several components qualify, each takes the first that is left.
//
// Old is the index of before.
func match(before, after []fingerprint.Component, old map[string]int) []int {
	pairs := make([]int, len(after))
	for i := range pairs {
		pairs[i] = -1
	}
	taken := make([]bool, len(before))
	left := len(after)
	for i := range after {
		if k, ok := old[after[i].ID]; ok && before[k].Local == after[i].Local {
			pairs[i], taken[k] = k, true
			left--
		}
	}
	for _, key := range []func(c *fingerprint.Component) [3]string{
		func(c *fingerprint.Component) [3]string { return [3]string{stem(c.Name), c.Source, c.Local} },
		func(c *fingerprint.Component) [3]string { return [3]string{c.ID} },
		func(c *fingerprint.Component) [3]string { return [3]string{c.Name, c.Source} },
		func(c *fingerprint.Component) [3]string { return [3]string{c.Name, c.Local} },
		func(c *fingerprint.Component) [3]string { return [3]string{c.Name} },
	} {
		if left == 0 {
			break
		}
		free := map[[3]string][]int{}
		for k := range before {
			if !taken[k] {
				x := key(&before[k])
				free[x] = append(free[x], k)
			}
		}
		for i := range after {
			if pairs[i] >= 0 {
				continue
			}
			x := key(&after[i])
			if l := free[x]; len(l) > 0 {
				pairs[i], taken[l[0]], free[x] = l[0], true, l[1:]
				left--
			}
		}
	}
	return pairs
}

// Distance returns the number of components, contributions and parts that only one of
// two reports has. Components are identified by name and local hash.
func Distance(before, after *fingerprint.Report) int {
	type thing struct{ name, hash string }
	count := make(map[thing]int, len(before.Components))
	add := func(r *fingerprint.Report, n int, run bool) {
		for i := range r.Components {
			count[thing{r.Components[i].Name, r.Components[i].Local}] += n
		}
		for _, c := range r.Contributions {
			if c.Name != "code" {
				count[thing{"contribution " + c.Name, c.SHA256}] += n
			}
		}
		if run {
			for _, p := range r.Run {
				count[thing{"part " + p.Name, p.Sum}] += n
			}
		}
	}
	run := len(before.Run) > 0 && len(after.Run) > 0
	add(before, -1, run)
	add(after, 1, run)
	distance := 0
	for _, n := range count {
		distance += max(n, -n)
	}
	return distance
}

// stem returns a name without the number that a compiler appended.
func stem(name string) string {
	s := strings.TrimRight(name, "0123456789")
	if len(s) < len(name) && strings.HasSuffix(s, ".") {
		return s[:len(s)-1]
	}
	return name
}

// paths returns a function that returns a shortest chain of references from a root to
// a component.
func paths(r *fingerprint.Report, index map[string]int) func(i int) []string {
	const unseen, start = -2, -1
	parent := make([]int, len(r.Components))
	find := sync.OnceFunc(func() {
		for i := range parent {
			parent[i] = unseen
		}
		var queue []int
		visit := func(id string, from int) {
			if i, ok := index[id]; ok && parent[i] == unseen {
				parent[i] = from
				queue = append(queue, i)
			}
		}
		for _, x := range r.Roots {
			visit(x.Component, start)
		}
		for i := 0; i < len(queue); i++ {
			for _, to := range r.Components[queue[i]].Links {
				visit(to, queue[i])
			}
		}
	})
	return func(i int) []string {
		find()
		var path []string
		for ; i >= 0; i = parent[i] {
			path = append(path, r.Components[i].ID)
		}
		slices.Reverse(path)
		return path
	}
}
