// Package fingerprint decides what identifies a test. If two versions of a
// test have the same fingerprint, running it gives the same outcome in both.
//
// # What is in it
//
// A fingerprint is the SHA-256 of a list of named contributions. The one called
// "code" identifies all code and static data that the test can reach (package
// refgraph); the others are whatever else decides the outcome: data files, link
// flags, the format of the manifests. docs/fingerprint.md lists them all, and
// what is deliberately left out.
//
// The composition (Compose) knows what is known when a test is built and writes
// it to the test's Config. The runner adds what is known only when the test
// is run.
//
// # Framing
//
// Nothing is hashed but messages of package frame: every string and list is
// preceded by its length, every message by its name and version. So two
// different lists of contributions can't give the same bytes, whatever they
// contain.
//
//	"tasting fingerprint 1"
//	list of contributions, sorted by name:
//	    name
//	    SHA-256, as a string of 32 bytes
//
// # Roots
//
// Execution starts at main, but not only there: see Roots.
package fingerprint

import (
	"cmp"
	_ "embed"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/refgraph"
)

// Main is the symbol where a test starts unless told otherwise.
const Main = "main"

// Roots says where a test starts. Whatever its manifests call a root is one
// as well.
type Roots struct {
	// Symbols where the test starts; none means Main.
	Symbols []string
	// Exported makes every definition a root: symbols are looked up at run
	// time, or a linker script refers to them. It is implied by a manifest
	// that refers to dlsym or dlopen, or a link flag that exports symbols.
	Exported bool
	// LinkFlags are searched for symbols: -u, --wrap, --defsym, --init and
	// others name one.
	LinkFlags []string
	// OnDemand says which sources, by their number, the linker may leave out:
	// members of archives. Whether it takes one depends on what all others
	// define and need, executed or not. That counts if it can make a
	// difference: if there is a root in such a source, several definitions of
	// a symbol, or a look-up at run time.
	OnDemand map[int]bool
}

//go:embed overrides.txt
var overridesText string

// overrides returns the symbols that libraries of the system refer to.
var overrides = sync.OnceValue(func() []string {
	var l []string
	for line := range strings.Lines(overridesText) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			l = append(l, line)
		}
	}
	return l
})

// resolve returns the roots for the graph of a test. Lookup says whether
// something in it looks up symbols at run time.
func (r Roots) resolve(lookup bool) refgraph.Roots {
	out := refgraph.Roots{Symbols: r.symbols(), Exported: r.Exported || lookup, Overrides: overrides()}
	for _, f := range r.LinkFlags {
		switch {
		case f == "-rdynamic", f == "-E", strings.Contains(f, "-export-dynamic"), strings.HasPrefix(f, "-Wl,") && slices.Contains(strings.Split(f, ","), "-E"):
			out.Exported = true
		}
		if _, ok := ForeignLibrary(f); ok {
			// It may call the program by any name, as flex's library does.
			out.Exported = true
		}
		// Not every word in a flag is a symbol; one that nothing defines is
		// no root.
		for _, word := range strings.FieldsFunc(f, func(c rune) bool {
			return c != '_' && c != '$' && c != '.' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
		}) {
			out.Symbols = append(out.Symbols, word, "__wrap_"+word)
			if strings.HasPrefix(f, "-u") {
				out.Symbols = append(out.Symbols, strings.TrimPrefix(word, "u"))
			}
		}
	}
	slices.Sort(out.Symbols)
	out.Symbols = slices.Compact(out.Symbols)
	return out
}

// looksUp says whether something in a manifest may refer to any symbol.
func looksUp(m *manifest.Manifest) bool {
	return slices.ContainsFunc(m.Symbols, func(sym string) bool {
		switch sym {
		case "dlsym", "dlvsym", "dlopen", "dlmopen":
			// A library that only implements these isn't a caller.
			return !isSharedLibrary(m) || !slices.Contains(m.Components[0].Aliases, sym)
		}
		return sym == manifest.AnySymbol
	})
}

