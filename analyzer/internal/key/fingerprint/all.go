package fingerprint

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/refgraph"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/linkflags"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/syslib"
	"golang.org/x/sync/errgroup"
)

// Composed is the result of ComposeAll for one test.
type Composed struct {
	// Config and Warnings are those of Compose.
	Config   *Config
	Warnings []string
	// Fingerprint is that of Compose's report, in hex.
	Fingerprint string
	// Lines are the lines of the test's links: the executable's, those of its libraries, and one with all other flags.
	Lines []*linkflags.Line
	// DataFiles are the files that the test can read.
	DataFiles []string
	// Manifests are the manifests of all linked units.
	Manifests []string
	// Prebuilt are the shared libraries on the lines that Bazel doesn't link.
	Prebuilt []string
	// NotPlain is why evidence by source, if it was requested, can't identify the test. Nothing else is then set.
	NotPlain string
	// Unusual is why the whole link is hashed by content, or empty.
	Unusual string
	// Trace is set for a test with Idle.
	refgraph.Trace
	// Err is why this test can't be composed. Nothing else is then set.
	Err error

	test   *Test
	report *Report
}

// Undecided returns why no result may be replayed for the test, or nil.
func (c *Composed) Undecided() error {
	switch {
	case c.Err != nil:
		return c.Err
	case c.NotPlain != "":
		return errors.New(c.NotPlain)
	case c.Opaque != "":
		return errors.New(c.Opaque)
	case len(c.Config.AlwaysRun) > 0:
		return errors.New(c.Config.AlwaysRun[0])
	}
	return nil
}

// reportChunk is the number of tests that are composed together for their reports. All their manifests are in memory.
const reportChunk = 64

// Reports composes tests once more, and calls do with the index and the report of each. Reports are large, so do shouldn't
// keep them. Calls may be concurrent. It is an error if a fingerprint has changed.
func Reports(composed []*Composed, do func(i int, r *Report, err error)) {
	for start := 0; start < len(composed); start += reportChunk {
		var tests []*Test
		var which []int
		for i := start; i < min(start+reportChunk, len(composed)); i++ {
			if c := composed[i]; c.Err != nil {
				do(i, nil, c.Err)
			} else {
				tests, which = append(tests, c.test), append(which, i)
			}
		}
		composeAll(tests, nil, func(k int, again *Composed) {
			c, err := composed[which[k]], again.Err
			if err == nil && again.Fingerprint != c.Fingerprint {
				err = fmt.Errorf("%s: its fingerprint was %s and now is %s: a manifest or a data file has been changed meanwhile; start again", c.test.Binary, c.Fingerprint, again.Fingerprint)
			}
			do(which[k], again.report, err)
		})
	}
}

// Stats counts the input of ComposeAll.
type Stats struct {
	Manifests  int // files read
	Components int
	Links      int
	// Fallbacks are the sources that aren't analysed at the level of functions.
	Fallbacks []Fallback
}

// Fallback is a source that is analysed on a lower rung (docs/reference/messages.md).
type Fallback struct {
	Source string
	Rung   string
	Reason string
	Tests  int // that link it
}

// Inputs returns the names of files that ComposeAll reads for t besides those in t, relative to the current directory: its
// manifests, and response files of its links, which may not exist.
func (t *Test) Inputs() (manifests, opened []string, err error) {
	b := newBatch([]*Test{t})
	for _, f := range b.linked[0] {
		for _, o := range f.responseFiles {
			opened = append(opened, o.name)
		}
	}
	return b.files, opened, b.errs[0]
}

// ComposeAll composes all tests of an invocation, and reads each of their files once. The result for each test is that of
// Compose.
//
// Memory has results of earlier invocations, or is nil. ComposeAll neither reads nor counts the manifests of tests whose
// code is in memory.
func ComposeAll(tests []*Test, memory *Memory) ([]Composed, Stats) {
	return composeAll(tests, memory, nil)
}

// A pool has the units that tests are linked from.
type pool struct {
	*refgraph.Pool
	numbers map[string][]int32 // the units of each manifest, by its file
	inputs  map[string]*input
	sources []unitSource // of each unit
}

// unitSource is a unit in explanations.
type unitSource struct {
	name     string
	member   bool               // of an archive
	manifest *manifest.Manifest // nil unless a report is wanted
	list     []int32            // components of the unit
}

