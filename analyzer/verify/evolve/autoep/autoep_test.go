package autoep

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/clangtest"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/evolve"
)

var sample = flag.Int("sample", 0, "in TestSample, how many programs to compile in all revisions")

func programs(seed uint64, n int, modes ...string) []*evolve.Program {
	return slices.Collect(Programs(Options{Seed: seed, N: n, Modes: modes}))
}

func TestSameSeedSamePrograms(t *testing.T) {
	a, b, c := programs(1, 600), programs(1, 600), programs(2, 600)
	if !reflect.DeepEqual(a, b) {
		t.Error("the same seed made other programs")
	}
	if reflect.DeepEqual(a, c) {
		t.Error("another seed made the same programs")
	}
}

func TestProgramsAreValid(t *testing.T) {
	const n = 2000
	ps := programs(7, n)
	if len(ps) != n {
		t.Fatalf("%d programs, want %d", len(ps), n)
	}
	count, several := map[string]int{}, 0
	for _, p := range ps {
		count[p.Mode]++
		if len(p.Revisions) > 2 {
			several++
		}
		for i, r := range p.Revisions {
			if err := r.Validate(); err != nil {
				t.Errorf("%s, revision %d: %v", p.Name, i, err)
			}
			if len(r.Tests) < 2 || len(r.Tests) > 6 || len(r.Libraries) < 2 {
				t.Errorf("%s, revision %d: %d tests, %d libraries", p.Name, i, len(r.Tests), len(r.Libraries))
			}
		}
		if strings.HasSuffix(p.Mode, "+same") != reflect.DeepEqual(p.Revisions[0], p.Revisions[1]) {
			t.Errorf("%s: are the first two revisions the same? want so of operator same alone", p.Name)
		}
	}
	low, high := n, 0
	for _, c := range count {
		low, high = min(low, c), max(high, c)
	}
	if high-low > 1 {
		t.Errorf("modes have %d to %d programs", low, high)
	}
	if several < n/20 || several > n/5 {
		t.Errorf("%d of %d programs have several changes", several, n)
	}
	for _, m := range Modes() {
		if count[m] == 0 {
			t.Errorf("mode %s has no program", m)
		}
	}
}

// TestBound asks that walking by strides visits each model within the bound once, and that models differ.
func TestBound(t *testing.T) {
	seen, different := map[int]bool{}, map[string]bool{}
	for i := range bound {
		seen[i*stride%bound] = true
	}
	if len(seen) != bound {
		t.Errorf("strides visit %d of %d models", len(seen), bound)
	}
	const n = 2000
	for i := range n {
		m := skeleton(boundClasses, random(1))
		m.boundedClasses(i * stride % bound)
		files := m.revision().Files
		different[fmt.Sprint(files)] = true
	}
	// Without methods, it doesn't matter what they do.
	if len(different) < n*9/10 {
		t.Errorf("%d of %d models differ", len(different), n)
	}
}

// TestOperatorsChangeOutput builds programs of each operator until a test prints something else after the change.
func TestOperatorsChangeOutput(t *testing.T) {
	b := newBuilder(t)
	for i, o := range operators {
		t.Run(o.name, func(t *testing.T) {
			tries := map[effect]int{often: 15, seldom: 1, never: 1}[o.effect]
			// The seed makes another constraint come first.
			for k, p := range programs(uint64(i), tries, "*+"+o.name) {
				if k == 0 {
					if _, err := b.outputs(p.Revisions[0], "gcc", nil); err != nil {
						t.Errorf("%s: %v", p.Name, err)
					}
				}
				was, err := b.outputs(p.Revisions[0], "clang", nil)
				if err != nil {
					t.Fatalf("%s: %v", p.Name, err)
				}
				is, err := b.outputs(p.Revisions[1], "clang", was)
				if err != nil {
					t.Logf("%s: revision 1: %v", p.Name, err)
					continue
				}
				changed := !maps.Equal(was, is)
				if changed && o.effect == never {
					t.Errorf("%s: outputs differ", p.Name)
				}
				if changed {
					return
				}
			}
			if o.effect == often {
				t.Errorf("no output has changed in %d programs", tries)
			}
		})
	}
}

// TestSample says how many programs of each mode compile in all revisions: go test -run TestSample -sample=2000 -v
func TestSample(t *testing.T) {
	if *sample == 0 {
		t.Skip("without -sample")
	}
	b := newBuilder(t)
	made, good := map[[2]string]int{}, map[[2]string]int{}
	for p := range Programs(Options{Seed: 3, N: *sample}) {
		c, o, _ := strings.Cut(p.Mode, "+")
		k := [2]string{c, o}
		made[k]++
		ok := true
		for i, r := range p.Revisions {
			if err := b.compileAll(r, "clang"); err != nil {
				ok = false
				t.Logf("%s, revision %d: %v", p.Name, i, err)
			}
		}
		if ok {
			good[k]++
		}
	}
	for _, o := range operators {
		line := fmt.Sprintf("%-10s", o.name)
		for _, c := range constraints {
			k := [2]string{c.name, o.name}
			line += fmt.Sprintf(" %s:%d/%d", c.name, good[k], made[k])
		}
		t.Log(line)
	}
}

