package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
)

// plan is what a generated invocation looks like: a file beside the manifests.
type plan struct {
	Libraries int     `json:"libraries"`
	Files     []int   `json:"files"` // number of manifests of each library
	Tests     [][]int `json:"tests"` // the libraries that each test links, in order
}

func (p *plan) library(dir string, lib, file int) string {
	return filepath.Join(dir, fmt.Sprintf("lib%03d", lib/100), fmt.Sprintf("lib%05d_%d.manifest", lib, file))
}

func (p *plan) test(dir string, i int) string {
	return filepath.Join(dir, fmt.Sprintf("test%03d", i/100), fmt.Sprintf("test%05d.manifest", i))
}

const (
	perTest    = 45  // components of a test, on average
	perLibrary = 650 // components of a library with its copies of inline functions, on average
	inlines    = 12  // inline functions in the header of a library
	popular    = 0   // the library that nearly everything links
)

// library is what others can refer to.
type library struct {
	files     int
	deps      []int // direct
	all       []int // transitive, in the order of the link, itself first
	functions int   // f0 ... of the library, spread over its files
}

// generate writes manifests with about the given number of components, ten
// times as many links and the files of the tests. Override says whether each
// test defines a function of the most popular library anew.
func generate(dir string, components, tests int, override bool) error {
	r := rand.New(rand.NewPCG(1, 2))
	n := max((components-perTest*tests)/perLibrary, 4)
	libs := make([]library, n)
	p := plan{Libraries: n}
	for i := range libs {
		l := &libs[i]
		l.files = 2 + r.IntN(5)
		l.functions = l.files * 30
		p.Files = append(p.Files, l.files)
		if i > 0 {
			// Popularity falls with a power of the rank, and every library has
			// something in its neighbourhood that it depends on.
			l.deps = append(l.deps, popular)
			for range 1 + r.IntN(6) {
				d := int(float64(i) * math.Pow(r.Float64(), 2.5))
				if !slices.Contains(l.deps, d) {
					l.deps = append(l.deps, d)
				}
			}
		}
		l.all = linkOrder(libs, append([]int{i}, l.deps...))
	}
	for i := range libs {
		for k := range libs[i].files {
			file := p.library(dir, i, k)
			if err := write(file, libraryFile(r, libs, i, k)); err != nil {
				return err
			}
		}
	}
	for i := range tests {
		var direct []int
		for range 1 + r.IntN(1+r.IntN(40)) {
			if d := r.IntN(n); !slices.Contains(direct, d) {
				direct = append(direct, d)
			}
		}
		if err := write(p.test(dir, i), testFile(r, libs, i, direct, override)); err != nil {
			return err
		}
		p.Tests = append(p.Tests, linkOrder(libs, direct))
	}
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "plan.json"), b, 0o666)
}

// linkOrder returns everything that libraries need, each one before what it
// depends on where it is met first.
func linkOrder(libs []library, direct []int) []int {
	seen := make([]bool, len(libs))
	var out []int
	for _, d := range direct {
		if libs[d].all == nil {
			seen[d] = true
			out = append(out, d) // itself, not complete yet
			continue
		}
		for _, x := range libs[d].all {
			if !seen[x] {
				seen[x] = true
				out = append(out, x)
			}
		}
	}
	return out
}

// file is a manifest that is being written.
type file struct {
	m     *manifest.Manifest
	own   map[string]uint32
	other map[string]uint32
}

func newFile(source string) *file {
	return &file{
		m:   &manifest.Manifest{Rung: manifest.Rung_RUNG_OBJECT, Source: source, Units: []*manifest.Unit{{Exact: true}}},
		own: map[string]uint32{}, other: map[string]uint32{},
	}
}

