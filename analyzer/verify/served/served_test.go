package served_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/verify/clangtest"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/served"
)

// TestServed: what is called through a server does what the tool does.
func TestServed(t *testing.T) {
	real := clangtest.Clang(t)
	path := os.Getenv("PATH")
	stop, err := served.Start("clang")
	if err != nil {
		t.Fatal(err)
	}
	call := clangtest.Clang(t)
	defer func() {
		stop()
		os.Setenv("PATH", path)
		if _, err := os.Stat(call); err == nil {
			t.Errorf("%s is left", call)
		}
	}()
	if call == real {
		t.Fatal("clang isn't served")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.c"), []byte("int f(void) { return VALUE; }\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	// result is all that a call does: its output, its status and the object.
	result := func(tool, env, stdin string, args ...string) string {
		os.Remove(filepath.Join(dir, "a.o"))
		cmd := exec.Command(tool, args...)
		cmd.Dir, cmd.Env, cmd.Stdin = dir, []string{"PATH=" + path, env}, strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		object, _ := os.ReadFile(filepath.Join(dir, "a.o"))
		return fmt.Sprintf("%s%v %q", out, err, object)
	}
	seen := map[string]bool{}
	for _, c := range []struct {
		env, stdin string
		args       []string
	}{
		{"", "", []string{"--version"}},
		{"", "", []string{"-c", "a.c"}},
		{"", "", []string{"-c", "a.c", "-DVALUE=1"}},
		{"", "", []string{"-c", "a.c", "-DVALUE=2"}},
		{"CCC_OVERRIDE_OPTIONS=+-DVALUE=3", "", []string{"-c", "a.c"}},
		{"", "int g = 1;\n", []string{"-E", "-x", "c", "-"}},
		{"", "int main(void) { return 0; }\n", []string{"-x", "c", "-", "-o", "a.o", "-no-such-option"}},
		{"", "int main(void) { return 0; }\n", []string{"-x", "c", "-", "-o", "a.o"}}, // and the linker
	} {
		want, got := result(real, c.env, c.stdin, c.args...), result("clang", c.env, c.stdin, c.args...)
		if got != want {
			t.Errorf("%q: got %s\nwant %s", c.args, got, want)
		}
		seen[want] = true
	}
	if len(seen) != 8 {
		t.Errorf("%d results", len(seen))
	}
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			text := fmt.Sprintf("int n%d;\n", i)
			cmd := exec.Command("clang", "-E", "-P", "-x", "c", "-")
			cmd.Stdin = strings.NewReader(text)
			if out, err := cmd.CombinedOutput(); err != nil || string(out) != text {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	all.Wait()
}