// knownLibraries are those whose names overrides.txt has, or that are made for
// a version of the compiler.
var knownLibraries = strings.Fields(`asan atomic BrokenLocale anl c c++ c++abi c++experimental c_nonshared crypt dl gcc gcc_eh gcc_s gomp
	hwasan lsan m mvec nsl nss_files pthread quadmath resolv rt ssp ssp_nonshared stdc++ stdc++exp stdc++fs supc++ thread_db tsan ubsan unwind util`)

// ForeignLibrary says whether a flag of a link names a library that the build
// doesn't know: one of the system, but not of its C or C++ runtime. The name is
// what follows "-l", or a path.
func ForeignLibrary(flag string) (name string, ok bool) {
	name, ok = strings.CutPrefix(flag, "-l")
	if !ok {
		base := path.Base(flag)
		return flag, !strings.HasPrefix(flag, "-") &&
			(strings.HasSuffix(base, ".a") || strings.HasSuffix(base, ".o") || strings.HasSuffix(base, ".so") || strings.Contains(base, ".so."))
	}
	known, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(name, ":"), "lib"), ".")
	if !strings.HasPrefix(name, ":") {
		known = name
	}
	return name, name != "" && !slices.Contains(knownLibraries, known)
}

func (r Roots) symbols() []string {
	if len(r.Symbols) == 0 {
		return []string{Main}
	}
	return slices.Clone(r.Symbols)
}

func isSharedLibrary(m *manifest.Manifest) bool {
	return m.Rung == manifest.Rung_RUNG_CONTENT && len(m.Components) == 1 && m.Components[0].Kind == manifest.Kind_KIND_FILE
}

// ReportFormat is the version of Report.
//
// History:
//
//	1  first version
//	2  symbols and copies
//	3  units, link flags, reasons to always run, and what a run adds
const ReportFormat = 3

// Report is a fingerprint and all that it is made of: the input of Explain.
type Report struct {
	Format      int    `json:"format"`
	Fingerprint string `json:"fingerprint"`
	// Key is the key of a recorded result, in hex; empty if nothing was run.
	Key string `json:"key,omitempty"`
	// Contributions are sorted by name. They include one called "code".
	Contributions []Contribution `json:"contributions"`
	// LinkFlags are those of Config, AlwaysRun its reasons.
	LinkFlags []string `json:"link_flags,omitempty"`
	AlwaysRun []string `json:"always_run,omitempty"`
	// Run is what only a run knows, sorted by name; empty if nothing was run.
	Run []Part `json:"run,omitempty"`
	// Units says how the sources in the closure were analyzed, in the order of
	// the link.
	Units []Unit `json:"units,omitempty"`
	// Roots lists the components where execution starts, in order.
	Roots []Root `json:"roots"`
	// Components is the closure: all that the roots reach, each one before what
	// only it refers to.
	Components []Component `json:"components"`
}

// Unit is a manifest that components of a closure are in.
type Unit struct {
	Source   string `json:"source"`
	Rung     string `json:"rung"`
	Clang    string `json:"clang,omitempty"`
	Compiler string `json:"compiler,omitempty"`
	// Flags are those that decide about generated code, in order.
	Flags []string `json:"flags,omitempty"`
	// Fallbacks are the reasons why the unit as a whole stands on its rung.
	Fallbacks []string `json:"fallbacks,omitempty"`
}

// Root is a component where execution starts.
type Root struct {
	Component string   `json:"component"` // its ID
	Why       []string `json:"why"`
}

// Component is a component in a closure.
type Component struct {
	// ID is the component's name, followed by its manifest if there is another
	// one of that name in the closure.
	ID      string `json:"id"`
	Name    string `json:"name"`
	Source  string `json:"source"` // file that was analyzed
	File    string `json:"file,omitempty"`
	Kind    string `json:"kind"`
	Linkage string `json:"linkage"`
	Local   string `json:"local_hash"`
	// Global is left out of recorded closures.
	Global string `json:"global_hash,omitempty"`
	// Symbols are further symbols that it defines.
	Symbols []string `json:"symbols,omitempty"`
	// Copies are local components of other sources that it stands for: static
	// functions of headers.
	Copies []Copy `json:"copies,omitempty"`
	// Links holds the IDs of what it refers to, in order.
	Links []string `json:"links"`
}