func (f *file) add(name string, linkage manifest.Linkage, kind manifest.Kind, hash uint64) *manifest.Component {
	c := &manifest.Component{Name: name, Kind: kind, Linkage: linkage, LocalHash: localHash(hash)}
	switch linkage {
	case manifest.Linkage_LINKAGE_EXTERNAL:
		c.Definitions = manifest.NewDefinitions(manifest.Binding_BINDING_GLOBAL, name)
	case manifest.Linkage_LINKAGE_WEAK:
		c.Definitions, c.Group = manifest.NewDefinitions(manifest.Binding_BINDING_WEAK, name), name
	}
	f.own[name] = uint32(len(f.m.Components))
	f.m.Components = append(f.m.Components, c)
	return c
}

func (f *file) link(c *manifest.Component, name string) {
	own, defined := f.own[name]
	if defined && len(f.m.Components[own].Definitions) == 0 {
		c.Links = append(c.Links, 2*own)
		return
	}
	k, ok := f.other[name]
	if !ok {
		k = uint32(len(f.m.Symbols))
		f.other[name] = k
		f.m.Symbols = append(f.m.Symbols, name)
	}
	c.Links = append(c.Links, 2*k+1)
}

// finish lists the references. Whether a name is defined is known at the end.
func (f *file) finish() *manifest.Manifest {
	for _, s := range f.m.Symbols {
		if _, ok := f.own[s]; !ok {
			f.m.Units[0].References = append(f.m.Units[0].References, &manifest.Reference{Name: s})
		}
	}
	return f.m
}

func localHash(x uint64) []byte {
	b := binary.BigEndian.AppendUint64(nil, x*0x9e3779b97f4a7c15)
	return binary.BigEndian.AppendUint64(b, (x^x>>29)*0xbf58476d1ce4e5b9)
}

func hashOf(parts ...int) uint64 {
	h := uint64(14695981039346656037)
	for _, p := range parts {
		h = (h ^ uint64(p)) * 1099511628211
		h ^= h >> 31
	}
	return h
}

func function(lib, i int) string {
	return fmt.Sprintf("_ZN7company7project9lib%05d12Function%05dEiPKcRKSs", lib, i)
}

func inlineFunction(lib, i int) string {
	return fmt.Sprintf("_ZNK7company7project9lib%05d6WidgetIiE8inline%02dEv", lib, i)
}

// addInline adds the copy of an inline function and what it needs of the same
// header.
func (f *file) addInline(libs []library, lib, i, variant int) {
	name := inlineFunction(lib, i)
	if _, ok := f.own[name]; ok {
		return
	}
	c := f.add(name, manifest.Linkage_LINKAGE_WEAK, manifest.Kind_KIND_FUNCTION, hashOf(2, lib, i, variant))
	for k := i + 1; k < inlines && k < i+3; k++ {
		f.addInline(libs, lib, k, 0)
		f.link(c, inlineFunction(lib, k))
	}
	for k := range 4 {
		f.link(c, function(lib, (i*7+k)%libs[lib].functions))
	}
}

