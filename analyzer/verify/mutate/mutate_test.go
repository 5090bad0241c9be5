package mutate

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/verify/clangtest"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/corporatest"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/witness"
)

func TestMain(m *testing.M) { os.Exit(clangtest.Main(m)) }

// TestEveryKindOfEdit: each kind must be able to make a mutant that compiles,
// by both compilers, neutral ones must be neutral, and the same seed must take the
// same edits.
func TestEveryKindOfEdit(t *testing.T) {
	clang := clangtest.Clang(t)
	names := Kinds()
	ofC, ofCxx := names[:len(names)-len(cxxKinds)], names[len(names)-len(cxxKinds):]
	for _, test := range []struct {
		argv   []string
		kinds  []string
		sample int
	}{
		{[]string{"clang", "-O0", "testdata/sample.c testdata/asm.c"}, ofC, 3 * len(ofC)},
		{[]string{"clang++", "-O1", "-std=c++20", "testdata/sample.cc"}, ofCxx, 6 * len(ofCxx)},
		{[]string{"gcc", "-O0", "testdata/sample.c testdata/asm.c"}, nil, len(ofC)},
		{[]string{"g++", "-O0", "-std=c++20", "testdata/sample.cc"}, nil, len(ofCxx)},
	} {
		t.Run(test.argv[0], func(t *testing.T) {
			clangtest.Tool(t, test.argv[0])
			var commands [][]string
			for _, file := range strings.Fields(test.argv[len(test.argv)-1]) {
				commands = append(commands, append(slices.Clone(test.argv[:len(test.argv)-1]), file))
			}
			c := Campaign{Commands: commands, Clang: clang, Seed: 1, Sample: test.sample, Kinds: test.kinds}
			r, err := c.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			compared := map[string]KindReport{}
			for _, k := range r.Kinds {
				if k.Evidence == witness.Shared {
					compared[k.Kind] = k
				}
			}
			for _, k := range test.kinds {
				if compared[k].Compared == 0 {
					t.Errorf("%s: no mutant compiles", k)
				}
			}
			for _, total := range r.Totals {
				bySource := test.argv[0] == "clang" // what else is plain C
				if (total.Emitted == 0 || total.Changed == 0) != (total.Evidence == witness.Source && !bySource) {
					t.Errorf("%s: %+v", total.Evidence, total)
				}
				t.Logf("%+v", total)
			}
			if r.Sharing < 5 {
				t.Errorf("%+v", r.Counts)
			}
			for _, f := range r.Violations {
				t.Errorf("violation: %s in %s, %s:\n- %s\n+ %s\n%+v", f.Kind, f.Where, f.Evidence, f.Before, f.After, f.Differences)
			}
			plan := func() (list []string) {
				m, err := c.prepare(t.Context(), c.Commands[0], t.TempDir())
				if err != nil {
					t.Fatal(err)
				}
				jobs, _, err := c.plan([]*mutant{m})
				if err != nil {
					t.Fatal(err)
				}
				for _, j := range jobs {
					f := j.finding()
					list = append(list, f.Kind+f.Before+f.After)
				}
				return list
			}
			if !slices.Equal(plan(), plan()) {
				t.Error("the same seed takes different edits")
			}
		})
	}
}

