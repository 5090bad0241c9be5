package runner

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestPlaces(t *testing.T) {
	r := func(env ...string) namedDirs { return (&runner{env: newEnviron(env), Test: &Test{}}).namedDirs() }
	p := r("TEST_SRCDIR=/x/execroot/m/bazel-out/k8/bin/t.runfiles", "TEST_TMPDIR=/x/execroot/m/_tmp/12", "RUNFILES_DIR=/")
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"/", "/"},
		{"/x/execroot/m", "\x00execroot\x00"},
		{"/x/execroot/m/", "\x00execroot\x00/"},
		{"/x/execroot/m2", "/x/execroot/m2"},
		{"/y/x/execroot/m", "/y/x/execroot/m"},
		{"-I/x/execroot/m/a", "-I/x/execroot/m/a"},
		{"--dir=/x/execroot/m/a", "--dir=\x00execroot\x00/a"},
		{"/x/execroot/m:/x/execroot/m/_tmp/12/a:/x/execroot/m/bazel-out/k8/bin/t.runfiles/m", "\x00execroot\x00:\x00tmp\x00/a:\x00runfiles\x00/m"},
		{"/x/execroot/m/_tmp/123", "\x00execroot\x00/_tmp/123"},
	} {
		if got := p.strip(c.in); got != c.want {
			t.Errorf("%q: %q, want %q", c.in, got, c.want)
		}
	}
	if got := r("TEST_TMPDIR=relative", "TEST_SRCDIR=").strip("relative/x"); got != "relative/x" {
		t.Errorf("relative place: %q", got)
	}
}

// What Bazel has started is at the path that it says, in the runfiles if that is there.
func TestIs(t *testing.T) {
	for _, c := range []struct {
		path, test, srcdir string
		want               bool
	}{
		{"/x/bazel-out/bin/t", "", "/x/bazel-out/bin/t.runfiles", true},
		{"/x/t.runfiles/_main/pkg/t", "pkg/t", "/x/t.runfiles", true},
		{"/x/t.runfiles/_main/pkg/t", "./pkg/t", "/x/t.runfiles/", true},
		{"/x/t.runfiles/repo/pkg/t", "../repo/pkg/t", "/x/t.runfiles", true},
		{"/x/t.runfiles/_main/.ci/t", ".ci/t", "/x/t.runfiles", true},
		{"/x/t.runfiles/_main/sub/t", "t", "/x/t.runfiles", false},
		{"/x/bin/sub/t", "sub/t", "/x/t.runfiles", true},
		{"/x/bin/sub/t", "sub/u", "/x/t.runfiles", false},
		{"sub/t", "sub/t", "/x/t.runfiles", true},
	} {
		r := &runner{Test: &Test{Path: c.path}, env: newEnviron([]string{"TEST_SRCDIR=" + c.srcdir, "TEST_WORKSPACE=_main"})}
		if got := r.isTest(filepath.Clean(c.test)); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}

// TestLinksIn: where a link leads that is in a directory counts, wherever the directory is, and
// whether files are there or links to them are.
func TestLinksIn(t *testing.T) {
	made := filepath.Join(t.TempDir(), "out", "d")
	for _, dir := range []string{"s1", "s2", "x/s1"} {
		os.MkdirAll(filepath.Join(made, dir), 0o777)
		os.WriteFile(filepath.Join(made, dir, "f"), nil, 0o666)
	}
	os.Symlink("s1", filepath.Join(made, "l"))
	os.Symlink("s2/f", filepath.Join(made, "g"))
	os.Symlink("x/s1", filepath.Join(made, "m"))
	sandbox := filepath.Join(t.TempDir(), "alias")
	names := []string{"s1/f", "s2/f", "x/s1/f", "l/f", "g", "m/f"}
	for _, name := range names {
		os.MkdirAll(filepath.Join(sandbox, filepath.Dir(name)), 0o777)
		os.Symlink(filepath.Join(made, name), filepath.Join(sandbox, name))
	}
	for _, dir := range []string{made, sandbox} {
		files := map[string]string{}
		for _, name := range names {
			files[name] = filepath.Join(dir, name)
		}
		want := []string{"p/d/g -> s2/f", "p/d/l/f -> s1/f", "p/d/m/f -> x/s1/f"}
		if got := linksIn("p/d/", files); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
