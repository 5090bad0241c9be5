package programs

import (
	"context"
	"strings"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/verify/clangtest"
)

// TestVerdicts: each way to be wrong must be found.
func TestVerdicts(t *testing.T) {
	objs := &objects{dir: t.TempDir(), clang: clangtest.Clang(t)}
	blind := func(*program, bool) (string, error) { return "", nil }
	unsteady := func(p *program, _ bool) (string, error) { return p.dir, nil }
	never := func(*program, bool) (string, error) { return "", errAlwaysRun }
	const (
		differs = "int main(void) { return {{1}}/{{2}}; }\n"
		equal   = "int main(void) { return {{1}}/{{0x1}}; }\n"
		loads   = `-- p/a.c --
int f(void);
int main(void) { return f(); }
-- p/b.c --
int f(void) { return 1; }
-- p/c.c --
int f(void) { return 2; }
-- p/pair --
mode: dynamic
lib one: b.c
lib two: c.c
link: a.c {{one two}}/{{two one}}
`
		broken = "// broken: one version is empty\n{{int main(void) { return 1; }}}/{{}}\n"
	)
	for _, test := range []struct {
		name, text string
		key        keyer
		want       string // in every finding; empty if there is none
	}{
		{"differs, blind", "-- p.c --\n" + differs, blind, "violation"},
		{"differs, composed", "-- p.c --\n" + differs, composed, ""},
		{"differs, always run", "-- p.c --\n" + differs, never, ""},
		{"differs, marked", "-- p.c --\n// same: no\n" + differs, composed, "not the same"},
		{"equal", "-- p.c --\n" + equal, composed, "no test"},
		{"equal, marked", "-- p.c --\n// same: one number\n" + equal, composed, ""},
		{"equal, unsteady", "-- p.c --\n// same: one number\n" + equal, unsteady, "imprecise"},
		{"equal, always run", "-- p.c --\n// same: one number\n" + equal, never, "imprecise"},
		{"equal, coarse", "-- p.c --\n// coarse: one number\n" + equal, unsteady, ""},
		{"loads, blind", loads, blind, "violation"},
		{"loads, composed", loads, composed, ""},
		{"broken, blind", "-- p.c --\n" + broken, blind, "violation"},
	} {
		t.Run(test.name, func(t *testing.T) {
			pairs, err := parsePairs("test", []byte(test.text))
			if err != nil || len(pairs) != 1 {
				t.Fatalf("%v, %v", pairs, err)
			}
			findings, v, err := pairs[0].check(context.Background(), objs, test.key, t.TempDir(), nil)
			if err != nil {
				t.Fatal(err)
			}
			got := verdict(v, findings)
			if (test.want == "") != (len(got) == 0) {
				t.Errorf("%q, want %q", got, test.want)
			}
			for _, g := range got {
				if !strings.Contains(g, test.want) {
					t.Errorf("%q, want %q", g, test.want)
				}
			}
		})
	}
}

// TestDirectives: what isn't understood is an error, and nothing is left out.
func TestDirectives(t *testing.T) {
	p := pair{name: "p", directives: "flags: -DA={{1}}/{{2}}\nflags a.c: -DB\nlib one: {{}}/{{b.c}}\nlink: a.c one\n"}
	for k, want := range []string{"-DA=1 a.c", "-DA=2 a.c one"} {
		v, err := p.version(k)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(append(v.flags[""], v.link...), " "); got != want {
			t.Errorf("version %d: %q, want %q", k, got, want)
		}
	}
	for _, bad := range []string{"sane: no\n", "same\n"} {
		if _, err := (&pair{directives: bad}).version(0); err == nil {
			t.Errorf("%q is understood", bad)
		}
	}
	if _, err := parsePairs("p", []byte("-- a.c --\n-- b.c --\n-- a.c --\n")); err == nil {
		t.Error("two pairs of one name")
	}
}
