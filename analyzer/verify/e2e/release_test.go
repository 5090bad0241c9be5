package e2e

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/rules-tasting/rules_tasting/tools/release/bundle"
)

// TestRelease uses a release as its users do: no Go is built, whether it comes from an
// archive or a registry.
func TestRelease(t *testing.T) {
	b := newBazel(t)
	out := t.TempDir()
	store := filepath.Join(b.dir, "store")
	if err := os.MkdirAll(store, 0o777); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(b.analyzer)
	if err != nil {
		t.Fatal(err)
	}
	cpu := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	made, err := (&bundle.Release{Version: "9.9.9", URL: "file://" + out, Programs: map[string][]byte{cpu: program}}).Files(b.released(t))
	if err != nil {
		t.Fatal(err)
	}
	write := func(dir, name string, content []byte, mode fs.FileMode) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, content, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range made {
		write(out, f.Name, f.Content, fs.FileMode(f.Mode))
	}
	module, err := os.ReadFile(filepath.Join(out, "MODULE.bazel"))
	if err != nil {
		t.Fatal(err)
	}
	integrity := regexp.MustCompile(`integrity = "(.*)"`).FindSubmatch(module)
	if integrity == nil {
		t.Fatalf("%s", module)
	}
	original := map[string]string{
		"MODULE.bazel": "module(name = \"user\")\n\nbazel_dep(name = \"rules_cc\", version = \"0.0.11\")\n",
		"BUILD.bazel":  "load(\"@rules_cc//cc:defs.bzl\", \"cc_test\")\n\ncc_test(\n    name = \"a\",\n    srcs = [\"a.c\"],\n)\n",
		"a.c":          "int main(void) { return 0; }\n",
		".tastingrc":   "common --store=" + store + "\n", // adopt passes it on to the runner
	}
	for _, test := range []struct {
		name  string
		adopt []string
		flags []string
		log   string // of the test
	}{
		{"archive", []string{"--archive=file://" + out + "/rules_tasting-9.9.9.tar.gz", "--integrity=" + string(integrity[1])}, nil, "no recorded result for fingerprint"},
		{"registry", nil, []string{"--registry=file://" + out + "/registry"}, "replayed result of fingerprint"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := filepath.Join(b.dir, "released-"+test.name)
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			for name, text := range original {
				write(dir, name, []byte(text), 0o666)
			}
			b.servers[dir] = true
			adopt := func(args ...string) {
				t.Helper()
				args = append([]string{"adopt", "--bazel=" + b.program}, args...)
				for _, o := range b.startup() {
					args = append(args, "--bazel_startup="+o)
				}
				cmd := exec.Command(b.analyzer, args...)
				cmd.Dir, cmd.Env = dir, append(environ(), "HOME="+filepath.Join(b.dir, "home"))
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%s: %v\n%s", cmd, err, out)
				}
			}
			adopt(append([]string{"--rules", "--release=9.9.9"}, test.adopt...)...)
			bazel := func(command string, args ...string) (string, error) {
				cmd := exec.Command(b.program, b.startup(slices.Concat([]string{"--bazelrc=user.bazelrc", command, "--noenable_workspace", "--lockfile_mode=off", "--symlink_prefix=/", "--show_progress=0"}, test.flags, args)...)...)
				cmd.Dir, cmd.Env = dir, environ()
				out, err := cmd.CombinedOutput()
				return string(out), err
			}
			said, err := bazel("run", "@rules_tasting//rules:tasting", "--", "version")
			if err != nil || !strings.Contains(said, "manifest format") {
				t.Errorf("run: %v\n%s", err, said)
			}
			said, err = bazel("test", "//:a", "--test_output=all")
			if err != nil || !strings.Contains(said, test.log) {
				t.Errorf("test: %v\n%s", err, said)
			}
			said, err = bazel("aquery", "deps(//:a)")
			if err != nil || !strings.Contains(said, "Mnemonic: TastingCompose") || strings.Contains(said, "Mnemonic: Go") {
				t.Errorf("aquery: %v\n%s", err, said)
			}
			// These sources have none of the analyzer.
			said, err = bazel("build", "//:a", "--nobuild", "--repo_env=TASTING_FROM_SOURCE=1")
			if err == nil || !strings.Contains(said, "analyzer/cmd/tasting") {
				t.Errorf("from source: %v\n%s", err, said)
			}
			adopt("--undo")
			for name, text := range original {
				if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != text {
					t.Errorf("%s isn't as it was: %v\n%s", name, err, b)
				}
			}
		})
	}
}

// released returns what a release has of the sources, but for those of the analyzer.
func (b *bazel) released(t *testing.T) (files []bundle.File) {
	t.Helper()
	for _, root := range []string{"BUILD.bazel", "CHANGELOG.md", "MODULE.bazel", "go.mod", "rules"} {
		err := filepath.WalkDir(filepath.Join(b.rules, root), func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(b.rules, name)
			switch {
			case err != nil:
				return err
			case rel == "rules/tests":
				return fs.SkipDir
			case d.IsDir():
				return nil
			}
			content, err := os.ReadFile(name)
			if rel == "CHANGELOG.md" {
				content = bytes.Replace(content, []byte("\n## Unreleased\n"), []byte("\n## 9.9.9\n"), 1)
			}
			files = append(files, bundle.File{Name: filepath.ToSlash(rel), Mode: 0o644, Content: content})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}
