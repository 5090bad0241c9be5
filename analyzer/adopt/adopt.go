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
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/wholefile"
	"github.com/rules-tasting/rules_tasting/docs/ci"
)

// mark is behind whatever is added to a file that was there.
const mark = "# tasting adopt"

// Edit is what becomes of a file.
type Edit struct {
	File    string // relative to the workspace, with slashes
	What    string
	Content []byte // nil if the file goes
}

// Options say what a workspace gets.
type Options struct {
	Dependency Dependency
	// Store is the directory of results that the sandbox is opened for, or "".
	Store string
	// CI is the name of a recipe in Recipes, or "".
	CI string
	// Tests are the cc_test rules to turn into tasting_cc_test.
	Tests []Test
}

// Test is where a rule is.
type Test struct {
	Label, File string // File is relative to the workspace
	Line        int
}

var location = regexp.MustCompile(`^(.*):(\d+):\d+: cc_test rule (\S+)$`)

// ReadTests reads what "bazel query --output=location" says of cc_test rules. Those of
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
		n, err := strconv.Atoi(m[2])
		if err != nil {
			return nil, err
		}
		tests = append(tests, Test{m[3], filepath.ToSlash(file), n})
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

// recipe returns the files of a recipe by where they go.
func recipe(service string) (map[string][]byte, error) {
	place, ok := Recipes[service]
	if !ok {
		return nil, fmt.Errorf("no recipe for %q: there are %s", service, strings.Join(slices.Sorted(maps.Keys(Recipes)), ", "))
	}
	name := service + ".yml"
	if service == "jenkins" {
		name = "Jenkinsfile"
	}
	main, err := ci.Files.ReadFile(name)
	if err != nil {
		return nil, err
	}
	script, err := ci.Files.ReadFile("tasting.sh")
	return map[string][]byte{place: main, "ci/tasting.sh": script}, err
}

// Plan returns the edits that a workspace needs, none if it has all. Notes say of tests
// why they stay as they are.
func Plan(workspace string, o Options) (edits []Edit, notes []string, err error) {
	edit := func(file, what string, f func(text []byte) ([]byte, error)) error {
		old, err := os.ReadFile(filepath.Join(workspace, file))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		text, err := f(old)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if !bytes.Equal(text, old) {
			edits = append(edits, Edit{file, what, text})
		}
		return nil
	}
	if err := edit("MODULE.bazel", "depends on rules_tasting", o.Dependency.add); err != nil {
		return nil, nil, err
	}
	if o.Store != "" {
		if err := edit(".bazelrc", "lets tests record results from within the sandbox", func(text []byte) ([]byte, error) {
			return openSandbox(text, o.Store), nil
		}); err != nil {
			return nil, nil, err
		}
	}
	if o.CI != "" {
		files, err := recipe(o.CI)
		if err != nil {
			return nil, nil, err
		}
		for _, file := range slices.Sorted(maps.Keys(files)) {
			if err := edit(file, "recipe for "+o.CI, func(text []byte) ([]byte, error) {
				if len(text) > 0 && !bytes.Equal(text, files[file]) {
					return nil, errors.New("it is there already: merge it by hand with the recipe in docs/ci of rules_tasting")
				}
				return files[file], nil
			}); err != nil {
				return nil, nil, err
			}
		}
	}
	byFile := map[string][]Test{}
	for _, t := range o.Tests {
		byFile[t.File] = append(byFile[t.File], t)
	}
	for _, file := range slices.Sorted(maps.Keys(byFile)) {
		turned := 0
		if err := edit(file, "", func(text []byte) ([]byte, error) {
			out, n, skipped, err := turn(file, text, byFile[file])
			turned, notes = n, append(notes, skipped...)
			return out, err
		}); err != nil {
			return nil, nil, err
		}
		if turned > 0 {
			edits[len(edits)-1].What = fmt.Sprintf("%d cc_test: tasting_cc_test", turned)
		}
	}
	return edits, notes, nil
}

// openSandbox adds the flag that lets sandboxes write to a directory.
func openSandbox(text []byte, dir string) []byte {
	flag := "--sandbox_writable_path=" + dir
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		if slices.Contains(strings.Fields(line), flag) {
			return text
		}
	}
	return append(whole(text), "test "+flag+"  "+mark+"\n"...)
}

// whole is text with an end of its last line.
func whole(text []byte) []byte {
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(slices.Clip(text), '\n')
	}
	return slices.Clip(text)
}

// Undo returns the edits that take back what other ones have done to a workspace.
func Undo(workspace string) ([]Edit, error) {
	var edits []Edit
	recipes := map[string][]byte{}
	for service := range Recipes {
		files, err := recipe(service)
		if err != nil {
			return nil, err
		}
		for file, content := range files {
			recipes[file] = content
		}
	}
	err := filepath.WalkDir(workspace, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(workspace, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if rel != "." && (d.Name() == ".git" || isWorkspace(name)) {
				return fs.SkipDir
			}
			return nil
		}
		var undo func(text []byte) ([]byte, error)
		switch recipe, of := recipes[rel], d.Name(); {
		case !d.Type().IsRegular():
			return nil
		case recipe != nil:
			undo = func(text []byte) ([]byte, error) {
				if bytes.Equal(text, recipe) {
					return nil, nil
				}
				return text, nil // it has been edited since
			}
		case rel == "MODULE.bazel":
			undo = removeMarked
		case rel == ".bazelrc":
			undo = closeSandbox
		case of == "BUILD" || of == "BUILD.bazel":
			undo = func(text []byte) ([]byte, error) { return turnBack(rel, text) }
		default:
			return nil
		}
		old, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		text, err := undo(old)
		if err != nil {
			return fmt.Errorf("%s: %w", rel, err)
		}
		switch {
		case bytes.Equal(text, old):
		case len(text) == 0:
			edits = append(edits, Edit{rel, "goes", nil})
		default:
			edits = append(edits, Edit{rel, "as it was", text})
		}
		return nil
	})
	return edits, err
}

// closeSandbox removes marked lines.
func closeSandbox(text []byte) ([]byte, error) {
	var out []byte
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(bytes.TrimSpace(line), []byte(mark)) {
			out = append(out, line...)
		}
	}
	return out, nil
}

// isWorkspace tells whether a directory is the root of a workspace.
func isWorkspace(dir string) bool {
	return slices.ContainsFunc([]string{"MODULE.bazel", "REPO.bazel", "WORKSPACE", "WORKSPACE.bazel"}, func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	})
}

// Root returns the root of the workspace that a directory is in.
func Root(dir string) (string, error) {
	at, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for !isWorkspace(at) {
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("%s is in no workspace of Bazel: there is no MODULE.bazel or WORKSPACE in it or above", dir)
		}
		at = filepath.Dir(at)
	}
	return at, nil
}

// Apply makes edits. After an error those before it are made.
func Apply(workspace string, edits []Edit) error {
	for _, e := range edits {
		file := filepath.Join(workspace, filepath.FromSlash(e.File))
		if e.Content == nil {
			if err := os.Remove(file); err != nil {
				return err
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
