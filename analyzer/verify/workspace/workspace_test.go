package workspace

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	buildevents "github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/clangtest"
)

// Bazel itself runs in analyzer/verify/e2e/testdata/check.txtar.

func TestQuery(t *testing.T) {
	for _, test := range []struct{ targets, want string }{
		{"//a:b", "(let t = tests('//a:b') in kind('cc_test rule', $t) union labels(real, kind('_replaying_test rule', $t)))"},
		{"//a:b -//c/...", "(let t = tests('//a:b') in kind('cc_test rule', $t) union labels(real, kind('_replaying_test rule', $t))) except " +
			"(let t = tests('//c/...') in kind('cc_test rule', $t) union labels(real, kind('_replaying_test rule', $t)))"},
		{"//...", `(let t = tests('//...') except attr(tags, '[\[ ]manual[,\]]', tests('//...')) in kind('cc_test rule', $t) union labels(real, kind('_replaying_test rule', $t)))`},
	} {
		if got := testQuery(strings.Fields(test.targets)); got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.targets, got, test.want)
		}
	}
}

func TestReadActions(t *testing.T) {
	const text = `{
"actions": [
 {"configurationId": 1, "arguments": ["clang", "-MD", "-MF", "bin/a.d", "-frandom-seed=bin/a.o", "-c", "a.c", "-o", "bin/a.o"]},
 {"configurationId": 1, "arguments": ["clang", "-MD", "-MF", "bin/a.pic.d", "-frandom-seed=bin/a.pic.o", "-fPIC", "-c", "a.c", "-o", "bin/a.pic.o"]},
 {"configurationId": 1, "arguments": ["clang", "-DX", "-c", "a.c", "-o", "bin/x/a.o"]},
 {"configurationId": 2, "arguments": ["clang", "-c", "tool.c", "-o", "bin/tool.o"]},
 {"configurationId": 1, "arguments": ["clang", "-c", "b.S", "-o", "bin/b.o"]},
 {"configurationId": 1}
],
"configuration": [{"id": 1, "mnemonic": "k8-fastbuild"}, {"id": 2, "isTool": true}]
}`
	units, err := readActions([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, u := range units {
		got = append(got, u.source+": "+strings.Join(u.argv, " "))
	}
	want := []string{
		"a.c: clang -DX -c a.c -o bin/x/a.o",
		"a.c: clang -MD -MF bin/a.pic.d -frandom-seed=bin/a.pic.o -fPIC -c a.c -o bin/a.pic.o",
		"b.S: clang -c b.S -o bin/b.o",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if _, err := readActions([]byte("{")); err == nil {
		t.Error("cut off: no error")
	}
}

func TestReadEvents(t *testing.T) {
	const text = `
{"id":{"started":{}},"started":{"uuid":"x"}}
{"id":{"namedSet":{"id":"0"}},"namedSetOfFiles":{"files":[{"name":"a.closure","uri":"file:///out/a%20b/a.closure"}]}}
{"id":{"namedSet":{"id":"1"}},"namedSetOfFiles":{"fileSets":[{"id":"0"}]}}
{"id":{"targetCompleted":{"label":"//:a"}},"completed":{"success":true}}
{"id":{"targetCompleted":{"label":"//:a","aspect":"x%y"}},"completed":{"success":true,"outputGroup":[{"name":"tasting_closure","fileSets":[{"id":"1"}]}]}}
{"id":{"targetCompleted":{"label":"//:broken"}},"completed":{"failureDetail":{}}}
{"id":{"targetCompleted":{"label":"//:skipped"}},"aborted":{"reason":"SKIPPED","description":"incompatible"}}
{"id":{"testResult":{"label":"//:a","run":1,"shard":1}},"testResult":{"status":"PASSED","testActionOutput":[{"name":"test.log","uri":"file:///logs/1/test.log"},{"name":"test.xml","uri":"bytestream://x"}]}}
{"id":{"testResult":{"label":"//:a","run":1,"shard":2}},"testResult":{"status":"FAILED","testActionOutput":[{"name":"test.log","uri":"file:///logs/2/test.log"}]}}
`
	file := filepath.Join(t.TempDir(), "events")
	read := func(text string) (map[string]*built, error) {
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return readEvents(file)
	}
	results, err := read(text)
	if err != nil {
		t.Fatal(err)
	}
	a := results["//:a"]
	if a == nil || !slices.Equal(a.files, []string{"/out/a b/a.closure"}) || !slices.Equal(a.logs, []string{"/logs/1/test.log", "/logs/2/test.log"}) || !a.failed || a.aborted != "" {
		t.Errorf("//:a: %+v", a)
	}
	if b := results["//:broken"]; b == nil || b.aborted != "it can't be built" {
		t.Errorf("//:broken: %+v", b)
	}
	if s := results["//:skipped"]; s == nil || s.aborted != "SKIPPED incompatible" {
		t.Errorf("//:skipped: %+v", s)
	}
	for name, text := range map[string]string{
		"elsewhere": `{"id":{"testResult":{"label":"//:a"}},"testResult":{"testActionOutput":[{"name":"test.log","uri":"bytestream://x"}]}}`,
		"cut off":   `{"id":`,
	} {
		if _, err := read(text); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// What the user says counts more than what a bazelrc of the workspace says for a command.
func TestFlagsOf(t *testing.T) {
	b := &bazel{outputBase: "/o", flags: []string{"--repo_env=CC=gcc", "--copt=it's", "--@r//:f=x"}, known: buildevents.Flags{
		"--repo_env": {Name: "repo_env", Value: true, Commands: []string{"build", "query", "test"}},
		"--copt":     {Name: "copt", Value: true, Commands: []string{"build", "test"}},
	}}
	for command, want := range map[string][]string{
		"build": b.flags, "test": b.flags, "query": {"--repo_env=CC=gcc"},
	} {
		if got := b.flagsOf(command); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

// TestUncheckedTests: what isn't there is an error of the test, never nothing.
func TestUncheckedTests(t *testing.T) {
	dir := t.TempDir()
	closure := filepath.Join(dir, "t.closure")
	if err := os.WriteFile(closure, []byte(`{"format":2,"fingerprint":"00"}`), 0o666); err != nil {
		t.Fatal(err)
	}
	composed := &built{files: []string{closure}}
	run := &built{files: []string{filepath.Join(dir, "t")}, logs: []string{filepath.Join(dir, "test.log")}}
	for _, test := range []struct {
		name          string
		composed, run *built
		want          string
	}{
		{"no closure", nil, run, "no closure"},
		{"a target that isn't built", &built{aborted: "it can't be built"}, run, "no closure: it can't be built"},
		{"a test that isn't run", composed, nil, "not run"},
		{"a test that can't be built", composed, &built{aborted: "it can't be built"}, "not run with instrumentation: it can't be built"},
		{"a test without profiles", composed, run, "no profile"},
	} {
		var x Test
		if err := x.check(t.Context(), test.composed, test.run, nil, "clang", false); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", test.name, err, test.want)
		}
	}
}

// TestDataIDs: of a test's data, the programs and libraries.
func TestDataIDs(t *testing.T) {
	clang := clangtest.Clang(t)
	runfiles := t.TempDir()
	for name, text := range map[string]string{"p.c": "int main(void) { return 0; }", "text": "hello"} {
		if err := os.WriteFile(filepath.Join(runfiles, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"-o", "program"}, {"-shared", "-o", "library"}, {"-o", "test"}} {
		cmd := exec.Command(clang, append([]string{"-Wl,--build-id", "p.c"}, args...)...)
		cmd.Dir = runfiles
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	report := &fingerprint.Report{Contributions: []fingerprint.Contribution{
		{Name: "code"}, {Name: "data program"}, {Name: "data library"}, {Name: "data text"}, {Name: "data nowhere"},
	}}
	ids := dataIDs(report, runfiles)
	if len(ids) != 2 {
		t.Errorf("%v", ids)
	}
	for id := range ids {
		if len(id) < 16 {
			t.Errorf("not a build ID: %q", id)
		}
	}
}
