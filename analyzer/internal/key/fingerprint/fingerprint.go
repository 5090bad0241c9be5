// Package fingerprint identifies tests. If two versions of a test have the same key, running it gives the same outcome
// in both.
//
// # Input and output
//
// The input is a Test: links, manifests, data files and declaration. Compose turns it into a
// Config, which is written next to the test's executable. When the test is run, a Run has the arguments, the
// environment and the libraries of the system. Key hashes both.
//
// A fingerprint is the build's part of a key: the SHA-256 of a list of named contributions. The one called "code"
// identifies all code and static data that the test can reach (package refgraph). The others are data files, link flags,
// the format of the manifests, and so on. docs/reference/what-counts.md lists them all, and what is deliberately left
// out.
//
// # Framing
//
// Only messages of package frame are hashed: every string and list is preceded by its length, every message by its name
// and version. So two different lists of contributions never have the same bytes.
//
//	"tasting fingerprint 1"
//	list of contributions, sorted by name:
//	    name
//	    SHA-256, as a string of 32 bytes
//
// # Roots
//
// Execution starts at main, at initialisers, and at functions that libraries of the system call: see refgraph.Roots and
// overrides.txt.
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

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/refgraph"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/linkmodel"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/syslib"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/lazyregexp"
)

// Main is the symbol where a test starts unless told otherwise.
const Main = "main"

// Roots is where a test starts, besides the roots that its manifests name.
type Roots struct {
	// Symbols are the symbols where the test starts. None means Main.
	Symbols []string
	// Exported is set if any definition may be looked up at run time, or referred to by a linker script.
	Exported bool
	// LinkFlags are flags of the link that may name symbols: -u, --wrap, --defsym, --init and others.
	LinkFlags []string
}

//go:embed overrides.txt
var overridesText string

//go:embed static.txt
var staticText string

//go:embed libcxx.txt
var libcxxText string

// gnuNames and allNames return the symbols that libraries of the system define or refer to: with libstdc++, and with any C++ library.
var (
	gnuNames = sync.OnceValue(func() []string { return slices.Concat(shared(), names(staticText)) })
	allNames = sync.OnceValue(func() []string { return slices.Concat(gnuNames(), names(libcxxText)) })
)

// isGNU reports whether the C++ library that a program takes is libstdc++ for certain: by the names of files, and by a
// function that libc++ doesn't have, since the file may be a link to libc++.
func isGNU(taken *syslib.Taken) bool {
	found := false
	for _, f := range taken.Files {
		switch {
		case strings.HasPrefix(f.Name, "libstdc++"):
			found = true
		case strings.Contains(f.Name, "c++"), strings.HasPrefix(f.Name, "libunwind"):
			return false
		}
	}
	return found && taken.Provides("_ZSt20__throw_length_errorPKc")
}

// mayExport reports whether an executable may export more than its libraries mention, by flags of its driver or because
// they aren't known.
func mayExport(taken *syslib.Taken) bool {
	return taken == nil || slices.ContainsFunc(taken.Linker, func(w string) bool {
		return strings.Contains(w, "export-dynamic") || strings.Contains(w, "dynamic-list")
	})
}

// pluginSymbols matches functions that the C library looks up in plugins: name services (nsswitch.conf(5)) and character set
// converters (GCONV_PATH). See link-system/nss-group and link-files/gconv-module.
var pluginSymbols = lazyregexp.New(`^(?:_nss_|gconv(?:_init|_end)?$|_ZGV[bcde]N[0-9]+v+_)`)

// cxxABI and libcxx match names of the C++ ABI's library and of libc++ that are in some version, but perhaps not in the lists.
// A definition in a COMDAT group is a copy.
var (
	cxxABI = lazyregexp.New(`^(?:__cxa_|__gxx_|_Unwind_|_Z(?:T[VIST]|GV|GR)?(?:N[rVKRO]*)?10__cxxabiv1)`)
	libcxx = lazyregexp.New(`^(?:_?_?unw_|_Z(?:T[VIST]|GV|GR)?(?:N[rVKRO]*)?(?:St3__1|9libunwind|24__llvm_libc))`)
)

