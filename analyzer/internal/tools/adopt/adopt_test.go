package adopt

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
)

// calls are the tests at the lines of a text that call cc_test.
func calls(text string) (tests []Test) {
	line := 0
	for l := range strings.Lines(text) {
		line++
		for i := range l {
			if strings.HasSuffix(l[:i], "cc_test") && l[i] == '(' {
				tests = append(tests, Test{"//:t", "BUILD.bazel", line, utf8.RuneCountInString(l[:i]) + 1})
			}
		}
	}
	return tests
}

func TestTurn(t *testing.T) {
	for _, test := range []struct{ name, before, after, note string }{
		{"native", `cc_test(name = "a", srcs = ["a.cc"])
`, `load("@rules_tasting//rules:defs.bzl", "tasting_cc_test")  # tasting adopt

tasting_cc_test(name = "a", srcs = ["a.cc"])
`, ""},
		{"behind a comment", `# License.

# Of a.
cc_test(name = "a")
`, `# License.

load("@rules_tasting//rules:defs.bzl", "tasting_cc_test")  # tasting adopt

# Of a.
tasting_cc_test(name = "a")
`, ""},
		{"the only symbol", `load("@rules_cc//cc:cc_test.bzl", "cc_test")

cc_test(name = "a")
`, `load("@rules_tasting//rules:defs.bzl", "tasting_cc_test")  # tasting adopt: cc_test of @rules_cc//cc:cc_test.bzl

tasting_cc_test(name = "a")
`, ""},
		{"one of several symbols", `load("@rules_cc//cc:defs.bzl", "cc_library", "cc_test", "objc_library")
load("@z//:z.bzl", "z")

cc_library(name = "l")

cc_test(
    name = "a",
)

[cc_test(name = n) for n in z]
`, `load("@rules_cc//cc:defs.bzl", "cc_library", "objc_library")
load("@rules_tasting//rules:defs.bzl", "tasting_cc_test")  # tasting adopt: cc_test of @rules_cc//cc:defs.bzl
load("@z//:z.bzl", "z")

cc_library(name = "l")

tasting_cc_test(
    name = "a",
)

[tasting_cc_test(name = n) for n in z]
`, ""},
		{"symbols on lines of their own stay", `load(
    "@rules_cc//cc:defs.bzl",
    "cc_library",
    "cc_test",
)
cc_test ( name = "a" )
`, `load(
    "@rules_cc//cc:defs.bzl",
    "cc_library",
    "cc_test",
)
cc_test ( name = "a" )
`, ""},
		{"no way to format it", "cc_library( name='l' )\ncc_test(name='a',  srcs=[ 'a.cc' ],)", "load(\"@rules_tasting//rules:defs.bzl\", \"tasting_cc_test\")  # tasting adopt\n\ncc_library( name='l' )\ntasting_cc_test(name='a',  srcs=[ 'a.cc' ],)", ""},
		{"two on a line", `[cc_test(name = "a"), cc_test(name = "b")]
`, `load("@rules_tasting//rules:defs.bzl", "tasting_cc_test")  # tasting adopt

[tasting_cc_test(name = "a"), tasting_cc_test(name = "b")]
`, ""},
		{"lines of another system", "# Lic\r\n\r\ncc_test(name = \"a\")\r\n", "# Lic\r\n\r\nload(\"@rules_tasting//rules:defs.bzl\", \"tasting_cc_test\")  # tasting adopt\ntasting_cc_test(name = \"a\")\r\n", ""},
		{"blank line first", "\ncc_test(name = \"a\")\n", "\nload(\"@rules_tasting//rules:defs.bzl\", \"tasting_cc_test\")  # tasting adopt\ntasting_cc_test(name = \"a\")\n", ""},
		{"load behind", `cc_test(name = "a")

load("//:x.bzl", "x")
`, `load("@rules_tasting//rules:defs.bzl", "tasting_cc_test")  # tasting adopt

tasting_cc_test(name = "a")

load("//:x.bzl", "x")
`, ""},
		{"a cc_test of one's own", `load("//tools:cc.bzl", "cc_test")

cc_test(name = "a")
`, `load("//tools:cc.bzl", "cc_test")

cc_test(name = "a")
`, "//tools:cc.bzl has its own cc_test; change it there"},
		{"ours already", `load("@rules_tasting//rules:defs.bzl", "tasting_cc_test")

tasting_cc_test(name = "a")

cc_test(name = "b")
`, `load("@rules_tasting//rules:defs.bzl", "tasting_cc_test")

tasting_cc_test(name = "a")

cc_test(name = "b")
`, "loads tasting_cc_test already"},
	} {
		t.Run(test.name, func(t *testing.T) {
			tests := calls(test.before)
			if len(tests) == 0 { // "cc_test ("
				tests = nil
			}
			out, turned, notes, err := turn("BUILD.bazel", []byte(test.before), tests)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(test.after, string(out)); d != "" {
				t.Error(d)
			}
			if said := strings.Join(notes, "\n"); !strings.Contains(said, test.note) || (turned > 0) != (test.before != test.after) {
				t.Errorf("%d turned, notes %q", turned, said)
			}
			back, err := turnBack("BUILD.bazel", out)
			if d := cmp.Diff(test.before, string(back)); d != "" || err != nil {
				t.Error(err, d)
			}
		})
	}
}

