package fingerprint

import (
	"encoding/hex"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/syslib"
)

// Everything that can decide counts, and nothing else.
func TestKey(t *testing.T) {
	sum := func(s string) string { return hex.EncodeToString([]byte((s + strings.Repeat("-", 32))[:32])) }
	key := func(change func(*Config, *Run)) [32]byte {
		t.Helper()
		c := &Config{Code: sum("code"), Data: []File{{Path: "d", SHA256: sum("d")}}, LinkFlags: []string{"-lm"}}
		r := &Run{Args: []string{"a"}, Env: []string{"E=1"}, Dir: "/d", Machine: "x86_64", Libraries: []syslib.Library{{Name: "libc.so.6"}}}
		change(c, r)
		k, err := Key(c, r)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	want := key(func(*Config, *Run) {})
	if key(func(c *Config, _ *Run) {
		c.Binary, c.Store, c.LocalOnly, c.Needs = "x", "y", []string{"z"}, []string{"libz.so"}
	}) != want {
		t.Error("the place of the test or the store counts")
	}
	seen := map[[32]byte]string{want: "nothing"}
	for name, change := range map[string]func(*Config, *Run){
		"code":                 func(c *Config, _ *Run) { c.Code = sum("x") },
		"path of data":         func(c *Config, _ *Run) { c.Data[0].Path = "e" },
		"data":                 func(c *Config, _ *Run) { c.Data[0].SHA256 = sum("e") },
		"link flags":           func(c *Config, _ *Run) { c.LinkFlags = nil },
		"contributions":        func(c *Config, _ *Run) { c.Contributions = []Contribution{{"a", sum("a")}} },
		"arguments":            func(_ *Config, r *Run) { r.Args = append(r.Args, "b") },
		"environment":          func(_ *Config, r *Run) { r.Env[0] = "E=2" },
		"argument or variable": func(_ *Config, r *Run) { r.Args, r.Env = nil, []string{"a", "E=1"} },
		"directory":            func(_ *Config, r *Run) { r.Dir = "/e" },
		"machine":              func(_ *Config, r *Run) { r.Machine = "aarch64" },
		"root":                 func(_ *Config, r *Run) { r.Root = true },
		"executable":           func(_ *Config, r *Run) { r.Executable = []string{"d"} },
		"links":                func(_ *Config, r *Run) { r.Links = []string{"d"} },
		"repo mapping":         func(_ *Config, r *Run) { r.RepoMapping = sum("m") },
		"external":             func(_ *Config, r *Run) { r.External = true },
		"library":              func(_ *Config, r *Run) { r.Libraries[0].SHA256[0] = 1 },
		"shards":               func(_ *Config, r *Run) { r.Shards = 2 },
		"what is besides":      func(_ *Config, r *Run) { r.Besides = []Contribution{{"a", sum("a")}} },
	} {
		k := key(change)
		if other, known := seen[k]; known {
			t.Errorf("%s: the key is that of %s", name, other)
		}
		seen[k] = name
	}
	// What a run is told of libraries counts only if the build has said how.
	for word, named := range map[string]bool{
		"libx.so": true, "a/_solib_k8": true, "--plugin=libx.so.1:y": true, "x.sort": false, "--gtest_filter=A.so_B": false, "solib": false,
	} {
		for _, r := range []*Run{{Args: []string{word}}, {Env: []string{"V=" + word}}} {
			c := &Config{Code: sum("code")}
			if _, err := Key(c, r); err == nil == named {
				t.Errorf("%q names a library: %v", word, err)
			}
			c.Contributions = []Contribution{{OpenedLibraries, sum("x")}}
			if _, err := Key(c, r); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := Key(&Config{Code: "no hex"}, new(Run)); err == nil {
		t.Error("a damaged configuration has a key")
	}
}

func TestEnvironment(t *testing.T) {
	strip := func(v string) string { return strings.ReplaceAll(v, "/here", "THERE") }
	user := userName()
	got := Environment([]string{"B=/here/x", "A=1", "TEST_TMPDIR=/here/tmp", "XML_OUTPUT_FILE=/x", "USER=" + user, "TZ=UTC", "BASH_FUNC_rlocation%%=() {\n}"}, []string{"XML_OUTPUT_FILE"}, strip)
	want := []string{"A=1", "B=THERE/x", "BASH_FUNC_rlocation%%=\x00set", "TEST_TMPDIR=\x00set", "TZ=UTC", "XML_OUTPUT_FILE=/x"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Environment([]string{"USER=" + user + "x"}, nil, strip); len(got) != 1 {
		t.Errorf("another user doesn't count: %q", got)
	}
	if got := Environment([]string{"USER=" + user}, []string{"USER"}, strip); len(got) != 1 {
		t.Errorf("a declared user doesn't count: %q", got)
	}
}

// What isn't in the key with its value is in the documentation, with the reason.
func TestVariablesAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../../../docs/reference/what-counts.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range slices.Concat(SetByBazel, setAtTimes) {
		if !strings.Contains(string(doc), "`"+v+"`") {
			t.Errorf("docs/reference/what-counts.md doesn't mention `%s`: say there why its value isn't in the key", v)
		}
	}
}
