package evolve

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/component"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/objfile"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/tu"
)

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

// request asks for a unit.
type request struct {
	source string
	flags  []string
}

func (q request) id() string { return sum(append([]string{q.source}, q.flags...)...) }

// pending is a unit that is being compiled, or was. The key is of all that it is made from.
type pending struct {
	request
	key   string
	reads []string // nil if only the compiler can tell
	done  chan struct{}
	unit  *Unit
}

// compileAll compiles what hasn't been compiled from the same, and returns units by the ids of requests.
func (b *Builder) compileAll(ctx context.Context, r *checkout, requests []request) (map[string]*Unit, error) {
	all := map[string]*pending{}
	type group struct {
		driver string
		words  []string
		list   []*pending
	}
	groups := map[string]*group{}
	for _, q := range requests {
		if all[q.id()] != nil {
			continue
		}
		words := slices.Concat(b.Flags, r.Flags, q.flags)
		p := &pending{request: q, reads: b.reads(r.Revision, q.source, words), done: make(chan struct{})}
		names := p.reads
		if names == nil {
			names = slices.Sorted(maps.Keys(r.Files))
		}
		parts := append(slices.Clone(words), "", q.source)
		for _, name := range names {
			parts = append(parts, name, r.Files[name])
		}
		p.key = sum(parts...)
		known, there := b.units.LoadOrStore(p.key, p)
		if all[q.id()] = known.(*pending); there {
			continue
		}
		driver := b.C
		if IsCXX(q.source) {
			driver = b.CXX
		}
		k := sum(append(words, driver)...)
		if groups[k] == nil {
			groups[k] = &group{driver: driver, words: words}
		}
		groups[k].list = append(groups[k].list, p)
	}
	// Each of these is finished in any case: others may wait for it.
	for _, k := range slices.Sorted(maps.Keys(groups)) {
		g := groups[k]
		err := b.compile(ctx, r, g.driver, g.words, g.list)
		for _, p := range g.list {
			if err != nil {
				p.unit.err = err
				b.units.Delete(p.key)
			}
			close(p.done)
		}
	}
	units := map[string]*Unit{}
	for id, p := range all {
		<-p.done
		if units[id] = p.unit; p.unit.err != nil && !errors.Is(p.unit.err, errRefused) {
			return nil, p.unit.err
		}
	}
	return units, ctx.Err()
}

// compile compiles sources that share a driver and flags. An error is of the machine.
func (b *Builder) compile(ctx context.Context, r *checkout, driver string, words []string, list []*pending) error {
	for _, p := range list {
		p.unit = &Unit{Source: p.source, Object: filepath.Join(b.Dir, "objects", p.key[:2], p.key[2:32]+".o"), Reads: p.reads, text: r.Files[p.source]}
	}
	dir, err := r.place()
	if err != nil {
		return err
	}
	words = append(slices.Clip(words), "-I.", "-c")
	for _, p := range list {
		if err := os.MkdirAll(filepath.Dir(p.unit.Object), 0o777); err != nil {
			return err
		}
	}
	if err := b.objects(ctx, r, dir, driver, words, list); err != nil {
		return err
	}
	for _, p := range list {
		u := p.unit
		if errors.Is(u.err, errRefused) {
			continue
		}
		content, err := os.ReadFile(u.Object)
		if err != nil {
			return err
		}
		u.Sum = sum(string(content))
		if u.Manifest, err = encoded(objfile.ManifestOrContent(u.Object, objfile.Options{})); err != nil {
			return err
		}
		if b.Clang != "" && !IsCXX(u.Source) {
			argv := append(append([]string{driver}, words...), u.Source)
			if u.BySource, err = encoded(BySource(ctx, dir, u.Source, argv, b.Clang)); err != nil {
				return err
			}
		}
	}
	return nil
}

