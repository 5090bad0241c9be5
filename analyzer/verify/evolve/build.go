package evolve

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/trace"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/probed"
)

// Builder compiles, links, analyses and runs revisions. What is equal is done once, whichever
// program, revision or tool asks for it, until Forget. It may be used concurrently.
type Builder struct {
	// Dir is a directory of its own, where everything is kept.
	Dir string
	// C and CXX are the compilers' drivers, Flags those of all compilations in front of a revision's,
	// and Links those of all links of programs and shared libraries.
	C, CXX       string
	Flags, Links []string
	// Clang dumps syntax trees for evidence by source, or is empty: then there is none.
	Clang string
	// Traces repeats each execution under a tracer.
	Traces bool

	units   sync.Map // *pending by sources and flags
	linked  sync.Map // *linking by libraries and what they consist of
	ran     sync.Map // *execution by program and data
	written sync.Map // files of manifests and links: see file
	texts   sync.Map // directives by text
	probes  probed.Links
	// compared are the comparisons of hybrid tools that were made.
	compared sync.Map
	lines    sync.Map // *line by a driver's words
}

// Forget drops what is kept, but for what compilers' drivers do. Nothing that was built before may be used then.
func (b *Builder) Forget() error {
	for _, m := range []*sync.Map{&b.units, &b.linked, &b.ran, &b.written, &b.texts, &b.compared} {
		m.Clear()
	}
	b.probes.Forget()
	entries, err := os.ReadDir(b.Dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(b.Dir, e.Name())))
	}
	return err
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
	var requests []request
	for i := range r.Libraries {
		requests = append(requests, r.Libraries[i].requests()...)
	}
	for i := range r.Tests {
		requests = append(requests, requestsOf(r.Tests[i].Sources, nil)...)
	}
	units, err := b.compileAll(ctx, r, requests)
	if err != nil {
		return nil, err
	}
	libraries := map[string]*Library{}
	files := map[string]*File{}
	refused := map[string]error{}
	for i := range r.Libraries {
		l := &r.Libraries[i]
		f := &File{Name: "lib" + l.Name + ".a", Kind: "archive"}
		if l.Shared {
			f.Name, f.Kind = "lib"+l.Name+".so", "shared"
			f.Words = append([]string{"-shared", "-o", f.Name}, b.Links...)
		}
		libraries[l.Name], files[l.Name], refused[l.Name] = l, f, f.add(units, l.requests())
	}
	tests := map[string]*Built{}
	for i := range r.Tests {
		t := &r.Tests[i]
		exe := &File{Name: "prog", Kind: "executable", Words: append([]string{"-o", "prog"}, b.Links...)}
		x := &Built{Test: t, Files: []*File{exe}, b: b, revision: revision}
		x.Err = exe.add(units, requestsOf(t.Sources, nil))
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
		exe.Words = append(exe.Words, "-L.", "-Wl,-rpath,$ORIGIN")
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

func requestsOf(sources, flags []string) (l []request) {
	for _, s := range sources {
		l = append(l, request{s, flags})
	}
	return l
}

func (l *Library) requests() []request {
	if l.Shared {
		return requestsOf(l.Sources, append([]string{"-fPIC"}, l.Flags...))
	}
	return requestsOf(l.Sources, l.Flags)
}

// add adds units to a file. An error is that one is refused.
func (f *File) add(units map[string]*Unit, requests []request) error {
	for _, q := range requests {
		u := units[q.id()]
		if u.err != nil {
			return u.err
		}
		f.Units, f.Words = append(f.Units, u), append(f.Words, objectName(u))
	}
	return nil
}

// objectName is the name of an object on a line.
func objectName(u *Unit) string {
	return strings.ReplaceAll(u.Source, "/", "_") + ".o"
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

// OK reports whether the program was built and ended with 0.
func (o *Outcome) OK() bool { return o.Built && o.Status == "exit status 0" }

// Same reports whether two executions can't be told apart.
func (o *Outcome) Same(x *Outcome) bool { return *o == *x }

// execution is done once.
type execution struct {
	once    sync.Once
	outcome *Outcome
	traced  *trace.Result // nil if it wasn't
	naive   *trace.Result // by the naive collector; the same
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
	t := x.once(ctx)
	return t.outcome, t.took, t.err
}

// Traced executes the test as Run does, and returns what it did under a tracer, and under one with the naive collector:
// nil if that isn't known. It is an error if a tracer makes a difference.
func (x *Built) Traced(ctx context.Context) (smart, naive *trace.Result, err error) {
	switch {
	case x.Err != nil:
		return nil, nil, nil
	case x.recorded != nil:
		smart, err = x.recorded.Traced()
		return smart, nil, err
	}
	t := x.once(ctx)
	return t.traced, t.naive, t.err
}

func (x *Built) once(ctx context.Context) *execution {
	e, _ := x.b.ran.LoadOrStore(x.Inputs(), new(execution))
	t := e.(*execution)
	t.once.Do(func() { t.err = x.execute(ctx, t) })
	return t
}

// maxRun bounds an execution: far more than a program takes that ends.
const maxRun = time.Minute

var tooLong = "it takes more than " + maxRun.String()

// execute links the test and has it run, and run under a tracer, if the Builder has traces.
func (x *Built) execute(ctx context.Context, t *execution) error {
	start := time.Now()
	dir, err := os.MkdirTemp(x.b.Dir, "run-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := x.link(ctx, dir); errors.Is(err, errRefused) {
		t.outcome, t.took = &Outcome{Status: "it doesn't link"}, time.Since(start)
		return nil
	} else if err != nil {
		return err
	}
	t.outcome, err = x.start(ctx, dir, trace.Bare)
	t.took = time.Since(start)
	if err != nil || !x.b.Traces {
		return err
	}
	if t.traced, err = x.trace(ctx, dir, t.outcome, trace.Options{}); err != nil {
		return err
	}
	t.naive, err = x.trace(ctx, dir, t.outcome, trace.Options{Naive: true})
	return err
}

// trace runs the program in a directory under a tracer. It returns nil if that takes too long.
func (x *Built) trace(ctx context.Context, dir string, bare *Outcome, opt trace.Options) (r *trace.Result, err error) {
	o, err := x.start(ctx, dir, func(cmd *exec.Cmd) (_ *trace.Result, err error) {
		r, err = trace.Run(cmd, opt, nil)
		return r, err
	})
	switch {
	case err != nil || r == nil || r.Void != "" || o.Same(bare):
	case o.Status == tooLong || bare.Status == tooLong: // the machine is busy
		return nil, nil
	default:
		err = fmt.Errorf("under a tracer a test does something else: %+v, without %+v", *o, *bare)
	}
	return r, err
}

// start runs the program in a directory with its data. Its standard output and error are one.
func (x *Built) start(ctx context.Context, dir string, run func(cmd *exec.Cmd) (*trace.Result, error)) (*Outcome, error) {
	at, err := os.MkdirTemp(dir, "runfiles-")
	if err != nil {
		return nil, err
	}
	for _, d := range x.Test.Data {
		if err := write(filepath.Join(at, filepath.FromSlash(d)), x.revision.Files[d]); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, maxRun)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "prog"), x.Test.Args...)
	cmd.Dir, cmd.Env = at, []string{"PATH=/usr/bin:/bin"}
	cmd.Stdout, cmd.Stderr = &out, &out
	r, err := run(cmd)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &Outcome{Built: true, Status: tooLong}, nil
	}
	if err != nil {
		return nil, err
	}
	return &Outcome{Built: true, Status: r.Ending(), Output: out.String()}, nil
}

