package explain

import (
	"cmp"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/ianlancetaylor/demangle"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/lazyregexp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/refgraph"
)

// Limits of a text that isn't asked for everything.
const (
	textDifferences = 20  // of each category
	textLinks       = 3   // components that refer to others, after other differences
	textPath        = 8   // components of a chain
	textName        = 160 // bytes of a name
	textList        = 5   // sources, flags or symbols
)

// Text writes the comparison for people, with demangled names. Without all, long
// lists and names are cut.
func (c *Comparison) Text(w io.Writer, all bool) {
	if c.Equal {
		fmt.Fprintf(w, "equal: %s\n", c.New)
	} else {
		fmt.Fprintf(w, "old %s\nnew %s\n", c.Old, c.New)
	}
	for i := 0; i < len(c.Differences); {
		category := c.Differences[i].Category
		shown, hidden, most := 0, 0, textDifferences
		if category == LinksChanged && i > 0 {
			most = textLinks // they follow from these
		}
		for ; i < len(c.Differences) && c.Differences[i].Category == category; i++ {
			d := &c.Differences[i]
			switch {
			case d.Because != "" && d.Because != ComponentChanged && !all:
				// The unit's line counts it.
			case shown == most && !all:
				hidden++
			default:
				shown++
				d.text(w, all)
			}
		}
		if hidden > 0 {
			fmt.Fprintf(w, "and %d more that %s (--all shows them)\n", hidden, hiddenVerb(category))
		}
	}
	if c.RunUnknown {
		fmt.Fprintf(w, "not compared: arguments, environment and system libraries, which are known only of a run\n")
	}
}

func hiddenVerb(c Category) string {
	switch c {
	case ComponentAdded:
		return "were added"
	case ComponentRemoved:
		return "were removed"
	case LinksChanged:
		return "refer to others"
	}
	return "changed"
}

// Reason returns one line with the first differences: the causes why the test has to run.
func (c *Comparison) Reason() string {
	const most = 2
	var l []string
	rest := 0
	for i := range c.Differences {
		d := &c.Differences[i]
		if d.Because != "" || len(l) > 0 && (d.Category == ComponentAdded || d.Category == ComponentRemoved || d.Category == LinksChanged || d.Category == RootsChanged) {
			continue // it follows from another difference
		}
		if len(l) == most {
			rest++
			continue
		}
		l = append(l, d.line(false))
	}
	s := strings.Join(l, "; ")
	if rest > 0 {
		s += fmt.Sprintf("; and %d more", rest)
	}
	return s
}

// Changed returns the IDs of components that were changed, added or removed, causes
// first. Components with Difference.Because are left out.
func (c *Comparison) Changed() []string {
	var l []string
	for _, d := range c.Differences {
		switch d.Category {
		case ComponentChanged, ComponentAdded, ComponentRemoved:
			if d.Because == "" {
				l = append(l, d.Key)
			}
		}
	}
	return l
}

func (d *Difference) text(w io.Writer, all bool) {
	fmt.Fprintln(w, d.line(all))
	if d.Category == LinksChanged {
		names := func(word string, ids []string) {
			var l []string
			for _, id := range ids {
				l = append(l, Readable(id, all))
			}
			if len(l) > 0 {
				fmt.Fprintf(w, "  %s: %s\n", word, shorten(l, all, ", "))
			}
		}
		names("now to", d.New)
		names("no longer to", d.Gone)
	}
	if d.Category == CompositionChanged {
		for i, s := range d.symbols() {
			if i == textList && !all {
				fmt.Fprintf(w, "  (%d more)\n", len(d.symbols())-i)
				break
			}
			if name, copies, ok := strings.Cut(s, ": "); ok {
				s = Readable(name, all) + ": " + copies
			}
			fmt.Fprintf(w, "  %s\n", s)
		}
	}
	if len(d.Path) > 1 {
		var l []string
		for _, id := range d.Path {
			l = append(l, Readable(id, all, demangle.NoParams, demangle.NoTemplateParams))
		}
		if hidden := len(l) - textPath; hidden > 0 && !all {
			l = slices.Replace(l, textPath/2, textPath/2+hidden, fmt.Sprintf("(%d more)", hidden))
		}
		fmt.Fprintf(w, "  through: %s\n", strings.Join(l, " -> "))
	}
}

