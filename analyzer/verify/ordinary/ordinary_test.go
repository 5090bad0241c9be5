// Package ordinary holds the analyzer to what it is for: tests of real projects, compiled and linked in the
// ways in which Bazel does it. Each has to be exact, or to count as a whole for a reason that its users
// would accept; it has to reach about as many components whichever way it is linked; and each of nine kinds
// of edits has to select the tests that it may change, and no others.
//
// testdata/rows.txt says how far that is so, and docs/contributing/ordinary.md sums it up. Both are written by
//
//	./bazelw --exec env TASTING_CORPORA=1 go test ./analyzer/verify/ordinary -all -update
//
// A row that is worse than there fails, and so does one that is better. That an edit doesn't select a test
// that it may change is an error in any case. Without -all, fewer are compiled in C++.
package ordinary

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/clangtest"
)

var (
	update = flag.Bool("update", false, "write testdata/rows.txt and docs/contributing/ordinary.md")
	all    = flag.Bool("all", false, "all programs")
	only   = flag.String("ways", "", "try only ways with this in their names")
	keep   = flag.String("keep", "", "a directory where sources and objects are kept, for another call")
)

func TestMain(m *testing.M) { os.Exit(clangtest.Main(m)) }

// A row is a program that is linked in a way.
type row struct {
	way, program string
	rung         string
	components   int
	more         []string // edits that select it and needn't, and in what they differ
}

func (r *row) String() string {
	more := strings.Join(r.more, " ")
	return fmt.Sprintf("%s\t%s\t%s\t%d\t%s", r.way, r.program, r.rung, r.components, more)
}

func readRows(t *testing.T) map[string]*row {
	b, err := os.ReadFile(rowsFile)
	if err != nil && !*update {
		t.Fatal(err)
	}
	rows := map[string]*row{}
	for line := range strings.Lines(string(b)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if strings.HasPrefix(line, "#") || len(f) != 5 {
			continue
		}
		r := &row{way: f[0], program: f[1], rung: f[2], more: strings.Fields(f[4])}
		if r.components, err = strconv.Atoi(f[3]); err != nil {
			t.Fatalf("%s: %q: %v", rowsFile, line, err)
		}
		rows[r.way+"\t"+r.program] = r
	}
	return rows
}

// TestOrdinary builds programs and compares them with the rows.
func TestOrdinary(t *testing.T) {
	if os.Getenv("TASTING_CORPORA") == "" {
		t.Skip("fetches sources from the machine's Debian archive: set TASTING_CORPORA=1")
	}
	dir := *keep
	if dir == "" {
		dir = t.TempDir()
	}
	b := &builder{dir: dir}
	b.links.Dir = dir
	if err := os.MkdirAll(filepath.Join(dir, "objects"), 0o777); err != nil {
		t.Fatal(err)
	}
	var chosen []*way
	for i := range ways {
		w := &ways[i]
		if strings.Contains(w.name, *only) && (!testing.Short() || w.quick) {
			chosen = append(chosen, w)
		}
	}
	used := slices.Clone(projects)
	if testing.Short() {
		used = used[:1]
	}
	parts, err := b.fetch(used)
	if err != nil {
		t.Fatal(err)
	}
	variants, err := b.compile(used, parts, chosen)
	if err != nil {
		t.Fatal(err)
	}
	// Composition keeps all that it reads in memory, and does its work on all processors.
	debug.SetGCPercent(50)
	want, got := readRows(t), map[string]*row{}
	for _, w := range chosen {
		rows, unsound, err := b.rows(w, used, parts, variants)
		if err != nil {
			t.Fatalf("%s: %v", w.name, err)
		}
		for _, s := range unsound {
			t.Errorf("%s: %s", w.name, s)
		}
		for _, r := range rows {
			got[r.way+"\t"+r.program] = r
		}
	}
	for key, g := range got {
		e := want[key]
		if *update {
			want[key] = g
		} else if e == nil {
			t.Errorf("no such row is expected: %s", g)
		} else if e.rung != g.rung || !slices.Equal(e.more, g.more) || max(e.components, g.components)*100 > min(e.components, g.components)*102 {
			t.Errorf("not as expected; if it is better, write it down with -update\n got %s\nwant %s", g, e)
		}
	}
	if *update {
		writeRows(t, want)
	}
}

// fetch gets the sources, and returns the libraries and programs by name.
func (b *builder) fetch(used []project) (map[string]*part, error) {
	parts := map[string]*part{}
	for i := range used {
		p := &used[i]
		if _, err := os.Stat(b.source(p.name, "")); err != nil {
			if out, err := exec.Command("../../../tools/corpus/fetch.sh", p.name, b.source(p.name, "")).CombinedOutput(); err != nil {
				return nil, fmt.Errorf("%w\n%s", err, out)
			}
		}
		for name, text := range p.files {
			if err := os.WriteFile(b.source(p.name, name), []byte(text), 0o666); err != nil {
				return nil, err
			}
		}
		add := func(name string, srcs, deps, linkopts []string) error {
			units, err := b.sources(p.name, srcs)
			parts[name] = &part{p, name, units, deps, linkopts}
			return err
		}
		for _, l := range p.libs {
			if err := add(l.name, l.srcs, l.deps, l.linkopts); err != nil {
				return nil, err
			}
		}
		for _, x := range p.tests {
			if err := add(x.name, x.srcs, x.deps, nil); err != nil {
				return nil, err
			}
		}
	}
	return parts, nil
}

