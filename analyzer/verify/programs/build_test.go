package programs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/objfile"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/trace"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/evolve"
)

// A config is a way to build a program. At -O2 functions and data have sections
// of their own, as in Bazel's optimised builds; at -O0 they share them.
type config struct{ compiler, opt, mode string }

func (c config) String() string { return c.compiler + " " + c.opt + " " + c.mode }

// bySource says whether the evidence of plain C is its source as well, which clang has
// to compile. That is as dear as all the rest, so not everywhere.
func (c config) bySource() bool { return c.compiler == "clang" && (*exhaustive || c.opt == "-O0") }

// like tells whether for a pair about links c is like another one: the same linker and
// flags, and objects of the same kind.
func (c config) like(pair string) bool {
	return c.compiler == "gcc" && c.opt == "-O0" && strings.HasPrefix(pair, "link-")
}

// configs are those of a pair, what may be like another one behind that.
func (v *version) configs() (all []config) {
	for _, c := range []config{{compiler: "clang", opt: "-O0"}, {compiler: "gcc", opt: "-O0"}, {compiler: "gcc", opt: "-O2"}, {compiler: "clang", opt: "-O2"}} {
		for _, c.mode = range v.modes {
			if slices.Contains(v.compilers, c.compiler) && slices.Contains(v.levels, c.opt) {
				all = append(all, c)
			}
		}
	}
	return all
}

func (c config) driver(cxx bool) string {
	switch {
	case !cxx:
		return c.compiler
	case c.compiler == "gcc":
		return "g++"
	}
	return "clang++"
}

func (c config) compileFlags() []string {
	flags := []string{"-w", c.opt}
	if c.opt == "-O2" {
		flags = append(flags, "-ffunction-sections", "-fdata-sections")
	}
	return flags
}

// firstLinkFlags come before all others. A library that nothing refers to is
// loaded, as with Bazel's own toolchain. Without that flag it is up to the
// driver: Debian's gcc leaves such libraries out.
func (c config) firstLinkFlags() []string {
	if c.compiler == "gcc" && c.opt == "-O2" {
		return []string{"-L."}
	}
	return []string{"-Wl,-no-as-needed", "-L."}
}

// linkFlags also choose the linker: LLVM's and GNU's differ in what they take
// from archives, and in what they drop first. Without optimisation it is up to the
// driver.
func (c config) linkFlags() []string {
	var flags []string
	if c.opt == "-O2" {
		flags = append(flags, "-Wl,--gc-sections")
		if c.compiler == "gcc" {
			flags = append(flags, "-fuse-ld=bfd")
		} else {
			// It drops what only __start_NAME refers to, unless told otherwise.
			flags = append(flags, "-fuse-ld=lld", "-Wl,-z,nostart-stop-gc")
		}
	}
	return flags
}

// objects compiles and analyses each text once.
type objects struct {
	dir   string
	clang string
	m     sync.Map // of *object, by what it is made from
}

type object struct {
	once sync.Once
	file string
	sum  [32]byte
	err  error
	// manifest is the file of the manifest by object, source of that by source,
	// if there is one.
	manifest, source string
	// refused: it doesn't compile.
	refused  bool
	assembly bool
}

func (o *object) read() error {
	b, err := os.ReadFile(o.file)
	if err != nil {
		return err
	}
	o.sum = sha256.Sum256(b)
	o.manifest, err = writeObjectManifest(o.file, o.assembly)
	return err
}