// symbols returns undecided symbols with their definitions, or sources of a program
// that counts as a whole.
func (d *Difference) symbols() []string {
	if len(d.New) > 0 {
		return d.New
	}
	return d.Gone
}

// undecided returns the first of symbols, and the number of the others.
func (d *Difference) undecided(all bool) string {
	symbols := d.symbols()
	if len(symbols) == 0 {
		return ""
	}
	name, _, _ := strings.Cut(symbols[0], ": ")
	if more := len(symbols) - 1; more > 0 {
		return fmt.Sprintf(": %s and %d more", Readable(name, all), more)
	}
	return ": " + Readable(name, all)
}

// line returns d as one line.
func (d *Difference) line(all bool) string {
	change := "changed"
	switch {
	case d.Before == "" && d.After != "":
		change = "added"
	case d.After == "" && d.Before != "":
		change = "removed"
	}
	switch d.Category {
	case AlwaysRun:
		if change == "removed" {
			return "no longer always run: " + d.Key
		}
		return "always run: " + d.Key
	case DataChanged, EnvironmentChanged, LibraryChanged, RunChanged, ContributionChanged:
		return things[d.Category] + change + ": " + d.Key
	case ArgumentsChanged:
		return "arguments changed"
	case LinkFlagsChanged:
		return "link flags changed:" + d.flags(all)
	case CompilerChanged:
		return fmt.Sprintf("%s changed: %s, before %s%s", d.Key, cmp.Or(d.After, "none"), cmp.Or(d.Before, "none"), d.units(all))
	case FlagsChanged:
		return "compiler flags changed:" + d.flags(all) + d.units(all)
	case FallbackChanged:
		return fmt.Sprintf("analysed as %s, before as %s%s", d.After, d.Before, d.units(all))
	case LinksChanged:
		return fmt.Sprintf("refers to others: %s%s", Readable(d.Key, all), d.place())
	case RootsChanged:
		switch {
		case d.Key == "order":
			return "execution starts in another order"
		case change == "added":
			return fmt.Sprintf("execution starts at: %s (%s)", Readable(d.Key, all), d.After)
		case change == "removed":
			return fmt.Sprintf("execution no longer starts at: %s (%s)", Readable(d.Key, all), d.Before)
		}
		return fmt.Sprintf("execution starts at: %s (%s, before %s)", Readable(d.Key, all), d.After, d.Before)
	case CompositionChanged:
		why := ""
		if d.Key == refgraph.Content {
			why = " (" + cmp.Or(d.After, d.Before) + ")"
		}
		return "composition: " + cmp.Or(compositions[d.Key], d.Key) + why + d.undecided(all)
	case BindingChanged:
		symbol := Readable(d.Key, all)
		of := func(s string) string { return symbol + strings.TrimPrefix(s, d.Key) }
		if d.Before == "" {
			return "several definitions of " + of(d.After)
		}
		return "several definitions of " + of(d.After) + "; before, " + of(d.Before)
	}
	because := ""
	if d.Because == ComponentChanged {
		because = ", perhaps only by a static component that it refers to"
	}
	return fmt.Sprintf("%s: %s%s%s", d.Category, Readable(d.Key, all), d.place(), because)
}

// things are the nouns of some categories.
var things = map[Category]string{DataChanged: "data file ", EnvironmentChanged: "environment variable ", LibraryChanged: "system library "}

// place returns the file of a component, and its file before if that differs.
func (d *Difference) place() string {
	file := cmp.Or(d.AfterFile, d.BeforeFile)
	// An ID has the source already if the name isn't unique.
	s := " in " + shownFile(file)
	if file == "" || strings.HasSuffix(d.Key, "("+file+")") {
		s = ""
	}
	if d.BeforeFile != "" && d.AfterFile != "" && d.BeforeFile != d.AfterFile {
		s += ", before in " + shownFile(d.BeforeFile)
	}
	return s
}