// newPool reads manifests in chunks, because the pool keeps only a part of each. With keep, it keeps them whole, for reports.
func newPool(files []string, keep bool) *pool {
	p := &pool{Pool: refgraph.NewPool(), numbers: map[string][]int32{}, inputs: map[string]*input{}}
	const chunk = 256
	manifests, inputs := make([]*manifest.Manifest, chunk), make([]*input, chunk)
	for ; len(files) > 0; files = files[min(chunk, len(files)):] {
		some := files[:min(chunk, len(files))]
		parallel(len(some), func(i int) { manifests[i], inputs[i] = readInput(some[i]) })
		for i, f := range some {
			p.inputs[f] = inputs[i]
			if manifests[i] != nil {
				p.add(f, manifests[i], keep)
			}
		}
	}
	return p
}

func (p *pool) add(file string, m *manifest.Manifest, keep bool) {
	p.numbers[file] = p.Add(m)
	for k := range m.Units {
		s := unitSource{name: sourceName(m, file), member: m.Units[k].Name != ""}
		if keep {
			s.manifest = m
			for i, c := range m.Components {
				if int(c.Unit) == k {
					s.list = append(s.list, int32(i))
				}
			}
		}
		p.sources = append(p.sources, s)
	}
}

// linkedFiles returns the files that a test consists of.
func (t *Test) linkedFiles(read func(file string) (*link, error)) ([]*linkedFile, error) {
	var files []*linkedFile
	switch {
	case len(t.Links) > 0:
		x := links{}
		var executable *link
		for i, name := range t.Links {
			l, err := read(name)
			if err != nil {
				return nil, err
			}
			if i == 0 {
				executable = l
			}
			x.add(l)
		}
		files = x.program(executable, t.Source)
		checkNames(files)
	case len(t.Files) > 0:
		for _, f := range t.Files {
			x := &linkedFile{name: f.Name}
			for _, m := range f.Manifests {
				x.items = append(x.items, lineItem{manifests: []string{m}, part: true})
			}
			files = append(files, x)
		}
	default:
		x := &linkedFile{name: t.Binary}
		for i, m := range t.Manifests {
			x.items = append(x.items, lineItem{manifests: []string{m}, lazy: true, members: true, archive: i + 1})
		}
		files = append(files, x)
	}
	if len(t.LinkInputs) > 0 {
		// It isn't known which link reads them.
		names := map[string]bool{}
		for _, name := range t.LinkInputs {
			names[linkflags.Neutral(name)] = true
		}
		for _, f := range files {
			f.uncertain, f.severalConfigs = "a link reads "+strings.Join(t.LinkInputs, ", "), len(names) < len(t.LinkInputs)
		}
	}
	return files, nil
}

// A batch is tests that are composed together. Each file is read once for all of them.
type batch struct {
	tests     []*Test
	errs      []error // of each test: why it can't be composed
	links     map[string]*link
	linked    [][]*linkedFile // of each test
	taken     []*syslib.Taken // of each test: the files of the system that its links take, or nil
	manifests [][]string      // of each test
	files     []string        // all manifests
	pool      *pool
	overrides overrides
	data      *digests
}

// newBatch reads the link files of tests.
func newBatch(tests []*Test) *batch {
	b := &batch{
		tests: tests, errs: make([]error, len(tests)), taken: make([]*syslib.Taken, len(tests)), links: map[string]*link{}, linked: make([][]*linkedFile, len(tests)),
		manifests: make([][]string, len(tests)), data: new(digests),
	}
	opened := make([]bool, len(tests))
	parallel(len(tests), func(i int) {
		opened[i] = len(tests[i].Links)+len(tests[i].Files) > 1 && tests[i].mayBeOpened(b.data.stat, b.data.isProgram)
	})
	all := map[string]bool{}
	for i, t := range tests {
		if b.linked[i], b.errs[i] = t.linkedFiles(func(name string) (*link, error) {
			if l := b.links[name]; l != nil {
				return l, nil
			}
			l, err := readLink(name, t.Dir)
			if err == nil {
				b.links[name] = l
			}
			return l, err
		}); b.errs[i] != nil {
			continue
		}
		own := map[string]bool{}
		for _, f := range b.linked[i] {
			f.opened = opened[i] && len(b.linked[i]) > 1
			for _, it := range f.items {
				for _, m := range it.manifests {
					b.manifests[i] = appendNew(b.manifests[i], own, m)
					b.files = appendNew(b.files, all, m)
				}
			}
		}
	}
	parallel(len(tests), func(i int) {
		lines := lines(b.linked[i])
		if b.errs[i] != nil || len(lines) == 0 {
			return
		}
		var taken *syslib.Taken
		if taken, b.errs[i] = tests[i].taken(lines); taken == nil {
			return
		}
		b.taken[i] = taken
		for _, f := range b.linked[i] {
			f.line.FillIn(taken.Name, taken.AsNeeded)
			f.taken = taken
		}
	})
	return b
}