// overrides lists symbols that a unit defines and libraries of the system define or need: gnu with libstdc++, all with any
// C++ library.
type overrides struct{ gnu, all []linkmodel.Symbol }

// overrides finds the overrides among the units of p. See TestPrograms/link-libcxx for the names of libc++.
func (p *pool) overrides() overrides {
	o := overrides{p.Defined(gnuNames()), p.Defined(allNames())}
	for id := range linkmodel.Symbol(p.Symbols.Len()) {
		name := p.Symbols.Name(id)
		ungrouped := p.Symbols.DefinedUngrouped(id)
		gnu := p.Symbols.Defined(id) && pluginSymbols.MatchString(name) || ungrouped && cxxABI.MatchString(name)
		if gnu && !slices.Contains(o.gnu, id) {
			o.gnu = append(o.gnu, id)
		}
		if (gnu || ungrouped && libcxx.MatchString(name)) && !slices.Contains(o.all, id) {
			o.all = append(o.all, id)
		}
	}
	return o
}

// of returns the overrides of a program of files, with flags that weren't probed. Prebuilt libraries may need libc++, too.
func (o overrides) of(files []*linkedFile, flags []string) []linkmodel.Symbol {
	t := files[0].taken
	if t == nil || !isGNU(t) || len(flags) > 0 || slices.ContainsFunc(files, func(f *linkedFile) bool { return len(f.prebuilt) > 0 }) {
		return o.all
	}
	return o.gnu
}

// shared returns the symbols that shared libraries of the system define or refer to, sorted.
var shared = sync.OnceValue(func() []string { return names(overridesText) })

//go:embed libm.txt
var libmText string

// libm returns the symbols that only libm defines, sorted.
var libm = sync.OnceValue(func() []string { return names(libmText) })

// names returns the lines of text without comments.
func names(text string) []string {
	var l []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			l = append(l, line)
		}
	}
	return l
}

func (r Roots) symbols() []string {
	if len(r.Symbols) == 0 {
		return []string{Main}
	}
	return slices.Clone(r.Symbols)
}

// ReportFormat is the version of Report.
//
// History:
//
//	1  first version
//	2  symbols and copies
//	3  units, link flags, reasons to always run, and what a run adds
//	4  contested symbols and additions instead of copies
const ReportFormat = 4

// Report is a fingerprint and its parts: the input of package explain.
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
	// Run are the parts of the key that the run adds, sorted by name; empty if nothing was run.
	Run []Part `json:"run,omitempty"`
	// Units are the manifests of the closure, in the order of its components.
	Units []Unit `json:"units,omitempty"`
	// Roots lists the components where execution starts, in order.
	Roots []Root `json:"roots"`
	// Additions are the parts of the code's hash besides components: see docs/contributing/encoding.md.
	Additions []Contribution `json:"additions,omitempty"`
	// Unusual is why the whole link is hashed by content, or empty (docs/reference/messages.md). Linked are then the sources of all
	// units that are linked or may be, with hashes of their manifests.
	Unusual string         `json:"unusual,omitempty"`
	Linked  []Contribution `json:"linked,omitempty"`
	// Contested are the symbols of the closure's references that have different definitions, sorted.
	Contested []Contested `json:"contested,omitempty"`
	// Components is the closure: all that the roots reach, in the order of the walk.
	Components []Component `json:"components"`
}

// Unit is a manifest that components of a closure are in.
type Unit struct {
	Source   string `json:"source"`
	Rung     string `json:"rung"`
	Clang    string `json:"clang,omitempty"`
	Compiler string `json:"compiler,omitempty"`
	// Flags are the flags that change generated code, in order.
	Flags []string `json:"flags,omitempty"`
	// Fallbacks are the reasons why the whole unit is analysed on this rung.
	Fallbacks []string `json:"fallbacks,omitempty"`
}

