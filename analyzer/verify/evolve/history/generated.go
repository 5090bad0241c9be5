package history

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/tools/evaluate"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/evolve"
)

// Generated programs become packages of one workspace in a git repository, and their revisions
// commits, so that many of them cost as many calls of Bazel as one.

// Repository makes a git repository of programs, in which each is a package, or goes on with the one
// that was made of the same, as what says. It returns the commits: the n-th has the n-th revision of
// each program, or its last one.
func Repository(ctx context.Context, dir, what string, programs []*evolve.Program) (commits []string, err error) {
	out, err := evaluate.Git(ctx, dir, "log", "--reverse", "--format=%H %B")
	if err != nil {
		if err := os.RemoveAll(dir); err != nil {
			return nil, err
		}
		return writeRepository(ctx, dir, what, programs)
	}
	for line := range strings.Lines(out) {
		commit, message, ok := strings.Cut(strings.TrimSpace(line), " ")
		if ok && message != fmt.Sprintf("revision %d of %s", len(commits), what) {
			return nil, fmt.Errorf("%s is made of other programs: %q: name another directory with --dir, or delete it", dir, message)
		} else if ok {
			commits = append(commits, commit)
		}
	}
	return commits, nil
}

func writeRepository(ctx context.Context, dir, what string, programs []*evolve.Program) (commits []string, err error) {
	git := func(args ...string) string {
		var out string
		if err == nil {
			out, err = evaluate.Git(ctx, dir, append([]string{"-c", "user.name=tasting", "-c", "user.email=tasting@localhost"}, args...)...)
		}
		return out
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	git("init", "--quiet")
	for n := range revisions(programs) {
		for i, p := range programs {
			r := p.Revisions[min(n, len(p.Revisions)-1)]
			if err := writePackage(dir, packageName(i), r); err != nil {
				return nil, err
			}
		}
		git("add", "--all")
		git("commit", "--quiet", "--allow-empty", "-m", fmt.Sprintf("revision %d of %s", n, what))
		commits = append(commits, git("rev-parse", "HEAD"))
	}
	return commits, err
}

// revisions is the largest number of them.
func revisions(programs []*evolve.Program) (n int) {
	for _, p := range programs {
		n = max(n, len(p.Revisions))
	}
	return n
}

func packageName(i int) string { return fmt.Sprintf("p%04d", i) }

// writePackage writes a revision of a program, and BUILD.bazel, in the place of an earlier one.
func writePackage(dir, name string, r *evolve.Revision) error {
	root := filepath.Join(dir, name)
	if err := os.RemoveAll(root); err != nil {
		return err
	}
	files := maps.Clone(r.Files)
	// Tests start in the runfiles of the workspace.
	data := map[string]bool{}
	for _, t := range r.Tests {
		for _, d := range t.Data {
			data[d] = true
		}
	}
	for f, text := range files {
		for d := range data {
			text = strings.ReplaceAll(text, `"`+d+`"`, `"`+name+"/"+d+`"`)
		}
		files[f] = text
	}
	files["BUILD.bazel"] = buildFile(r)
	for _, f := range slices.Sorted(maps.Keys(files)) {
		file := filepath.Join(root, filepath.FromSlash(f))
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(files[f]), 0o666); err != nil {
			return err
		}
	}
	return nil
}

// buildFile returns the targets of a revision.
func buildFile(r *evolve.Revision) string {
	var b strings.Builder
	b.WriteString("load(\"@rules_cc//cc:defs.bzl\", \"cc_library\", \"cc_test\")\n")
	rule := func(kind, name string, attributes ...string) {
		fmt.Fprintf(&b, "\n%s(\n    name = %q,\n", kind, name)
		for i := 0; i < len(attributes); i += 2 {
			fmt.Fprintf(&b, "    %s = %s,\n", attributes[i], attributes[i+1])
		}
		b.WriteString(")\n")
	}
	var headers []string
	for f := range r.Files {
		if strings.HasSuffix(f, ".h") {
			headers = append(headers, f)
		}
	}
	slices.Sort(headers)
	rule("cc_library", "headers", "hdrs", list(headers))
	deps := func(names []string) string {
		l := []string{":headers"}
		for _, n := range names {
			l = append(l, ":lib_"+n)
		}
		return list(l)
	}
	for _, l := range r.Libraries {
		static := "True"
		if l.Shared {
			static = "False"
		}
		rule("cc_library", "lib_"+l.Name, "srcs", list(l.Sources), "copts", words(slices.Concat(r.Flags, l.Flags)), "linkstatic", static, "deps", deps(l.Deps))
	}
	for _, t := range r.Tests {
		rule("cc_test", t.Name, "size", `"small"`, "srcs", list(t.Sources), "copts", words(r.Flags), "args", words(t.Args), "data", list(t.Data), "linkstatic", "False", "deps", deps(t.Deps))
	}
	return b.String()
}

// list is a list of strings in a BUILD file.
func list(l []string) string {
	if l == nil {
		l = []string{}
	}
	b, _ := json.Marshal(l)
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(b))
}

// plainWord matches words that Bazel takes as they are.
var plainWord = regexp.MustCompile(`^[\w./=:,+@%^-]+$`)

// words are a list of words that Bazel expands and splits as a shell does.
func words(l []string) string {
	var quoted []string
	for _, w := range l {
		if !plainWord.MatchString(w) {
			w = "'" + strings.ReplaceAll(strings.ReplaceAll(w, "$", "$$"), "'", `'\''`) + "'"
		}
		quoted = append(quoted, w)
	}
	return list(quoted)
}

// Executed are the tests that Bazel has executed, sorted: what its own cache selects.
func (r *Revision) Executed() (l []string) {
	for _, t := range r.Tests {
		if !t.Cached {
			l = append(l, t.Label)
		}
	}
	return l
}

// Label is the label of a test of the i-th program.
func Label(i int, test string) string { return "//" + packageName(i) + ":" + test }
