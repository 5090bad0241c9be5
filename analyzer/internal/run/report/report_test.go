package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite testdata")

func read(t *testing.T, dir string) ([]*Run, []Damaged) {
	t.Helper()
	var runs []*Run
	damaged, err := ReadRuns(dir, func(r *Run) { runs = append(runs, r) })
	if err != nil {
		t.Fatal(err)
	}
	return runs, damaged
}

func TestRoundTrip(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "runs")
	want := sample(3, 20, 1)
	for _, r := range want {
		if _, err := WriteRun(dir, r); err != nil {
			t.Fatal(err)
		}
	}
	got, damaged := read(t, dir)
	for i, r := range want {
		want[i] = r.normalise()
	}
	if d := cmp.Diff(want, got); d != "" || len(damaged) > 0 {
		t.Errorf("%v\n%s", damaged, d)
	}
}

func TestWriteRunIsDeterministic(t *testing.T) {
	r := sample(1, 50, 7)[0]
	a, err := WriteRun(t.TempDir(), r)
	if err != nil {
		t.Fatal(err)
	}
	shuffled := *r
	shuffled.Start = r.Start.In(time.FixedZone("", 3600))
	shuffled.Tests, shuffled.Fallbacks = slices.Clone(r.Tests), slices.Clone(r.Fallbacks)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(r.Tests), func(i, j int) {
		shuffled.Tests[i], shuffled.Tests[j] = shuffled.Tests[j], shuffled.Tests[i]
	})
	slices.Reverse(shuffled.Fallbacks)
	b, err := WriteRun(t.TempDir(), &shuffled)
	if err != nil {
		t.Fatal(err)
	}
	x, _ := os.ReadFile(a)
	y, _ := os.ReadFile(b)
	if filepath.Base(a) != filepath.Base(b) || len(x) == 0 || !bytes.Equal(x, y) {
		t.Errorf("%s and %s differ", a, b)
	}
	if shuffled.Tests[0].Label == shuffled.normalise().Tests[0].Label {
		t.Error("the run of the caller was sorted")
	}
}

func TestWriteRunReplacesNothing(t *testing.T) {
	dir := t.TempDir()
	r := sample(1, 2, 1)[0]
	path, err := WriteRun(dir, r)
	if err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(path)
	r.Host = "other"
	if _, err := WriteRun(dir, r); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("error %v", err)
	}
	if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
		t.Error("the first run was replaced")
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("%d files are left", len(entries))
	}
}