// link links the program in a directory, where shared libraries are then, too.
func (x *Built) link(ctx context.Context, dir string) error {
	for _, f := range x.Files[1:] {
		library, err := x.library(ctx, f)
		if err == nil {
			err = os.Link(library, filepath.Join(dir, f.Name))
		}
		if err != nil {
			return err
		}
	}
	return x.linkFile(ctx, dir, x.Files[0])
}

// linking is done once.
type linking struct {
	once sync.Once
	file string
	err  error
}

// library returns the file of an archive or a shared library.
func (x *Built) library(ctx context.Context, f *File) (string, error) {
	parts := append([]string{x.driver(), f.Name, f.Kind}, f.Words...)
	for _, u := range f.Units {
		parts = append(parts, u.Sum)
	}
	key := sum(parts...)
	e, _ := x.b.linked.LoadOrStore(key, new(linking))
	l := e.(*linking)
	l.once.Do(func() {
		dir := filepath.Join(x.b.Dir, "linked", key[:2], key[2:32])
		l.file = filepath.Join(dir, f.Name)
		if l.err = os.MkdirAll(dir, 0o777); l.err == nil {
			l.err = x.linkFile(ctx, dir, f)
		}
	})
	return l.file, l.err
}

// linkFile makes a file in a directory.
func (x *Built) linkFile(ctx context.Context, dir string, f *File) error {
	if f.Kind == "archive" {
		var names []string
		var objects [][]byte
		for _, u := range f.Units {
			b, err := os.ReadFile(u.Object)
			if err != nil {
				return err
			}
			names, objects = append(names, objectName(u)), append(objects, b)
		}
		b, err := archive(names, objects)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, f.Name), b, 0o666)
	}
	for _, u := range f.Units {
		if err := os.Link(u.Object, filepath.Join(dir, objectName(u))); err != nil {
			return err
		}
	}
	l, argv, err := x.b.linker(ctx, x.driver(), f)
	if err != nil {
		return err
	}
	return l.do([]string{filepath.Join(dir, f.Name)},
		func() error { return run(ctx, dir, append([]string{x.driver()}, f.Words...)) },
		func() error { return run(ctx, dir, argv) })
}