// More tests of a file that has been edited.
func TestTurnMore(t *testing.T) {
	const text = "cc_test(name = \"a\")\n\ncc_test(name = \"b\")\n"
	out, _, _, err := turn("BUILD", []byte(text), []Test{{"//:a", "BUILD", 1, 8}})
	if err != nil {
		t.Fatal(err)
	}
	out, turned, notes, err := turn("BUILD", out, []Test{{"//:b", "BUILD", 5, 8}})
	if err != nil || turned != 1 || len(notes) > 0 || strings.Count(string(out), "tasting_cc_test(") != 2 {
		t.Errorf("%d, %q, %v\n%s", turned, notes, err, out)
	}
	if back, err := turnBack("BUILD", out); err != nil || string(back) != text {
		t.Errorf("%v\n%s", err, back)
	}
}

// A file that was edited between adoption and its end.
func TestEditedMeanwhile(t *testing.T) {
	const text = "load(\"@rules_cc//cc:defs.bzl\", \"cc_library\", \"cc_test\")\n\ncc_library(name = \"l\")\n\ncc_test(name = \"a\")\n"
	out, _, _, err := turn("BUILD", []byte(text), calls(text))
	if err != nil {
		t.Fatal(err)
	}
	// Another test, and another rule of ours.
	edited := strings.Replace(string(out), "\"cc_library\"", "\"cc_library\", \"cc_test\"", 1) + "\ncc_test(name = \"b\")\n"
	edited = strings.Replace(edited, "\"tasting_cc_test\")", "\"tasting_cc_test\", \"tasting_toolchain\")", 1)
	out, turned, notes, err := turn("BUILD", []byte(edited), []Test{{"//:b", "BUILD", 8, 8}})
	if err != nil || turned != 1 || len(notes) > 0 {
		t.Fatalf("%d, %q, %v\n%s", turned, notes, err, out)
	}
	back, err := turnBack("BUILD", out)
	want := strings.Replace(text, "\n\n", "\nload(\"@rules_tasting//rules:defs.bzl\", \"tasting_toolchain\")  # tasting adopt: cc_test of @rules_cc//cc:defs.bzl\n\n", 1) + "\ncc_test(name = \"b\")\n"
	if d := cmp.Diff(want, string(back)); d != "" || err != nil {
		t.Error(err, d)
	}
}

// Of two tests one is asked for, and what a macro makes isn't there.
func TestTurnSome(t *testing.T) {
	const text = `load("@rules_cc//cc:defs.bzl", "cc_test")
load(":macro.bzl", "tests")

cc_test(name = "a")

cc_test(name = "b")

tests(name = "m")
`
	out, turned, notes, err := turn("BUILD.bazel", []byte(text), []Test{{"//:b", "BUILD.bazel", 6, 8}, {"//:m_1", "BUILD.bazel", 8, 6}})
	if err != nil || turned != 1 || len(notes) != 1 || !strings.Contains(notes[0], "no cc_test is called at BUILD.bazel:8, so a macro makes it") {
		t.Errorf("%d, %q, %v", turned, notes, err)
	}
	want := strings.Replace(text, "cc_test(name = \"b\")", "tasting_cc_test(name = \"b\")", 1)
	want = strings.Replace(want, "\"tests\")\n", "\"tests\")\nload(\"@rules_tasting//rules:defs.bzl\", \"tasting_cc_test\")  # tasting adopt\n", 1)
	if d := cmp.Diff(want, string(out)); d != "" {
		t.Error(d)
	}
}

