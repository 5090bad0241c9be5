package driver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/linkflags"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/syslib"
)

// prober finds the files of the system that tests will link and load, by a syslib.Probe. It is safe for concurrent use.
type prober struct {
	dir string   // the execution root, which flags refer to
	env []string // of actions
	tmp string

	known  sync.Map // linker, environment and lines to *probe
	caches sync.Map // linker and environment to *syslib.Cache
	data   sync.Map // loaded to findOnce
}

type probe struct {
	link   func(shared *sync.Map) (*system, error)
	result func() (*system, error) // what link has returned
}

// system has the files of the system that tests with the same lines of links take.
type system struct {
	taken   *syslib.Taken
	loaded  []syslib.Library
	program string
}

func (s *system) equal(x *system) bool {
	return slices.Equal(s.taken.Linker, x.taken.Linker) && slices.Equal(s.taken.Files, x.taken.Files) &&
		slices.Equal(s.taken.Needs, x.taken.Needs) && slices.Equal(s.loaded, x.loaded)
}

// libraries returns the files of the system that links with these lines read, and the libraries that such a program loads.
func (p *prober) libraries(ctx context.Context, d *description, lines []*linkflags.Line) (*system, error) {
	linker := strings.Join(append([]string{d.Linker}, pairs(d.LinkEnv)...), "\x00")
	key := linker + "\x00" + strings.Join(collect(lines, syslib.LineID), "\x00")
	x := &probe{link: func(shared *sync.Map) (*system, error) {
		by, _ := shared.LoadOrStore(linker, new(syslib.Cache))
		return p.link(ctx, d, lines, by.(*syslib.Cache))
	}}
	x.result = sync.OnceValues(func() (*system, error) { return x.link(&p.caches) })
	known, _ := p.known.LoadOrStore(key, x)
	return known.(*probe).result()
}

// unchanged reports whether all results of the prober are as they were.
func (p *prober) unchanged() bool {
	var shared sync.Map
	same := true
	p.known.Range(func(_, known any) bool {
		x := known.(*probe)
		if before, err := x.result(); err == nil { // else such a test has no fingerprint
			now, err := x.link(&shared)
			same = err == nil && now.equal(before)
		}
		return same
	})
	if !same {
		return false
	}
	p.data.Range(func(x, known any) bool {
		if before, err := known.(findOnce)(); err == nil {
			now, err := x.(loaded).find()
			same = err == nil && slices.Equal(now, before)
		}
		return same
	})
	return same
}

// loaded is a file among a test's data, with a program that is linked as the test is, or a
// library on its link line, with the test's run path.
type loaded struct {
	file, program, dirs string
	linked              bool
}

type findOnce = func() ([]syslib.Library, error)

// find returns the libraries that a test loads because of the file, if that is a program or a library.
func (f loaded) find() ([]syslib.Library, error) {
	if f.linked {
		return syslib.LoadsLinked(f.file, strings.Split(f.dirs, ":"))
	}
	return syslib.Loads(f.file, f.program)
}

// loads returns the libraries that programs and libraries among the data, and prebuilt libraries, load.
func (p *prober) loads(c *fingerprint.Composed, program string) (libs []syslib.Library, err error) {
	files := collect(c.DataFiles, func(file string) loaded { return loaded{file: file, program: program} })
	var dirs []string
	for _, line := range c.Lines {
		dirs = append(dirs, filter(line.RunPath, filepath.IsAbs)...)
	}
	prebuilt := func(file string) loaded { return loaded{file: file, dirs: strings.Join(dirs, ":"), linked: true} }
	files = append(files, collect(c.Prebuilt, prebuilt)...)
	for _, f := range files {
		known, _ := p.data.LoadOrStore(f, sync.OnceValues(f.find))
		more, err := known.(findOnce)()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.file, err)
		}
		libs = append(libs, more...)
	}
	return libs, nil
}

func (p *prober) link(ctx context.Context, d *description, lines []*linkflags.Line, shared *syslib.Cache) (*system, error) {
	tmp, err := os.MkdirTemp(p.tmp, "probe")
	if err != nil {
		return nil, err
	}
	linker := syslib.Linker{Path: d.Linker, Dir: p.dir, Env: slices.Concat([]string{"TMPDIR=" + tmp}, p.env, pairs(d.LinkEnv)), Cache: shared}
	probe, err := linker.Probe(ctx, tmp, lines...)
	if err != nil {
		return nil, err
	}
	s := &system{taken: probe.Of(lines...), program: probe.Program()}
	s.loaded, err = probe.Loaded(s.taken)
	return s, err
}
