// Package explain says why two fingerprints of a test differ, and remembers, beside the
// results of a test, what their fingerprints were made of, so that a later one that has
// no result can be explained: what is different from the last time.
//
// # What is kept
//
// Both are ordinary entries of a store whose log has the content.
//
//	SHA-256("tasting closure 1", key)    the recorded closure of the result
//	                                     under key (package fingerprint)
//	SHA-256("tasting history 1", label)  a File in JSON: the last keys that were
//	                                     recorded for the test of that label
//
// Nothing here decides about a replay, and nothing may delay or endanger one: a
// missing, damaged or forged entry costs an explanation. Two writers of one
// history at the same moment lose an entry of it.
//
// Closures have names of files, functions and environment variables in them, no
// values of variables or arguments (fingerprint.Run).
package explain

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/refgraph"
)

// Category says what sort of thing differs.
type Category string

// categories in the order in which an explanation has them: first what isn't
// code, then what changed in the code itself, then what follows from it.
var categories = []Category{
	AlwaysRun, DataChanged, ArgumentsChanged, EnvironmentChanged, LibraryChanged, RunChanged, LinkFlagsChanged, ContributionChanged,
	CompilerChanged, FlagsChanged, FallbackChanged,
	ComponentChanged, ComponentAdded, ComponentRemoved, LinksChanged, BindingChanged, RootsChanged, CompositionChanged,
}

const (
	// AlwaysRun: a reason to execute the test in any case. Key is the reason;
	// After is set if there is one now, Before if there was one.
	AlwaysRun Category = "always-run"
	// DataChanged: a data file. Key is its path in the runfiles.
	DataChanged Category = "data"
	// ArgumentsChanged: the arguments of the test.
	ArgumentsChanged Category = "arguments"
	// EnvironmentChanged: an environment variable. Key is its name.
	EnvironmentChanged Category = "environment"
	// LibraryChanged: a shared library of the system. Key is its name.
	LibraryChanged Category = "system-library"
	// RunChanged: something else that a run adds: the working directory, the
	// machine, the user being root.
	RunChanged Category = "run"
	// LinkFlagsChanged: the flags of the link. Gone and New list them; if both
	// are empty it is their order.
	LinkFlagsChanged Category = "link-flags"
	// ContributionChanged: something else that isn't code.
	ContributionChanged Category = "contribution"
	// CompilerChanged: the compiler of Units, or the clang that read them.
	CompilerChanged Category = "compiler"
	// FlagsChanged: the flags of Units, as for the link.
	FlagsChanged Category = "flags"
	// FallbackChanged: Units are now analyzed as Key, a rung.
	// Before and After are the rungs with their reasons.
	FallbackChanged Category = "fallback"
	// ComponentChanged: the definition of a component.
	ComponentChanged Category = "changed"
	// ComponentAdded: a component is reached that was not.
	ComponentAdded Category = "added"
	// ComponentRemoved: a component is no longer reached.
	ComponentRemoved Category = "removed"
	// LinksChanged: the definition is the same, but it refers to others, which
	// Gone and New list, or to the same in another order.
	LinksChanged Category = "links"
	// RootsChanged: execution starts at a component where it didn't, or no
	// longer. Before and After say why; Key is "order" if only that changed.
	RootsChanged Category = "roots"
	// BindingChanged: another definition of a symbol is taken, or it can't be told
	// any more. Key is the symbol; Before and After say which, and where the other
	// definitions are.
	BindingChanged Category = "binding"
	// CompositionChanged: the components are the same, but not how they are put
	// together. Key is the addition that differs, see docs/fingerprint.md, or
	// "roots". If it is "contested", Gone and New are the symbols of the two sides
	// whose definition it can't tell, and where their definitions are.
	CompositionChanged Category = "composition"
)

