package suites

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// Bazel's sandbox hides what is in /tmp from workspaces that are elsewhere.
func TestTmp(t *testing.T) {
	for _, args := range []string{
		"prepare.sh /tmp/none/suites", "prepare.sh /tmp/../tmp/none", "at-commit.sh /tmp/none", "at-commit.sh /none /tmp/none", "overlay.sh cJSON /tmp/none", "openssl.sh /tmp/none", "mbedtls.sh /tmp/none",
	} {
		cmd := exec.Command("sh", strings.Fields(args)...)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "is below /tmp. Bazel's sandbox") {
			t.Errorf("%s: %v\n%s", args, err, out)
		}
	}
}

// standIn writes the stand-in for a project's sources to dir. Here has the scripts.
func standIn(t *testing.T, project string) (dir, here string) {
	t.Helper()
	tree, err := txtar.ParseFile("testdata/" + project + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	if err := txtar.Write(tree, dir); err != nil {
		t.Fatal(err)
	}
	if here, err = filepath.Abs("."); err != nil {
		t.Fatal(err)
	}
	return dir, here
}

// A stand-in for OpenSSL's sources becomes a workspace, twice the same one.
func TestOpenSSL(t *testing.T) {
	dir, here := standIn(t, "openssl")
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	for range 2 {
		cmd := exec.Command("sh", filepath.Join(here, "openssl.sh"))
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("openssl.sh: %v\n%s", err, out)
		}
		if diff := gocmp.Diff(read("BUILD.want"), read("BUILD.bazel")); diff != "" {
			t.Fatalf("BUILD.bazel, -want +got:\n%s", diff)
		}
	}
	for _, name := range []string{"MODULE.bazel", ".bazelrc", "tasting_suite/recipe.c", "crypto/a.s"} {
		read(name)
	}
	if _, err := os.Stat(filepath.Join(dir, "left-behind")); err == nil {
		t.Error("a recipe has written into the checkout")
	}
}

// A stand-in for Mbed TLS has a test for each suite, and a commit for each combination of options.
func TestMbedTLS(t *testing.T) {
	dir, here := standIn(t, "mbedtls")
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=user.name", "GIT_CONFIG_VALUE_0=n", "GIT_CONFIG_KEY_1=user.email", "GIT_CONFIG_VALUE_1=e")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
		return string(out)
	}
	run("git", "init", "--quiet")
	run("git", "add", ".")
	run("git", "commit", "--quiet", "-m", "release")
	run("sh", filepath.Join(here, "mbedtls.sh"), "--variants", "ONE", "TWO")
	if log, want := run("git", "log", "--format=%s"), "variant 3: ONE TWO\nvariant 2: TWO\nvariant 1: ONE\nvariant 0:\nrelease\n"; log != want {
		t.Errorf("%q, want %q", log, want)
	}
	if config, want := run("sort", "config.h"), "ONE\nTWO\n"; config != want {
		t.Errorf("%q, want %q", config, want)
	}
	run("sh", filepath.Join(here, "mbedtls.sh"), "/none")
	for _, name := range []string{"MODULE.bazel", ".bazelrc", "BUILD.bazel", "suites/test_suite_a.one.c", "data_files/x"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

// A commit of LevelDB and one of Abseil become workspaces.
func TestAtCommit(t *testing.T) {
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	suites, err := os.MkdirTemp(cmp.Or(os.Getenv("TEST_TMPDIR"), here), "suites") // not below /tmp
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(suites)
	if err := os.WriteFile(filepath.Join(suites, ".bazelrc"), []byte("build --copt=-w\ntry-import %workspace%/user.bazelrc\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, call := range [][]string{
		{"git", "init", "-q"}, {"sh", "-c", `echo 'module(name = "abseil-cpp", version = "head")' >MODULE.bazel`}, {"git", "add", "."},
		{"git", "-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "one"}, {"sh", filepath.Join(here, "at-commit.sh"), suites},
	} {
		cmd := exec.Command(call[0], call[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", call, err, out)
		}
	}
	module, err := os.ReadFile(filepath.Join(dir, "MODULE.bazel"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(module), `path = "`+filepath.Join(suites, "googletest")+`"`) || strings.Contains(string(module), `(name = "abseil-cpp")`+"\nlocal") {
		t.Errorf("MODULE.bazel:\n%s", module)
	}
	if rc, err := os.ReadFile(filepath.Join(dir, ".bazelrc")); err != nil || string(rc) != "build --copt=-w\n" {
		t.Errorf(".bazelrc: %q %v", rc, err)
	}
}
