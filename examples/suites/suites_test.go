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
		"prepare.sh /tmp/none/suites", "prepare.sh /tmp/../tmp/none", "at-commit.sh /tmp/none", "at-commit.sh /none /tmp/none", "overlay.sh cJSON /tmp/none", "openssl.sh /tmp/none",
	} {
		cmd := exec.Command("sh", strings.Fields(args)...)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "is below /tmp. Bazel's sandbox") {
			t.Errorf("%s: %v\n%s", args, err, out)
		}
	}
}

// A stand-in for OpenSSL's sources becomes a workspace, twice the same one.
func TestOpenSSL(t *testing.T) {
	tree, err := txtar.ParseFile("testdata/openssl.txtar")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := txtar.Write(tree, dir); err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
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
