package evolve

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/component"
	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/objfile"
	"github.com/rules-tasting/rules_tasting/analyzer/tu"
)

// Builder compiles, links, analyses and runs revisions. What is equal is done once, whichever
// program, revision or tool asks for it. It may be used concurrently.
type Builder struct {
	// Dir is a directory of its own, where everything is kept.
	Dir string
	// C and CXX are the compilers' drivers, Flags those of all compilations in front of a revision's.
	C, CXX string
	Flags  []string
	// Link are flags of all links. With Probe, keys are made from what these take from the system, as for
	// users; without, whatever can be looked up in a program counts.
	Link  []string
	Probe bool
	// Clang dumps syntax trees for evidence by source, or is empty: then there is none.
	Clang string

	units   sync.Map // *variants by source and flags
	ran     sync.Map // *execution by program and data
	written sync.Map // files of manifests and links: see file
	probes  sync.Map // what links take from the system
	// compared are the comparisons of hybrid tools that were made.
	compared sync.Map
}

// errRefused is that a compiler or linker refuses a revision.
var errRefused = errors.New("it isn't built")

func sum(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// checkout is a revision on disk, as soon as something has to be compiled.
type checkout struct {
	*Revision
	b   *Builder
	dir string
}

func (c *checkout) place() (string, error) {
	if c.dir != "" {
		return c.dir, nil
	}
	dir, err := os.MkdirTemp(c.b.Dir, "checkout-")
	for name, text := range c.Files {
		err = errors.Join(err, write(filepath.Join(dir, filepath.FromSlash(name)), text))
	}
	c.dir = dir
	return dir, err
}

func (c *checkout) remove() { _ = os.RemoveAll(c.dir) }

func write(name, text string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(text), 0o666)
}

// Unit is a compiled source.
type Unit struct {
	Source string
	Object string   // file
	Sum    string   // of the object
	Reads  []string // files of the revision that it was compiled from, sorted
	// Manifest is by its object, BySource by its source, nil if there is none: encoded.
	Manifest, BySource []byte

	text string // of the source
	err  error
}

// variants are the units that a source with some flags has been compiled to.
type variants struct {
	mu    sync.Mutex
	known []*variant
}

// variant is a unit and the contents of what was read for it.
type variant struct {
	reads map[string]string
	unit  *Unit
}

// unit compiles a source of a revision, unless that has been done with the same of everything
// that was read.
func (b *Builder) unit(ctx context.Context, r *checkout, source string, flags []string) (*Unit, error) {
	words := slices.Concat(b.Flags, r.Flags, flags)
	// A file that is new may be found in the place of another one.
	names := slices.Sorted(maps.Keys(r.Files))
	key := sum(slices.Concat([]string{source, r.Files[source]}, words, []string{""}, names)...)
	known, _ := b.units.LoadOrStore(key, new(variants))
	v := known.(*variants)
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, k := range v.known {
		same := true
		for name, text := range k.reads {
			if now, ok := r.Files[name]; !ok || now != text {
				same = false
				break
			}
		}
		if same {
			return k.unit, k.unit.err
		}
	}
	u := b.compile(ctx, r, source, words, filepath.Join(b.Dir, "objects", key[:2], fmt.Sprintf("%s-%d", key[2:32], len(v.known))))
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	reads := map[string]string{}
	for _, name := range u.Reads {
		reads[name] = r.Files[name]
	}
	if errors.Is(u.err, errRefused) {
		reads = r.Files // compilers don't say what they had read by then
	}
	v.known = append(v.known, &variant{reads, u})
	return u, u.err
}

func (b *Builder) compile(ctx context.Context, r *checkout, source string, words []string, out string) *Unit {
	u := &Unit{Source: source, Object: out + ".o", text: r.Files[source]}
	dir, err := r.place()
	if err == nil {
		err = os.MkdirAll(filepath.Dir(out), 0o777)
	}
	if err != nil {
		u.err = err
		return u
	}
	driver := b.C
	if IsCXX(source) {
		driver = b.CXX
	}
	argv := slices.Concat([]string{driver}, words, []string{"-I.", "-c", source})
	if u.err = run(ctx, dir, append(slices.Clone(argv), "-o", u.Object, "-MMD", "-MF", out+".d")); u.err != nil {
		return u
	}
	content, err := os.ReadFile(u.Object)
	if err == nil {
		u.Sum = sum(string(content))
		u.Manifest, err = encoded(objfile.ManifestOrContent(u.Object, objfile.Options{}))
	}
	deps, err2 := os.ReadFile(out + ".d")
	u.Reads, u.err = prerequisites(string(deps)), errors.Join(err, err2)
	if u.err == nil && b.Clang != "" && !IsCXX(source) {
		u.BySource, u.err = encoded(BySource(ctx, dir, source, argv, b.Clang))
	}
	return u
}

