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

// prober finds out, by a syslib.Probe, which files of the system tests take that aren't linked yet. It may be used concurrently.
type prober struct {
	dir string   // the execution root, which flags refer to
	env []string // actionEnv
	tmp string

	mu     sync.Mutex
	known  map[string]*probe
	shared sync.Map // linker and environment to *syslib.Shared
	data   sync.Map // loaded to its find, once
}

type probe struct {
	link  func(shared *sync.Map) (*system, error)
	known func() (*system, error) // what link has returned
}

// system is the files of the system that tests take which are linked in one way.
type system struct {
	taken   *syslib.Taken
	loaded  []syslib.Library
	program string
}

func (s *system) equal(x *system) bool {
	return slices.Equal(s.taken.Linker, x.taken.Linker) && slices.Equal(s.taken.Files, x.taken.Files) &&
		slices.Equal(s.taken.Needs, x.taken.Needs) && slices.Equal(s.loaded, x.loaded)
}

// libraries returns the files of the system that links with these lines read, and the libraries of the
// system that such a program loads.
func (p *prober) libraries(ctx context.Context, d *description, lines []*linkflags.Line) (*system, error) {
	linker := strings.Join(append([]string{d.Linker}, pairs(d.LinkEnv)...), "\x00")
	words := []string{linker}
	for _, l := range lines {
		words = append(words, syslib.LineID(l))
	}
	key := strings.Join(words, "\x00")
	p.mu.Lock()
	x := p.known[key]
	if x == nil {
		x = &probe{link: func(shared *sync.Map) (*system, error) {
			by, _ := shared.LoadOrStore(linker, new(syslib.Shared))
			return p.link(ctx, d, lines, by.(*syslib.Shared))
		}}
		x.known = sync.OnceValues(func() (*system, error) { return x.link(&p.shared) })
		p.known[key] = x
	}
	p.mu.Unlock()
	return x.known()
}

// unchanged reports whether all that has been found out is still true.
func (p *prober) unchanged() bool {
	var shared sync.Map
	for _, x := range p.known {
		before, err := x.known()
		if err != nil {
			continue // such a test has no fingerprint
		}
		now, err := x.link(&shared)
		if err != nil || !now.equal(before) {
			return false
		}
	}
	same := true
	p.data.Range(func(x, known any) bool {
		if before, err := known.(loads)(); err == nil {
			now, err := x.(loaded).find()
			same = err == nil && slices.Equal(now, before)
		}
		return same
	})
	return same
}

// loaded is a file of a test: of its data, with a program that is linked as the test is, or a
// library that it is linked with, and where the test has the loader look for more.
type loaded struct {
	file, program, dirs string
	linked              bool
}

type loads = func() ([]syslib.Library, error)

// find returns the libraries that a test loads because of the file, if that is a program or a
// library.
func (f loaded) find() ([]syslib.Library, error) {
	if f.linked {
		return syslib.LoadsLinked(f.file, strings.Split(f.dirs, ":"))
	}
	return syslib.Loads(f.file, f.program)
}

// loads returns the libraries that programs and libraries among the data load, and those that
// prebuilt libraries do.
func (p *prober) loads(c *fingerprint.Composed, program string) (libs []syslib.Library, err error) {
	var files []loaded
	for _, file := range c.DataFiles {
		files = append(files, loaded{file: file, program: program})
	}
	var dirs []string
	for _, line := range c.Lines {
		for _, d := range line.RunPath {
			if filepath.IsAbs(d) {
				dirs = append(dirs, d)
			}
		}
	}
	for _, file := range c.Prebuilt {
		files = append(files, loaded{file: file, dirs: strings.Join(dirs, ":"), linked: true})
	}
	for _, f := range files {
		known, _ := p.data.LoadOrStore(f, sync.OnceValues(f.find))
		more, err := known.(loads)()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.file, err)
		}
		libs = append(libs, more...)
	}
	return libs, nil
}

func (p *prober) link(ctx context.Context, d *description, lines []*linkflags.Line, shared *syslib.Shared) (*system, error) {
	tmp, err := os.MkdirTemp(p.tmp, "probe")
	if err != nil {
		return nil, err
	}
	linker := syslib.Linker{Path: d.Linker, Dir: p.dir, Env: slices.Concat([]string{"TMPDIR=" + tmp}, p.env, pairs(d.LinkEnv)), Shared: shared}
	probe, err := linker.Probe(ctx, tmp, lines...)
	if err != nil {
		return nil, err
	}
	s := &system{taken: probe.Of(lines...), program: probe.Program()}
	s.loaded, err = probe.Loaded(s.taken)
	return s, err
}
