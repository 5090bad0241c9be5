package ordinary

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/objfile"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/probed"
)

// A builder compiles, links and composes. Its directory has the sources, src/PROJECT, and what becomes of them.
type builder struct {
	dir     string
	objects sync.Map // func() (*object, error), by config, unit and edit
	links   probed.Links
}

// object is a unit that is compiled and analysed.
type object struct{ file, manifest string }

func (b *builder) source(project, name string) string {
	return filepath.Join(b.dir, "src", project, name)
}

// sources returns the sources of a program or library, as names below src.
func (b *builder) sources(project string, patterns []string) (units []string, err error) {
	for _, pattern := range patterns {
		without, not := strings.CutPrefix(pattern, "!")
		found, err := filepath.Glob(b.source(project, without))
		if err != nil || len(found) == 0 && !not {
			return nil, fmt.Errorf("%s: no %s (%v)", project, pattern, err)
		}
		for _, f := range found {
			unit, err := filepath.Rel(filepath.Join(b.dir, "src"), f)
			if err != nil {
				return nil, err
			}
			units = slices.DeleteFunc(units, func(u string) bool { return u == unit })
			if !not {
				units = append(units, unit)
			}
		}
	}
	return units, nil
}

// A part is a library or program with its units, for all ways.
type part struct {
	project     *project
	name        string
	units, deps []string
	linkopts    []string
}

// get returns the object of a unit, with an edit of the project that is called by its kind. Whoever asks
// for edits has put them into the sources.
func (b *builder) get(ctx context.Context, c *config, project *project, unit, edit string) (*object, error) {
	once, _ := b.objects.LoadOrStore(filepath.Join(c.name, edit, unit), sync.OnceValues(func() (*object, error) {
		argv := append([]string{c.driver}, c.flags...)
		if path.Ext(unit) != ".c" {
			argv = append(argv, "-std=c++17")
		}
		for _, f := range project.flags {
			argv = append(argv, strings.NewReplacer("{", "", "}", "").Replace(f))
		}
		argv = append(argv, "-w", "-frandom-seed="+unit, "-c", unit, "-o")
		text, err := os.ReadFile(filepath.Join(b.dir, "src", unit))
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(append(fmt.Appendf(nil, "%q", argv), text...))
		o := &object{file: filepath.Join(b.dir, "objects", fmt.Sprintf("%x.o", sum[:16]))}
		o.manifest = o.file + ".manifest"
		if _, err := os.Stat(o.file); err != nil { // of an earlier call with -keep
			if _, err := run(ctx, filepath.Join(b.dir, "src"), append(argv, o.file)); err != nil {
				return nil, err
			}
		}
		m, err := objfile.ManifestOrContent(o.file, objfile.Options{})
		if err != nil {
			return nil, err
		}
		return o, manifest.Write(o.manifest, m)
	}))
	return once.(func() (*object, error))()
}

func run(ctx context.Context, dir string, argv []string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, bytes.TrimSpace(out))
	}
	return out, nil
}

// file writes a text into a file of its own.
func (b *builder) file(name, text string) (string, error) {
	h := sha256.Sum256([]byte(text))
	file := filepath.Join(b.dir, "links", fmt.Sprintf("%x-%s", h[:12], name))
	return file, errors.Join(os.MkdirAll(filepath.Dir(file), 0o777), os.WriteFile(file, []byte(text), 0o666))
}

// A variant is the sources as they are, or with an edit of a kind in one of the projects.
type variant struct {
	kind string
	edit *edited
	of   *project
}

// objectsOf returns the objects of a part by what they are called on lines.
func (b *builder) objectsOf(c *config, p *part, v *variant) (names []string, objects map[string]*object, err error) {
	objects = map[string]*object{}
	units := p.units
	at := ""
	if v != nil && v.of == p.project {
		at = path.Join(v.of.name, v.edit.unit)
		if v.edit.new && p.name == v.of.edits.library {
			sorted := slices.IsSorted(units) // found by a pattern
			if units = append(slices.Clip(units), at); sorted {
				slices.Sort(units)
			}
		}
	}
	for _, u := range units {
		edit := ""
		if u == at {
			edit = v.kind
		}
		o, err := b.get(context.Background(), c, p.project, u, edit)
		if err != nil {
			return nil, nil, err
		}
		name := "bin/_objs/" + p.name + "/" + strings.TrimSuffix(u, path.Ext(u)) + ".pic.o"
		names, objects[name] = append(names, name), o
	}
	return names, objects, nil
}

