package runner

import (
	"encoding/hex"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/wholefile"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/syslib"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
)

// runnerVariables are the runner's own variables. They aren't in the key, so the test must not see them.
var runnerVariables = []string{"TASTING", store.LocationVariable, store.ModeVariable, store.FlagsVariable}

// hiddenVariables aren't in the key either, unless the test's declaration mentions them. Only then may the test
// see them. docs/reference/what-counts.md has the reason for each.
var hiddenVariables = []string{
	"OLDPWD",
	"SHLVL",
	"TEST_SIZE",
	"TEST_TIMEOUT",
	"_",
}

// environ is the environment of a process, by name.
type environ map[string]string

func newEnviron(list []string) environ {
	e := environ{}
	for _, kv := range slices.Backward(list) {
		k, v, _ := strings.Cut(kv, "=")
		e[k] = v // as getenv: the first one counts
	}
	return e
}

func (e environ) get(name string) string { return e[name] }

// childEnv is the environment of the real test.
func (r *runner) childEnv() []string {
	return slices.DeleteFunc(slices.Clone(r.Env), func(kv string) bool {
		k, _, _ := strings.Cut(kv, "=")
		return (slices.Contains(runnerVariables, k) || slices.Contains(hiddenVariables, k)) && !slices.Contains(r.config.EnvKeys, k)
	})
}

// key is the SHA-256 of everything that can decide the outcome. It also returns
// the part that isn't in the configuration.
func (r *runner) key() (store.Key, *fingerprint.Run, error) {
	run, err := r.runOf()
	if err != nil {
		return store.Key{}, nil, err
	}
	key, err := fingerprint.Key(r.config, run)
	return key, run, err
}

// runOf returns the execution's part of the key.
func (r *runner) runOf() (*fingerprint.Run, error) {
	run := new(fingerprint.Run)
	var data []string
	trees := map[string]map[string]string{} // of directories, where what is in them is
	for _, d := range r.config.Data {
		file := r.runfile(d.Path)
		data = append(data, file)
		if strings.HasSuffix(d.Path, "/") {
			trees[d.Path] = map[string]string{}
		}
		for tree, files := range trees { // sorted before what is in it
			if in, ok := strings.CutPrefix(d.Path, tree); ok && in != "" {
				files[in] = file
			}
		}
		if isExecutable(file, d.Path) {
			run.Executable = append(run.Executable, d.Path)
		}
	}
	for _, tree := range slices.Sorted(maps.Keys(trees)) {
		run.Links = append(run.Links, linksIn(tree, trees[tree])...)
	}
	var err error
	run.Libraries, err = syslib.Program{
		Binary: r.binary, Probed: r.hasContribution(fingerprint.LinkedFromSystem), NotProbed: r.hasContribution(fingerprint.NotProbed), Needs: r.config.Needs, Data: data,
	}.Libraries()
	if err != nil {
		return nil, err
	}
	run.External = r.runfile(filepath.Join(r.env.get("TEST_WORKSPACE"), "external")) != ""
	places := r.namedDirs()
	for _, a := range r.Args {
		run.Args = append(run.Args, places.strip(a))
	}
	run.Env = fingerprint.Environment(r.childEnv(), r.config.EnvKeys, places.strip)
	wd, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	run.Dir = places.strip(wd)
	if run.Machine, err = syslib.Machine(); err != nil {
		return nil, err
	}
	// Files without read permission, ports below 1024, chown: root is different
	// from everybody else, who are alike.
	run.Root = os.Geteuid() == 0
	if file := r.runfile("_repo_mapping"); file != "" {
		digest, err := wholefile.Digest(file)
		if err != nil {
			return nil, err
		}
		if sum := hex.EncodeToString(digest[:]); sum != r.config.RepoMapping() {
			run.RepoMapping = sum
		}
	}
	return run, nil
}

// linksIn lists the files of a directory whose path has a symbolic link to another path in it, or out of it. In a
// sandbox each file is a link to Bazel's output; on another machine it may be a copy.
func linksIn(tree string, files map[string]string) (links []string) {
	real, root := map[string]string{}, ""
	for in, file := range files {
		place, err := filepath.EvalSymlinks(file)
		if err != nil {
			continue // it leads nowhere, and counts by where that is
		}
		real[in] = place
		if dir, ok := strings.CutSuffix(place, "/"+in); ok && (root == "" || len(dir) < len(root)) {
			root = dir
		}
	}
	for _, in := range slices.Sorted(maps.Keys(real)) {
		if place := real[in]; place != root+"/"+in {
			place, inside := strings.CutPrefix(place, root+"/")
			if !inside {
				place = "elsewhere"
			}
			links = append(links, tree+in+" -> "+place)
		}
	}
	return links
}

// namedDirs are directories whose paths differ between checkouts and sandboxes, with names for them.
type namedDirs []namedDir

type namedDir struct{ dir, name string }

// namedDirs returns the directories of this run, the longest first.
func (r *runner) namedDirs() namedDirs {
	var p namedDirs
	add := func(name, dir string) {
		if len(dir) > 1 && dir[0] == '/' {
			p = append(p, namedDir{strings.TrimRight(dir, "/"), name})
		}
	}
	add("tmp", r.env.get("TEST_TMPDIR"))
	add("outputs", r.env.get("TEST_UNDECLARED_OUTPUTS_DIR"))
	for _, v := range []string{"RUNFILES_DIR", "TEST_SRCDIR"} {
		add("runfiles", r.env.get(v))
		if i := strings.LastIndex(r.env.get(v), "/bazel-out/"); i >= 0 {
			add("execroot", r.env.get(v)[:i])
		}
	}
	slices.SortStableFunc(p, func(a, b namedDir) int { return len(b.dir) - len(a.dir) })
	return p
}

// strip replaces the directories in s by their names, between NULs. Neither
// arguments nor variables can contain a NUL, so no other text gives that result.
func (p namedDirs) strip(s string) string {
	for _, x := range p {
		for from := 0; ; {
			i := strings.Index(s[from:], x.dir)
			if i < 0 {
				break
			}
			i += from
			end := i + len(x.dir)
			// Only whole paths: /a/b is not in /a/bc nor in /x/a/b.
			if i > 0 && isPathByte(s[i-1]) || end < len(s) && s[end] != '/' && isPathByte(s[end]) {
				from = end
				continue
			}
			mark := "\x00" + x.name + "\x00"
			s = s[:i] + mark + s[end:]
			from = i + len(mark)
		}
	}
	return s
}

func isPathByte(c byte) bool {
	return c == '/' || c == '.' || c == '_' || c == '-' || c == 0 || c >= 0x80 ||
		'0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// hasContribution reports whether the configuration has a contribution of that name.
func (r *runner) hasContribution(contribution string) bool {
	return slices.ContainsFunc(r.config.Contributions, func(c fingerprint.Contribution) bool { return c.Name == contribution })
}