func TestWriteRunInventsIDs(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if _, err := WriteRun(dir, &Run{Start: time.Unix(1e9, 0), End: time.Unix(1e9, 0)}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if runs, damaged := read(t, dir); len(runs) != 50 || len(damaged) > 0 {
		t.Errorf("%d runs, damaged: %v", len(runs), damaged)
	}
}

func TestWriteRunRefuses(t *testing.T) {
	for name, change := range map[string]func(*Run){
		"id":              func(r *Run) { r.ID = "../x" },
		"no start":        func(r *Run) { r.Start = time.Time{} },
		"end":             func(r *Run) { r.End = r.Start.Add(-1) },
		"twice":           func(r *Run) { r.Tests = append(r.Tests, r.Tests[0]) },
		"verdict":         func(r *Run) { r.Tests[0].Verdict = "maybe" },
		"label":           func(r *Run) { r.Tests[0].Label = "" },
		"seconds":         func(r *Run) { r.Tests[0].Seconds = -1 },
		"lookups":         func(r *Run) { r.Store.Lookups = -1 },
		"lookup_seconds":  func(r *Run) { r.Store.LookupSeconds = 1e300 },
		"fallback, tests": func(r *Run) { r.Fallbacks[0].Tests = -1 },
	} {
		dir := t.TempDir()
		r := sample(1, 3, 1)[0]
		change(r)
		if path, err := WriteRun(dir, r); err == nil {
			t.Errorf("%s: wrote %s", name, path)
		}
		if entries, _ := os.ReadDir(dir); len(entries) > 0 {
			t.Errorf("%s: %d files are left", name, len(entries))
		}
	}
}

func TestCredentialsAreCutOut(t *testing.T) {
	r := &Run{
		Start: time.Unix(1e9, 0), End: time.Unix(1e9, 0), Workspace: "https://bob:hunter2@git.example.com/x.git", Branch: "https://hunter2@x/y",
		Store:     Store{Location: "/var/cache,https://user:hunter2@cache.example.com:8080/a?sig=hunter2&b=1,grpcs://hunter2@x"},
		Tests:     []Test{{Label: "//a", Verdict: Miss, Reason: `Get "https://u:hunter2@h/ac/12?token=hunter2": EOF; see http://u:hun@hunter2@h/`}},
		Fallbacks: []Fallback{{Reason: "from s3://hunter2@bucket/k#hunter2"}},
	}
	path, err := WriteRun(t.TempDir(), r)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || bytes.Contains(text, []byte("hunter2")) || bytes.Contains(text, []byte("hun@")) {
		t.Errorf("%v: %s", err, text)
	}
	got, err := ReadRun(text)
	if err != nil {
		t.Fatal(err)
	}
	if want := "/var/cache,https://cache.example.com:8080/a,grpcs://x"; got.Store.Location != want {
		t.Errorf("location %q, want %q", got.Store.Location, want)
	}
	if want := `Get "https://h/ac/12": EOF; see http://h/`; got.Tests[0].Reason != want {
		t.Errorf("reason %q, want %q", got.Tests[0].Reason, want)
	}
	// A file that somebody else has written is read with the same care.
	text = bytes.ReplaceAll(text, []byte("https://cache"), []byte("https://hunter2@cache"))
	if got, err = ReadRun(text); err != nil || strings.Contains(got.Store.Location, "hunter2") {
		t.Errorf("%v, %v", got, err)
	}
}

func TestReadRunsDamaged(t *testing.T) {
	dir := t.TempDir()
	path, err := WriteRun(dir, sample(1, 4, 1)[0])
	if err != nil {
		t.Fatal(err)
	}
	good, _ := os.ReadFile(path)
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("a-empty"+fileSuffix, "")
	write("b-cut"+fileSuffix, string(good[:len(good)/2]))
	write("c-newer"+fileSuffix, `{"format":3,"something":"new"}`)
	write("d-field"+fileSuffix, strings.Replace(string(good), `"host"`, `"guest"`, 1))
	write("e-two"+fileSuffix, string(good)+string(good))
	write("f-type"+fileSuffix, strings.Replace(string(good), `"verdict":"`, `"verdict":1,"x":"`, 1))
	write("g-list"+fileSuffix, "[]")
	write("ignored.json", "{")
	write(".tmp-123", "{")
	if err := os.Mkdir(filepath.Join(dir, "h-dir"+fileSuffix), 0o755); err != nil {
		t.Fatal(err)
	}
	runs, damaged := read(t, dir)
	if len(runs) != 1 {
		t.Errorf("%d runs, want 1", len(runs))
	}
	want := []struct{ file, reason string }{
		{"a-empty", "cut off"}, {"b-cut", "cut off"}, {"c-newer", "format 3, this tasting reads formats 1 to 2"}, {"d-field", "guest doesn't fit the schema of format 2"},
		{"e-two", "byte"}, {"f-type", "/tests/0/verdict doesn't fit"}, {"g-list", "doesn't fit"}, {"h-dir", "not a regular file"},
	}
	if len(damaged) != len(want) {
		t.Fatalf("damaged: %v", damaged)
	}
	for i, w := range want {
		if damaged[i].File != w.file+fileSuffix || !strings.Contains(damaged[i].Reason, w.reason) {
			t.Errorf("%v, want %v", damaged[i], w)
		}
	}
	if _, err := ReadRuns(filepath.Join(dir, "missing"), func(*Run) {}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

func TestDefaultDir(t *testing.T) {
	for _, c := range []struct{ state, home, want string }{
		{"/s", "/h", "/s/tasting/runs"},
		{"", "/h", "/h/.local/state/tasting/runs"},
		{"relative", "/h", "/h/.local/state/tasting/runs"},
		{"", "", ""},
		{"", "h", ""},
	} {
		got, err := DefaultDir(func(name string) string { return map[string]string{"XDG_STATE_HOME": c.state, "HOME": c.home}[name] })
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}

// A run in which each state occurs is counted by hand.
func TestData(t *testing.T) {
	at := func(h int) time.Time { return time.Date(2026, 1, 1, h, 0, 0, 0, time.UTC) }
	first := &Run{ID: "1", Start: at(1), End: at(2), Commit: "c1", Store: Store{Location: "/s", Lookups: 4, Misses: 3, Damaged: 1, LookupSeconds: 0.04}, Tests: []Test{
		{Label: "//a", Verdict: Miss, Status: "PASSED", Seconds: 1, Reason: "no recorded result", Changed: []string{"f", "g", "f"}},
		{Label: "//b", Verdict: Miss, Status: "FAILED", Seconds: 2, Reason: "no recorded result", Changed: []string{"f"}},
		{Label: "//c", Verdict: AlwaysRun, Status: "FLAKY", Seconds: 4, Reason: "tag external"},
		{Label: "//d", Verdict: Other, Status: "PASSED", Seconds: 8},
		{Label: "//e", Verdict: Miss, Status: "FAILED_TO_BUILD"},
		{Label: "//f", Verdict: Miss, Status: "PASSED", Cached: true, Seconds: 16, Changed: []string{"f"}},
	}, Fallbacks: []Fallback{{"x.c", "file", "why", 2}, {"old.c", "file", "why", 9}}}
	second := &Run{ID: "2", Start: at(3), End: at(4), Commit: "c2", Store: Store{Location: "/s", Lookups: 3, Hits: 3, LookupSeconds: 0.006}, Tests: []Test{
		{Label: "//a", Verdict: Hit, Trace: true, Status: "PASSED", Seconds: 1},
		{Label: "//b", Verdict: Hit, Status: "PASSED"},
		{Label: "//c", Verdict: AlwaysRun, Status: "TIMEOUT", Seconds: 4, Reason: "tag external"},
		{Label: "//f", Verdict: Hit, Audited: true, Status: "PASSED", Seconds: 16},
		{Label: "//g", Verdict: Other, Cached: true, Status: "PASSED", Seconds: 32},
	}, Fallbacks: []Fallback{{"x.c", "file", "why", 1}}}
	var b Builder
	for _, r := range []*Run{second, first, second} {
		b.Add(r)
	}
	d := b.Data()
	f := func(v float64) *float64 { return &v }
	one := Counts{Tests: 5, Cached: 1, Missed: 1, Always: 1, NoFingerprint: 1, Failed: 1, NoResult: 1, Flaky: 1, Misses: 4}
	two := Counts{Tests: 5, Replayed: 2, ByTrace: 1, Cached: 1, Audited: 1, Failed: 1, Hits: 3}
	want := &Data{
		Format: DataFormat,
		Totals: Totals{
			Runs: 2, Duplicates: 1, Targets: 7, Workspaces: []string{""},
			Counts:   Counts{Tests: 10, Replayed: 2, ByTrace: 1, Cached: 2, Missed: 1, Audited: 1, Always: 1, NoFingerprint: 1, Failed: 2, NoResult: 1, Flaky: 1, Hits: 3, Misses: 4},
			Times:    Times{ExecutedTime: 1 + 2 + 4 + 8 + 4 + 16, SavedTime: 1, CachedTime: 16 + 32, Unknown: 1},
			HitRatio: f(0.4286), Avoided: f(0.2), SavedShare: f(0.0119), // 3/7, 2/10, 1/84
		},
		Runs: []RunData{
			{ID: "1", Start: at(1), End: at(2), Commit: "c1", Counts: one, Times: Times{ExecutedTime: 15, CachedTime: 16}, HitRatio: f(0), Store: first.Store, LookupMilliseconds: f(10)},
			{ID: "2", Start: at(3), End: at(4), Commit: "c2", Counts: two, Times: Times{ExecutedTime: 20, SavedTime: 1, CachedTime: 32, Unknown: 1}, HitRatio: f(1), Store: second.Store, LookupMilliseconds: f(2)},
		},
		Matrix: Matrix{Columns: 2, Executed: []*float64{f(0.8), f(0.4)}, Rows: []Row{
			{Label: "//c", Executed: 2, Failed: 1, States: "1w1f"},
			{Label: "//a", Executed: 1, Reused: 1, States: "1m1r"},
			{Label: "//b", Executed: 1, Reused: 1, Failed: 1, States: "1f1r"},
			{Label: "//d", Executed: 1, States: "1o1."},
			{Label: "//f", Executed: 1, Reused: 1, States: "1c1a"},
			{Label: "//g", Reused: 1, States: "1.1c"},
		}},
		Components: []Cause{{"f", 2, 1, 2, 1, 3}, {"g", 1, 0, 1, 1, 1}},
		Reasons: []ReasonData{
			{AlwaysRun, "tag external", 2, 8}, {Miss, "no recorded result", 2, 3}, {Hit, "", 1, 16}, {Other, "", 1, 8},
		},
		Fallbacks: []FallbackData{
			{Source: "x.c", Rung: "file", Reason: "why", Tests: 1, Runs: 2, LastSeen: at(3), InUse: true},
			{Source: "old.c", Rung: "file", Reason: "why", Tests: 9, Runs: 1, LastSeen: at(1)},
		},
		Stores:  []StoreData{{Location: "/s", Runs: 2, Lookups: 7, Hits: 3, Misses: 3, Damaged: 1, Seconds: 0.046, Mean: f(6.571), Worst: f(10)}},
		Damaged: []Damaged{},
	}
	if diff := cmp.Diff(want, d, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Spans" }, cmp.Ignore())); diff != "" {
		t.Error(diff)
	}
}

// What is shown doesn't depend on the order in which runs are read.
func TestOrderDoesNotMatter(t *testing.T) {
	runs := sample(60, 150, 5)
	render := func() (string, string) {
		var b Builder
		for _, r := range runs {
			b.Add(r)
		}
		var page, data bytes.Buffer
		d := b.Data()
		if err := errors.Join(d.HTML(&page), d.JSON(&data)); err != nil {
			t.Fatal(err)
		}
		return page.String(), data.String()
	}
	page, data := render()
	for seed := range uint64(3) {
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
		p, d := render()
		if diff := cmp.Diff(data, d); diff != "" {
			t.Fatal(diff)
		}
		if p != page {
			t.Fatal("the pages differ")
		}
	}
}

// Whatever is left out is counted: all numbers of a cut report agree with the
// runs.
func TestCutListsAreCounted(t *testing.T) {
	runs := sample(maxColumns+12, maxRows+30, 9)
	var b Builder
	executed, all := 0, 0
	for i, r := range runs {
		for j := range r.Tests {
			if j%3 == 0 && r.Tests[j].Verdict == Miss {
				r.Tests[j].Changed = []string{"c" + string(rune('A'+i%50))}
				r.Tests[j].Reason = "reason " + string(rune('A'+i%30))
			}
			s := stateOf(&r.Tests[j])
			if s.executed() {
				all++
				if i >= 12 {
					executed++
				}
			}
		}
		r.Store.Location += string(rune('A' + i%40))
		for k := range 3 {
			r.Fallbacks = append(r.Fallbacks, Fallback{"s" + string(rune('A'+i%30)), "file", "r" + string(rune('A'+k)), 1})
		}
		b.Add(r)
	}
	for range maxDamaged + 1 {
		b.AddDamaged(Damaged{"f", "r"})
	}
	d := b.Data()
	shown := 0
	for _, row := range d.Matrix.Rows {
		shown += row.Executed
	}
	if shown+d.Matrix.OmittedExecutions != executed || d.Totals.Executed() != all {
		t.Errorf("%d + %d executions in the matrix, want %d; %d in all, want %d", shown, d.Matrix.OmittedExecutions, executed, d.Totals.Executed(), all)
	}
	if len(d.Matrix.Rows) != maxRows || d.Matrix.OmittedTests != 30 || d.Matrix.Columns != maxColumns || d.Matrix.FirstRun != 12 || len(d.Runs) != maxColumns+12 {
		t.Errorf("%d rows and %d, %d columns from %d", len(d.Matrix.Rows), d.Matrix.OmittedTests, d.Matrix.Columns, d.Matrix.FirstRun)
	}
	for what, n := range map[string][3]int{
		"components": {len(d.Components), d.ComponentsOmitted, maxComponents}, "reasons": {len(d.Reasons), d.ReasonsOmitted, maxReasons},
		"fallbacks": {len(d.Fallbacks), d.FallbacksOmitted, maxFallbacks}, "stores": {len(d.Stores), d.StoresOmitted, maxStores}, "damaged": {len(d.Damaged), d.DamagedOmitted, maxDamaged},
	} {
		if n[0] != n[2] || n[1] == 0 {
			t.Errorf("%s: %d and %d omitted, want %d and some", what, n[0], n[1], n[2])
		}
	}
	var page bytes.Buffer
	if err := d.HTML(&page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"30 others", "newest 500 runs; 12 older", "more caused fewer executions", "more reasons were rarer", "more concern fewer tests", "more were asked less often", "51 files could not be read", "1 more."} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page doesn't say %q", want)
		}
	}
}

// TestReadsFormat1: files of the first format have no cost.
func TestReadsFormat1(t *testing.T) {
	r, err := ReadRun([]byte(`{"format":1,"id":"0","start":"2026-01-01T00:00:00Z","end":"2026-01-01T00:00:01Z","store":{"lookups":0,"hits":0,"misses":0,"lookup_seconds":0},"tests":[{"label":"//:a","verdict":"hit","status":"PASSED"}]}`))
	if err != nil || r.Cost != nil || len(r.Tests) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestGolden compares with the page and the JSON of testdata/runs, as they were looked at.
// go test ./analyzer/internal/run/report -run TestGolden -update writes them anew.
func TestGolden(t *testing.T) {
	dir := filepath.Join("testdata", "runs")
	if *update {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		for _, r := range sample(6, 12, 3) {
			if _, err := WriteRun(dir, r); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "damaged"+fileSuffix), []byte(`{"format":1,"id":"`), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var b Builder
	damaged, err := ReadRuns(dir, b.Add)
	if err != nil {
		t.Fatal(err)
	}
	b.AddDamaged(damaged...)
	d := b.Data()
	var page, data bytes.Buffer
	if err := errors.Join(d.HTML(&page), d.JSON(&data)); err != nil {
		t.Fatal(err)
	}
	if !json.Valid(data.Bytes()) {
		t.Error("no valid JSON")
	}
	for name, got := range map[string][]byte{"report.html": page.Bytes(), "report.json": data.Bytes()} {
		file := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), string(got)); d != "" {
			t.Errorf("%s differs; if it shall, go test ./analyzer/internal/run/report -run TestGolden -update\n%s", file, d)
		}
	}
}

func TestTexts(t *testing.T) {
	for s, want := range map[float64]string{0: "0 s", 0.0001: "1 ms", 0.25: "250 ms", 0.9999: "1.0 s", 3.14: "3.1 s", 99.9: "100 s", 100: "1.7 min", 5400: "90 min", 7200: "2.0 h", 3.6e6 * 12: "12,000 h"} {
		if got := durationText(s); got != want {
			t.Errorf("%v seconds: %q, want %q", s, got, want)
		}
	}
	for f, want := range map[float64]string{0: "0%", 1: "100%", 0.5: "50.0%", 0.9999: ">99.9%", 0.0001: "<0.1%"} {
		if got := percentText(&f); got != want {
			t.Errorf("%v: %q, want %q", f, got, want)
		}
	}
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000"} {
		if got := count(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

// No text makes ReadRun panic, and what it accepts is written and read again as
// the same, and shown.
func FuzzReadRun(f *testing.F) {
	dir := f.TempDir()
	for _, r := range append(sample(2, 5, 1), hostile()[0]) {
		path, err := WriteRun(dir, r)
		if err != nil {
			f.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
		f.Add(text[:len(text)/3])
	}
	f.Add([]byte(`{"format":1,"id":"a","start":"1970-01-01T00:00:00Z","end":"9999-12-31T23:59:59Z","store":{"lookups":1,"hits":0,"misses":0,"lookup_seconds":1e6},"tests":[]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := ReadRun(text)
		if err != nil {
			return
		}
		path, err := WriteRun(t.TempDir(), r)
		if err != nil {
			t.Fatalf("can be read, not written: %v", err)
		}
		again, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s, err := ReadRun(again)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(r, s); d != "" {
			t.Error(d)
		}
		var b Builder
		b.Add(r)
		var page bytes.Buffer
		if err := b.Data().HTML(&page); err != nil {
			t.Error(err)
		}
		if strings.Contains(page.String(), "<script") {
			t.Error("the page has a script")
		}
	})
}

// BenchmarkReport reads 500 runs of 10,000 tests and writes the page.
func BenchmarkReport(b *testing.B) {
	dir := b.TempDir()
	for _, r := range sample(500, 10000, 1) {
		if _, err := WriteRun(dir, r); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		var builder Builder
		if damaged, err := ReadRuns(dir, builder.Add); err != nil || len(damaged) > 0 {
			b.Fatal(err, damaged)
		}
		var page bytes.Buffer
		if err := builder.Data().HTML(&page); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(page.Len()), "page-bytes")
	}
}

func BenchmarkWriteRun(b *testing.B) {
	r := sample(1, 10000, 1)[0]
	r.ID = ""
	dir := b.TempDir()
	for b.Loop() {
		if _, err := WriteRun(dir, r); err != nil {
			b.Fatal(err)
		}
	}
}

func TestTidy(t *testing.T) {
	dir := t.TempDir()
	for name, age := range map[string]time.Duration{"1.tasting-run.json": MaxAge + time.Hour, "2.tasting-run.json": time.Hour, "0.other": 2 * MaxAge} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, nil, 0o666); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-age)
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
	}
	Tidy(dir)
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) != 2 || filepath.Base(left[1]) != "2.tasting-run.json" {
		t.Errorf("left: %v %v", left, err)
	}
	// The oldest ones go if there is too much.
	if err := os.Truncate(left[1], MaxBytes); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "3.tasting-run.json"), []byte("{}"), 0o666); err != nil {
		t.Fatal(err)
	}
	Tidy(dir)
	if left, _ := filepath.Glob(filepath.Join(dir, "*.json")); len(left) != 1 || filepath.Base(left[0]) != "3.tasting-run.json" {
		t.Errorf("left: %v", left)
	}
}
