package bazel

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
)

// flag encodes a FlagInfo.
func flag(name string, negative bool, short string, requires int, commands ...string) []byte {
	str := func(b []byte, n protowire.Number, s string) []byte {
		return protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), s)
	}
	num := func(b []byte, n protowire.Number, x uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), x)
	}
	b := str(nil, 1, name)
	b = num(b, 2, protowire.EncodeBool(negative))
	for _, c := range commands {
		b = str(b, 4, c)
	}
	if short != "" {
		b = str(b, 5, short)
	}
	if requires >= 0 {
		b = num(b, 10, uint64(requires))
	}
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), b)
}

func testFlags(t *testing.T) Flags {
	t.Helper()
	var raw []byte
	raw = append(raw, flag("config", false, "", 1, "build", "test")...)
	raw = append(raw, flag("compilation_mode", false, "c", 1, "build", "test")...)
	raw = append(raw, flag("keep_going", true, "k", 0, "build", "test")...)
	raw = append(raw, flag("test_only", true, "", 0, "test")...)
	raw = append(raw, flag("old", false, "", -1, "build")...)
	f, err := readFlags(raw)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// An interrupt of this process alone ends Bazel as well.
func TestRunInterrupted(t *testing.T) {
	if inForeground() {
		t.Skip("SKIPPED: a terminal sends its interrupts to all")
	}
	dir := t.TempDir()
	ready := filepath.Join(dir, "ready")
	program := filepath.Join(dir, "bazel")
	script := "#!/bin/sh\ntrap 'exit 8' INT\ntouch " + ready + "\nwhile :; do sleep 0.1; done\n"
	if err := os.WriteFile(program, []byte(script), 0o777); err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			if _, err := os.Stat(ready); err == nil {
				syscall.Kill(os.Getpid(), syscall.SIGINT)
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	b := &Bazel{Program: program}
	if code, err := b.Run(t.Context(), Streams{}, "test"); err != nil || code != ExitInterrupted {
		t.Errorf("exit code %d, %v: want %d", code, err, ExitInterrupted)
	}
}

func TestRunNothing(t *testing.T) {
	for _, program := range []string{"no-such-bazel", filepath.Join(t.TempDir(), "bazel")} {
		b := &Bazel{Program: program}
		if _, err := b.Run(t.Context(), Streams{}, "test"); err == nil || !strings.HasSuffix(err.Error(), "; say --bazel=PATH where it is") {
			t.Errorf("%s: %v", program, err)
		}
	}
}

// Whether a word is a flag's value or a target only Bazel knows.
func TestSplit(t *testing.T) {
	for _, c := range []struct {
		args            string
		flags, patterns string
	}{
		{"//a //b:c", "", "//a //b:c"},
		{"--config x //a", "--config=x", "//a"},
		{"--config=x //a", "--config=x", "//a"},
		{"-c opt -k //a", "--compilation_mode=opt --keep_going", "//a"},
		{"--keep_going //a", "--keep_going", "//a"},
		{"--nokeep_going //a", "--nokeep_going", "//a"},
		{"--@r//f:x=1 --//f:y //a", "--@r//f:x=1 --//f:y", "//a"},
		{"//a -- -//b //c", "", "//a -//b //c"},
		{"-- --config", "", "--config"},
		{"--config", "--config", ""},
	} {
		flags, patterns := testFlags(t).Split(strings.Fields(c.args))
		if got := strings.Join(flags, " ") + "|" + strings.Join(patterns, " "); got != c.flags+"|"+c.patterns {
			t.Errorf("%s: %s", c.args, got)
		}
	}
}

func TestKnown(t *testing.T) {
	f := testFlags(t)
	in := []string{"--config=x", "--test_only", "--notest_only", "--old=1", "--//f:y=1", "--nonsense"}
	if d := cmp.Diff([]string{"--config=x", "--old=1", "--//f:y=1", "--nonsense"}, f.Known("build", in)); d != "" {
		t.Error(d)
	}
}

func TestReadFlagsErrors(t *testing.T) {
	good := flag("config", false, "", 1, "build")
	for _, b := range [][]byte{nil, []byte("text"), good[:len(good)-1], {10, 0}} {
		if f, err := readFlags(b); err == nil {
			t.Errorf("%q: %v", b, f)
		}
	}
}

// TestFlagsAreKept: a release is asked once, what is damaged and other builds each
// time.
func TestFlagsAreKept(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(content), 0o777); err != nil {
			t.Fatal(err)
		}
		return name
	}
	file("flags", base64.StdEncoding.EncodeToString(flag("config", false, "", 1, "build")))
	program := file("bazel", `#!/bin/sh
case "$1" in
--version) cat version ;;
help) echo asked >> asked; cat flags ;;
esac
`)
	for _, step := range []struct {
		version, damage string
		asked           int
	}{
		{"bazel 7.7.1\n", "", 1},
		{"bazel 7.7.1\n", "", 1},
		{"bazel 7.7.1\n", "x", 2},
		{"bazel 7.7.1\n", "", 2},
		{"bazel 8.0.0\n\n", "", 3},
		{"bazel 8.0.0\n\n", "", 3},
		{"bazel no_version\n", "", 4},
		{"bazel no_version\n", "", 5},
		{"", "", 6},
		{"bazel 7.7.1\n", "", 6},
	} {
		file("version", step.version)
		b := &Bazel{Dir: dir, Cache: filepath.Join(dir, "cache"), Program: program}
		if step.damage != "" {
			kept, _ := filepath.Glob(filepath.Join(b.Cache, "flags-7.7.1-*"))
			if len(kept) != 1 {
				t.Fatalf("kept in %q", kept)
			}
			if err := os.WriteFile(kept[0], []byte(step.damage), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		f, err := b.Flags(t.Context())
		if err != nil || f["--config"] == nil {
			t.Fatalf("%+v: %v, %v", step, f, err)
		}
		if asked, _ := os.ReadFile(filepath.Join(dir, "asked")); strings.Count(string(asked), "asked") != step.asked {
			t.Errorf("%+v: asked %q", step, asked)
		}
	}
}

func FuzzReadFlags(f *testing.F) {
	f.Add(flag("config", true, "c", 1, "build"))
	f.Fuzz(func(t *testing.T, b []byte) {
		flags, err := readFlags(b)
		if err == nil && len(flags) == 0 {
			t.Error("no flags and no error")
		}
	})
}

func FuzzReadWorkRequest(f *testing.F) {
	f.Add([]byte{5, 0x0a, 1, 'a', 0x18, 7})
	f.Fuzz(func(t *testing.T, b []byte) {
		in := bufio.NewReader(bytes.NewReader(b))
		for {
			before := in.Buffered()
			if _, err := ReadWorkRequest(in); err != nil {
				break
			}
			if before > 0 && in.Buffered() == before {
				t.Fatal("a request without a byte")
			}
		}
	})
}

func TestReadEvents(t *testing.T) {
	const events = `{"id":{"namedSet":{"id":"0"}},"namedSetOfFiles":{"files":[{"name":"a","uri":"file:///x/a%20b"}]}}
{"id":{"namedSet":{"id":"1"}},"namedSetOfFiles":{"files":[{"name":"c","uri":"bytestream://user:secret@host/c"}],"fileSets":[{"id":"0"},{"id":"1"},{"id":"9"}]}}
{"id":{"testResult":{"label":"//a:t","run":1,"shard":2,"attempt":3}},"testResult":{"status":"PASSED","testAttemptStart":"2026-11-21T13:54:45.917Z","testAttemptDuration":"0.150s"}}
`
	sets := FileSets{}
	var result *TestResult
	var shard int
	err := readEvents(strings.NewReader(events), func(e *Event) error {
		sets.Add(e)
		if e.TestResult != nil {
			result, shard = e.TestResult, e.ID.TestResult.Shard
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	files := sets.Files("1")
	if len(files) != 2 || shard != 2 {
		t.Fatalf("%v, shard %d", files, shard)
	}
	if p, err := files[1].Path(); err != nil || p != "/x/a b" {
		t.Errorf("%s %v", p, err)
	}
	_, err = files[0].Path()
	if !errors.Is(err, ErrNotLocal) || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
	if start, took := result.When(); !start.Equal(time.Date(2026, 11, 21, 13, 54, 45, 917e6, time.UTC)) || took != 150*time.Millisecond {
		t.Errorf("%v %v", start, took)
	}
}

func TestReadExecutions(t *testing.T) {
	got, err := readExecutions([]byte(`{"actions":[
		{"targetId":1,"mnemonic":"TestRunner","executionPlatform":"@@//:b"}, {"targetId":1,"mnemonic":"CppLink","executionPlatform":"@@//:a"},
		{"targetId":1,"mnemonic":"TestRunner","executionPlatform":"@@//:b"}, {"targetId":2,"mnemonic":"TestRunner"}, {"targetId":3,"executionPlatform":"x"}],
		"targets":[{"id":1,"label":"//:t","ruleClassId":1},{"id":2,"label":"//:u"}]}`))
	if err != nil || len(got) != 1 || !slices.Equal(got["//:t"], []Execution{{"CppLink", "@@//:a"}, {"TestRunner", "@@//:b"}}) {
		t.Errorf("%v %v", got, err)
	}
	if got, err := readExecutions(nil); err == nil {
		t.Errorf("nothing: %v", got)
	}
}

func TestReadPlatformRules(t *testing.T) {
	const rules = `{"results":[
{"target":{"type":"RULE","rule":{"name":"//:b","ruleClass":"platform","location":"/x/BUILD:1:2","attribute":[{"name":"parents","type":"LABEL_LIST","stringListValue":["//:a"]},{"name":"tags","stringListValue":["x"]},{"name":"exec_properties","type":"STRING_DICT","explicitlySpecified":true}]}}},
{"target":{"type":"RULE","rule":{"name":"//:a","ruleClass":"platform","attribute":[{"name":"exec_properties","type":"STRING_DICT","stringDictValue":[{"key":"image","value":"1"}]}]}}}]}`
	got, err := readPlatformRules([]byte(rules))
	if err != nil || len(got) != 2 || got[0].Label != "//:a" || !got[0].Properties || got[1].Properties || len(got[1].Attributes) != 2 ||
		!strings.Contains(got[0].Attributes[0], `"value":"1"`) || !strings.Contains(got[1].Attributes[1], "//:a") {
		t.Errorf("%+v %v", got, err)
	}
	if got, err := readPlatformRules([]byte(rules[:len(rules)-10])); err == nil {
		t.Errorf("truncated: %v", got)
	}
}

func TestReadSources(t *testing.T) {
	const sources = `{"results":[
{"target":{"type":"SOURCE_FILE","sourceFile":{"name":"//a:b.c","location":"/w/a/b.c:1:1"}},"configuration":{}},
{"target":{"type":"SOURCE_FILE","sourceFile":{"name":"@@x//:d:1","location":"/o/external/x/d:1:1:1"}}}]}`
	got, err := readSources([]byte(sources))
	if err != nil || !slices.Equal(got, []Source{{"//a:b.c", "/w/a/b.c"}, {"@@x//:d:1", "/o/external/x/d:1"}}) {
		t.Errorf("%v %v", got, err)
	}
	// What isn't understood must not look like a test without sources.
	for _, bad := range []string{"", sources[:len(sources)-3], `{"results":[{"target":{"type":"RULE"}}]}`, strings.ReplaceAll(sources, ":1:1", "")} {
		if got, err := readSources([]byte(bad)); err == nil {
			t.Errorf("%s: %v", bad, got)
		}
	}
}

func FuzzReadPlatforms(f *testing.F) {
	f.Add([]byte(`{"results":[{"target":{"rule":{"attribute":[{"name":"exec_properties"}]}}}],"actions":[{}],"targets":[{}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		readPlatformRules(b)
		readExecutions(b)
		readSources(b)
	})
}

// What an interrupted Bazel leaves.
func TestTruncatedEvents(t *testing.T) {
	name := filepath.Join(t.TempDir(), "events")
	if err := os.WriteFile(name, []byte(`{"id":{}}`+"\n"+`{"id":{"testRes`), 0o666); err != nil {
		t.Fatal(err)
	}
	n := 0
	err := ReadEvents(name, func(*Event) error { n++; return nil })
	if n != 1 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%d events, %v", n, err)
	}
}

// Labels come out as build events spell them.
func TestReadAliases(t *testing.T) {
	got, err := readAliases([]byte(`{"type":"RULE","rule":{"name":"@@//a:al","ruleClass":"alias","attribute":[{"name":"tags","stringListValue":[]},{"name":"actual","type":"LABEL","stringValue":"@@ext~//:t"}]}}
{"type":"RULE","rule":{"name":"//b:al","attribute":[{"name":"actual","stringValue":"//b:t"}]}}
`))
	if want := map[string]string{"//a:al": "@@ext~//:t", "//b:al": "//b:t"}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if got, err := readAliases(nil); err != nil || len(got) > 0 {
		t.Errorf("none: %v, %v", got, err)
	}
	if _, err := readAliases([]byte(`{"rule":`)); err == nil {
		t.Error("a stream that is cut has no error")
	}
}