// Contested is a symbol with different definitions.
type Contested struct {
	Symbol string `json:"symbol"`
	// Copies are the sources of the definitions. One of the first Winners is taken.
	Copies  []string `json:"copies"`
	Winners int      `json:"winners"`
}

// Text describes which definition of the symbol is taken.
func (c *Contested) Text() string {
	if c.Winners == 1 {
		return fmt.Sprintf("%s: that of %s is taken, not that of %s", c.Symbol, c.Copies[0], strings.Join(c.Copies[1:], ", "))
	}
	return fmt.Sprintf("%s: it can't be told which is taken of those of %s", c.Symbol, strings.Join(c.Copies[:c.Winners], ", "))
}

// Root is a component where execution starts.
type Root struct {
	Component string   `json:"component"` // its ID
	Why       []string `json:"why"`
}

// Component is a component in a closure.
type Component struct {
	// ID is the component's name, followed by its source if the closure has several components of that name.
	ID      string `json:"id"`
	Name    string `json:"name"`
	Source  string `json:"source"` // file that was analyzed
	File    string `json:"file,omitempty"`
	Kind    string `json:"kind"`
	Linkage string `json:"linkage"`
	Local   string `json:"local_hash"`
	// Symbols are the symbols that it defines besides its name.
	Symbols []string `json:"symbols,omitempty"`
	// Links are the IDs of the components that it refers to, in order.
	Links []string `json:"links"`
}

// part is a manifest with a name for explanations.
type part struct {
	Name     string
	Manifest *manifest.Manifest
}

// compute returns the fingerprint of a test whose executable is linked from sources in this order, and the roots that
// nothing defines. Members of archives are linked on demand.
func compute(sources []part, roots Roots) (*Report, []string) {
	p := newPool(nil, true)
	x := &linkedFile{}
	var versions []uint32
	for i, s := range sources {
		name := fmt.Sprint(i)
		p.add(name, s.Manifest, true)
		for k := range s.Manifest.Units {
			p.sources[len(p.sources)-1-k].name = s.Name
		}
		x.items = append(x.items, lineItem{manifests: []string{name}, lazy: true, members: true, archive: i + 1})
		versions = append(versions, s.Manifest.Format)
	}
	t, overrides := &Test{Roots: roots}, p.overrides()
	code := closure(t, p, p.NewComposer(), []*linkedFile{x}, nil, overrides, nil)
	return newReport(contributions(hex.EncodeToString(code.Hash[:]), formats(versions), nil), p, code), roots.missing(code)
}

// missing returns the roots that nothing defines.
func (r Roots) missing(closure interface{ Defines(symbol string) bool }) []string {
	return slices.DeleteFunc(r.symbols(), closure.Defines)
}

// contributions returns all contributions to a fingerprint, sorted.
func contributions(code string, formats Contribution, more []Contribution) []Contribution {
	l := append([]Contribution{{Name: "code", SHA256: code}, formats}, more...)
	slices.SortFunc(l, Contribution.compare)
	return l
}

func (c Contribution) compare(d Contribution) int {
	return cmp.Or(strings.Compare(c.Name, d.Name), strings.Compare(c.SHA256, d.SHA256))
}

