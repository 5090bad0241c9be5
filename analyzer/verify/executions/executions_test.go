package executions

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/objfile"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/trace"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/clangtest"
)

func TestMain(m *testing.M) { os.Exit(clangtest.Main(m)) }

// execution is an instrumented program that was run, and its closure.
type execution struct {
	clang   string
	closure *fingerprint.Report
	entered map[Function]bool
	has     Functions
	trace   *trace.Trace
	dir     string // of the profiles
}

// execute builds the program of an archive's files, runs it and reads its
// profiles. Files end with .c or .cc, and compilers run in their directory.
func execute(t *testing.T, archive string, flags ...string) execution {
	t.Helper()
	x := execution{clang: clangtest.Clang(t), dir: filepath.Join(t.TempDir(), "profiles")}
	t.Chdir(t.TempDir())
	var manifests []string
	var objects, plain []string
	for _, f := range txtar.Parse([]byte(archive)).Files {
		if err := os.WriteFile(f.Name, f.Data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	command := func(name string, args ...string) {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Env = append(os.Environ(), "LLVM_PROFILE_FILE="+filepath.Join(x.dir, "%p-%m%c.profraw"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
	}
	for _, f := range txtar.Parse([]byte(archive)).Files {
		ext := filepath.Ext(f.Name)
		if ext != ".c" && ext != ".cc" {
			continue
		}
		argv := append([]string{x.clang}, flags...)
		if ext == ".cc" {
			// Local names of C get another form by this flag.
			argv = append(argv, "-std=c++20", "-funique-internal-linkage-names")
		}
		argv = append(argv, f.Name)
		command(argv[0], append(argv[1:], "-c", "-o", f.Name+".plain.o")...)
		m, err := objfile.Manifest(f.Name+".plain.o", objfile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		m.Source = f.Name
		if err := manifest.Write(f.Name+".manifest", m); err != nil {
			t.Fatal(err)
		}
		manifests = append(manifests, f.Name+".manifest")
		plain = append(plain, f.Name+".plain.o")
		command(argv[0], append(append(argv[1:], EntryCoverage...), "-c", "-o", f.Name+".o")...)
		objects = append(objects, f.Name+".o")
	}
	command(x.clang, append(plain, "-lstdc++", "-o", "plain")...)
	command(x.clang, append(objects, EntryCoverageLink, "-lstdc++", "-o", "program")...)
	cmd := exec.Command("./program")
	cmd.Env = append(os.Environ(), "LLVM_PROFILE_FILE="+filepath.Join(x.dir, "%p-%m%c.profraw"))
	r, err := trace.Run(cmd, trace.Options{}, nil)
	if err != nil || r.Status.ExitStatus() != 0 {
		t.Fatalf("./program: %v, %+v", err, r)
	}
	x.trace = r.Trace
	if x.closure, err = fingerprint.FromFiles(manifests, fingerprint.Roots{}); err != nil {
		t.Fatal(err)
	}
	x.has = Functions{}
	if err := x.has.Add("plain"); err != nil {
		t.Fatal(err)
	}
	if x.entered, err = readProfiles(context.Background(), []string{x.dir}, x.clang); err != nil {
		t.Fatal(err)
	}
	return x
}

var programs = []struct {
	name, text    string
	entered, idle []string
}{
	{"static functions of one name", `
-- a.c --
int other(int);
static int helper(int x) { return x + 1; }
int main(void) { return helper(1) + other(2) - 5; }
-- b.c --
static int helper(int x) { return x + 1; }
int never(void) { return helper(3); }
static int second(int x) { return x; }
int other(int x) { return helper(x) + second(0); }
`, []string{"main", "other", "helper of a.c", "helper of b.c"}, []string{"never"}},

	{"a header's functions", `
-- h.h --
static inline int twice(int x) { return 2 * x; }
__attribute__((always_inline)) static inline int thrice(int x) { return 3 * x + twice(x); }
inline int four(int x) { return 4 * x; }
-- a.c --
#include "h.h"
int other(int);
extern int four(int);
int main(void) { return thrice(1) + other(1) + four(1) - 20; }
-- b.c --
#include "h.h"
int other(int x) { return thrice(x) + twice(x) + four(x); }
`, []string{"main", "other", "twice of a.c", "twice of b.c", "thrice of a.c", "thrice of b.c", "four"}, nil},

	{"what C's compilers make", `
-- a.c --
#include <stdlib.h>
__attribute__((target_clones("avx2", "default"))) int versions(int x) { return x * 3; }
int labelled(int) __asm__("label");
int labelled(int x) { return x; }
int alias(int x) __attribute__((alias("label")));
__attribute__((weak)) int weak(int x) { return x; }
static int done;
__attribute__((constructor(101))) static void before(void) { done = getenv("NOTHING") == 0; }
static void after(void) { done = 2; }
static int compare(const void *x, const void *y) { return *(const int *)x - *(const int *)y; }
int main(void) {
    int a[] = {3, 1, 2};
    qsort(a, 3, sizeof *a, compare);
    atexit(after);
    return versions(1) + alias(1) + weak(1) - 5 + done - a[0];
}
`, []string{"main", "label", "weak", "before of a.c", "after of a.c", "compare of a.c", "versions.resolver"}, nil},

	{"processes that don't return from main", `
-- a.c --
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void child(void) { abort(); }
static void never(void) { abort(); }
int main(int argc, char **argv) {
    int status;
    if (argc > 1)
        never();
    if (fork() == 0)
        child();
    wait(&status);
    _exit(WIFSIGNALED(status) ? 0 : 1);
}
`, []string{"main", "child of a.c"}, []string{"never of a.c"}},

	{"classes", `
-- h.h --
#include <string>
#include <vector>
struct Base { virtual ~Base(); virtual int f() { return 1; } std::string name = "base"; };
struct Derived : Base { Derived(int x) : x(x) {} int f() override { return x; } int x; };
template <class T> struct Box { T value; Box(T v) : value(v) {} T get() const { return value; } };
int other(Base &);
-- a.cc --
#include "h.h"
namespace { struct Local { int x; Local() : x(4) {} ~Local() { x = 0; } int get() { return x; } }; }
static int helper(int x) { return x + 1; }
static std::vector<int> numbers = {helper(1), helper(2)};
static int idle(int x) { return x; }
int never() { return idle(1); }
__attribute__((always_inline)) inline int always(int x) { return x; }
int main() {
    auto lambda = [&](int k) { return k + numbers[0]; };
    Base *b = new Derived(7);
    Local l;
    int r = other(*b) + lambda(1) + always(1) + l.get() + Box<long>(5).get();
    delete b;
    try { throw Box<int>(1); } catch (const Box<int> &x) { r += x.get(); }
    return r - 21;
}
-- b.cc --
#include "h.h"
static int helper(int x) { return x; }
Base::~Base() {}
int other(Base &b) { return helper(b.f()) ; }
`, []string{
		"main", "_GLOBAL__sub_I_a.cc of a.cc", "_Z5otherR4Base", "_ZL6helperi of a.cc", "_ZL6helperi of b.cc", "_ZN4BaseD2Ev", "_ZN4BaseC2Ev", "_ZN7DerivedC2Ei", "_ZN7DerivedD0Ev",
		"_ZN7Derived1fEv", "_ZN12_GLOBAL__N_15LocalC2Ev of a.cc", "_ZZ4mainENK3$_0clEi of a.cc", "_Z6alwaysi", "_ZNK3BoxIlE3getEv",
		"_ZNSt6vectorIiSaIiEED2Ev",
	}, []string{"_Z5neverv", "_ZN4Base1fEv"}},

	{"what C++ makes", `
-- h.h --
#include <functional>
#include <memory>
struct Counter { static int count; Counter() { count++; } ~Counter() { count--; } };
struct A { virtual ~A() = default; virtual int a() { return 1; } };
struct B { virtual ~B() = default; virtual int b() { return 2; } int pad = 0; };
struct C : A, B { using A::A; int b() override { return 3; } };
struct V : virtual B { int b() override { return 4; } };
struct W : V { Counter c; };
inline thread_local Counter perThread;
template <class T> struct Holder { static Counter made; };
template <class T> Counter Holder<T>::made;
int other(B &);
int function(std::function<int(int)> f);
-- a.cc --
#include "h.h"
#include <coroutine>
int Counter::count = 0;
struct Task {
    struct promise_type {
        Task get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_always initial_suspend() { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() {}
    };
    std::coroutine_handle<promise_type> h;
};
static int resumed = 0;
Task coroutine(int x) { co_await std::suspend_always{}; resumed = x; }
static Counter global;
struct M { int m(int x) { return x; } M(M &&) = default; M() = default; std::unique_ptr<Counter> p; };
Counter &local() { static Counter c; return c; }
int main() {
    auto c = std::make_unique<C>();
    std::unique_ptr<V> w(new W);
    M m, n = std::move(m);
    int (M::*pointer)(int) = &M::m;
    Task t = coroutine(5);
    t.h.resume();
    t.h.resume();
    t.h.destroy();
    local();
    (void)&perThread;
    (void)&Holder<int>::made;
    int r = other(*c) + other(*w) + function([&](int x) { return (n.*pointer)(x); }) + resumed;
    return r - (3 + 4 + 9 + 5);
}
-- b.cc --
#include "h.h"
int other(B &b) { return b.b(); }
int function(std::function<int(int)> f) { return f(9); }
`, []string{
		"_ZThn8_N1C1bEv", "_ZTv0_n32_N1V1bEv", "_ZTW9perThread", "_Z9coroutinei", "_Z5localv", "_ZN7CounterD2Ev", "_ZN1M1mEi",
		"_ZN1WC1Ev", "_ZN1WD1Ev",
	}, nil},
}

// TestExecutions: no function that is executed is outside of the closure, and
// each is missed as soon as the closure lacks its component.
func TestExecutions(t *testing.T) {
	for _, p := range programs {
		for _, sections := range []string{"-fno-function-sections", "-ffunction-sections"} {
			t.Run(p.name+sections, func(t *testing.T) {
				x := execute(t, p.text, sections)
				names := map[string]bool{}
				for f, executed := range x.entered {
					names[uniq.ReplaceAllString(f.String(), "")] = executed
				}
				for _, f := range p.entered {
					if !names[f] {
						t.Errorf("%s isn't seen", f)
					}
				}
				for _, f := range p.idle {
					if executed, ok := names[f]; executed || !ok {
						t.Errorf("%s: entered %v, known %v", f, executed, ok)
					}
				}
				checkTrace(t, x)
				e := compareExecution(x.closure, x.entered, x.has)
				// A coroutine of clang has functions without a name, so that the section
				// counts as a whole.
				whole := sections == "-fno-function-sections" && strings.Contains(p.text, "co_await")
				if len(e.Violations) > 0 || (len(e.Whole) > 0) != whole {
					t.Errorf("without a bug: %+v", e)
				}
				if whole {
					return
				}
				if e.Executed < len(p.entered) || e.Idle < len(p.idle) || e.Executed+e.Idle != len(x.entered) {
					t.Errorf("counts: %+v", e)
				}

				index := newClosureIndex(x.closure)
				for f, executed := range x.entered {
					if !executed || len(index.find(f)) == 0 { // inlined
						continue
					}
					poor := *x.closure
					poor.Components = nil
					lost := index.find(f)
					for i, c := range x.closure.Components {
						if !slices.Contains(lost, i) {
							poor.Components = append(poor.Components, c)
						}
					}
					e := compareExecution(&poor, x.entered, x.has)
					if !slices.ContainsFunc(e.Violations, func(v Violation) bool { return v.Function == f }) {
						t.Errorf("%s without its component isn't found: %+v", f, e.Violations)
					}
				}
			})
		}
	}
}

// checkTrace: the trace of the run has all functions that have code of their own, and a function that it
// lacks is found.
func checkTrace(t *testing.T, x execution) {
	t.Helper()
	if !trace.Permitted() {
		return
	}
	has := Functions{}
	if err := has.Add("program"); err != nil {
		t.Fatal(err)
	}
	e, err := CheckTrace(t.Context(), x.closure, x.trace, []string{x.dir}, has, x.clang)
	if err != nil || len(e.Missing) > 0 || e.Executed == 0 || len(e.GaveUp) > 0 {
		t.Errorf("the trace: %+v, %v", e, err)
	}
	// One that main calls, or that data refers to.
	lost := ""
	for _, c := range x.closure.Components {
		for _, to := range c.Links {
			if x.entered[Function{Symbol: to}] && c.Name == "main" {
				lost = to
			}
		}
	}
	if lost == "" {
		return
	}
	for i := range x.trace.Files {
		f := &x.trace.Files[i]
		f.Executed = slices.DeleteFunc(slices.Clone(f.Executed), func(x trace.Function) bool {
			return slices.Contains(x.Symbols, trace.Symbol{Name: lost})
		})
	}
	if e, err = CheckTrace(t.Context(), x.closure, x.trace, []string{x.dir}, has, x.clang); err != nil || !slices.Contains(e.Missing, Function{Symbol: lost}) {
		t.Errorf("a trace without %s: %+v, %v", lost, e, err)
	}
}

var uniq = regexp.MustCompile(`\.__uniq\.\d+`)

// TestExecutionsWhole: functions of what counts as a whole are inside, and said
// to be; functions of other units aren't.
func TestExecutionsWhole(t *testing.T) {
	closure := func(comps ...fingerprint.Component) *fingerprint.Report {
		return &fingerprint.Report{Format: fingerprint.ReportFormat, Components: comps}
	}
	text := fingerprint.Component{ID: ".text", Name: ".text", Source: "bin/_objs/l/a.pic.o", Kind: "section", Linkage: "external", Symbols: []string{"global"}}
	member := fingerprint.Component{ID: "a.o(.text)", Name: "a.o(.text)", Source: "lib.a", File: "a.o", Kind: "section", Linkage: "local"}
	local := fingerprint.Component{ID: "f", Name: "f#2", Source: "bin/a.o", Kind: "section", Linkage: "local"}
	bySource := fingerprint.Component{ID: "f", Name: "f", Source: "a.c", Kind: "function", Linkage: "local"}
	library := fingerprint.Component{ID: "lib.so", Name: "lib.so", Source: "lib.so", Kind: "file", Linkage: "external"}
	index := fingerprint.Component{ID: "(link)", Name: "(link)", Source: "lib.so", Kind: "file", Linkage: "local"}
	for _, test := range []struct {
		name    string
		f       Function
		closure *fingerprint.Report
		want    string
	}{
		{"a name of a section", Function{"global", ""}, closure(text), "inside"},
		{"a local of a section", Function{"f", "a.c"}, closure(text), "whole"},
		{"a local of a section of a member", Function{"f", "/src/a.c"}, closure(member), "whole"},
		{"a local of another unit's section", Function{"f", "b.c"}, closure(text), "violation"},
		{"all visible names of a section are known", Function{"g", ""}, closure(text), "violation"},
		{"a local with a component", Function{"f", "a.c"}, closure(local), "inside"},
		{"another local", Function{"g", "a.c"}, closure(local), "violation"},
		{"the same local of another unit", Function{"f", "b.c"}, closure(local), "violation"},
		{"a visible function of a local's name", Function{"f", ""}, closure(local), "violation"},
		{"a static function of a header, by source", Function{"f", "b.c"}, closure(bySource), "whole"},
		{"hidden in a library", Function{"g", ""}, closure(library), "whole"},
		{"a local of a library", Function{"f", "a.c"}, closure(library), "whole"},
		{"what describes a library isn't its code", Function{"g", ""}, closure(index), "violation"},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := compareExecution(test.closure, map[Function]bool{test.f: true}, nil)
			got := "inside"
			switch {
			case len(e.Violations) > 0:
				got = "violation"
			case len(e.Whole) > 0:
				got = "whole"
				if len(e.Wholes) != 1 || e.Wholes[0] != test.closure.Components[0].ID {
					t.Errorf("of %q", e.Wholes)
				}
			}
			if got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// TestProfilesFailClosed: whatever isn't the complete profile of a run is an
// error.
func TestProfilesFailClosed(t *testing.T) {
	x := execute(t, "-- a.c --\nint main(void) { return 0; }\n")
	whole, err := filepath.Glob(filepath.Join(x.dir, "*.profraw"))
	if err != nil || len(whole) != 1 {
		t.Fatal(whole, err)
	}
	content, err := os.ReadFile(whole[0])
	if err != nil {
		t.Fatal(err)
	}
	newer := slices.Clone(content)
	newer[8]++ // the version follows 8 bytes of magic
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, content, 0o666); err != nil {
			t.Fatal(err)
		}
		return name
	}
	build := func(name string, flags ...string) string {
		profile := filepath.Join(dir, name)
		cmd := exec.Command(x.clang, append(flags, "a.c", "-o", name)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		cmd = exec.Command("./" + name)
		cmd.Env = append(os.Environ(), "LLVM_PROFILE_FILE="+profile)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return profile
	}
	for _, test := range []struct{ name, profile, want string }{
		{"none", filepath.Join(dir, "nowhere"), "no such file"},
		{"no directory's", t.TempDir(), "no profiles"},
		{"empty", write("empty", nil), "empty"},
		{"cut", write("cut", content[:len(content)/2]), "llvm-profdata"},
		{"text", write("text", []byte("hello\n")), "llvm-profdata"},
		{"of a newer version", write("newer", newer), "version"},
		{"of the front end's counters", build("frontend", "-fprofile-instr-generate"), "compile with"},
		{"of blocks", build("blocks", "-fprofile-generate"), "compile with"},
	} {
		t.Run(test.name, func(t *testing.T) {
			// A good one beside it doesn't help.
			for _, profiles := range [][]string{{test.profile}, {whole[0], test.profile}} {
				_, err := Check(context.Background(), x.closure, profiles, nil, x.clang)
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%v: error %v, want %q", profiles, err, test.want)
				}
			}
		})
	}
	t.Run("a closure of an old format", func(t *testing.T) {
		old := *x.closure
		old.Format = 1
		if _, err := Check(context.Background(), &old, whole, nil, x.clang); err == nil {
			t.Error("no error")
		}
	})
	t.Run("another tool", func(t *testing.T) {
		if _, err := Check(context.Background(), x.closure, whole, nil, "/bin/false"); err == nil {
			t.Error("no error")
		}
	})
	t.Run("no function entered", func(t *testing.T) {
		// llvm-profdata reads text as well. A library may be idle.
		idle := write("idle", []byte(":ir\n:single_byte_coverage\nf\n1\n1\n0\n\n"))
		if _, err := Check(context.Background(), x.closure, []string{idle}, nil, x.clang); err == nil || !strings.Contains(err.Error(), "no function was entered") {
			t.Errorf("error %v", err)
		}
		if e, err := Check(context.Background(), x.closure, []string{idle, whole[0]}, nil, x.clang); err != nil || e.Executed != 1 || e.Idle != 1 {
			t.Errorf("beside a good one: %+v, %v", e, err)
		}
	})
	if e, err := Check(context.Background(), x.closure, whole, nil, x.clang); err != nil || e.Executed != 1 || len(e.Violations) > 0 {
		t.Errorf("a good one: %+v, %v", e, err)
	}
}