func (o *objects) get(ctx context.Context, v *version, src, unit string, c config, shared bool) (*object, error) {
	args := c.compileFlags()
	if shared {
		args = append(args, "-fPIC")
	}
	args = append(append(append(args, v.flags[""]...), v.flags[unit]...), "-c", unit)
	h := sha256.New()
	fmt.Fprintf(h, "%s %q", c.driver(path.Ext(unit) == ".cc"), args)
	for _, f := range v.files {
		if f.Name == unit || !isUnit(f.Name) {
			fmt.Fprintf(h, "%q %q", f.Name, f.Data)
		}
	}
	bySource := c.bySource() && path.Ext(unit) == ".c"
	key := fmt.Sprintf("%x", h.Sum(nil))
	x, _ := o.m.LoadOrStore(key, &object{})
	obj := x.(*object)
	obj.once.Do(func() {
		obj.file, obj.assembly = filepath.Join(o.dir, key[:32]+".o"), path.Ext(unit) == ".S"
		argv := append([]string{c.driver(path.Ext(unit) == ".cc")}, args...)
		obj.err = run(ctx, src, append(argv, "-o", obj.file))
		if obj.refused = obj.err != nil && ctx.Err() == nil && v.broken; obj.refused {
			obj.err = nil
		} else if obj.err == nil {
			obj.err = obj.read()
		}
		if obj.err != nil || !bySource {
			return
		}
		// If it isn't plain C, all of the test is decided by object.
		var m *manifest.Manifest
		if m, obj.err = evolve.BySource(ctx, src, unit, argv, o.clang); obj.err == nil {
			obj.source = obj.file + ".source"
			obj.err = manifest.Write(obj.source, m)
			if obj.refused {
				obj.manifest = obj.source // so that it isn't a file of the system
			}
		}
	})
	return obj, obj.err
}

func writeObjectManifest(file string, assembly bool) (string, error) {
	m, err := objfile.ManifestOrContent(file, objfile.Options{Assembly: assembly})
	if err != nil {
		return "", err
	}
	return file + ".manifest", manifest.Write(file+".manifest", m)
}