func libraryFile(r *rand.Rand, libs []library, lib, k int) *manifest.Manifest {
	l := &libs[lib]
	f := newFile(fmt.Sprintf("project/lib%05d/file%d.cc", lib, k))
	type pending struct {
		c *manifest.Component
		n int
	}
	var todo []pending
	var mine []string
	for i := k; i < l.functions; i += l.files {
		mine = append(mine, function(lib, i))
		todo = append(todo, pending{f.add(function(lib, i), manifest.Linkage_LINKAGE_EXTERNAL, manifest.Kind_KIND_FUNCTION, hashOf(1, lib, i)), 19})
	}
	for i := range 18 {
		name := fmt.Sprintf("local_function_%d", i)
		mine = append(mine, name)
		todo = append(todo, pending{f.add(name, manifest.Linkage_LINKAGE_LOCAL, manifest.Kind_KIND_FUNCTION, hashOf(3, lib, k, i)), 19})
	}
	for i := range 6 {
		name := fmt.Sprintf("variable_%d", i)
		mine = append(mine, name)
		content := hashOf(4, lib, k, i)
		if i < 2 {
			content = hashOf(4, r.IntN(40)) // static int n;
		}
		f.add(name, manifest.Linkage_LINKAGE_LOCAL, manifest.Kind_KIND_VARIABLE, content)
	}
	if r.IntN(50) == 0 {
		c := f.add("_GLOBAL__sub_I", manifest.Linkage_LINKAGE_LOCAL, manifest.Kind_KIND_INITIALIZER, hashOf(5, lib, k))
		c.Root = "constructor"
		todo = append(todo, pending{c, 3})
	}
	from := append([]int{lib}, l.deps...)
	for range 8 {
		d := from[r.IntN(len(from))]
		variant := 0
		if r.IntN(2000) == 0 {
			variant = 1 + r.IntN(2) // compiled with other flags
		}
		f.addInline(libs, d, r.IntN(inlines), variant)
	}
	for i, t := range todo {
		for range t.n {
			var name string
			switch x := r.IntN(100); {
			case x < 2:
				name = mine[r.IntN(len(mine))] // perhaps back: a cycle
			case x < 45:
				name = mine[min(i+1+r.IntN(20), len(mine)-1)]
			case x < 60:
				// A later function of the library: another file.
				name = function(lib, min(i*l.files/2+1+r.IntN(20), l.functions-1))
			case x < 75:
				d := from[r.IntN(len(from))]
				i := r.IntN(inlines)
				f.addInline(libs, d, i, 0)
				name = inlineFunction(d, i)
			default:
				d := from[r.IntN(len(from))]
				name = function(d, r.IntN(1+r.IntN(libs[d].functions)))
			}
			if f.m.Components[f.own[t.c.Name]] == t.c && name != t.c.Name {
				f.link(t.c, name)
			}
		}
	}
	return f.finish()
}

func testFile(r *rand.Rand, libs []library, i int, direct []int, override bool) *manifest.Manifest {
	f := newFile(fmt.Sprintf("project/tests/test%05d.cc", i))
	main := f.add("main", manifest.Linkage_LINKAGE_EXTERNAL, manifest.Kind_KIND_FUNCTION, hashOf(6))
	var all []*manifest.Component
	for k := range 15 {
		name := fmt.Sprintf("test_case_%02d", k)
		all = append(all, f.add(name, manifest.Linkage_LINKAGE_LOCAL, manifest.Kind_KIND_FUNCTION, hashOf(7, i, k)))
		f.link(main, name)
	}
	if i%5 == 0 {
		// The same name in many tests.
		all = append(all, f.add("_ZN7fixture5SetUpEv", manifest.Linkage_LINKAGE_EXTERNAL, manifest.Kind_KIND_FUNCTION, hashOf(8, i)))
	}
	f.add("failures", manifest.Linkage_LINKAGE_LOCAL, manifest.Kind_KIND_VARIABLE, hashOf(4, 0))
	for k, c := range all {
		f.link(c, "failures")
		if k%3 == 0 && i%5 == 0 && c.Name != "_ZN7fixture5SetUpEv" {
			f.link(c, "_ZN7fixture5SetUpEv")
		}
		for range 9 {
			d := direct[r.IntN(len(direct))]
			if r.IntN(4) == 0 {
				n := r.IntN(inlines)
				f.addInline(libs, d, n, 0)
				f.link(c, inlineFunction(d, n))
			} else {
				f.link(c, function(d, r.IntN(libs[d].functions)))
			}
		}
	}
	switch {
	case override:
		f.add(function(popular, 0), manifest.Linkage_LINKAGE_EXTERNAL, manifest.Kind_KIND_FUNCTION, hashOf(9, i))
	case i%20 == 0:
		// A fake for a function of something that is linked.
		d := direct[0]
		f.add(function(d, r.IntN(libs[d].functions)), manifest.Linkage_LINKAGE_EXTERNAL, manifest.Kind_KIND_FUNCTION, hashOf(9, i))
	}
	return f.finish()
}

func write(name string, m *manifest.Manifest) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	return manifest.Write(name, m)
}
