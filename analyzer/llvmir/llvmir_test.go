package llvmir

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/clangtest"
)

// emit returns the IR of C++.
func emit(t testing.TB, source string, flags ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(context.Background(), clangtest.Clang(t), append([]string{"-O1", "-Xclang", "-disable-llvm-passes", "-S", "-emit-llvm", "-fdiscard-value-names", "-o", "-", "-x", "c++", "-"}, flags...)...)
	cmd.Stdin = strings.NewReader(source)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	return out
}

func parse(t testing.TB, source string) map[string]*Global {
	t.Helper()
	m, err := Parse(emit(t, source))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*Global{}
	for _, g := range m.Globals {
		out[g.Symbol] = g
	}
	return out
}

const program = `
struct Base { virtual ~Base(); virtual int f() { return 1; } };
struct Derived : Base { int f() override; Derived(); };
Derived::Derived() {}
Base::~Base() {}
extern int declared;
static int hidden = 3;
static int helper(int x) { return hidden += x; }
const char *text() { return "text"; }
int use(Base *b) { try { return helper(declared) + b->f(); } catch (int) { asm("call outside"); } return 0; }
int dynamic = use(0);
__attribute__((section("mine"))) int placed;
extern "C" int alias() __attribute__((alias("_Z4textv")));
inline int shared() { return 7; }
int g() { return shared(); }
`

// TestReferences: what is referred to without being written in the source.
func TestReferences(t *testing.T) {
	g := parse(t, program)
	for symbol, want := range map[string][]string{
		"_ZN7DerivedC2Ev":       {"_ZN4BaseC2Ev", "_ZTV7Derived"},
		"_ZTV4Base":             {"_ZTI4Base", "_ZN4BaseD1Ev", "_ZN4BaseD0Ev", "_ZN4Base1fEv"},
		"_Z4textv":              nil,
		"__cxx_global_var_init": {"_Z3useP4Base", "dynamic"},
		"alias":                 {"_Z4textv"},
		"llvm.global_ctors":     {"_GLOBAL__sub_I__"},
	} {
		if g[symbol] == nil {
			t.Errorf("%s isn't defined; there are %q", symbol, slices.Sorted(maps.Keys(g)))
			continue
		}
		if d := cmp.Diff(want, g[symbol].Refs); d != "" {
			t.Errorf("%s (-want +got):\n%s", symbol, d)
		}
	}
	use := g["_Z3useP4Base"]
	for _, want := range []string{"_ZL6helperi", "declared", "__gxx_personality_v0", "_ZTIi", "__cxa_begin_catch"} {
		if !slices.Contains(use.Refs, want) {
			t.Errorf("use doesn't refer to %s: %q", want, use.Refs)
		}
	}
	if !use.Asm || !slices.Contains(use.Words, "outside") {
		t.Errorf("the word in the asm is lost: %+v", use.Words)
	}
	if g["placed"].Section != "mine" || g["_ZL6hidden"].Linkage != Local || g["_Z6sharedv"].Linkage != Weak || g["alias"].Kind != Alias {
		t.Errorf("section %q, linkage %d and %d, kind %d", g["placed"].Section, g["_ZL6hidden"].Linkage, g["_Z6sharedv"].Linkage, g["alias"].Kind)
	}
	if strings.Contains(string(use.Content), "helper") {
		t.Error("the name of a local function is in the content")
	}
}

// TestNumbersDoNotCount: more code, which shifts the numbers of everything,
// changes nothing but itself.
func TestNumbersDoNotCount(t *testing.T) {
	before := parse(t, program)
	after := parse(t, `struct Other { long a[3]; ~Other(); }; const char *first() { Other o; return "another text"; }
__attribute__((const)) int pure(); int second() { for (int i = 0; i < 3; i++) pure(); return pure(); }`+program)
	for symbol, g := range before {
		if symbol == "llvm.global_ctors" {
			continue
		}
		if d := cmp.Diff(string(g.Content), string(after[symbol].Content)); d != "" {
			t.Errorf("%s (-before +after):\n%s", symbol, d)
		}
	}
}

// TestTruncated: no part of a module is a module.
func TestTruncated(t *testing.T) {
	b := emit(t, program)
	if _, err := Parse(b); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		n := r.IntN(len(bytes.TrimRight(b, "\n")))
		if _, err := Parse(b[:n]); !errors.Is(err, ErrIR) {
			t.Fatalf("%d of %d bytes: error %v", n, len(b), err)
		}
	}
}

// FuzzParse: any text is a module or an error, and the same each time.
func FuzzParse(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte(sample[:len(sample)/2]))
	f.Add([]byte("define void @f() {\n}\n!llvm.ident = !{!0}\n!0 = !{!\"x\"}\n"))
	f.Add([]byte("@a = global ptr @a\n!llvm.ident = !{!0}\n!0 = !{!0}\n"))
	f.Add([]byte("@a = private constant ptr @b\n@b = private constant ptr @a\n@c = global ptr @a\n!llvm.ident = !{!0}\n!0 = !{!0}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Parse(b)
		again, err2 := Parse(b)
		if (err == nil) != (err2 == nil) {
			t.Fatalf("%v, then %v", err, err2)
		}
		if err != nil {
			if !errors.Is(err, ErrIR) {
				t.Fatalf("%v, want ErrIR", err)
			}
			return
		}
		if d := cmp.Diff(m, again); d != "" {
			t.Fatalf("read twice (-first +second):\n%s", d)
		}
	})
}

const sample = `; ModuleID = '-'
source_filename = "-"
target triple = "x86_64-pc-linux-gnu"

%struct.S = type { i32, ptr }
$_Z1gv = comdat any
@.str = private unnamed_addr constant [2 x i8] c"a\00", align 1
@s = internal global %struct.S zeroinitializer, align 8
module asm "nop"

; Function Attrs: nounwind
define linkonce_odr i32 @_Z1gv(ptr %0) #0 comdat {
  %2 = load i32, ptr getelementptr inbounds (%struct.S, ptr @s, i32 0, i32 0), align 8, !tbaa !1
  call void @_Z1hPKc(ptr @.str)
  br label %3, !llvm.loop !3
3:                                                ; preds = %1
  ret i32 %2
}

declare void @_Z1hPKc(ptr) #0

attributes #0 = { nounwind "frame-pointer"="all" }
!llvm.module.flags = !{!2}
!llvm.ident = !{!0}
!0 = !{!"clang"}
!1 = !{!0, !0, i64 0}
!2 = !{i32 1, !"wchar_size", i32 4}
!3 = distinct !{!3, !2}
`