// linked is a file that is linked or archived.
type linked struct {
	fingerprint.LinkFile
	objects map[string]*object
}

// link says how a program is linked: first its own line, then those of its libraries.
func (b *builder) link(w *way, p *part, libraries []*part, v *variant) ([]*linked, error) {
	own, objects, err := b.objectsOf(w.config, p, v)
	if err != nil {
		return nil, err
	}
	exe := &linked{LinkFile: fingerprint.LinkFile{Output: "bin/" + p.name, Kind: "executable"}, objects: objects}
	exe.Words = []string{"-o", exe.Output}
	if w.kind == shared {
		exe.Words = append(exe.Words, "-Xlinker", "-rpath", "-Xlinker", "$ORIGIN/_solib/", "-Lbin/_solib")
	}
	exe.Words = append(append(exe.Words, w.front...), own...)
	files := []*linked{exe}
	var opts []string
	for _, l := range libraries {
		names, objects, err := b.objectsOf(w.config, l, v)
		if err != nil {
			return nil, err
		}
		opts = append(opts, l.linkopts...)
		switch w.kind {
		case startLib:
			exe.Words = append(append(append(exe.Words, "-Wl,--start-lib"), names...), "-Wl,--end-lib")
			for name, o := range objects {
				exe.objects[name] = o
			}
		case archive:
			f := &linked{LinkFile: fingerprint.LinkFile{Output: "bin/lib" + l.name + ".a", Kind: "archive", Words: names}, objects: objects}
			exe.Words, files = append(exe.Words, f.Output), append(files, f)
		case shared:
			f := &linked{LinkFile: fingerprint.LinkFile{Output: "bin/_solib/lib" + l.name + ".so", Kind: "shared"}, objects: objects}
			f.Words = slices.Concat([]string{"-shared", "-o", f.Output}, w.front, names, l.linkopts, w.tail)
			exe.Words, files = append(exe.Words, "-l"+l.name), append(files, f)
		}
	}
	exe.Words = slices.Concat(exe.Words, opts, w.tail)
	for _, f := range files {
		for _, name := range sortedKeys(f.objects) {
			f.Manifests = append(f.Manifests, [2]string{name, f.objects[name].manifest})
		}
	}
	return files, nil
}

// test is what the rules would say of a program.
func (b *builder) test(w *way, files []*linked) (*fingerprint.Test, error) {
	t := &fingerprint.Test{Binary: "_main/" + files[0].Output, System: b.links.By(w.config.driver, b.dir)}
	for _, f := range files {
		name, err := b.file(path.Base(f.Output)+".link", f.Text())
		if err != nil {
			return nil, err
		}
		t.Links = append(t.Links, name)
	}
	return t, nil
}

// build links a program, and returns what the linker says that it takes.
func (b *builder) build(w *way, dir string, files []*linked) (string, error) {
	place := func(name, file string) error {
		to := filepath.Join(dir, name)
		return errors.Join(os.MkdirAll(filepath.Dir(to), 0o777), os.Link(file, to))
	}
	for _, f := range files {
		for name, o := range f.objects {
			if err := place(name, o.file); err != nil && !errors.Is(err, os.ErrExist) {
				return "", err
			}
		}
	}
	var out []byte
	for _, f := range slices.Backward(files) { // each library before those that need it
		says := "-Wl,--trace,--trace"
		if slices.Contains(f.Words, "-fuse-ld=mold") {
			says = "-Wl,--print-map" // its --trace has all members
		}
		argv := append([]string{w.config.driver, says}, f.Words...)
		if f.Kind == "archive" {
			argv = append([]string{"ar", "rcsD", f.Output}, f.Words...)
		}
		if _, err := os.Stat(filepath.Join(dir, f.Output)); err == nil {
			continue // another program has it, too
		}
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(f.Output)), 0o777); err != nil {
			return "", err
		}
		var err error
		if out, err = run(context.Background(), dir, argv); err != nil {
			return "", err
		}
	}
	return string(out), nil
}