// libraries returns those that a program needs, each before those that it depends on.
func libraries(parts map[string]*part, program *part) []*part {
	var list []*part
	seen := map[string]bool{}
	var visit func(p *part)
	visit = func(p *part) {
		for _, d := range slices.Backward(p.deps) {
			if !seen[d] {
				seen[d] = true
				visit(parts[d])
				list = append(list, parts[d])
			}
		}
	}
	visit(program)
	slices.Reverse(list)
	return list
}

// compilers returns a group of calls of compilers, of which no more starts if one fails.
func compilers() (*errgroup.Group, context.Context) {
	group, ctx := errgroup.WithContext(context.Background())
	group.SetLimit(2)
	return group, ctx
}

// compile compiles all that the ways need, with each edit, and returns the edits of each project.
func (b *builder) compile(used []project, parts map[string]*part, chosen []*way) (map[string][]*variant, error) {
	configs := map[*config]map[*project][]*part{}
	for _, w := range chosen {
		for i := range used {
			for _, x := range w.tried(&used[i]) {
				if configs[w.config] == nil {
					configs[w.config] = map[*project][]*part{}
				}
				list := append(libraries(parts, parts[x.name]), parts[x.name])
				configs[w.config][&used[i]] = append(configs[w.config][&used[i]], list...)
			}
		}
	}
	variants := map[string][]*variant{}
	all := func(v *variant, group *errgroup.Group, ctx context.Context) {
		for c, projects := range configs {
			for p, list := range projects {
				if v != nil && v.of != p {
					continue
				}
				for _, of := range list {
					if v == nil {
						for _, u := range of.units {
							group.Go(func() error { _, err := b.get(ctx, c, of.project, u, ""); return err })
						}
					} else if u := path.Join(p.name, v.edit.unit); of.project == p && (v.edit.new || slices.Contains(of.units, u)) {
						group.Go(func() error { _, err := b.get(ctx, c, p, u, v.kind); return err })
					}
				}
			}
		}
	}
	group, ctx := compilers()
	all(nil, group, ctx)
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for _, kind := range kinds {
		if err := func() (failed error) {
			group, ctx := compilers()
			// All projects at once: none uses units of another one's edited.
			for i := range used {
				p := &used[i]
				if !slices.ContainsFunc(chosen, func(w *way) bool { return len(w.tried(p)) > 0 }) {
					continue
				}
				e, undo, err := b.apply(p, kind)
				switch {
				case err != nil:
					return errors.Join(err, group.Wait())
				case e == nil:
					continue
				}
				defer func() { failed = errors.Join(failed, undo()) }()
				v := &variant{kind, e, p}
				variants[p.name] = append(variants[p.name], v)
				all(v, group, ctx)
			}
			return group.Wait()
		}(); err != nil {
			return nil, err
		}
	}
	return variants, nil
}

// apply makes an edit of a project, and returns what takes it back; there may be none of this kind.
func (b *builder) apply(p *project, kind string) (e *edited, undo func() error, err error) {
	e, err = p.edit(kind, func(name string) (string, error) {
		text, err := os.ReadFile(b.source(p.name, name))
		return strings.ReplaceAll(string(text), "\r\n", "\n"), err
	})
	if e == nil || err != nil {
		return nil, nil, err
	}
	file := b.source(p.name, e.unit)
	before, err := os.ReadFile(file)
	if err != nil && !e.new {
		return nil, nil, err
	}
	return e, func() error {
		if e.new {
			return os.Remove(file)
		}
		return os.WriteFile(file, before, 0o666)
	}, os.WriteFile(file, []byte(e.text), 0o666)
}

