// Package adopt sets up a workspace for tasting, and takes that back.
//
// An edit is made where it belongs and nowhere else: the files are parsed by buildtools,
// and only the bytes that have to be others are replaced, so that a diff shows nothing
// besides, however a file is formatted. Each edit is marked in the file itself; what
// carries the mark is what Undo takes back. No other record is kept.
package adopt

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/wholefile"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
	"github.com/rules-tasting/rules_tasting/docs/ci"
)

// mark is behind whatever is added to a file, and madeMark behind the first line of one
// that wasn't there.
const (
	mark     = "# tasting adopt"
	madeMark = mark + ": new file"
)

// Edit is what becomes of a file.
type Edit struct {
	File    string `json:"file"` // relative to the workspace, with slashes
	What    string `json:"what"`
	Content []byte `json:"-"` // nil if the file goes
}

// Options say what a workspace gets.
type Options struct {
	Dependency Dependency
	// Store is the directory of results that the sandbox is opened for, or "".
	Store string
	// NamesStore is set if tests have to be told Store, because it isn't the default one.
	NamesStore bool
	// CI is the name of a recipe in Recipes, or "".
	CI string
	// Tests are the cc_test rules to turn into tasting_cc_test.
	Tests []Test
}

// Test is where a rule is.
type Test struct {
	Label, File  string // File is relative to the workspace
	Line, Column int    // of the parenthesis of the call
}

var location = regexp.MustCompile(`^(.*):(\d+):(\d+): cc_test rule (.+)$`)

// ReadTests reads the output of "bazel query --output=location" for cc_test rules. Those of
// other workspaces are left out.
func ReadTests(workspace string, out []byte) (tests []Test, err error) {
	for line := range strings.Lines(string(out)) {
		m := location.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			return nil, fmt.Errorf("bazel query: %q is no location of a cc_test", strings.TrimSpace(line))
		}
		file, err := filepath.Rel(workspace, m[1])
		if err != nil || !filepath.IsLocal(file) {
			continue
		}
		row, err := strconv.Atoi(m[2])
		column, err2 := strconv.Atoi(m[3])
		if err := errors.Join(err, err2); err != nil {
			return nil, err
		}
		tests = append(tests, Test{m[4], filepath.ToSlash(file), row, column})
	}
	return tests, nil
}

// Recipes are where recipes for CI services go, by the names of these.
var Recipes = map[string]string{
	"github":    ".github/workflows/tests.yml",
	"gitlab":    ".gitlab-ci.yml",
	"buildkite": ".buildkite/pipeline.yml",
	"jenkins":   "Jenkinsfile",
}

// filesOf returns the files of recipes by where they go.
func filesOf(services ...string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, service := range services {
		place, ok := Recipes[service]
		if !ok {
			return nil, fmt.Errorf("no recipe for %q: there are %s", service, strings.Join(slices.Sorted(maps.Keys(Recipes)), ", "))
		}
		name := service + ".yml"
		if service == "jenkins" {
			name = "Jenkinsfile"
		}
		main, err := ci.Files.ReadFile(name)
		script, err2 := ci.Files.ReadFile("tasting.sh")
		if err := errors.Join(err, err2); err != nil {
			return nil, err
		}
		files[place], files["ci/tasting.sh"] = main, script
	}
	return files, nil
}