// objects compiles sources: in one process if that makes the same objects (line), or by the driver.
func (b *Builder) objects(ctx context.Context, r *checkout, dir, driver string, words []string, list []*pending) error {
	var sources []string
	for _, p := range list {
		_, taken := r.Files[p.output()]
		if p.reads == nil || taken || strings.HasPrefix(p.source, "-") {
			sources = nil
			break
		}
		sources = append(sources, p.source)
	}
	l := &line{}
	if len(sources) > 0 {
		var err error
		if l, err = b.compiler(ctx, driver, words, path.Ext(sources[0])); err != nil {
			return err
		}
	}
	one := func() error {
		for _, p := range list {
			argv := append(append([]string{driver}, words...), p.source, "-o", p.unit.Object, "-MMD", "-MF", p.unit.Object+".d")
			p.unit.err = run(ctx, dir, argv)
			if errors.Is(p.unit.err, errRefused) {
				continue
			}
			deps, err := os.ReadFile(p.unit.Object + ".d")
			if err := errors.Join(p.unit.err, err); err != nil {
				return err
			}
			_, reads := Makefile(string(deps))
			for i, name := range reads {
				if reads[i] = path.Clean(name); p.reads != nil && !slices.Contains(p.reads, reads[i]) {
					return fmt.Errorf("%s reads %s, which its directives don't tell", p.source, reads[i])
				}
			}
			slices.Sort(reads)
			p.unit.Reads = slices.Compact(reads)
		}
		return nil
	}
	together := func() error {
		if err := run(ctx, dir, append(slices.Clip(l.in(dir)), sources...)); err != nil {
			return err
		}
		for _, p := range list {
			if err := os.Rename(filepath.Join(dir, filepath.FromSlash(p.output())), p.unit.Object); err != nil {
				return err
			}
		}
		return nil
	}
	var outputs []string
	for _, p := range list {
		outputs = append(outputs, p.unit.Object)
	}
	err := l.do(outputs, one, together)
	if errors.Is(err, errRefused) { // the driver says which one
		return one()
	}
	return err
}

// output is what a compiler makes of the source, if it isn't told.
func (p *pending) output() string { return strings.TrimSuffix(p.source, path.Ext(p.source)) + ".o" }

func encoded(m *manifest.Manifest, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return manifest.Marshal(m)
}

// directives are what a text asks to be included, or whether it exists. Unknown is what a look doesn't tell.
type directives struct {
	names   []string
	unknown bool
}

var (
	directive = regexp.MustCompile(`#[ \t]*(?:include|include_next|import|embed)\b|__has_(?:include|include_next|embed)\b`)
	argument  = regexp.MustCompile(`^[ \t]*\(?[ \t]*["<]([^">\n]+)[">]`)
	// Other spellings of a directive.
	elsewhere = regexp.MustCompile(`#[ \t]*/\*|\\[ \t]*\n|%:|\?\?=|_Pragma|\.incbin`)
	// Flags that make a compiler read nothing.
	harmless = regexp.MustCompile(`^-([wDUOgm].*|W[^,]*|std=.*|f[^=]*|pthread)$`)
)

func (b *Builder) directives(text string) *directives {
	if d, ok := b.texts.Load(text); ok {
		return d.(*directives)
	}
	d := &directives{unknown: elsewhere.MatchString(text)}
	for _, at := range directive.FindAllStringIndex(text, -1) {
		m := argument.FindStringSubmatch(text[at[1]:])
		if m == nil || path.IsAbs(m[1]) {
			d.unknown = true
			continue
		}
		d.names = append(d.names, m[1])
	}
	b.texts.Store(text, d)
	return d
}

// reads returns the files of a revision that a compilation reads at most, by what the texts say, or nil
// if they don't. The same files with the same texts are the same compilation: a directive that found
// another one would have that among them.
func (b *Builder) reads(r *Revision, source string, words []string) []string {
	if slices.ContainsFunc(words, func(w string) bool { return !harmless.MatchString(w) }) {
		return nil
	}
	seen := map[string]bool{}
	queue := []string{source}
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		text, ok := r.Files[name]
		if !ok || seen[name] {
			continue
		}
		seen[name] = true
		d := b.directives(text)
		if d.unknown {
			return nil
		}
		for _, n := range d.names {
			queue = append(queue, path.Join(path.Dir(name), n), path.Clean(n))
		}
	}
	return slices.Sorted(maps.Keys(seen))
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

// Makefile returns the source and all prerequisites in a makefile that a compiler has written, but
// for those of the machine, which have absolute names.
func Makefile(text string) (source string, reads []string) {
	_, list, _ := strings.Cut(strings.ReplaceAll(text, "\\\n", " "), ": ")
	for _, f := range strings.Fields(strings.ReplaceAll(list, `\ `, "\x00")) {
		f = strings.ReplaceAll(f, "\x00", " ")
		if source == "" {
			source = f
		}
		if !strings.HasPrefix(f, "/") {
			reads = append(reads, f)
		}
	}
	slices.Sort(reads)
	return source, slices.Compact(reads)
}
