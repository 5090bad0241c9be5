package driver

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Step 1 is left out as long as nothing says that it would find out something else.
func TestAtOnce(t *testing.T) {
	w := newWorkspace(t)
	w.options.Bazel.Cache = filepath.Join(w.dir, "cache-of-flags")
	for _, name := range []string{"expand", "analyse", "run"} {
		if w.Hooks == nil {
			w.Hooks = map[string]string{}
		}
		w.Hooks[name] = "echo " + name + " >>../steps"
	}
	write := func(file, content string) func() {
		return func() {
			if err := os.WriteFile(filepath.Join(w.dir, file), []byte(content), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	remembered := func() []string {
		files, err := filepath.Glob(filepath.Join(w.options.Bazel.Cache, "command-line-*"))
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		return files
	}
	if err := os.Mkdir(filepath.Join(w.dir, "ws/tools"), 0o777); err != nil {
		t.Fatal(err)
	}
	const all, known = "expand analyse", "analyse"
	for i, step := range []struct {
		name  string
		do    func()
		steps string
		args  []string
	}{
		{"first", func() {}, all + " run", nil},
		{"again", func() {}, known, nil},
		{"another argument", func() {}, all + " run", []string{"--test_env=FAKE_VARIABLE"}},
		{"again with it", func() {}, known, []string{"--test_env=FAKE_VARIABLE"}},
		{"another environment", func() { t.Setenv("FAKE_VARIABLE", "other") }, known + " run", []string{"--test_env=FAKE_VARIABLE"}},
		{"a new bazelrc", write("ws/.bazelrc", "test --test_env=B=1\n"), known + " " + all, nil},
		{"again with that", func() {}, known, nil},
		{"an edited bazelrc", write("ws/.bazelrc", "test --test_env=B=2\n"), all, nil},
		{"again with this", func() {}, known, nil},
		{"a removed bazelrc", func() { os.Remove(filepath.Join(w.dir, "ws/.bazelrc")) }, all, nil},
		{"an edited source", write("ws/t.c", "edited"), known + " run", nil},
		{"another configuration", func() { w.Config = "e" }, known + " " + all, nil},
		{"a target that is broken", func() { w.Aborted = true }, known + " " + all + " run", nil},
		{"it isn't any more", func() { w.Aborted = false }, known, nil},
		{"a source that doesn't compile", func() { w.NotBuilt = true }, known + " " + all + " run", nil},
		{"it does", func() { w.NotBuilt = false }, known, nil},
		{"errors may leave tests out", func() {}, all, []string{"--keep_going=1"}},
		{"again", func() {}, all, []string{"--keep_going=1"}},
		{"another target is broken", func() { w.OtherBroken = true }, known + " " + all, nil},
		{"still", func() {}, known + " " + all, nil},
		{"and still", func() {}, known + " " + all, nil},
		{"it isn't tried any more", func() { w.OtherBroken = false }, all, nil},
		{"but for some minutes", func() {
			old := time.Now().Add(-10 * time.Minute)
			for _, f := range remembered() {
				if err := os.Chtimes(f, old, old); err != nil {
					t.Fatal(err)
				}
			}
		}, known, nil},
		{"another version", func() { w.Release = "8" }, known + " " + all + " run", nil},
		{"flags that a command gets", func() { w.Policy = "--test_env=P=1" }, known + " " + all + " run", nil},
		{"again", func() {}, known, nil},
		{"and doesn't get", func() { w.Policy = "" }, known + " " + all, nil},
		{"a wrapper", write("ws/tools/bazel", ""), all, nil},
		{"still", func() {}, all, nil},
		{"none", func() { os.RemoveAll(filepath.Join(w.dir, "ws/tools")) }, known, nil},
		{"a flag that is added to a command", func() { w.Added = "--test_env=C=1" }, known + " " + all + " run", nil},
		{"again", func() {}, known + " " + all, nil},
		{"none", func() { w.Added = "" }, known, nil},
		{"a damaged file", func() {
			for _, f := range remembered() {
				b, err := os.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				if i := bytes.IndexByte(b, '\n'); !json.Valid(b[i+1:]) {
					t.Errorf("%s: %s", f, b)
				}
				write(strings.TrimPrefix(f, w.dir), strings.Replace(string(b), "client", "clients", 1))()
			}
		}, all, nil},
	} {
		os.Remove(filepath.Join(w.dir, "steps"))
		step.do()
		e := w.test(step.args...)
		b, _ := os.ReadFile(filepath.Join(w.dir, "steps"))
		if got := strings.Join(strings.Fields(string(b)), " "); got != step.steps || e.err != nil {
			t.Errorf("%s %d: steps %s, want %s; %+v", step.name, i, got, step.steps, e)
		}
	}
}

// The same lines of the same files are the same, whatever their numbers are.
func TestRCSettings(t *testing.T) {
	with := rcSettings(strings.Fields(`test --rc_source=client --default_override=0:common=--isatty=0 --rc_source=/etc/bazel.bazelrc --rc_source=/rc --rc_source=/w/.bazelrc
		--default_override=3:common=--a --default_override=2:build=--b --default_override=2:build:c=--d --default_override=3:build=--e=f=g --client_env=A=B`), "/rc")
	without := rcSettings(strings.Fields(`build --rc_source=client --default_override=0:common=--isatty=1 --rc_source=/etc/bazel.bazelrc --rc_source=/w/.bazelrc
		--default_override=2:build=--e=f=g --default_override=2:common=--a`), "")
	if diff := cmp.Diff(with, without); diff != "" {
		t.Error(diff)
	}
	if want := map[string][]string{"common:": {"/w/.bazelrc --a"}, "build:": {"/w/.bazelrc --e=f=g"}}; !cmp.Equal(with, want) {
		t.Error(with)
	}
	other := rcSettings(strings.Fields(`--rc_source=client --rc_source=/etc/bazel.bazelrc --rc_source=/w/.bazelrc --default_override=1:build=--e=f=g --default_override=2:common=--a`), "")
	if cmp.Equal(with, other) {
		t.Error("another file says it")
	}
}

func TestIsChanged(t *testing.T) {
	passed := []string{"--a=1", "--b", "--", "//..."}
	for _, c := range []struct {
		args string
		want bool
	}{
		{"test --startup_time=28 --binary_path=/bazel --rc_source=client --default_override=0:common=--isatty=0 --client_env=A=B --client_cwd=/w --a=1 --b //...", false},
		{"test --a=1 --b -- //...", false},
		{"test --a=1 --b --config=ci //...", true},
		{"test --a=1 //...", true},
		{"test --a=1 --b --b //...", true},
		{"test --a=1 --b //... client_env=A", true},
	} {
		if got := isChanged(strings.Fields(c.args), passed); got != c.want {
			t.Errorf("%s: %v, want %v", c.args, got, c.want)
		}
	}
}