// appendNew appends s to list if it isn't in known.
func appendNew(list []string, known map[string]bool, s string) []string {
	if known[s] {
		return list
	}
	known[s] = true
	return append(list, s)
}

// read reads manifests. With keep, it keeps them whole, for reports.
func (b *batch) read(files []string, keep bool) {
	b.pool = newPool(files, keep)
	b.overrides = b.pool.overrides()
}

// composeAll composes tests. If report isn't nil, it is called with the result of each test, concurrently, and the result's
// report is then dropped.
func composeAll(tests []*Test, memory *Memory, report func(i int, c *Composed)) ([]Composed, Stats) {
	var stats Stats
	out := make([]Composed, len(tests))
	b := newBatch(tests)
	recalled := memory.recall(b)
	var unread []string
	known := map[string]bool{}
	for i := range tests {
		if recalled.tests[i].summary == nil {
			for _, m := range b.manifests[i] {
				unread = appendNew(unread, known, m)
			}
		}
	}
	b.read(unread, report != nil)
	for file, in := range recalled.inputs {
		if b.pool.inputs[file] == nil {
			b.pool.inputs[file] = in
		}
	}
	stats.Manifests = len(unread)
	stats.Components, stats.Links = b.pool.Len()
	stats.Fallbacks = fallbacks(b.files, b.pool.inputs, b.manifests)
	composers := b.composers()
	parallel(len(tests), func(i int) {
		composer := composers.Get().(*refgraph.Composer)
		defer composers.Put(composer)
		out[i] = b.compose(i, tests[i], composer, &recalled.tests[i].summary, report != nil)
		if report != nil {
			report(i, &out[i])
			out[i].report = nil
		}
	})
	memory.remember(recalled, b.pool.inputs)
	return out, stats
}

// A Traced composes tests for traces: each test as often as there are executions of it.
type Traced struct{ batch *batch }

// NewTraced reads the link files and manifests of tests.
func NewTraced(tests []*Test) *Traced {
	b := newBatch(tests)
	b.read(b.files, false)
	return &Traced{b}
}

// Compose composes, for each k, the test with the index which[k] as ComposeAll does for Idle idle[k].
func (x *Traced) Compose(which []int, idle []map[string]bool) []Composed {
	out := make([]Composed, len(which))
	composers := x.batch.composers()
	parallel(len(which), func(k int) {
		composer := composers.Get().(*refgraph.Composer)
		defer composers.Put(composer)
		t := *x.batch.tests[which[k]]
		t.Idle = idle[k]
		out[k] = x.batch.compose(which[k], &t, composer, new(*summary), false)
	})
	return out
}