// object matches where Bazel puts the object files of a cc_library or cc_test.
var object = lazyregexp.New(`^bazel-out/[^/]+/bin/(?:(.*)/)?_objs/([^/]+)/(.*?)(?:\.pic)?\.o$`)

// shownFile returns the source of an object file of Bazel, without the suffix, which the object's name lacks, and the target.
func shownFile(file string) string {
	m := object.FindStringSubmatch(file)
	if m == nil {
		return file
	}
	return fmt.Sprintf("%s (//%s:%s)", path.Join(m[1], m[3]), m[1], m[2])
}

// units returns the sources that differ, and the number of components that do.
func (d *Difference) units(all bool) string {
	s := ", for " + shorten(d.Units, all, ", ")
	switch {
	case d.Components == 1:
		s += ": 1 component differs with it"
	case d.Components > 1:
		s += fmt.Sprintf(": %d components differ with it", d.Components)
	}
	return s
}

// flags returns the new and the removed flags. Without all, flags of clang's front end
// (cc1) are left out if others differ, from which they follow.
func (d *Difference) flags(all bool) string {
	if len(d.Gone)+len(d.New) == 0 {
		return " their order"
	}
	own := func(f string) bool { return !strings.HasPrefix(f, "cc1:") }
	some := slices.ContainsFunc(d.Gone, own) || slices.ContainsFunc(d.New, own)
	list := func(l []string, word string) (s string) {
		l = slices.Clone(l)
		if some && !all {
			l = slices.DeleteFunc(l, func(f string) bool { return !own(f) })
		}
		if len(l) > 0 {
			s = " " + word + " " + shorten(l, all, " ")
		}
		return s
	}
	come, gone := list(d.New, "with"), list(d.Gone, "without")
	if come != "" && gone != "" {
		come += ","
	}
	return come + gone
}

// shorten joins the first elements of a list.
func shorten(l []string, all bool, separator string) string {
	if len(l) <= textList || all {
		return strings.Join(l, separator)
	}
	return fmt.Sprintf("%s and %d more", strings.Join(l[:textList], separator), len(l)-textList)
}

// shortNames replaces types by the names that programmers use.
var shortNames = strings.NewReplacer(
	"std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >", "std::string",
	"std::basic_string_view<char, std::char_traits<char> >", "std::string_view",
)

// Readable returns a component's ID with its name demangled. Without all, a long name
// loses its middle.
func Readable(id string, all bool, options ...demangle.Option) string {
	name, rest := id, ""
	if i := strings.Index(id, " ("); i > 0 {
		name, rest = id[:i], id[i:]
	}
	if s, err := demangle.ToString(name, append(options, demangle.MaxLength(14))...); err == nil {
		name = s
	}
	if !all {
		name = shortNames.Replace(name)
	}
	if r := []rune(name); len(r) > textName && !all {
		name = string(r[:textName*2/3]) + "…" + string(r[len(r)-textName/3:])
	}
	return name + rest
}

// compositions describes a change of each addition.
var compositions = map[string]string{
	refgraph.Content:   "the whole program counts, and differs",
	refgraph.Libraries: "something in the libraries of the test differs, reached or not, and a program, script or library among its data, or a program that is told their names, may open them",
	refgraph.Literals:  "strings are in another order in memory, and the test orders them by their addresses",
	refgraph.Order:     "variables or functions are in another order in memory, and the test orders them by their addresses",
	refgraph.Own:       "the objects differ, and the test reads its own program",
	refgraph.Shape:     "the link has another shape: other files or flags, other libraries of the system that are needed, or other definitions of one symbol",
	refgraph.Types:     "types that are compared by the addresses of their names are in another order in memory",
	"roots":            "the same components are put together in another way",
}