// Copy is a local component that another one stands for.
type Copy struct {
	Name   string `json:"name"`
	Source string `json:"source"`
}

// Compute returns the fingerprint of the test that is linked from sources, in
// this order, together with further contributions.
func Compute(sources []refgraph.Source, roots Roots, more ...Contribution) *Report {
	r, _ := compute(sources, roots, more)
	return r
}

// compute also returns the roots that nothing defines.
func compute(sources []refgraph.Source, roots Roots, more []Contribution) (*Report, []string) {
	closure, _ := roots.closure(sources)
	return report(sources, closure, roots, more)
}

// closure also says whether the way in which the sources are linked counts,
// beside their order.
func (r Roots) closure(sources []refgraph.Source) (c *refgraph.Closure, linking bool) {
	g := refgraph.New(sources)
	resolved := r.resolve(slices.ContainsFunc(sources, func(s refgraph.Source) bool { return looksUp(s.Manifest) }))
	c = g.Closure(resolved)
	if len(r.OnDemand) > 0 && (resolved.Exported || weakReferences(sources) || c.Ambiguous() || c.RootIn(r.OnDemand)) {
		// References of code that is never executed count as well, and
		// compilers drop some: so all code.
		resolved.Exported, resolved.Placement = true, true
		c = g.Closure(resolved)
	}
	return c, c.Ambiguous()
}

// weakReferences says whether a reference may stay undefined: then it matters
// whether what defines it is linked for another reason.
func weakReferences(sources []refgraph.Source) bool {
	return slices.ContainsFunc(sources, func(s refgraph.Source) bool {
		return slices.Contains(s.Manifest.Symbols, manifest.WeakReference)
	})
}

func report(sources []refgraph.Source, closure *refgraph.Closure, roots Roots, more []Contribution) (*Report, []string) {
	contributions := contributions(closure.Hash(), formats(formatsOf(sources)), more)
	return newReport(contributions, sources, closure), roots.missing(closure)
}

// missing returns the roots that nothing defines.
func (r Roots) missing(closure interface{ Defines(symbol string) bool }) []string {
	return slices.DeleteFunc(r.symbols(), closure.Defines)
}

// contributions returns everything that a fingerprint is made of, sorted.
func contributions(code refgraph.Hash, formats Contribution, more []Contribution) []Contribution {
	l := append([]Contribution{{Name: "code", SHA256: hex.EncodeToString(code[:])}, formats}, more...)
	slices.SortFunc(l, func(a, b Contribution) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.SHA256, b.SHA256))
	})
	return l
}

func newReport(contributions []Contribution, sources []refgraph.Source, closure *refgraph.Closure) *Report {
	r := &Report{
		Format: ReportFormat, Fingerprint: combine(contributions), Contributions: contributions,
		Roots: []Root{}, Components: []Component{},
	}
	members := closure.Members()
	r.Units = units(sources, members)
	ids := memberIDs(members)
	for i, m := range members {
		if len(m.Roots) > 0 {
			r.Roots = append(r.Roots, Root{ids[i], m.Roots})
		}
		c := Component{
			ID: ids[i], Name: m.Component.Name, Source: m.Source, File: m.Component.File,
			Kind: enumName(m.Component.Kind), Linkage: enumName(m.Component.Linkage),
			Local: hex.EncodeToString(m.Component.LocalHash), Global: hex.EncodeToString(m.Global[:]),
			Symbols: m.Component.Aliases, Links: []string{},
		}
		for _, x := range m.Copies {
			c.Copies = append(c.Copies, Copy{Name: x.Name, Source: x.Source})
		}
		for _, l := range m.Links {
			c.Links = append(c.Links, ids[l])
		}
		r.Components = append(r.Components, c)
	}
	return r
}