// compose composes t, the test with the index i. It sets *known, the summary of its closure, if that is nil. With keep, it
// makes a report.
func (b *batch) compose(i int, t *Test, composer *refgraph.Composer, known **summary, keep bool) Composed {
	if b.errs[i] != nil {
		return Composed{Err: b.errs[i]}
	}
	p, files, manifests := b.pool, b.linked[i], b.manifests[i]
	var inputs []*input
	var requested []string // libraries that objects ask for
	for _, m := range manifests {
		in := p.inputs[m]
		switch {
		case in.err != nil:
			return Composed{Err: in.err}
		case in.NotPlain != "":
			return Composed{NotPlain: in.NotPlain}
		}
		inputs = append(inputs, in)
		requested = append(requested, in.Libraries...)
	}
	lines := lines(files)
	var code *refgraph.Closure
	if *known == nil {
		code = closure(t, p, composer, files, lines, b.overrides, requested)
		*known = summarise(t, code, files, lines)
	}
	sum := *known
	taken := b.taken[i]
	if more := slices.Concat(t.LinkFlags, requested); len(more) > 0 || len(lines) == 0 {
		lines = append(lines, linkflags.Parse(more, linkflags.Options{}))
		var err error
		if taken, err = t.taken(lines); err != nil {
			return Composed{Err: err}
		}
	}
	undefined := undefined(sum.Unresolved, lines, taken)
	if why := t.notPlain(sum, files, undefined); why != "" {
		return Composed{NotPlain: why}
	}
	c, all, err := compose(t, sum, slices.Concat(t.LinkFlags, sum.Flags, requested), lines, inputs, undefined, taken, files, b.data)
	if err != nil {
		return Composed{Err: err}
	}
	for _, f := range files {
		c.Prebuilt = append(c.Prebuilt, f.prebuilt...)
	}
	c.Manifests, c.Unusual = manifests, sum.Unusual
	if t.Idle != nil {
		c.Trace = code.Trace
	}
	if keep {
		c.report = newReport(all, p, code)
		c.report.LinkFlags, c.report.AlwaysRun = slices.Clone(c.Config.LinkFlags), slices.Clone(c.Config.AlwaysRun)
	}
	return *c
}

// closure composes the code of a test.
func closure(t *Test, p *pool, composer *refgraph.Composer, files []*linkedFile, lines []*linkflags.Line, overrides overrides, requested []string) *refgraph.Closure {
	flags := slices.Concat(t.LinkFlags, t.Roots.LinkFlags, requested)
	program := model(files, t.Roots.symbols(), overrides.of(files, flags), p)
	roots := refgraph.Roots{Symbols: t.Roots.symbols(), Overrides: program.Overrides, Opened: files[0].opened, StaticC: len(lines) == 0, Idle: t.Idle, Cases: t.Cases, System: systemLibrary}
	for _, l := range lines {
		roots.StaticC = roots.StaticC || l.StaticLibraries().C
	}
	if len(flags) > 0 {
		lines = append(slices.Clip(lines), linkflags.Parse(flags, linkflags.Options{}))
	}
	// gold exports unique symbols. See link-lookup/unique-gold.
	roots.Exports = mayExport(files[0].taken) || slices.ContainsFunc(lines, func(l *linkflags.Line) bool { return l.Linker == "" || l.Linker == "gold" })
	roots.GCSections = slices.ContainsFunc(lines, func(l *linkflags.Line) bool { return l.GCSections })
	program.Unusual = t.unusualReason(files, lines)
	return composer.Compose(program, roots)
}

// unusualReason returns why the test's links are unusual, by their lines or by the test's declaration, or "".
func (t *Test) unusualReason(files []*linkedFile, lines []*linkflags.Line) string {
	switch {
	case t.Roots.Exported:
		return "any definition may be looked up by name"
	case len(t.LinkInputs) > 0:
		return "a link reads " + path.Base(t.LinkInputs[0]) // which link isn't known
	}
	for _, name := range t.EnvKeys { // see TestSuppressions
		if syslib.ForSanitizer(name) {
			return name + " may name functions and files"
		}
	}
	for _, f := range files {
		if why := f.unusualReason(); why != "" {
			return why
		}
	}
	for _, l := range lines {
		switch {
		case len(l.Unusual) > 0:
			return "the line of the link: " + l.Unusual[0]
		case len(files) > 1 && (isBare(l) || isBareCxx(l)):
			return "a file is linked without libraries that drivers add"
		case l.StaticLibraries().Any && l.Bsymbolic:
			return "a library binds its own copies of libraries of the system"
		}
	}
	return ""
}

// A summary is the part of a closure that a fingerprint needs. Memory keeps it.
type summary struct {
	Hash       string   // in hex
	Unusual    string   `json:",omitempty"`
	NotPlain   string   `json:",omitempty"` // why sources aren't enough
	Unresolved []string `json:",omitempty"`
	Duplicates []string `json:",omitempty"`
	Missing    []string `json:",omitempty"` // roots that nothing defines
	Flags      []string `json:",omitempty"` // of the lines
	Content    string   // of the link, in hex: part of the fingerprint if a linker may refuse a symbol
	Cases      []Case   `json:",omitempty"`
	NoCases    string   `json:",omitempty"`
}