// builder compiles, links and runs revisions; what compiles alike is compiled once.
type builder struct {
	t       *testing.T
	objects map[string]result
	n       int
}

type result struct {
	file string
	err  error
}

func newBuilder(t *testing.T) *builder {
	clangtest.Clang(t)
	clangtest.GCC(t)
	return &builder{t: t, objects: map[string]result{}}
}

func run(dir, name string, args ...string) (string, error) {
	c := exec.Command(name, args...)
	c.Dir = dir
	out, err := c.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out), err
}

func driver(compiler, source string) string {
	switch {
	case !evolve.IsCXX(source):
		return compiler
	case compiler == "gcc":
		return "g++"
	}
	return "clang++"
}

func (b *builder) write(r *evolve.Revision) string {
	dir := b.t.TempDir()
	for name, text := range r.Files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			b.t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			b.t.Fatal(err)
		}
	}
	return dir
}

// compile compiles a source, if not yet with the same headers.
func (b *builder) compile(dir string, r *evolve.Revision, compiler, source string, flags []string) (string, error) {
	args := append(append([]string{"-w", "-O0"}, r.Flags...), flags...)
	key := fmt.Sprintln(compiler, args, source, included(r, source, map[string]bool{}))
	o, ok := b.objects[key]
	if !ok {
		b.n++
		o.file = filepath.Join(b.t.TempDir(), fmt.Sprint(b.n, ".o"))
		_, o.err = run(dir, driver(compiler, source), append(args, "-c", source, "-o", o.file)...)
		b.objects[key] = o
	}
	return o.file, o.err
}

// included is the text of a file and of all that it names.
func included(r *evolve.Revision, file string, seen map[string]bool) string {
	text := r.Files[file]
	for _, l := range strings.Split(text, "\n") {
		if name, ok := strings.CutPrefix(l, "#include \""); ok {
			if name = strings.TrimSuffix(name, "\""); !seen[name] {
				seen[name] = true
				text += included(r, name, seen)
			}
		}
	}
	return text
}

func (b *builder) compileAll(r *evolve.Revision, compiler string) error {
	dir := b.write(r)
	for _, l := range r.Libraries {
		for _, s := range l.Sources {
			if _, err := b.compile(dir, r, compiler, s, l.Flags); err != nil {
				return err
			}
		}
	}
	for _, t := range r.Tests {
		if _, err := b.compile(dir, r, compiler, t.Sources[0], nil); err != nil {
			return err
		}
	}
	return nil
}

// outputs runs tests: all of them, or up to the first one whose output isn't the one it was. The linker
// is gcc's in any case: it takes half as long.
func (b *builder) outputs(r *evolve.Revision, compiler string, was map[string]string) (map[string]string, error) {
	dir := b.write(r)
	files := map[string]string{}
	for _, l := range r.Libraries {
		var objects []string
		flags := l.Flags
		if l.Shared {
			flags = append(slices.Clip(flags), "-fPIC")
		}
		for _, s := range l.Sources {
			o, err := b.compile(dir, r, compiler, s, flags)
			if err != nil {
				return nil, err
			}
			objects = append(objects, o)
		}
		files[l.Name] = "lib" + l.Name + ".a"
		argv := append([]string{"ar", "rcs", files[l.Name]}, objects...)
		if l.Shared {
			files[l.Name] = "lib" + l.Name + ".so"
			argv = append([]string{"g++", "-shared", "-o", files[l.Name]}, objects...)
			for _, d := range l.Deps {
				argv = append(argv, files[d])
			}
			argv = append(argv, "-Wl,-rpath,"+dir)
		}
		if _, err := run(dir, argv[0], argv[1:]...); err != nil {
			return nil, err
		}
	}
	outputs := map[string]string{}
	for _, t := range r.Tests {
		o, err := b.compile(dir, r, compiler, t.Sources[0], nil)
		if err != nil {
			return nil, err
		}
		argv := []string{"-o", t.Name, o}
		for _, d := range t.Deps {
			argv = append(argv, files[d])
		}
		if _, err := run(dir, "g++", append(argv, "-Wl,-rpath,"+dir)...); err != nil {
			return nil, err
		}
		if outputs[t.Name], err = run(dir, "./"+t.Name, t.Args...); err != nil {
			return nil, err
		}
		if was != nil && was[t.Name] != outputs[t.Name] {
			break
		}
	}
	return outputs, nil
}
