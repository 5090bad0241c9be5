package runner_test

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The XML file of a test that writes none itself has its log and its name, whether it was
// executed or replayed, and is no part of what is recorded.
func TestXML(t *testing.T) {
	h := newHarness(t)
	env := h.env
	name := filepath.Base(h.dir) + "/t"
	for _, c := range []struct {
		verdict, name string
		env           []string
	}{
		{"miss", name, []string{"TEST_BINARY=./" + name}},
		{"hit", name, []string{"TEST_BINARY=./" + name}},
		{"miss", name + "_shard_2/3", []string{"TEST_BINARY=" + name, "TEST_TOTAL_SHARDS=3", "TEST_SHARD_INDEX=1"}},
	} {
		h.env = append(slices.Clone(env), c.env...)
		dir := h.outputs()
		h.env = append(h.env, "TEST_SHARD_STATUS_FILE="+filepath.Join(dir, "status"))
		cmd := h.cmd("write=TEST_SHARD_STATUS_FILE:", "out=<a> ]]> \x01\xff \u00e9")
		started("")(cmd)
		cmd.Env = append(cmd.Env, c.env...)
		h.want(c.verdict, h.finish(cmd))
		b, err := os.ReadFile(filepath.Join(dir, "x", "test.xml"))
		if err != nil {
			t.Fatal(err)
		}
		var x struct {
			Suites []struct {
				Name   string `xml:"name,attr"`
				Tests  int    `xml:"tests,attr"`
				Errors int    `xml:"errors,attr"`
				Case   struct {
					Name, Status string
				} `xml:"testcase"`
				Out string `xml:"system-out"`
			} `xml:"testsuite"`
		}
		if err := xml.Unmarshal(b, &x); err != nil || len(x.Suites) != 1 {
			t.Fatalf("%v\n%s", err, b)
		}
		s := x.Suites[0]
		if s.Name != c.name || s.Tests != 1 || s.Errors != 0 || !strings.Contains(s.Out, "<a> ]]> ?? \u00e9") {
			t.Errorf("%s: %+v", c.verdict, s)
		}
	}
}

// Bazel says which tests have failed, and how.
func TestNoXML(t *testing.T) {
	h := newHarness(t)
	for _, args := range [][]string{{"out=x", "exit=1"}, {"out=x", "exit=3"}} {
		dir := h.outputs()
		h.run(args...)
		if got := tree(t, filepath.Join(dir, "x")); len(got) != 0 {
			t.Errorf("%v: %v", args, got)
		}
	}
}