// units describes the manifests of sources that members are in.
func units(sources []refgraph.Source, members []refgraph.Member) []Unit {
	used := map[string]bool{}
	for _, m := range members {
		used[m.Source] = true
		for _, x := range m.Copies {
			used[x.Source] = true
		}
	}
	var l []Unit
	for _, s := range sources {
		if !used[s.Name] {
			continue
		}
		u := Unit{Source: s.Name, Rung: enumName(s.Manifest.Rung), Clang: s.Manifest.Clang, Compiler: s.Manifest.Compiler, Flags: s.Manifest.Flags}
		for _, f := range s.Manifest.Fallbacks {
			if f.Component == "" {
				u.Fallbacks = append(u.Fallbacks, f.Reason)
			}
		}
		l = append(l, u)
	}
	return l
}

// combine returns the SHA-256 of sorted contributions, in hex.
func combine(l []Contribution) string {
	b := frame.New("tasting fingerprint 1")
	b.Int(len(l))
	for _, c := range l {
		sum, err := hex.DecodeString(c.SHA256)
		if err != nil {
			panic(err) // every one was made by this package
		}
		b.String(c.Name)
		b.Bytes(sum)
	}
	sum := b.Sum()
	return hex.EncodeToString(sum[:])
}

// NewContribution returns the contribution of values, in order, under a name.
func NewContribution(name string, values []string) Contribution {
	b := frame.New("tasting " + name + " 1")
	b.Strings(values)
	sum := b.Sum()
	return Contribution{name, hex.EncodeToString(sum[:])}
}

// formats contributes the versions of the manifests' format: they say what a
// local hash means.
func formats(versions []uint32) Contribution {
	var l []string
	for _, v := range slices.Compact(slices.Sorted(slices.Values(versions))) {
		l = append(l, fmt.Sprint(v))
	}
	slices.Sort(l)
	return NewContribution("manifest format", l)
}

func formatsOf(sources []refgraph.Source) (l []uint32) {
	for _, s := range sources {
		if !slices.Contains(l, s.Manifest.Format) {
			l = append(l, s.Manifest.Format)
		}
	}
	return l
}

// memberIDs gives every member a name of its own.
func memberIDs(members []refgraph.Member) []string {
	count := map[string]int{}
	for _, m := range members {
		count[m.Component.Name]++
	}
	ids := make([]string, len(members))
	taken := map[string]bool{}
	for i, m := range members {
		id := m.Component.Name
		if count[id] > 1 {
			id += " (" + m.Source + ")"
		}
		base := id
		for n := 2; taken[id]; n++ {
			id = fmt.Sprintf("%s#%d", base, n)
		}
		taken[id] = true
		ids[i] = id
	}
	return ids
}

// enumName turns KIND_FUNCTION into "function".
func enumName(s fmt.Stringer) string {
	_, name, _ := strings.Cut(s.String(), "_")
	return strings.ToLower(name)
}

// sourceName is how explanations call a manifest: after the file that was
// analyzed, or else after its own.
func sourceName(m *manifest.Manifest, file string) string {
	if m.Source != "" {
		return m.Source
	}
	if path.IsAbs(file) {
		return path.Base(file)
	}
	return file
}

// MissingRootError says that nothing defines a root.
type MissingRootError struct{ Symbols []string }

func (e *MissingRootError) Error() string {
	return fmt.Sprintf("no manifest defines %s: give all manifests of the test, or name where it starts with --root", strings.Join(e.Symbols, ", "))
}

// FromFiles computes the fingerprint of the test that is linked from the
// manifests in files, in this order.
func FromFiles(files []string, roots Roots) (*Report, error) {
	var sources []refgraph.Source
	for _, f := range files {
		m, err := manifest.Read(f)
		if err != nil {
			return nil, err
		}
		if why := m.Unknown(); why != "" {
			return nil, fmt.Errorf("%s: what a test does that links it isn't known (see docs/fallbacks.md): %s", sourceName(m, f), why)
		}
		sources = append(sources, refgraph.Source{Name: sourceName(m, f), Manifest: m})
	}
	r, missing := compute(sources, roots, nil)
	if len(missing) > 0 {
		return nil, &MissingRootError{missing}
	}
	return r, nil
}