// Difference is one reason why two fingerprints aren't equal.
type Difference struct {
	Category Category `json:"category"`
	// Key names what differs. For components it is their ID.
	Key string `json:"key"`
	// Before and After are hashes, or what Category says. One of them is empty
	// for what was added or removed.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	// Gone and New are flags or IDs that only one side has, or what Category says.
	Gone []string `json:"gone,omitempty"`
	New  []string `json:"new,omitempty"`
	// Kind of a component: function, variable, vtable, ...
	Kind string `json:"kind,omitempty"`
	// BeforeFile and AfterFile are where a component is defined.
	BeforeFile string `json:"before_file,omitempty"`
	AfterFile  string `json:"after_file,omitempty"`
	// Because says what changes the hash of a component by itself, so that it
	// isn't known whether its definition changed as well: "compiler", "flags" or
	// "fallback" of its unit, or "changed", a static component that it refers to
	// and whose content is in its hash.
	Because Category `json:"because,omitempty"`
	// Units are the sources that a change of compiler, flags or rung concerns,
	// and Components is how many components differ with it.
	Units      []string `json:"units,omitempty"`
	Components int      `json:"components,omitempty"`
	// Path is a shortest chain of references from a root to the component, in
	// the new version, or in the old one for what was removed.
	Path []string `json:"path,omitempty"`
}

// Comparison is the result of Explain.
type Comparison struct {
	Equal bool `json:"equal"`
	// Old and New are the fingerprints, or the keys of two recorded results.
	Old string `json:"old"`
	New string `json:"new"`
	// RunUnknown says that one of the two wasn't run, so that arguments,
	// environment and system libraries were not compared.
	RunUnknown  bool         `json:"run_unknown,omitempty"`
	Differences []Difference `json:"differences"`
}

// Compare says why two fingerprints differ. Components are compared by ID, or by
// what else identifies them if that fails (see match): renaming a function is
// seen as one removed and one added, moving it to another file isn't seen at
// all, since it changes no fingerprint.
//
// Causes come first: what isn't code, then components whose own definition
// changed, those closest to a root first, then added, removed and merely
// relinked ones.
func Compare(before, after *fingerprint.Report) *Comparison {
	c := &Comparison{Old: before.Fingerprint, New: after.Fingerprint, Differences: []Difference{}}
	c.Equal = before.Fingerprint == after.Fingerprint
	keys := before.Key != "" && after.Key != ""
	if keys {
		c.Old, c.New = before.Key, after.Key
		c.Equal = before.Key == after.Key
	}
	add := func(d ...Difference) { c.Differences = append(c.Differences, d...) }
	add(diffSet(AlwaysRun, before.AlwaysRun, after.AlwaysRun)...)
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

// diffBindings compares which definitions are taken of symbols that have several.
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

// diffAdditions compares additions. The shape of a link and orders of addresses may follow from components: they
// are left out, unless only additions differ. Of a program that counts as a whole there are the sources that differ.
func diffAdditions(before, after *fingerprint.Report, only bool) []Difference {
	of := func(list []fingerprint.Contribution) map[string]string {
		m := map[string]string{}
		for _, a := range list {
			m[a.Name] += a.SHA256
		}
		return m
	}
	old, new := of(before.Additions), of(after.Additions)
	var l []Difference
	all := maps.Clone(old)
	maps.Copy(all, new)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if old[name] == new[name] || !only && (name == refgraph.Shape || name == refgraph.Types) {
			continue
		}
		d := Difference{Category: CompositionChanged, Key: name, Before: old[name], After: new[name]}
		switch name {
		case refgraph.Shape:
			d.Gone, d.New = undecided(before), undecided(after)
		case refgraph.Content:
			d.Before, d.After = before.Unusual, after.Unusual
			x, y := of(before.Linked), of(after.Linked)
			for _, source := range slices.Sorted(maps.Keys(y)) {
				if x[source] != y[source] {
					d.New = append(d.New, source)
				}
			}
			for _, source := range slices.Sorted(maps.Keys(x)) {
				if y[source] == "" {
					d.Gone = append(d.Gone, source)
				}
			}
		}
		l = append(l, d)
	}
	if only && len(l) == 0 {
		l = append(l, Difference{Category: CompositionChanged, Key: "roots", Before: codeOf(before), After: codeOf(after)})
	}
	return l
}

