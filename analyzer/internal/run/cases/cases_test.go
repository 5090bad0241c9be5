package cases

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
)

func list(ids ...string) func(id string) bool {
	return func(id string) bool { return slices.Contains(ids, id) }
}

func TestIDs(t *testing.T) {
	of := list("Plain_One_Test", "P_Run_Test", "Ty_T1_Test", "gtest_suite_Tp_::Q", "A_B_C_Test", "gtest_suite_A_::B", "A_B_Test")
	for name, want := range map[string]string{
		"Plain.One": "Plain_One_Test", "Some/P.Run/0": "P_Run_Test", "P.Run/x": "P_Run_Test", "Ty/1.T1": "Ty_T1_Test", "Inst/Tp/0.Q": "gtest_suite_Tp_::Q",
		"A_B.C": "A_B_C_Test", "A.B_C": "A_B_C_Test", // one class, one case
		"A.B":         "", // two classes
		"Plain.Other": "", "Ty/<int>.T1": "", "Plain.": "", ".": "",
	} {
		suite, name, _ := strings.Cut(name, ".")
		if got := idOf(suite, name, of); got != want {
			t.Errorf("%s.%s: %q, want %q", suite, name, got, want)
		}
	}
}

const someXML = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="5" failures="1" disabled="1" errors="0" time="0.011" timestamp="2026-11-29T23:22:32.624" name="AllTests">
  <testsuite name="Plain" tests="3" failures="1" disabled="1" skipped="0" errors="0" time="0.01" timestamp="2026-11-29T23:22:32.624">
    <testcase name="One" file="a_test.cc" line="5" status="run" result="completed" time="0.004" timestamp="2026-11-29T23:22:32.624" classname="Plain" />
    <testcase name="Two" file="a_test.cc" line="6" status="run" result="completed" time="0.006" timestamp="2026-11-29T23:22:32.624" classname="Plain">
      <failure message="a_test.cc:6&#x0A;Expected &lt;equality&gt;" type=""><![CDATA[a_test.cc:6]]></failure>
    </testcase>
    <testcase name="DISABLED_Three" file="a_test.cc" line="21" status="notrun" result="suppressed" time="0." timestamp="1970-01-01T00:00:00.000" classname="Plain" />
  </testsuite>
  <testsuite name="Some/P" tests="2" failures="0" disabled="0" skipped="0" errors="0" time="0.001" timestamp="2026-11-29T23:22:32.624">
    <testcase name="Run/0" value_param="&quot;1&quot;" file="a_test.cc" line="10" status="run" result="completed" time="0.001" timestamp="2026-11-29T23:22:32.624" classname="Some/P">
      <properties>
        <property name="key" value="1"/>
      </properties>
    </testcase>
    <testcase name="Run/1" value_param="2" file="a_test.cc" line="10" status="run" result="completed" time="0." timestamp="2026-11-29T23:22:32.624" classname="Some/P" />
  </testsuite>
</testsuites>
`

const someLog = `Running main() from gmock_main.cc
[==========] Running 4 tests from 2 test suites.
[----------] Global test environment set-up.
[----------] 2 tests from Plain
[ RUN      ] Plain.One
text without end[       OK ] Plain.One (4 ms)
[ RUN      ] Plain.Two
a_test.cc:6: Failure
[  FAILED  ] Plain.Two (6 ms)
[----------] 2 tests from Plain (10 ms total)

[----------] 2 tests from Some/P
[ RUN      ] Some/P.Run/0
[       OK ] Some/P.Run/0 (1 ms)
[ RUN      ] Some/P.Run/1
[       OK ] Some/P.Run/1 (0 ms)
[----------] 2 tests from Some/P (1 ms total)