func newReport(contributions []Contribution, p *pool, closure *refgraph.Closure) *Report {
	r := &Report{
		Format: ReportFormat, Fingerprint: combine(contributions), Contributions: contributions,
		Roots: []Root{}, Components: []Component{},
	}
	members := closure.Members()
	r.Units = units(p, members)
	component := func(m *refgraph.Member) *manifest.Component {
		s := p.sources[m.Unit]
		return s.manifest.Components[s.list[m.Component]]
	}
	ids := memberIDs(p, members, component)
	for i := range members {
		m := &members[i]
		x := component(m)
		if len(m.Roots) > 0 {
			why := slices.Clone(m.Roots)
			for k := range why {
				if why[k] == "" {
					why[k] = x.Root
				}
			}
			r.Roots = append(r.Roots, Root{ids[i], why})
		}
		c := Component{
			ID: ids[i], Name: x.Name, Source: p.sources[m.Unit].name, File: x.File,
			Kind: manifest.EnumName(x.Kind), Linkage: manifest.EnumName(x.Linkage),
			Local:   hex.EncodeToString(x.LocalHash),
			Symbols: x.Aliases(), Links: []string{},
		}
		for _, l := range m.Links {
			c.Links = append(c.Links, ids[l])
		}
		r.Components = append(r.Components, c)
	}
	for _, a := range closure.Additions {
		r.Additions = append(r.Additions, Contribution{a.Name, hex.EncodeToString(a.Hash[:])})
	}
	if r.Unusual = closure.Unusual; r.Unusual != "" {
		for unit, h := range closure.Units() {
			r.Linked = append(r.Linked, Contribution{p.sources[unit].name, hex.EncodeToString(h[:])})
		}
	}
	for _, x := range closure.Contests() {
		y := Contested{Symbol: x.Symbol, Winners: x.Winners}
		for _, copy := range x.Copies {
			y.Copies = append(y.Copies, p.sources[copy.Unit].name)
		}
		r.Contested = append(r.Contested, y)
	}
	return r
}

// units describes the manifests that members are in.
func units(p *pool, members []refgraph.Member) []Unit {
	var l []Unit
	seen := map[*manifest.Manifest]bool{}
	for i := range members {
		s := p.sources[members[i].Unit]
		if seen[s.manifest] {
			continue
		}
		seen[s.manifest] = true
		u := Unit{Source: s.name, Rung: manifest.EnumName(s.manifest.Rung), Clang: s.manifest.Clang, Compiler: s.manifest.Compiler, Flags: s.manifest.Flags}
		for _, f := range s.manifest.Fallbacks {
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

// formats contributes the versions of the manifests' format, on which the meaning of local hashes depends.
func formats(versions []uint32) Contribution {
	var l []string
	for _, v := range versions {
		l = append(l, fmt.Sprint(v))
	}
	slices.Sort(l)
	return NewContribution("manifest format", slices.Compact(l))
}

// memberIDs returns a unique ID for each member.
func memberIDs(p *pool, members []refgraph.Member, component func(*refgraph.Member) *manifest.Component) []string {
	count := map[string]int{}
	for i := range members {
		count[component(&members[i]).Name]++
	}
	ids := make([]string, len(members))
	taken := map[string]bool{}
	for i := range members {
		id := component(&members[i]).Name
		if count[id] > 1 {
			id += " (" + p.sources[members[i].Unit].name + ")"
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

// sourceName returns the name of a manifest in explanations: its source, or its own file.
func sourceName(m *manifest.Manifest, file string) string {
	if m.Source != "" {
		return m.Source
	}
	if path.IsAbs(file) {
		return path.Base(file)
	}
	return file
}

// FromFiles computes the fingerprint of a test that is linked from the manifests in files, in this order.
func FromFiles(files []string, roots Roots) (*Report, error) {
	var sources []part
	for _, f := range files {
		m, err := manifest.Read(f)
		if err != nil {
			return nil, err
		}
		if why := m.Unknown(); why != "" {
			return nil, fmt.Errorf("%s: what a test does that links it isn't known (see docs/reference/messages.md): %s", sourceName(m, f), why)
		}
		sources = append(sources, part{Name: sourceName(m, f), Manifest: m})
	}
	r, missing := compute(sources, roots)
	if len(missing) > 0 {
		return nil, fmt.Errorf("no manifest defines %s: give all manifests of the test, or name where it starts with --root", strings.Join(missing, ", "))
	}
	return r, nil
}