// undecided are the symbols of which it can't be told which definition is taken, and where
// their definitions are.
func undecided(r *fingerprint.Report) (l []string) {
	for i := range r.Contested {
		if c := &r.Contested[i]; c.Winners != 1 {
			l = append(l, c.Text())
		}
	}
	return l
}

// diffSet compares lists as sets.
func diffSet(category Category, before, after []string) []Difference {
	var diffs []Difference
	for _, s := range before {
		if !slices.Contains(after, s) {
			diffs = append(diffs, Difference{Category: category, Key: s, Before: s})
		}
	}
	for _, s := range after {
		if !slices.Contains(before, s) {
			diffs = append(diffs, Difference{Category: category, Key: s, After: s})
		}
	}
	return diffs
}

func codeOf(r *fingerprint.Report) string {
	for _, c := range r.Contributions {
		if c.Name == "code" {
			return c.SHA256
		}
	}
	return ""
}

// named are values by name; several of one name are joined.
type named map[string]string

func (m named) add(name, value string) {
	if old, ok := m[name]; ok {
		value = old + " " + value
	}
	m[name] = value
}

// diffNamed compares by name, in the order of names.
func diffNamed(before, after named, difference func(name, before, after string) Difference) []Difference {
	var names []string
	for n, x := range after {
		if y, ok := before[n]; !ok || x != y {
			names = append(names, n)
		}
	}
	for n := range before {
		if _, ok := after[n]; !ok {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	var diffs []Difference
	for _, n := range names {
		diffs = append(diffs, difference(n, before[n], after[n]))
	}
	return diffs
}

// diffContributions leaves code to its components.
func diffContributions(before, after *fingerprint.Report) []Difference {
	collect := func(r *fingerprint.Report) named {
		m := named{}
		for _, c := range r.Contributions {
			if c.Name != "code" {
				m.add(c.Name, c.SHA256)
			}
		}
		return m
	}
	// Versions before 3 don't have the flags.
	flags := before.Format >= 3 && after.Format >= 3
	return diffNamed(collect(before), collect(after), func(name, x, y string) Difference {
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

// diffLists returns what only one of two lists has, in order.
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

// diffUnits compares how sources were analyzed, and tells for each source that
// differs the most telling category.
func diffUnits(before, after *fingerprint.Report) ([]Difference, map[string]Category) {
	collect := func(r *fingerprint.Report) map[string]*fingerprint.Unit {
		m := map[string]*fingerprint.Unit{}
		for _, u := range r.Units {
			// One source in several targets: what any of them has.
			if x := m[u.Source]; x != nil {
				v := *x
				v.Compiler, v.Clang, v.Rung = joinNew(v.Compiler, u.Compiler), joinNew(v.Clang, u.Clang), joinNew(v.Rung, u.Rung)
				v.Flags = slices.Concat(v.Flags, u.Flags)
				v.Fallbacks = slices.Concat(v.Fallbacks, u.Fallbacks)
				m[u.Source] = &v
				continue
			}
			m[u.Source] = &u
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
		if x.Compiler != y.Compiler {
			note(Difference{Category: CompilerChanged, Key: "compiler", Before: x.Compiler, After: y.Compiler}, u.Source)
		}
		if x.Clang != y.Clang {
			note(Difference{Category: CompilerChanged, Key: "clang", Before: x.Clang, After: y.Clang}, u.Source)
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

// joinNew appends to a list what it doesn't have.
func joinNew(l, s string) string {
	if l == s || strings.HasSuffix(l, ", "+s) {
		return l
	}
	return l + ", " + s
}

// diffCode compares units, components and roots.
func diffCode(before, after *fingerprint.Report) []Difference {
	units, why := diffUnits(before, after)
	pairs := match(before.Components, after.Components)
	pathOld, pathNew := paths(before), paths(after)
	reached := make([]bool, len(before.Components))
	oldID := make(map[string]string, len(pairs)) // by new ID
	for i, k := range pairs {
		if k >= 0 {
			reached[k] = true
			oldID[after.Components[i].ID] = before.Components[k].ID
		}
	}
	// links are those of the new version under their old names.
	links := func(y *fingerprint.Component) []string {
		l := make([]string, len(y.Links))
		for i, id := range y.Links {
			if l[i] = oldID[id]; l[i] == "" {
				l[i] = "\x00" + id // new
			}
		}
		return l
	}
	changed := map[string]int{} // components that differ, by source
	var edited []int            // components that changed without their unit
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
				l := links(y)
				if slices.Equal(l, x.Links) {
					continue
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

// followers returns the IDs of those of the changed components whose hash changes
// with that of another changed one: they refer to a static one, or to one that
// follows from such. Of static functions that call each other none follows.
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

// diffRoots also reports another order of the same roots, if asked to.
func diffRoots(before, after *fingerprint.Report, oldID map[string]string, order bool) []Difference {
	old := map[string]string{}
	for _, x := range before.Roots {
		old[x.Component] = strings.Join(x.Why, ", ")
	}
	var diffs []Difference
	var l []string
	for _, y := range after.Roots {
		why := strings.Join(y.Why, ", ")
		was, ok := old[oldID[y.Component]]
		if !ok || was != why {
			diffs = append(diffs, Difference{Category: RootsChanged, Key: y.Component, Before: was, After: why})
		}
		delete(old, oldID[y.Component])
		l = append(l, oldID[y.Component])
	}
	for _, x := range before.Roots {
		if was, ok := old[x.Component]; ok {
			diffs = append(diffs, Difference{Category: RootsChanged, Key: x.Component, Before: was})
		}
	}
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

// place is where a component is defined, as far as is known.
func placeOf(c *fingerprint.Component) string {
	if c.File != "" {
		return c.File
	}
	return c.Source
}

// match returns for every component of after the number of the one in before
// that it is compared with, or -1. Names don't always tell: an ID has the source
// only if the name isn't unique, compilers number the local variables and
// initialisers of a unit, and a definition may have moved. So, in this order,
// components belong together that have in common
//
//	ID and local hash
//	source, name without a number at its end, and local hash
//	ID
//	source and name
//	name and local hash
//	name
//
// Of several with the same, each one takes the first that is left.
func match(before, after []fingerprint.Component) []int {
	pairs := make([]int, len(after))
	for i := range pairs {
		pairs[i] = -1
	}
	taken := make([]bool, len(before))
	left := len(after)
	for _, key := range []func(c *fingerprint.Component) [3]string{
		func(c *fingerprint.Component) [3]string { return [3]string{c.ID, c.Local} },
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

// Distance says how much two reports differ: the number of components, counted
// by name and local hash, and of other named things that only one of them has.
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

// stem is a name without a number that a compiler appended.
func stem(name string) string {
	s := strings.TrimRight(name, "0123456789")
	if len(s) < len(name) && strings.HasSuffix(s, ".") {
		return s[:len(s)-1]
	}
	return name
}

// paths returns a function that gives for a component a shortest chain of
// references from a root.
func paths(r *fingerprint.Report) func(i int) []string {
	index := make(map[string]int, len(r.Components))
	for i := range r.Components {
		index[r.Components[i].ID] = i
	}
	const unseen, start = -2, -1
	parent := make([]int, len(r.Components))
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
	return func(i int) []string {
		var path []string
		for ; i >= 0; i = parent[i] {
			path = append(path, r.Components[i].ID)
		}
		slices.Reverse(path)
		return path
	}
}
