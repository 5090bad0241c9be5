package runner

import "testing"

func TestPlaces(t *testing.T) {
	r := func(env ...string) places { return (&runner{env: newEnviron(env), Test: &Test{}}).places() }
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