func summarise(t *Test, code *refgraph.Closure, files []*linkedFile, lines []*linkflags.Line) *summary {
	content := code.Content()
	s := &summary{
		Hash: hex.EncodeToString(code.Hash[:]), Unusual: code.Unusual, Unresolved: code.Unresolved, Duplicates: code.Duplicates,
		Missing: t.Roots.missing(code), Flags: lineFlags(files), Content: hex.EncodeToString(content[:]), NoCases: code.NoCases,
	}
	for _, c := range code.Cases {
		s.Cases = append(s.Cases, Case{c.ID, hex.EncodeToString(c.Hash[:])})
	}
	if t.Source {
		s.NotPlain = programNotPlain(code, lines)
	}
	return s
}

// notPlain returns why manifests of sources aren't enough to identify a test, or "".
func (t *Test) notPlain(code *summary, files []*linkedFile, undefined []string) string {
	// A builtin has the name of the library function that it replaces.
	undefined = slices.DeleteFunc(slices.Clone(undefined), func(s string) bool { return strings.HasPrefix(s, "__builtin_") })
	switch {
	case !t.Source:
	case len(t.LinkInputs) > 0:
		return "a linker script sees the sections that a compiler makes"
	case files[0].opened:
		return "other programs may open the libraries of the test, which compilers make"
	case code.NotPlain != "":
		return code.NotPlain
	case len(undefined) > 0:
		return "nothing defines " + undefined[0] + ", and compilers leave references out"
	}
	return ""
}

// programNotPlain returns why manifests of sources aren't enough to identify a program, or "". For example, a compiler turns
// calls of printf into calls of puts.
func programNotPlain(code *refgraph.Closure, lines []*linkflags.Line) string {
	if len(code.Overridden) > 0 {
		return "the program defines " + code.Overridden[0] + ", as a library of the system does: compilers may know what it does"
	}
	if code.Inexact != "" {
		return code.Inexact
	}
	for i, l := range lines {
		switch {
		case isBare(l):
			return "libraries that compilers' own calls need may not be linked, and these calls are in no source"
		case i > 0 && l.Bsymbolic:
			return "a library binds its own symbols, and compilers decide whether the program has copies of them"
		}
	}
	return ""
}

// fallbacks returns the fallbacks of manifests, sorted, with the number of tests that link each.
func fallbacks(files []string, inputs map[string]*input, manifests [][]string) []Fallback {
	tests := map[string]int{}
	for _, l := range manifests {
		for _, m := range l {
			tests[m]++
		}
	}
	var l []Fallback
	for _, file := range files {
		if in := inputs[file]; in.Fallback != nil {
			f := *in.Fallback
			f.Tests = tests[file]
			l = append(l, f)
		}
	}
	slices.SortFunc(l, func(a, b Fallback) int {
		return cmp.Or(strings.Compare(a.Source, b.Source), strings.Compare(a.Rung, b.Rung), strings.Compare(a.Reason, b.Reason), b.Tests-a.Tests)
	})
	return l
}

// parallel calls f with 0 to n-1, in any order, on all processors.
func parallel(n int, f func(i int)) {
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range n {
		g.Go(func() error {
			f(i)
			return nil
		})
	}
	_ = g.Wait() // f returns no error
}

// composers returns a pool of composers, which are for one goroutine at a time.
func (b *batch) composers() *sync.Pool {
	return &sync.Pool{New: func() any { return b.pool.NewComposer() }}
}

// digests caches what is known of files: their digests, which of them are programs, and what they are. Tests share data.
type digests struct{ files, programs, infos sync.Map }

func (d *digests) stat(file string) (os.FileInfo, error) {
	once, _ := d.infos.LoadOrStore(file, sync.OnceValues(func() (os.FileInfo, error) { return os.Stat(file) }))
	return once.(func() (os.FileInfo, error))()
}

func (d *digests) isProgram(file string) bool {
	once, _ := d.programs.LoadOrStore(file, sync.OnceValue(func() bool { return isProgram(file) }))
	return once.(func() bool)()
}

func (d *digests) digest(file string) (fileDigest, error) {
	once, _ := d.files.LoadOrStore(file, sync.OnceValues(func() (fileDigest, error) { return digest(file) }))
	return once.(func() (fileDigest, error))()
}