// Plan returns the edits that a workspace needs, none if it has all. Notes say of tests
// why they stay as they are.
func Plan(workspace string, o Options) (edits []Edit, notes []string, err error) {
	// After an error there are no more edits.
	edit := func(file, what string, f func(text []byte) ([]byte, error)) {
		if err != nil {
			return
		}
		var old, text []byte
		if old, err = os.ReadFile(filepath.Join(workspace, file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return
		}
		if text, err = f(old); err != nil {
			err = fmt.Errorf("%s: %w", file, err)
		} else if !bytes.Equal(text, old) {
			edits = append(edits, Edit{file, what, text})
		}
	}
	lines := func(file, what string, lines ...string) {
		edit(file, what, func(text []byte) ([]byte, error) {
			for _, line := range lines {
				text = addLine(text, line)
			}
			return text, nil
		})
	}
	edit("MODULE.bazel", "depends on rules_tasting", func(text []byte) ([]byte, error) {
		out, name, err := o.Dependency.add(text)
		if err == nil && name != module && len(o.Tests) > 0 {
			err = fmt.Errorf("it calls rules_tasting %q: BUILD files can be edited where it has its own name", name)
		}
		if err == nil && bytes.Equal(out, text) && !bytes.Contains(text, []byte(o.Dependency.lines())) {
			notes = append(notes, "MODULE.bazel depends on rules_tasting already, and stays as it is")
		}
		return out, err
	})
	if o.Store != "" {
		// The directory is somebody's own, and where there is none Bazel starts no sandbox: a repository rule makes it.
		lines(".bazelrc", "reads "+userRC, "try-import %workspace%/"+userRC)
		rc := []string{fmt.Sprintf("test %q", "--sandbox_writable_path="+o.Store), fmt.Sprintf("common %q", "--repo_env=TASTING_STORE="+o.Store)}
		if o.NamesStore {
			rc = append(rc, fmt.Sprintf("build %q", "--@rules_tasting//rules:store="+o.Store))
		}
		lines(userRC, "lets tests record results from within the sandbox; it is yours alone, keep it out of version control", rc...)
	}
	if o.CI != "" && err == nil {
		var files map[string][]byte
		files, err = filesOf(o.CI)
		for _, file := range slices.Sorted(maps.Keys(files)) {
			edit(file, "recipe for "+o.CI, func(text []byte) ([]byte, error) {
				if len(text) > 0 && !bytes.Equal(text, files[file]) {
					return nil, errors.New("it is there already: merge it by hand with the recipe in docs/ci of rules_tasting")
				}
				return files[file], nil
			})
		}
	}
	byFile := map[string][]Test{}
	for _, t := range o.Tests {
		if inner := below(workspace, t.File); inner != "" {
			notes = append(notes, fmt.Sprintf("%s stays as it is: %s is a workspace of its own", t.Label, inner))
			continue
		}
		byFile[t.File] = append(byFile[t.File], t)
	}
	for _, file := range slices.Sorted(maps.Keys(byFile)) {
		turned := 0
		edit(file, "", func(text []byte) ([]byte, error) {
			out, n, skipped, err := turn(file, text, byFile[file])
			turned, notes = n, append(notes, skipped...)
			return out, err
		})
		if turned > 0 {
			edits[len(edits)-1].What = fmt.Sprintf("%d cc_test: tasting_cc_test", turned)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	return edits, notes, nil
}

// userRC is where flags of one user go, by the convention of Bazel's documentation.
const userRC = "user.bazelrc"

// addLine adds a line to a bazelrc, unless it is there.
func addLine(text []byte, line string) []byte {
	for l := range strings.Lines(string(text)) {
		if behind, ok := strings.CutPrefix(strings.TrimSpace(l), line); ok && (behind == "" || strings.HasPrefix(strings.TrimSpace(behind), "#")) {
			return text
		}
	}
	if len(text) == 0 {
		return []byte(line + "  " + madeMark + "\n")
	}
	text = whole(text)
	if bytes.HasSuffix(text, []byte("\\\n")) {
		text = append(text, '\n') // the last line goes on in the next one
	}
	return append(text, line+"  "+mark+"\n"...)
}

// below returns the workspace that a file is in below the one that it is relative to, or
// "".
func below(workspace, file string) string {
	for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
		if bazel.IsWorkspace(filepath.Join(workspace, dir)) {
			return dir
		}
	}
	return ""
}

// whole is text with an end of its last line.
func whole(text []byte) []byte {
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(slices.Clip(text), '\n')
	}
	return slices.Clip(text)
}

// Undo returns the edits that take back what other ones have done to a workspace. Notes
// say what stays.
func Undo(workspace string) (edits []Edit, notes []string, err error) {
	recipes, err := filesOf(slices.Collect(maps.Keys(Recipes))...)
	if err != nil {
		return nil, nil, err
	}
	look := func(rel string) error {
		var undo func(text []byte) ([]byte, error)
		switch recipe, of := recipes[rel], path.Base(rel); {
		case recipe != nil:
			undo = func(text []byte) ([]byte, error) {
				if bytes.Equal(text, recipe) {
					return nil, nil
				}
				if bytes.Contains(text, []byte("tasting")) {
					notes = append(notes, rel+" stays: it isn't the recipe of this version of tasting")
				}
				return text, nil
			}
		case rel == "MODULE.bazel":
			undo = removeMarked
		case rel == ".bazelrc" || rel == userRC:
			undo = removeLines
		case of == "BUILD" || of == "BUILD.bazel":
			undo = func(text []byte) ([]byte, error) { return turnBack(rel, text) }
		default:
			return nil
		}
		name := filepath.Join(workspace, filepath.FromSlash(rel))
		if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
			return nil // a link to a directory, or to nothing
		}
		old, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		text, err := undo(old)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", rel, err)
		case bytes.Equal(text, old):
		case len(text) == 0 && (recipes[rel] != nil || bytes.Contains(old, []byte(madeMark))):
			edits = append(edits, Edit{rel, "goes", nil})
		default:
			edits = append(edits, Edit{rel, "as it was", append([]byte{}, text...)})
		}
		return nil
	}
	for _, rel := range slices.Sorted(maps.Keys(recipes)) { // there may be a link on the way
		if err := look(rel); err != nil {
			return nil, nil, err
		}
	}
	err = filepath.WalkDir(workspace, func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrPermission) && d != nil && d.IsDir() {
			notes = append(notes, fmt.Sprintf("%s isn't looked at: it can't be read", name))
			return fs.SkipDir
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(workspace, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case d.IsDir() && rel != "." && (d.Name() == ".git" || bazel.IsWorkspace(name)):
			return fs.SkipDir
		case d.IsDir() || recipes[rel] != nil:
			return nil
		}
		return look(rel)
	})
	// By it the workspace is found, if this is interrupted.
	if i := slices.IndexFunc(edits, func(e Edit) bool { return e.File == "MODULE.bazel" }); i >= 0 {
		dependency := edits[i]
		edits = append(slices.Delete(edits, i, i+1), dependency)
	}
	return edits, notes, err
}

