package evolve

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/words"
)

// line is how a driver would start a compiler or linker, as -### prints it. Who starts that at once saves
// the driver, and a compiler that gets many sources is loaded once: loading it takes ten times as
// long as compiling a small source. The first time, it is compared with what the driver makes.
type line struct {
	once  sync.Once
	err   error
	argv  []string // nil: it has to be the driver
	dir   string   // where it was asked
	state atomic.Int32
}

// States of a line.
const (
	untried = iota
	same
	different
)

// do makes files by the driver, or by the line, if that makes the same.
func (l *line) do(files []string, driver, direct func() error) error {
	switch {
	case l.argv == nil || l.state.Load() == different:
		return driver()
	case l.state.Load() == same:
		return direct()
	}
	if err := driver(); err != nil {
		return err
	}
	var want, got [][]byte
	for _, f := range files {
		b, err := os.ReadFile(f)
		if errors.Is(err, os.ErrNotExist) {
			return nil // one is refused
		}
		if err = errors.Join(err, os.Remove(f)); err != nil {
			return err
		}
		want = append(want, b)
	}
	err := direct()
	for _, f := range files {
		b, _ := os.ReadFile(f)
		got = append(got, b)
	}
	if err == nil && slices.EqualFunc(want, got, bytes.Equal) {
		l.state.CompareAndSwap(untried, same)
		return nil
	}
	l.state.Store(different)
	return driver()
}

// started asks a driver what it would start for args, where there are files of some names.
func (b *Builder) started(ctx context.Context, driver string, args, files []string, known func(argv []string) []string) (*line, error) {
	e, _ := b.lines.LoadOrStore(sum(append([]string{driver}, args...)...), new(line))
	l := e.(*line)
	l.once.Do(func() {
		if l.dir, l.err = os.MkdirTemp(b.Dir, "line-"); l.err != nil {
			return
		}
		defer os.RemoveAll(l.dir)
		for _, f := range files {
			l.err = errors.Join(l.err, write(filepath.Join(l.dir, f), ""))
		}
		cmd := exec.CommandContext(ctx, driver, append([]string{"-###"}, args...)...)
		cmd.Dir = l.dir
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Run(); err != nil {
			l.err = errors.Join(l.err, ctx.Err())
			return
		}
		var all [][]string
		for s := range strings.SplitSeq(stderr.String(), "\n") {
			if strings.HasPrefix(s, " /") || strings.HasPrefix(s, ` "`) {
				all = append(all, words.Split(s))
			}
		}
		if len(all) != 1 {
			return
		}
		if l.argv = known(all[0]); l.argv != nil { // PATH may have one that is loaded already
			if name := filepath.Base(l.argv[0]); lookPath(name) {
				l.argv[0] = name
			}
		}
	})
	return l, l.err
}

// compiler is the line of a compiler without its sources, which are put behind it: each object gets
// the name of its source.
func (b *Builder) compiler(ctx context.Context, driver string, words []string, ext string) (*line, error) {
	return b.started(ctx, driver, append(slices.Clip(words), "x"+ext), []string{"x" + ext}, func(argv []string) []string {
		without := func(words ...string) bool {
			for i := range argv {
				if i+len(words) <= len(argv) && slices.Equal(argv[i:i+len(words)], words) {
					argv = slices.Delete(argv, i, i+len(words))
					return true
				}
			}
			return false
		}
		if len(argv) > 1 && argv[1] == "-cc1" && argv[len(argv)-1] == "x"+ext &&
			without("-main-file-name", "x"+ext) && without("-o", "x.o") {
			return argv[:len(argv)-1]
		}
		return nil
	})
}

// in is the line in another directory.
func (l *line) in(dir string) (argv []string) {
	for _, w := range l.argv {
		argv = append(argv, strings.ReplaceAll(w, l.dir, dir))
	}
	return argv
}

// linker is the line that links a file. What its objects are called makes no other line.
func (b *Builder) linker(ctx context.Context, driver string, f *File) (*line, []string, error) {
	words := slices.Clone(f.Words)
	names := map[string]string{}
	var files []string
	for i, w := range words {
		switch {
		case slices.ContainsFunc(f.Units, func(u *Unit) bool { return objectName(u) == w }):
			words[i] = strings.Repeat("o", len(names)+1) + ".o"
			names[words[i]] = w
			files = append(files, words[i])
		case strings.HasSuffix(w, ".a"):
			files = append(files, w)
		}
	}
	l, err := b.started(ctx, driver, words, files, func(argv []string) []string {
		if strings.HasPrefix(filepath.Base(argv[0]), "ld") {
			return argv
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	argv := slices.Clone(l.argv)
	for i, w := range argv {
		if n, ok := names[w]; ok {
			argv[i] = n
		}
	}
	return l, argv, nil
}

func lookPath(name string) bool {
	_, err := exec.LookPath(name)
	return err == nil
}