[----------] Global test environment tear-down
[==========] 4 tests from 2 test suites ran. (11 ms total)
[  PASSED  ] 3 tests.
`

var someIDs = list("Plain_One_Test", "Plain_Two_Test", "Plain_DISABLED_Three_Test", "P_Run_Test")

func TestRead(t *testing.T) {
	r, err := read([]byte(someXML), []byte(someLog), someIDs)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := r.Failed(), []string{"Plain.Two"}; !slices.Equal(got, want) {
		t.Errorf("failed: %q", got)
	}
	if got, want := r.failedIDs(), []string{"Plain_Two_Test"}; !slices.Equal(got, want) {
		t.Errorf("failed: %q", got)
	}
	if got := r.ran(); got != 4 {
		t.Errorf("ran: %d", got)
	}
	first := r.of("Plain_One_Test")
	if len(first.Results) != 1 || first.Results[0].Log != "[ RUN      ] Plain.One\ntext without end[       OK ] Plain.One (4 ms)\n" || first.Results[0].Seconds() != 0.004 {
		t.Errorf("%+v", first)
	}
	document, err := store.Document(first)
	if err != nil {
		t.Fatal(err)
	}
	again, err := decode(&store.Result{Log: document})
	if err != nil {
		t.Fatal(err)
	}
	if again.Results[0].id = "Plain_One_Test"; !cmp.Equal(again, first, cmp.AllowUnexported(Result{})) {
		t.Error(cmp.Diff(again, first, cmp.AllowUnexported(Result{})))
	}
	if got, want := Filter([]string{"Plain.One", "Some/P.Run/0", "Some/P.Run/1"}), "-Plain.One:Some/P.Run/0:Some/P.Run/1"; got != want {
		t.Errorf("filter %q", got)
	}
	if got := Filter(slices.Repeat([]string{"Plain.One"}, 100_000)); len(got) > maxFilter || !strings.HasSuffix(got, "e") {
		t.Errorf("a filter of %d bytes that ends in %q", len(got), got[len(got)-9:])
	}
	other := &Record{Results: []Result{{Suite: "Plain", Name: "Other"}, first.Results[0]}}
	if got := r.missing([]*Record{first, other}); len(got) != 1 || len(got[0].Results) != 1 || got[0].Results[0].Name != "Other" {
		t.Errorf("missing: %+v", got)
	}
	some := &Set{list: []testCase{{known: r.of("")}, {id: "Plain_One_Test", known: first}, {id: "Plain_Two_Test"}, {id: "Plain_DISABLED_Three_Test"}, {id: "P_Run_Test", known: r.of("P_Run_Test")}}}
	if got, want := some.KnownNames(), []string{"Plain.One", "Some/P.Run/0", "Some/P.Run/1"}; !slices.Equal(got, want) {
		t.Errorf("known: %q", got)
	}
	mayHave := some.MayHave()
	for name, want := range map[string]bool{"Plain.One": false, "Plain.Two": true, "Other/Plain.Two/3": true, "Some/P.Run/7": false, "Plain.Nine": false} {
		if mayHave(name) != want {
			t.Errorf("it may have %s: %t", name, !want)
		}
	}
	if some.list[0].known = nil; !some.MayHave()("Plain.Nine") {
		t.Error("names that belong to no case aren't known, and a name is excluded")
	}
}

// A partial execution has executed all cases that weren't known, and at least one.
func TestPartial(t *testing.T) {
	const only = `<testsuites><testsuite name="Plain"><testcase name="Two" status="notrun" classname="Plain" /></testsuite></testsuites>`
	for _, tc := range []struct {
		text    string
		unknown []string
		want    string
	}{
		{someXML, []string{"Plain_One_Test", "P_Run_Test"}, ""},
		{someXML, []string{"Plain_One_Test", "Plain_Other_Test"}, "it has left out Plain_Other_Test"},
		{only, []string{"Plain_Two_Test"}, "it has executed no case"},
	} {
		x := &Set{list: make([]testCase, 1)}
		for _, id := range tc.unknown {
			x.list = append(x.list, testCase{id: id})
		}
		_, err := x.Read([]byte(tc.text), nil, true, false)
		if got := fmt.Sprint(err); got != tc.want && (err != nil || tc.want != "") {
			t.Errorf("%v: %v, want %q", tc.unknown, err, tc.want)
		}
		if _, err := x.Read([]byte(tc.text), nil, false, false); err != nil {
			t.Errorf("%v, all: %v", tc.unknown, err)
		}
	}
}

// Nothing is read by cases if one has failed and the program passes.
func TestTolerated(t *testing.T) {
	if _, err := new(Set).Read([]byte(someXML), nil, false, true); fmt.Sprint(err) != "it passes, although Plain.Two fails" {
		t.Errorf("a failed case of a program that passes: %v", err)
	}
}

func TestMerge(t *testing.T) {
	r, err := read([]byte(someXML), []byte(someLog), someIDs)
	if err != nil {
		t.Fatal(err)
	}
	executed := &Run{Results: []Result{r.Results[1]}, log: []byte("executed\n")}
	text, log := merge(executed, []*Record{r.of("P_Run_Test"), r.of("Plain_One_Test")})
	merged, err := read(text, log, someIDs)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	var names []string
	for _, x := range merged.Results {
		names = append(names, x.FullName())
	}
	if want := []string{"Plain.Two", "Plain.One", "Some/P.Run/0", "Some/P.Run/1"}; !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
	if n := strings.Count(string(text), `<property name="replayed" value="tasting"/>`); n != 3 {
		t.Errorf("%d cases are marked as replayed:\n%s", n, text)
	}
	if n := strings.Count(string(text), "<properties>"); n != 3 {
		t.Errorf("%d lists of properties:\n%s", n, text)
	}
	if !strings.Contains(string(text), `<testsuites tests="4" failures="1" disabled="0" errors="0" time="0.011"`) || !strings.Contains(string(text), `value_param="&#34;1&#34;"`) {
		t.Errorf("%s", text)
	}
	for _, want := range []string{"executed\n", "tasting: replayed Plain.One\n[ RUN      ] Plain.One\ntext without end[", "tasting: replayed Some/P.Run/1\n"} {
		if !strings.Contains(string(log), want) {
			t.Errorf("log lacks %q:\n%s", want, log)
		}
	}
}

// A failure or a result that belongs to no case is in the rest.
func TestUnattributed(t *testing.T) {
	r, err := read([]byte(someXML), []byte(someLog), list("Plain_One_Test", "P_Run_Test"))
	if err != nil {
		t.Fatal(err)
	}
	if got := r.failedIDs(); got != nil {
		t.Errorf("%q", got)
	}
	if got := len(r.of("").Results); got != 2 {
		t.Errorf("%d results belong to no case", got)
	}
}

func TestNotGoogleTests(t *testing.T) {
	for _, text := range []string{"", "<", "<testsuites>", "text", `<testsuite name="a"/>`,
		`<testsuites><testsuite name="a"><testcase name="b" classname="a"/></testsuite></testsuites>`,
		`<testsuites><testsuite name="a"><testcase name="b" status="run" classname="c"/></testsuite></testsuites>`,
		someXML[:len(someXML)/2]} {
		if r, err := read([]byte(text), nil, someIDs); err == nil {
			t.Errorf("%.40q was read: %+v", text, r)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(someXML), []byte(someLog))
	f.Add([]byte(`<testsuites/>`), []byte("[ RUN      ] a.b\n[       OK ] a.b"))
	f.Fuzz(func(t *testing.T, text, log []byte) {
		r, err := read(text, log, someIDs)
		if err != nil {
			return
		}
		merged, _ := merge(r, []*Record{r.of("Plain_One_Test")})
		if err := xml.Unmarshal(merged, new(document)); err != nil && !strings.ContainsAny(string(text), "&\\\x00") {
			t.Errorf("%v in\n%s", err, merged)
		}
		if log, err := store.Document(r.of("")); err == nil {
			_, _ = decode(&store.Result{Log: log})
		}
	})
}