// removeLines removes marked lines.
func removeLines(text []byte) ([]byte, error) {
	var out []byte
	for line := range bytes.Lines(text) {
		if l := string(bytes.TrimSpace(line)); !strings.HasSuffix(l, mark) && !strings.HasSuffix(l, madeMark) {
			out = append(out, line...)
		}
	}
	return out, nil
}

// Apply makes edits. After an error those before it are made.
func Apply(workspace string, edits []Edit) error {
	for _, e := range edits {
		file := filepath.Join(workspace, filepath.FromSlash(e.File))
		if real, err := filepath.EvalSymlinks(file); err == nil {
			if in, err := filepath.Rel(workspace, real); err != nil || !filepath.IsLocal(in) {
				return fmt.Errorf("%s leads to %s, out of the workspace: edit it there, it %s", e.File, real, e.What)
			}
			file = real
		}
		if e.Content == nil {
			if err := os.Remove(file); err != nil {
				return err
			}
			// Directories that were made for it. A link to one isn't, and Rmdir leaves it.
			for dir := path.Dir(e.File); dir != "." && syscall.Rmdir(filepath.Join(workspace, dir)) == nil; {
				dir = path.Dir(dir)
			}
			continue
		}
		perm := fs.FileMode(0o644)
		if info, err := os.Stat(file); err == nil {
			perm = info.Mode().Perm()
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			return err
		}
		if err := wholefile.Write(file, e.Content, perm); err != nil {
			return err
		}
	}
	return nil
}