func TestWorkspace(t *testing.T) {
	files := map[string]string{
		"MODULE.bazel":            "module(name = \"m\")\n\nbazel_dep(name = \"rules_cc\", version = \"0.0.11\")\nbazel_dep(\n    name = \"platforms\",\n    version = \"0.0.10\",\n)\n\nuse_repo()\n",
		".bazelrc":                "build --copt=-O1",
		"BUILD.bazel":             "cc_test(name = \"a\")\n",
		"nested/WORKSPACE":        "",
		"nested/BUILD.bazel":      "# tasting adopt\n",
		"sub/BUILD":               "cc_test(name = \"b\")\n",
		".github/workflows/x.yml": "x\n",
	}
	dir := t.TempDir()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	o := Options{
		Dependency: Dependency{Version: "1.2.3", Archive: "https://example.com/a.tar.gz", Integrity: "sha256-x"},
		Store:      "/home/u b/.cache/tasting", CI: "github",
		Tests: []Test{{"//:a", "BUILD.bazel", 1, 8}, {"//sub:b", "sub/BUILD", 1, 8}, {"//nested:c", "nested/BUILD.bazel", 1, 1}},
	}
	edits, notes, err := Plan(dir, o)
	if err != nil || len(notes) != 1 || !strings.Contains(notes[0], "//nested:c stays as it is: nested is a workspace of its own") {
		t.Fatal(err, notes)
	}
	if err := Apply(dir, edits); err != nil {
		t.Fatal(err)
	}
	var changed []string
	for _, e := range edits {
		changed = append(changed, e.File)
	}
	if want := []string{"MODULE.bazel", ".bazelrc", "user.bazelrc", ".github/workflows/tests.yml", "ci/tasting.sh", "BUILD.bazel", "sub/BUILD"}; !slices.Equal(changed, want) {
		t.Errorf("%q, want %q", changed, want)
	}
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return string(b)
	}
	if d := cmp.Diff(strings.Replace(files["MODULE.bazel"], "\n)\n\nuse", `
)
bazel_dep(name = "rules_tasting", version = "1.2.3")  # tasting adopt
archive_override(
    module_name = "rules_tasting",
    integrity = "sha256-x",
    strip_prefix = "rules_tasting-1.2.3",
    urls = ["https://example.com/a.tar.gz"],
)  # tasting adopt

use`, 1), read("MODULE.bazel")); d != "" {
		t.Error(d)
	}
	if got := read(".bazelrc"); got != "build --copt=-O1\ntry-import %workspace%/user.bazelrc  # tasting adopt\n" {
		t.Errorf("%q", got)
	}
	if got := read("user.bazelrc"); got != "test \"--sandbox_writable_path=/home/u b/.cache/tasting\"  # tasting adopt: new file\n"+
		"common \"--repo_env=TASTING_STORE=/home/u b/.cache/tasting\"  # tasting adopt\n" {
		t.Errorf("%q", got)
	}
	if info, err := os.Stat(filepath.Join(dir, ".bazelrc")); err != nil || info.Mode().Perm() != 0o640 {
		t.Error(info.Mode(), err)
	}
	// Once more it changes nothing: the tests aren't cc_test any more.
	o.Tests = nil
	if edits, _, err := Plan(dir, o); err != nil || len(edits) > 0 {
		t.Errorf("%v, %v", edits, err)
	}
	if edits, notes, err = Undo(dir); err != nil || len(notes) > 0 {
		t.Fatal(err, notes)
	}
	if last := edits[len(edits)-1]; last.File != "MODULE.bazel" {
		t.Errorf("%s goes last", last.File)
	}
	if err := Apply(dir, edits); err != nil {
		t.Fatal(err)
	}
	files[".bazelrc"] += "\n" // which every text has at its end
	for name, text := range files {
		if d := cmp.Diff(text, read(name)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	if read("ci/tasting.sh") != "" || read(".github/workflows/tests.yml") != "" || read("user.bazelrc") != "" {
		t.Error("a new file is still there")
	}
	if edits, _, err := Undo(dir); err != nil || len(edits) > 0 {
		t.Errorf("%v, %v", edits, err)
	}
}

// An empty MODULE.bazel stays one, links stay links, and what is behind one that leads out
// isn't touched.
func TestLinks(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	for _, err := range []error{
		os.WriteFile(filepath.Join(dir, "MODULE.bazel"), nil, 0o666),
		os.WriteFile(filepath.Join(dir, "real"), []byte("cc_test(name = \"a\")\n"), 0o666),
		os.Symlink("real", filepath.Join(dir, "BUILD")),
		os.WriteFile(filepath.Join(out, "rc"), []byte("# mine\n"), 0o666),
		os.Symlink(dir, filepath.Join(out, "way")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	root, err := bazel.Root(filepath.Join(out, "way"))
	if real, err2 := filepath.EvalSymlinks(dir); err != nil || err2 != nil || root != real {
		t.Fatal(root, err, err2)
	}
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	o := Options{Dependency: Dependency{Version: "1.2.3"}, Tests: []Test{{"//:a", "BUILD", 1, 8}}}
	edits, _, err := Plan(root, o)
	if err == nil {
		err = Apply(root, edits)
	}
	if err != nil || !strings.Contains(read("real"), "\ntasting_cc_test(") {
		t.Fatal(err, read("real"))
	}
	if edits, _, err = Undo(root); err == nil {
		err = Apply(root, edits)
	}
	if info, err2 := os.Lstat(filepath.Join(root, "BUILD")); err != nil || err2 != nil || info.Mode().IsRegular() || read("BUILD") != "cc_test(name = \"a\")\n" || read("MODULE.bazel") != "" {
		t.Error(err, err2, read("BUILD"), read("MODULE.bazel"))
	}
	if err := os.Symlink(filepath.Join(out, "rc"), filepath.Join(root, ".bazelrc")); err != nil {
		t.Fatal(err)
	}
	o.Store = "/s"
	if edits, _, err = Plan(root, o); err != nil {
		t.Fatal(err)
	}
	if err := Apply(root, edits); err == nil || !strings.Contains(err.Error(), ".bazelrc leads to") || !strings.Contains(err.Error(), "edit it there") {
		t.Error(err)
	}
}

func TestReadTests(t *testing.T) {
	tests, err := ReadTests("/w", []byte("/w/BUILD:3:8: cc_test rule //:a b\n/else/BUILD:1:2: cc_test rule @x//:y\n"))
	if err != nil || !slices.Equal(tests, []Test{{"//:a b", "BUILD", 3, 8}}) {
		t.Errorf("%v %v", tests, err)
	}
	if _, err := ReadTests("/w", []byte("BUILD: cc_library rule //:a\n")); err == nil {
		t.Error("no error")
	}
}

func TestAddLine(t *testing.T) {
	for text, want := range map[string]string{
		"":               "x y  # tasting adopt: new file\n",
		"a":              "a\nx y  # tasting adopt\n",
		"a \\\n":         "a \\\n\nx y  # tasting adopt\n",
		"x y # mine\n b": "x y # mine\n b",
		"x y#\n":         "x y#\n",
		"x yz\n":         "x yz\nx y  # tasting adopt\n",
	} {
		if got := string(addLine([]byte(text), "x y")); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// What is there and isn't ours stays.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ".gitlab-ci.yml"), []byte("mine\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Plan(dir, Options{Dependency: Dependency{Version: "1.2.3"}, CI: "gitlab"}); err == nil || !strings.Contains(err.Error(), ".gitlab-ci.yml: it is there already") {
		t.Error(err)
	}
	if _, _, err := Plan(dir, Options{CI: "none"}); err == nil {
		t.Error("no error")
	}
	if err := os.WriteFile(filepath.Join(dir, "MODULE.bazel"), []byte("module(\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Plan(dir, Options{}); err == nil || !strings.Contains(err.Error(), "MODULE.bazel") {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "MODULE.bazel"), []byte("bazel_dep(name = \"rules_tasting\", repo_name = \"tt\")\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Plan(dir, Options{Tests: []Test{{}}}); err == nil || !strings.Contains(err.Error(), `it calls rules_tasting "tt"`) {
		t.Error(err)
	}
	if edits, notes, err := Plan(dir, Options{}); err != nil || len(edits) > 0 || len(notes) != 1 || !strings.Contains(notes[0], "depends on rules_tasting already") {
		t.Error(edits, notes, err)
	}
	if _, err := bazel.Root(string(filepath.Separator)); err == nil {
		t.Error("/ is a workspace")
	}
}

// FuzzTurn: whatever a file is like, what is turned can be turned back.
func FuzzTurn(f *testing.F) {
	f.Add("load(\"@rules_cc//cc:defs.bzl\", \"cc_binary\", \"cc_test\")\ncc_test(name = \"a\")\n")
	f.Add("load(\"@rules_cc//cc:defs.bzl\", cc_test = \"x\")\n\n\n[cc_test(name = n) for n in []]")
	f.Add("# tasting adopt\ncc_test(\n)\n# x\n")
	f.Fuzz(func(t *testing.T, text string) {
		out, turned, _, err := turn("BUILD", []byte(text), calls(text))
		if err != nil {
			return
		}
		if (turned > 0) == bytes.Equal(out, []byte(text)) {
			t.Fatalf("%d turned", turned)
		}
		if turned == 0 {
			return
		}
		if back, err := turnBack("BUILD", out); err != nil || string(back) != text {
			t.Fatalf("%q\nis turned to\n%q\nand back to\n%q, %v", text, out, back, err)
		}
	})
}
