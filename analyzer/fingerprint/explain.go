package fingerprint

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Category says what sort of thing differs.
type Category string

const (
	// ContributionChanged: something that isn't code.
	ContributionChanged Category = "contribution"
	// ComponentChanged: the definition of a component.
	ComponentChanged Category = "changed"
	// ComponentAdded: a component is reached that was not.
	ComponentAdded Category = "added"
	// ComponentRemoved: a component is no longer reached.
	ComponentRemoved Category = "removed"
	// LinksChanged: the definition is the same, but it refers to others.
	LinksChanged Category = "links"
	// RootsChanged: execution starts elsewhere or in another order.
	RootsChanged Category = "roots"
	// CompositionChanged: the components are the same, but not which manifest
	// each is in, where that matters.
	CompositionChanged Category = "composition"
)

// Difference is one reason why two fingerprints aren't equal. Before and After
// are hashes or lists of IDs; one of them is empty for what was added or
// removed.
type Difference struct {
	Category Category `json:"category"`
	Key      string   `json:"key"`
	Before   string   `json:"before,omitempty"`
	After    string   `json:"after,omitempty"`
	// Path is a shortest chain of references from a root to the component, in
	// the new version, or in the old one for what was removed.
	Path []string `json:"path,omitempty"`
}

// Comparison is the result of Explain.
type Comparison struct {
	Equal       bool         `json:"equal"`
	Old         string       `json:"old"`
	New         string       `json:"new"`
	Differences []Difference `json:"differences"`
}

// Explain says why two fingerprints differ. Components are compared by ID:
// renaming a function is seen as one removed and one added. The differences
// closest to a root come first.
func Explain(before, after *Report) *Comparison {
	c := &Comparison{Equal: before.Fingerprint == after.Fingerprint, Old: before.Fingerprint, New: after.Fingerprint, Differences: []Difference{}}
	if c.Equal {
		return c
	}
	c.Differences = append(c.Differences, diffContributions(before, after)...)
	if s, t := rootList(before), rootList(after); s != t {
		c.Differences = append(c.Differences, Difference{Category: RootsChanged, Key: "roots", Before: s, After: t})
	}

	old, new := byID(before), byID(after)
	pathOld, pathNew := paths(before), paths(after)
	var comps []Difference
	for _, x := range after.Components {
		y, ok := old[x.ID]
		d := Difference{Key: x.ID}
		switch {
		case !ok:
			d.Category, d.After = ComponentAdded, x.Local
		case x.Local != y.Local || x.Kind != y.Kind || x.Linkage != y.Linkage:
			d.Category, d.Before, d.After = ComponentChanged, y.Local, x.Local
			if x.Local == y.Local {
				d.Before, d.After = y.Linkage+" "+y.Kind, x.Linkage+" "+x.Kind
			}
		case !slices.Equal(x.Links, y.Links):
			d.Category, d.Before, d.After = LinksChanged, strings.Join(y.Links, " "), strings.Join(x.Links, " ")
		default:
			continue
		}
		d.Path = pathNew(x.ID)
		comps = append(comps, d)
	}
	for _, y := range before.Components {
		if _, ok := new[y.ID]; !ok {
			comps = append(comps, Difference{Category: ComponentRemoved, Key: y.ID, Before: y.Local, Path: pathOld(y.ID)})
		}
	}
	slices.SortStableFunc(comps, func(a, b Difference) int {
		return cmp.Or(len(a.Path)-len(b.Path), strings.Compare(a.Key, b.Key))
	})
	c.Differences = append(c.Differences, comps...)
	if len(c.Differences) == 0 {
		// The code differs and no component does.
		c.Differences = append(c.Differences, Difference{Category: CompositionChanged, Key: "code"})
	}
	return c
}

// diffContributions compares by name. Code is left to its components.
func diffContributions(before, after *Report) []Difference {
	collect := func(r *Report) map[string]string {
		m := map[string]string{}
		for _, c := range r.Contributions {
			if c.Name != "code" {
				m[c.Name] = strings.TrimPrefix(m[c.Name]+" "+c.SHA256, " ")
			}
		}
		return m
	}
	old, new := collect(before), collect(after)
	var diffs []Difference
	for name, x := range new {
		if old[name] != x {
			diffs = append(diffs, Difference{Category: ContributionChanged, Key: name, Before: old[name], After: x})
		}
	}
	for name, y := range old {
		if _, ok := new[name]; !ok {
			diffs = append(diffs, Difference{Category: ContributionChanged, Key: name, Before: y})
		}
	}
	slices.SortFunc(diffs, func(a, b Difference) int { return strings.Compare(a.Key, b.Key) })
	return diffs
}

func rootList(r *Report) string {
	var l []string
	for _, x := range r.Roots {
		l = append(l, x.Component)
	}
	return strings.Join(l, " ")
}

func byID(r *Report) map[string]*Component {
	m := make(map[string]*Component, len(r.Components))
	for i := range r.Components {
		m[r.Components[i].ID] = &r.Components[i]
	}
	return m
}

// paths returns a function that gives for a component a shortest chain of
// references from a root.
func paths(r *Report) func(id string) []string {
	comps := byID(r)
	parent := map[string]string{}
	var queue []string
	for _, x := range r.Roots {
		if _, ok := parent[x.Component]; !ok {
			parent[x.Component] = ""
			queue = append(queue, x.Component)
		}
	}
	for i := 0; i < len(queue); i++ {
		if c := comps[queue[i]]; c != nil {
			for _, to := range c.Links {
				if _, ok := parent[to]; !ok {
					parent[to] = c.ID
					queue = append(queue, to)
				}
			}
		}
	}
	return func(id string) []string {
		var path []string
		for id != "" {
			path = append(path, id)
			id = parent[id]
		}
		slices.Reverse(path)
		return path
	}
}

// Text writes the comparison for people.
func (c *Comparison) Text(w io.Writer) {
	if c.Equal {
		fmt.Fprintf(w, "equal: %s\n", c.New)
		return
	}
	fmt.Fprintf(w, "old %s\nnew %s\n", c.Old, c.New)
	for _, d := range c.Differences {
		switch d.Category {
		case ContributionChanged:
			change := "changed"
			if d.Before == "" {
				change = "added"
			} else if d.After == "" {
				change = "removed"
			}
			fmt.Fprintf(w, "%s: %s\n", change, d.Key)
		case RootsChanged:
			fmt.Fprintf(w, "roots:\n  before: %s\n  after:  %s\n", d.Before, d.After)
		case LinksChanged:
			fmt.Fprintf(w, "refers to others: %s\n  before: %s\n  after:  %s\n", d.Key, d.Before, d.After)
		case CompositionChanged:
			fmt.Fprintf(w, "composition: the same components are linked in another order, or share their static variables differently\n")
		default:
			fmt.Fprintf(w, "%s: %s\n", d.Category, d.Key)
		}
		if len(d.Path) > 1 {
			fmt.Fprintf(w, "  through: %s\n", strings.Join(d.Path, " -> "))
		}
	}
}
