package evolve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// maxReductions bounds how often a program is checked to make it smaller.
const maxReductions = 400

// Reduce returns a smaller program that violates the same rule with the same tool.
func Reduce(ctx context.Context, b *Builder, p *Program, makeTools func(Passes) []Tool, v *Violation) *Program {
	left := maxReductions
	try := func(q *Program) bool {
		if left--; left < 0 || ctx.Err() != nil {
			return false
		}
		t, err := Check(ctx, b, q, makeTools)
		return err == nil && slices.ContainsFunc(t.Check(), func(x *Violation) bool { return x.Rule == v.Rule && x.Tool == v.Tool })
	}
	keep := func(change func(q *Program)) {
		q := p.clone()
		change(q)
		if try(q) {
			p = q
		}
	}
	for i := len(p.Revisions) - 1; i >= 0; i-- {
		if len(p.Revisions) > 2 {
			keep(func(q *Program) { q.Revisions = slices.Delete(q.Revisions, i, i+1) })
		}
	}
	for _, name := range p.names(func(r *Revision) (l []string) {
		for _, t := range r.Tests {
			l = append(l, t.Name)
		}
		return l
	}) {
		keep(func(q *Program) {
			q.each(func(r *Revision) {
				r.Tests = slices.DeleteFunc(r.Tests, func(t Test) bool { return t.Name == name })
			})
		})
	}
	for _, name := range p.names(func(r *Revision) (l []string) {
		for _, x := range r.Libraries {
			l = append(l, x.Name)
		}
		return l
	}) {
		keep(func(q *Program) { q.each(func(r *Revision) { r.withoutLibrary(name) }) })
	}
	files := p.names(func(r *Revision) []string { return slices.Collect(maps.Keys(r.Files)) })
	for _, name := range files {
		keep(func(q *Program) { q.each(func(r *Revision) { r.withoutFile(name) }) })
	}
	for _, name := range files {
		for _, line := range p.names(func(r *Revision) []string { return strings.SplitAfter(r.Files[name], "\n") }) {
			if line != "" {
				keep(func(q *Program) { q.each(func(r *Revision) { r.withoutLine(name, line) }) })
			}
		}
	}
	return p
}

func (p *Program) clone() *Program {
	q := *p
	q.Revisions = nil
	for _, r := range p.Revisions {
		x := *r
		x.Files, x.Libraries, x.Tests = maps.Clone(r.Files), slices.Clone(r.Libraries), slices.Clone(r.Tests)
		q.Revisions = append(q.Revisions, &x)
	}
	return &q
}

func (p *Program) each(f func(*Revision)) {
	for _, r := range p.Revisions {
		f(r)
	}
}

// names returns what is in any revision, sorted.
func (p *Program) names(in func(*Revision) []string) []string {
	set := map[string]bool{}
	p.each(func(r *Revision) {
		for _, n := range in(r) {
			set[n] = true
		}
	})
	return slices.Sorted(maps.Keys(set))
}

func without(l []string, s string) []string {
	return slices.DeleteFunc(slices.Clone(l), func(x string) bool { return x == s })
}

func (r *Revision) withoutLibrary(name string) {
	r.Libraries = slices.DeleteFunc(r.Libraries, func(l Library) bool { return l.Name == name })
	for i := range r.Libraries {
		r.Libraries[i].Deps = without(r.Libraries[i].Deps, name)
	}
	for i := range r.Tests {
		r.Tests[i].Deps = without(r.Tests[i].Deps, name)
	}
}

func (r *Revision) withoutFile(name string) {
	delete(r.Files, name)
	for i := range r.Libraries {
		r.Libraries[i].Sources = without(r.Libraries[i].Sources, name)
	}
	for i := range r.Tests {
		r.Tests[i].Sources, r.Tests[i].Data = without(r.Tests[i].Sources, name), without(r.Tests[i].Data, name)
	}
}

func (r *Revision) withoutLine(name, line string) {
	if text, ok := r.Files[name]; ok {
		lines := strings.SplitAfter(text, "\n")
		r.Files[name] = strings.Join(without(lines, line), "")
	}
}

// programFile is the file that says what a directory with a program has beside files.
const programFile = "evolve.json"

// description is the content of that file.
type description struct {
	Name, Mode string
	Revisions  []*Revision // without files, which are in directories with their numbers
	Violations []*Violation
}

// Write writes a program into a directory, with what speaks against which tool: each revision in a
// directory of its number, and what they consist of in evolve.json.
func (p *Program) Write(dir string, violations []*Violation) error {
	d := description{p.Name, p.Mode, nil, violations}
	for i, r := range p.Revisions {
		for name, text := range r.Files {
			if err := write(filepath.Join(dir, strconv.Itoa(i), filepath.FromSlash(name)), text); err != nil {
				return err
			}
		}
		bare := *r
		bare.Files = nil
		d.Revisions = append(d.Revisions, &bare)
	}
	b, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	return write(filepath.Join(dir, programFile), string(b)+"\n")
}

// Read reads what Write has written. It is an error if a revision isn't valid.
func Read(dir string) (*Program, error) {
	file := filepath.Join(dir, programFile)
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var d description
	if err := json.Unmarshal(b, &d); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	p := &Program{Name: d.Name, Mode: d.Mode, Revisions: d.Revisions}
	for i, r := range p.Revisions {
		if r == nil {
			return nil, fmt.Errorf("%s: revision %d is missing", file, i)
		}
		r.Files = map[string]string{}
		top := os.DirFS(filepath.Join(dir, strconv.Itoa(i)))
		if err := fs.WalkDir(top, ".", func(name string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			text, err := fs.ReadFile(top, name)
			r.Files[path.Clean(name)] = string(text)
			return err
		}); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err := r.Validate(); err != nil {
			return nil, fmt.Errorf("%s: revision %d: %w", file, i, err)
		}
	}
	return p, nil
}