func run(ctx context.Context, dir string, argv []string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

func write(name string, b []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	return os.WriteFile(name, b, 0o666)
}

// A linked file is a program, a shared library or an archive.
type linked struct {
	output string
	kind   string   // executable, shared or archive
	words  []string // the command line after the tool, or the members
	units  []string // the objects among them
}

// A program is one version of a pair as it is built in one way. All names are
// relative to dir.
type program struct {
	v       *version
	c       config
	dir     string
	objects map[string]*object // by name
	// links are those of the program; the executable is the first. Plugins are
	// data.
	links, plugins []*linked
}

// plan says what is linked, and compiles it.
func plan(ctx context.Context, objs *objects, v *version, src, dir string, c config) (*program, error) {
	p := &program{v: v, c: c, dir: dir, objects: map[string]*object{}}
	libs := map[string]library{}
	for _, l := range v.libs {
		libs[l.name] = l
	}
	words := func(l *linked, words []string, shared, unitsOnly bool) error {
		for _, w := range words {
			lib, isLib := libs[w]
			switch {
			case strings.HasPrefix(w, "="):
				l.words = append(l.words, w[1:])
			case slices.Contains(v.units, w):
				obj, err := objs.get(ctx, v, src, w, c, shared)
				if err != nil {
					return err
				}
				name := strings.TrimSuffix(w, path.Ext(w)) + ".o"
				if shared {
					name = strings.TrimSuffix(name, ".o") + ".pic.o"
				}
				p.objects[name] = obj
				l.words = append(l.words, name)
				l.units = append(l.units, name)
			case unitsOnly:
			case isLib && (lib.kind == "archive" || c.mode == "static" && lib.kind == "lib"):
				l.words = append(l.words, "lib"+w+".a")
			case isLib && strings.Contains(w, ".so."):
				l.words = append(l.words, "-l:lib"+w)
			case isLib:
				l.words = append(l.words, "-l"+w)
			default:
				l.words = append(l.words, w)
			}
		}
		return nil
	}
	exe := &linked{output: "prog", kind: "executable", words: append([]string{"-o", "prog"}, c.firstLinkFlags()...)}
	if err := words(exe, v.link, false, false); err != nil {
		return nil, err
	}
	exe.words = append(append(exe.words, "-Wl,-rpath,$ORIGIN"), c.linkFlags()...)
	p.links = append(p.links, exe)
	for _, lib := range v.libs {
		l := &linked{output: "lib" + lib.name + ".so", kind: "shared"}
		if strings.Contains(lib.name, ".so.") {
			l.output = "lib" + lib.name
		}
		archive := lib.kind == "archive" || lib.kind == "lib" && c.mode == "static"
		if archive {
			l.output, l.kind = "lib"+lib.name+".a", "archive"
		} else {
			l.words = append([]string{"-shared", "-o", l.output}, c.firstLinkFlags()...)
		}
		if err := words(l, lib.words, true, archive); err != nil {
			return nil, err
		}
		if !archive {
			l.words = append(l.words, c.linkFlags()...)
		}
		if lib.kind == "plugin" {
			p.plugins = append(p.plugins, l)
		} else {
			p.links = append(p.links, l)
		}
	}
	return p, nil
}

// inputs are the files that the links read beside objects and libraries.
func (p *program) inputs() []string {
	var l []string
	for _, f := range p.v.files {
		if isUnit(f.Name) {
			continue
		}
		for _, x := range slices.Concat(p.links, p.plugins) {
			if strings.Contains(strings.Join(x.words, " "), f.Name) {
				l = append(l, f.Name)
				break
			}
		}
	}
	return l
}

func (p *program) file(name string) []byte {
	for _, f := range p.v.files {
		if f.Name == name {
			return f.Data
		}
	}
	return nil
}

// content identifies all that the program is made from: if it is equal, so is
// the outcome.
func (p *program) content() string {
	h := sha256.New()
	for _, l := range slices.Concat(p.links, p.plugins) {
		fmt.Fprintf(h, "%q %q %q", l.output, l.kind, l.words)
		for _, u := range l.units {
			fmt.Fprintf(h, "%x", p.objects[u].sum)
		}
	}
	fmt.Fprintf(h, "%q %q %q", p.v.run, p.v.env, p.v.data)
	for _, name := range slices.Concat(p.inputs(), p.v.data) {
		fmt.Fprintf(h, "%q", p.file(name))
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// build links the program; a false ok says that the compiler or the linker refuses.
func (p *program) build(ctx context.Context) (ok bool, err error) {
	if err := os.Mkdir(p.dir, 0o777); err != nil {
		return false, err
	}
	for name, obj := range p.objects {
		if obj.refused {
			return false, nil
		}
		if err := os.Link(obj.file, filepath.Join(p.dir, name)); err != nil {
			return false, err
		}
	}
	for _, f := range p.v.files {
		if !isUnit(f.Name) {
			if err := write(filepath.Join(p.dir, f.Name), f.Data); err != nil {
				return false, err
			}
		}
	}
	for _, l := range p.order(slices.Concat(p.plugins, p.links[1:], p.links[:1])) {
		argv := append([]string{p.c.driver(p.v.cxx())}, l.words...)
		if lld, err := exec.LookPath("ld.lld"); err == nil && p.c.compiler == "clang" {
			argv = append(argv, "-B"+filepath.Dir(lld)) // rather than the one beside clang
		}
		if l.kind == "archive" {
			argv = append([]string{"ar", "rcsD", l.output}, l.words...)
		}
		if err := run(ctx, p.dir, argv); err != nil {
			if ctx.Err() == nil && p.v.broken {
				return false, nil
			}
			return false, err
		}
	}
	return true, nil
}

// order returns l and all that it is linked with, each after what is on its
// line.
func (p *program) order(l []*linked) []*linked {
	var done []*linked
	seen := map[*linked]bool{}
	var visit func(*linked)
	visit = func(x *linked) {
		if seen[x] {
			return
		}
		seen[x] = true
		for _, w := range x.words {
			if dep := p.library(w); dep != nil {
				visit(dep)
			}
		}
		done = append(done, x)
	}
	for _, x := range l {
		visit(x)
	}
	return done
}

// library returns the library that a word of a line names.
func (p *program) library(word string) *linked {
	if name, ok := strings.CutPrefix(word, "-l"); ok {
		word = "lib" + name + ".so"
	}
	for _, l := range p.links[1:] {
		if l.output == word {
			return l
		}
	}
	return nil
}

// outcome builds and runs the program.
func (p *program) outcome(ctx context.Context) (string, error) {
	if ok, err := p.build(ctx); !ok {
		return notBuilt, err
	}
	return p.execute(ctx, trace.Bare)
}

const notBuilt = "isn't built"

// execute has the program run, which is built, and returns how it ended and what it wrote.
func (p *program) execute(ctx context.Context, run func(cmd *exec.Cmd) (*trace.Result, error)) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute) // far more than any takes
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "./prog", p.v.run...)
	cmd.Dir = p.dir
	cmd.Env = append([]string{"PATH=/usr/bin:/bin"}, p.v.env...)
	cmd.Stdout = &out
	r, err := run(cmd)
	if err != nil || ctx.Err() != nil {
		return "", fmt.Errorf("./prog: %v %v", err, ctx.Err())
	}
	return fmt.Sprintf("%s, %q", r.Ending(), out.Bytes()), nil
}
