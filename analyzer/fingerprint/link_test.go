package fingerprint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/manifest"
)

// Files that a link reads beside code, made by the build: which, where on the line, and
// in which state counts; not the name of a configuration.
func TestGeneratedLinkInputs(t *testing.T) {
	// fingerprint is that of a test whose line has words behind its object; @ stands for
	// the directory of outputs.
	fingerprint := func(config, inputs, words, library string) string {
		t.Helper()
		dir := t.TempDir()
		out := "bazel-out/" + config + "/bin/"
		at := func(s string) string { return strings.ReplaceAll(s, "@", out) }
		write := func(name, content string) string {
			file := filepath.Join(dir, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(content), 0o666); err != nil {
				t.Fatal(err)
			}
			return file
		}
		test := &Test{Binary: "b", Dir: dir}
		for i, name := range strings.Fields(at(inputs)) {
			write(name, strings.Repeat("x", i))
			test.LinkInputs = append(test.LinkInputs, filepath.Join(dir, name))
		}
		for _, name := range []string{"a.o", "l.o"} {
			if err := manifest.Write(filepath.Join(dir, name+".manifest"), source(t, name, []string{strings.Replace(name, "a.o", "main", 1), "1"}).Manifest); err != nil {
				t.Fatal(err)
			}
		}
		link := func(name, kind, object, words string) {
			text := "tasting link 1\noutput " + name + "\nkind " + kind + "\nunit " + object + "\t" + object + ".manifest\narg -o\narg " + name + "\n"
			for _, w := range append(strings.Fields(at(words)), object) {
				text += "arg " + w + "\n"
			}
			test.Links = append(test.Links, write(name+".link", text))
		}
		words = strings.Replace(words, "LIBRARY", out+"libl.so", 1)
		link(out+"b", "executable", out+"../../../a.o", words)
		link(out+"libl.so", "shared", out+"../../../l.o", "-shared "+library)
		_, r, _, err := Compose(test)
		if err != nil {
			t.Fatal(err)
		}
		return r.Fingerprint
	}
	const inputs = "@c/v.lds @d/v.lds @c/odd @c/x.ld @c/x.obj"
	for _, x := range []struct{ name, before, after string }{
		{"another file", "@c/v.lds", "@d/v.lds"},
		{"by -Wl", "-Wl,@c/v.lds", "-Wl,@d/v.lds"},
		{"by -Xlinker", "-Xlinker @c/v.lds", "-Xlinker @d/v.lds"},
		{"none", "@c/v.lds", ""},
		{"order", "@c/v.lds @d/v.lds", "@d/v.lds @c/v.lds"},
		{"odd names", "@c/odd @c/x.ld", "@c/x.ld @c/odd"},
		{"that of an object", "@c/x.obj", ""},
		{"behind a flag", "-Wl,--defsym=foo=1 @c/v.lds", "@c/v.lds -Wl,--defsym=foo=1"},
		{"in a state", "-Wl,--whole-archive @c/v.lds -Wl,--no-whole-archive", "@c/v.lds"},
		{"behind a script", "-Wl,-T,@c/x.ld @c/v.lds", "@c/v.lds -Wl,-T,@c/x.ld"},
		{"another configuration", "-Wl,-T,@c/v.lds", "-Wl,-T,bazel-out/other/bin/c/v.lds"},
	} {
		all := inputs
		if x.name == "another configuration" {
			all += " bazel-out/other/bin/c/v.lds"
		}
		if fingerprint("k8", all, x.before, "") == fingerprint("k8", all, x.after, "") {
			t.Errorf("%s: the same fingerprint", x.name)
		}
		if fingerprint("k8", all, "LIBRARY", x.before) == fingerprint("k8", all, "LIBRARY", x.after) {
			t.Errorf("%s, in a library: the same fingerprint", x.name)
		}
	}
	if fingerprint("k8", inputs, "LIBRARY @c/v.lds", "@d/v.lds") != fingerprint("other", inputs, "LIBRARY @c/v.lds", "@d/v.lds") {
		t.Error("the name of a configuration counts")
	}
	// What is where, though all lists say the same of both.
	if fingerprint("k8", "@c/v.lds @d/v.lds", "@c/v.lds", "") == fingerprint("k8", "@d/v.lds @c/v.lds", "@c/v.lds", "") {
		t.Error("the contents are exchanged: the same fingerprint")
	}
}