func encoded(m *manifest.Manifest, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return manifest.Marshal(m)
}

// inDir is held while the working directory is another one.
var inDir sync.Mutex

// BySource returns the manifest of the source that a command line compiles in a directory, as for tests
// that aren't compiled yet: if it isn't plain C, one that says so.
func BySource(ctx context.Context, dir, source string, argv []string, clang string) (*manifest.Manifest, error) {
	t, err := preprocess(ctx, dir, argv)
	if err != nil {
		return nil, err
	}
	m, err := component.Analyze(ctx, t, clang)
	var not *component.NotPlain
	if errors.As(err, &not) {
		return manifest.NewNotPlain(source, not.Reason), nil
	}
	return m, err
}

func preprocess(ctx context.Context, dir string, argv []string) (*tu.Unit, error) {
	inDir.Lock()
	defer inDir.Unlock()
	was, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	if err := os.Chdir(dir); err != nil {
		return nil, err
	}
	t, _, err := tu.Preprocess(ctx, argv, tu.Options{})
	return t, errors.Join(err, os.Chdir(was))
}

// prerequisites returns the files in a makefile that a compiler has written, relative ones only.
func prerequisites(makefile string) []string {
	_, list, _ := strings.Cut(strings.ReplaceAll(makefile, "\\\n", " "), ":")
	var files []string
	for f := range strings.FieldsSeq(list) {
		if !filepath.IsAbs(f) {
			files = append(files, path.Clean(f))
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// run runs a tool. It is errRefused if that fails.
func run(ctx context.Context, dir string, argv []string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &exit):
		return fmt.Errorf("%w: %s: %v: %s", errRefused, strings.Join(argv, " "), err, bytes.TrimSpace(out))
	}
	return err
}

// File is a linked file: a program, or a library.
type File struct {
	Name  string // "t1", "liba.a", "liba.so"
	Kind  string // executable, archive or shared, as in link files
	Words []string
	Units []*Unit
}

// Built is a test of a revision whose sources are compiled. It is linked when it is run.
type Built struct {
	Test  *Test
	Files []*File // the executable first
	// Err is why it isn't built, if a compiler refuses it.
	Err error

	b        *Builder
	revision *Revision
	recorded *Recorded // nil if the Builder has built it
}

// Build compiles what the tests of a revision are linked from. An error is of the machine; that a
// compiler refuses a source is in Built.Err.
func (b *Builder) Build(ctx context.Context, revision *Revision) (map[string]*Built, error) {
	r := &checkout{Revision: revision, b: b}
	defer r.remove()
	libraries := map[string]*Library{}
	files := map[string]*File{}
	refused := map[string]error{}
	for i := range r.Libraries {
		l := &r.Libraries[i]
		libraries[l.Name] = l
		f, err := b.library(ctx, r, l)
		if errors.Is(err, errRefused) {
			refused[l.Name] = err
		} else if err != nil {
			return nil, err
		}
		files[l.Name] = f
	}
	tests := map[string]*Built{}
	for i := range r.Tests {
		t := &r.Tests[i]
		x := &Built{Test: t, b: b, revision: revision}
		exe := &File{Name: "prog", Kind: "executable", Words: []string{"-o", "prog"}}
		err := b.addUnits(ctx, r, exe, t.Sources, nil)
		if errors.Is(err, errRefused) {
			x.Err = err
		} else if err != nil {
			return nil, err
		}
		x.Files = []*File{exe}
		for _, name := range closure(libraries, t.Deps) {
			if refused[name] != nil {
				x.Err = refused[name]
			}
			l, f := libraries[name], files[name]
			exe.Words = append(exe.Words, f.Name)
			if l.Shared {
				exe.Words[len(exe.Words)-1] = "-l" + name
			}
			x.Files = append(x.Files, f)
		}
		exe.Words = slices.Concat(exe.Words, []string{"-L.", "-Wl,-rpath,$ORIGIN"}, b.Link)
		tests[t.Name] = x
	}
	return tests, nil
}

// closure returns libraries and all that they need, as they are on a line: each in front of what
// it needs.
func closure(libraries map[string]*Library, names []string) []string {
	var order []string
	seen := map[string]bool{}
	var visit func(string)
	visit = func(name string) {
		if seen[name] {
			return
		}
		seen[name] = true
		for _, d := range slices.Backward(libraries[name].Deps) {
			visit(d)
		}
		order = append(order, name)
	}
	for _, n := range slices.Backward(names) {
		visit(n)
	}
	slices.Reverse(order)
	return order
}

func (b *Builder) library(ctx context.Context, r *checkout, l *Library) (*File, error) {
	f := &File{Name: "lib" + l.Name + ".a", Kind: "archive"}
	flags := l.Flags
	if l.Shared {
		f.Name, f.Kind, f.Words = "lib"+l.Name+".so", "shared", []string{"-shared", "-o", "lib" + l.Name + ".so"}
		flags = append([]string{"-fPIC"}, flags...)
	}
	if f.Kind == "shared" {
		f.Words = append(f.Words, b.Link...)
	}
	return f, b.addUnits(ctx, r, f, l.Sources, flags)
}

func (b *Builder) addUnits(ctx context.Context, r *checkout, f *File, sources, flags []string) error {
	for _, s := range sources {
		u, err := b.unit(ctx, r, s, flags)
		if err != nil {
			return err
		}
		f.Units = append(f.Units, u)
		f.Words = append(f.Words, objectName(u))
	}
	return nil
}

// objectName is the name of an object on a line.
func objectName(u *Unit) string {
	return strings.TrimSuffix(strings.ReplaceAll(u.Source, "/", "_"), path.Ext(u.Source)) + ".o"
}

// Content identifies the linked program: what the files are linked from, and how.
func (x *Built) Content() string {
	parts := []string{x.driver()}
	for _, f := range x.Files {
		parts = append(parts, f.Name, f.Kind, strings.Join(f.Words, "\x00"))
		for _, u := range f.Units {
			parts = append(parts, u.Sum)
		}
	}
	return sum(parts...)
}

// Inputs identifies all that an execution of the test is given: the program, data and arguments.
func (x *Built) Inputs() string {
	if x.recorded != nil {
		return x.recorded.Inputs
	}
	parts := append([]string{x.Content(), x.Test.Name}, x.Test.Args...)
	for _, d := range x.Test.Data {
		parts = append(parts, d, x.revision.Files[d])
	}
	return sum(parts...)
}

func (x *Built) driver() string {
	for _, f := range x.Files {
		for _, u := range f.Units {
			if IsCXX(u.Source) {
				return x.b.CXX
			}
		}
	}
	return x.b.C
}

// Outcome is what became of an execution.
type Outcome struct {
	Built  bool
	Status string // "exit status 0", "signal: segmentation fault", or why it isn't built
	Output string // standard output and error
}

// OK tells whether the program was built and ended with 0.
func (o *Outcome) OK() bool { return o.Built && o.Status == "exit status 0" }

// Same tells whether two executions can't be told apart.
func (o *Outcome) Same(x *Outcome) bool { return *o == *x }

// execution is done once.
type execution struct {
	once    sync.Once
	outcome *Outcome
	took    time.Duration
	err     error
}

// Run links and executes the test, and returns how long that took, if it had to be done at all.
func (x *Built) Run(ctx context.Context) (*Outcome, time.Duration, error) {
	if x.recorded != nil {
		return x.recorded.Outcome, x.recorded.Took, nil
	}
	if x.Err != nil {
		return &Outcome{Status: "it doesn't compile"}, 0, nil
	}
	e, _ := x.b.ran.LoadOrStore(x.Inputs(), new(execution))
	t := e.(*execution)
	t.once.Do(func() {
		start := time.Now()
		t.outcome, t.err = x.execute(ctx)
		t.took = time.Since(start)
	})
	return t.outcome, t.took, t.err
}

// maxRun bounds an execution.
const maxRun = 10 * time.Second

func (x *Built) execute(ctx context.Context) (*Outcome, error) {
	dir, err := os.MkdirTemp(x.b.Dir, "run-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	at := filepath.Join(dir, "runfiles")
	if err := os.Mkdir(at, 0o777); err != nil {
		return nil, err
	}
	if err := x.link(ctx, dir); errors.Is(err, errRefused) {
		return &Outcome{Status: "it doesn't link"}, nil
	} else if err != nil {
		return nil, err
	}
	for _, d := range x.Test.Data {
		if err := write(filepath.Join(at, filepath.FromSlash(d)), x.revision.Files[d]); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, maxRun)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "prog"), x.Test.Args...)
	cmd.Dir, cmd.Env = at, []string{"PATH=/usr/bin:/bin"}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &Outcome{Built: true, Status: "it takes more than " + maxRun.String()}, nil
	}
	if err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	return &Outcome{Built: true, Status: cmd.ProcessState.String(), Output: string(out)}, nil
}

// link links the program and its libraries in a directory.
func (x *Built) link(ctx context.Context, dir string) error {
	for _, f := range x.Files {
		for _, u := range f.Units {
			if err := os.Link(u.Object, filepath.Join(dir, objectName(u))); err != nil && !errors.Is(err, os.ErrExist) {
				return err
			}
		}
	}
	for _, f := range slices.Backward(x.Files) { // what is needed first
		argv := append([]string{x.driver()}, f.Words...)
		if f.Kind == "archive" {
			argv = append([]string{"ar", "rcsD", f.Name}, f.Words...)
		}
		if err := run(ctx, dir, argv); err != nil {
			return err
		}
	}
	return nil
}