// rows links and composes all programs of a way.
func (b *builder) rows(w *way, used []project, parts map[string]*part, variants map[string][]*variant) (rows []*row, unsound []string, err error) {
	dir, err := os.MkdirTemp(b.dir, "linked-")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	var tests []*fingerprint.Test
	type composition struct {
		r      *row
		p      *project
		v      *variant
		linked bool // the edited unit
	}
	var of []composition
	for i := range used {
		p := &used[i]
		for _, x := range w.tried(p) {
			program := parts[x.name]
			libs := libraries(parts, program)
			files, err := b.link(w, program, libs, nil)
			if err != nil {
				return nil, nil, err
			}
			trace, err := b.build(w, dir, files)
			if err != nil {
				return nil, nil, err
			}
			r := &row{way: w.name, program: p.name + " " + x.name}
			rows = append(rows, r)
			t, err := b.test(w, files)
			if err != nil {
				return nil, nil, err
			}
			tests, of = append(tests, t), append(of, composition{r, p, nil, false})
			for _, v := range variants[p.name] {
				edits := func(l *part) bool {
					return l.project == p && (v.edit.new && l.name == p.edits.library || slices.Contains(l.units, path.Join(p.name, v.edit.unit)))
				}
				k := slices.IndexFunc(libs, edits)
				if k < 0 {
					continue
				}
				base := strings.TrimSuffix(path.Base(v.edit.unit), path.Ext(v.edit.unit)) + ".pic.o"
				files, err := b.link(w, program, libs, v)
				if err != nil {
					return nil, nil, err
				}
				t, err := b.test(w, files)
				if err != nil {
					return nil, nil, err
				}
				tests, of = append(tests, t), append(of, composition{r, p, v, w.kind == shared || strings.Contains(trace, base)})
			}
		}
	}
	composed, _ := fingerprint.ComposeAll(tests, nil)
	var base *fingerprint.Composed
	var reported []*fingerprint.Composed // bases, and what they select needlessly
	var at []composition
	for i := range composed {
		c := &composed[i]
		if c.Err != nil {
			return nil, nil, c.Err
		}
		r, v := of[i].r, of[i].v
		if v == nil {
			base = c
			reported, at = append(reported, c), append(at, of[i])
			continue
		}
		selected := c.Fingerprint != base.Fingerprint || len(base.Config.AlwaysRun) > 0
		_, name, _ := strings.Cut(r.program, " ")
		must := of[i].p.must(v.kind, name, of[i].linked)
		if must && !selected {
			unsound = append(unsound, fmt.Sprintf("%s: %s (%s) must select it", r.program, v.kind, v.edit.unit))
		}
		if selected && !must && !w.may(v.kind) {
			reported, at = append(reported, c), append(at, of[i])
		}
	}
	contents := make([]map[string]string, len(reported))
	var mu sync.Mutex
	fingerprint.Reports(reported, func(i int, report *fingerprint.Report, e error) {
		mu.Lock()
		defer mu.Unlock()
		if err = errors.Join(err, e); e == nil {
			contents[i] = content(report)
			if at[i].v == nil {
				at[i].r.rung, at[i].r.components = rung(reported[i], report), len(report.Components)
			}
		}
	})
	if err != nil {
		return nil, nil, err
	}
	for i, x := range at {
		if x.v == nil {
			base := contents[i]
			for k := i + 1; k < len(at) && at[k].v != nil; k++ {
				x.r.more = append(x.r.more, at[k].v.kind+differences(base, contents[k]))
			}
		}
	}
	return rows, unsound, nil
}

// content is what a fingerprint is made of, by the names that explain a difference.
func content(r *fingerprint.Report) map[string]string {
	parts := map[string]string{}
	for _, c := range slices.Concat(r.Contributions, r.Additions) {
		if c.Name != "code" {
			parts[strings.ReplaceAll(c.Name, " ", "-")] += c.SHA256
		}
	}
	var local []string
	for _, c := range r.Components {
		local = append(local, c.Local)
	}
	slices.Sort(local)
	parts["components"] = strings.Join(local, "")
	return parts
}

// differences says in what two contents differ, like "(needs,copies)".
func differences(a, b map[string]string) string {
	var names []string
	for _, name := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(sortedKeys(a), sortedKeys(b))))) {
		if a[name] != b[name] {
			names = append(names, name)
		}
	}
	return "(" + strings.Join(names, ",") + ")"
}

// ofOne matches names in reasons that differ from program to program.
var ofOne = regexp.MustCompile(`\b[0-9a-f]{32}\.o: | of the section group [^ ,]+|\._Z\w+`)

// rung says whether a program is exact, or why it counts as a whole.
func rung(c *fingerprint.Composed, r *fingerprint.Report) string {
	var why []string
	if len(c.Config.AlwaysRun) > 0 {
		why = append(why, "always runs: "+c.Config.AlwaysRun[0])
	}
	if c.Unusual != "" {
		why = append(why, "as a whole: "+c.Unusual)
	}
	for _, u := range r.Units {
		if len(u.Fallbacks) > 0 {
			why = append(why, "units as a whole: "+u.Fallbacks[0])
		}
	}
	for i := range why {
		why[i] = ofOne.ReplaceAllString(why[i], "")
	}
	why = slices.Compact(slices.Sorted(slices.Values(why)))
	if len(why) == 0 {
		return "exact"
	}
	return strings.Join(why, "; ")
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func writeRows(t *testing.T, rows map[string]*row) {
	var b strings.Builder
	b.WriteString("# Written by -update: way, program, rung, components, edits that select the program and needn't.\n")
	for i := range ways {
		for _, key := range sortedKeys(rows) {
			if rows[key].way == ways[i].name {
				fmt.Fprintln(&b, rows[key])
			}
		}
	}
	if err := os.WriteFile(rowsFile, []byte(b.String()), 0o666); err != nil {
		t.Fatal(err)
	}
}