// TestDeclarationsOfCxx: what the edits of C++ take declarations to be.
func TestDeclarationsOfCxx(t *testing.T) {
	const text = `
BEGIN_NAMESPACE
namespace n { extern "C" {
template <typename T, int N = (3 > 2)> struct A<T[N]> final : public B<T, int>, virtual C { using B<T, int>::B; A() : B<T, int>{1}, c{2} {} ~A(); int c{3}, d; unsigned e : 3; bool operator()(int) const noexcept { return 1; } };
enum class E : char { a, b = 2 };
} }
#ifdef X
int f(int x) {
#else
auto f(long x) -> long {
#endif
  return [=] { return x < 1; }();
}
struct G *g(), h(int) noexcept(false);
n::A<int> v(3), w{4};
template <> int n::A<int>::m(int) try { return 1; } catch (...) { return 2; }
`
	s := readSource("t.cc", []byte(text), true, false)
	var got []string
	for _, d := range s.decls {
		class := ""
		if d.class >= 0 {
			class = s.classes[d.class].name + ": "
		}
		got = append(got, fmt.Sprintf("%s%s %s%s", class, d.kind, d.name, map[bool]string{true: " {}"}[d.body >= 0]))
	}
	want := []string{"A: using ", "A: function A {}", "A: function ~A", "A: variable c", "A: variable e", "A: function operator() {}", "class A {}", "enum E {}", "function f {}", "function g", "function v", "function m {}"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if len(s.classes) != 1 || len(s.classes[0].bases) != 2 || s.at(s.classes[0].bases[0].name) != "B" || s.at(s.classes[0].bases[1].name) != "C" {
		t.Errorf("%+v", s.classes)
	}
}

// TestCampaignStopsAtAnError: a campaign whose compiler breaks has no result.
func TestCampaignStopsAtAnError(t *testing.T) {
	clang := clangtest.Clang(t)
	for _, test := range []struct{ name, breaks, want string }{
		{"the compiler is killed", "kill -9 $$", "killed"},
		{"the disk is full", "echo No space left on device >&2; exit 1", "No space left"},
		{"nothing compiles any more", "case $* in *'-c -'*) exit 1; esac", "the original compiled before the campaign"},
		{"what it emits depends on the time", "set -- \"$@\" -Dgreeting=now", "differs from what it was"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			// It works for the first 20 calls.
			script := "#!/bin/sh\ncase \"$*\" in *--version*) exec " + clang + " \"$@\";; esac\necho >>" + dir + "/calls\n" +
				"if [ $(wc -l <" + dir + "/calls) -gt 20 ]; then " + test.breaks + "; fi\nexec " + clang + " \"$@\"\n"
			compiler := filepath.Join(dir, "clang")
			if err := os.WriteFile(compiler, []byte(script), 0o777); err != nil {
				t.Fatal(err)
			}
			source := filepath.Join(dir, "t.c")
			if err := os.WriteFile(source, []byte("int f(int x) { return x + 1; }\nint greeting(void) { return f(2) - 7; }\n"), 0o666); err != nil {
				t.Fatal(err)
			}
			c := Campaign{Commands: [][]string{{compiler, source}}, Clang: clang, Seed: 1, Sample: 10}
			if r, err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%+v, error %v, want %q", r, err, test.want)
			}
		})
	}
}

// cxxSample are kinds of edits that a source without classes has places for.
var cxxSample = []string{
	"rts-e6-next-program", "rts-e7-constant-increased", "c++-parameter", "c++-specifier", "c++-function-qualifier", "c++-overload", "c++-return-type", "c++-exception",
	"c++-static-local", "c++-auto", "c++-qualified-call", "c++-construction", "c++-using", "c++-namespace", "c++-attribute",
}

// TestMutationSample is a small campaign with a fixed seed. docs/contributing/verification.md has
// the command of the full one.
func TestMutationSample(t *testing.T) {
	clang := clangtest.Clang(t)
	for _, test := range []struct {
		name              string
		compiler          []string
		files             map[string]string
		main              bool
		kinds             []string // all
		sample            int
		compared, emitted int // at least
	}{
		{"C", []string{"clang", "-O0"}, map[string]string{"cjson": "cJSON.c cJSON_Utils.c", "lua": "lobject.c ltable.c lstring.c", "zlib": "inflate.c deflate.c trees.c"}, false, nil, 60, 30, 15},
		{"C++", []string{"clang++", "-O2"}, map[string]string{"fmtlib": "os.cc"}, true, cxxSample, 20, 8, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := Campaign{Clang: clang, Seed: 1, Sample: test.sample, Main: test.main, Kinds: test.kinds}
			for _, x := range corporatest.All {
				if test.files[x.Name] == "" {
					continue
				}
				dir := x.Fetch(t, x.New)
				for _, f := range strings.Fields(test.files[x.Name]) {
					c.Commands = append(c.Commands, x.Command(test.compiler, dir, filepath.Join(dir, f)))
				}
			}
			r, err := c.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range r.Violations {
				t.Errorf("%s in %s of %s by %s:\n- %s\n+ %s\n%+v", f.Kind, f.Where, f.File, f.Evidence, f.Before, f.After, f.Differences)
			}
			t.Logf("%+v", r.Totals)
			if x := r.Totals[0]; r.Tried != test.sample || x.Compared < test.compared || x.Emitted < test.emitted {
				t.Errorf("too little was checked: %+v", x)
			}
		})
	}
}
