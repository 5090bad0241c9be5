package fingerprint

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/packed"
)

// small has a value in every field of a report.
func small() *Report {
	return &Report{
		Format: ReportFormat, Fingerprint: strings.Repeat("0a", 32), Key: "ff",
		Contributions: []Contribution{{"code", strings.Repeat("ab", 32)}, {"data _main/d", "00"}},
		LinkFlags:     []string{"-pie", ""},
		AlwaysRun:     []string{"tag external"},
		Run:           []Part{{"arguments", "1234"}, {"machine", "00ff"}},
		Units: []Unit{
			{Source: "a.c", Rung: "function", Clang: "21", Compiler: "gcc 16", Flags: []string{"-O1", "-O1"}},
			{Source: "b.c", Rung: "file", Compiler: "gcc 16", Fallbacks: []string{"clang reported an error"}},
		},
		Roots:     []Root{{"main", []string{"main"}}, {"init (b.c)#2", []string{"constructor", "used"}}},
		Additions: []Contribution{{"sharing", "0c"}},
		Contested: []Contested{{"w", []string{"a.c", "b.c"}, 1}},
		Components: []Component{
			{ID: "main", Name: "main", Source: "a.c", File: "a.c", Kind: "function", Linkage: "external", Local: "01", Links: []string{"main", "init (b.c)#2", "x (a.c)"}},
			{ID: "init (b.c)#2", Name: "init", Source: "b.c", Kind: "function", Linkage: "local", Local: "", Links: []string{}},
			{ID: "x (a.c)", Name: "x", Source: "a.c", File: "h.h", Kind: "variable", Linkage: "weak", Local: "ff", Symbols: []string{"y"}, Links: []string{"main"}},
		},
	}
}

// synthetic looks like the closure of a C++ test: mangled names that repeat each
// other, links to what comes soon and to what is used everywhere.
func synthetic(n int) *Report {
	rnd := rand.New(rand.NewPCG(1, 2))
	sum := func(bytes int) string {
		b := make([]byte, bytes)
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		return hex.EncodeToString(b)
	}
	words := make([]string, 3000)
	for i := range words {
		w := fmt.Sprintf("%s%d", []string{"Visitor", "Policy", "basic_string", "Iterator", "internal", "Traits", "Matcher"}[i%7], rnd.IntN(500))
		words[i] = fmt.Sprintf("%d%s", len(w), w)
	}
	r := &Report{Format: ReportFormat, Fingerprint: sum(32), Contributions: []Contribution{{"code", sum(32)}}, Components: make([]Component, n)}
	for i := range r.Components {
		name := "_ZN"
		for range 2 + rnd.IntN(5) {
			name += words[rnd.IntN(len(words))]
		}
		name += fmt.Sprintf("I%sLi%dEEEv", words[rnd.IntN(len(words))], i)
		c := &r.Components[i]
		*c = Component{Name: name, Source: fmt.Sprintf("pkg/dir%d/file%d.cc", i%20, rnd.IntN(300)), Kind: "function", Linkage: "weak", Local: sum(16), Links: []string{}}
		c.ID, c.File = c.Name, c.Source
		if i%10 == 0 {
			c.ID += " (" + c.Source + ")"
		}
	}
	for i := range r.Components {
		c := &r.Components[i]
		for k := range 3 {
			if next := 3*i + k + 1; next < n {
				c.Links = append(c.Links, r.Components[next].ID)
			}
		}
		for range rnd.IntN(8) {
			c.Links = append(c.Links, r.Components[min(rnd.IntN(n), rnd.IntN(n), rnd.IntN(n))].ID)
		}
	}
	r.Roots = []Root{{r.Components[0].ID, []string{"main"}}}
	return r
}

func TestClosureRoundTrip(t *testing.T) {
	noRun, empty := small(), &Report{Format: 1, Contributions: []Contribution{}, Roots: []Root{}, Components: []Component{}}
	noRun.Key, noRun.Run = "", nil
	for name, r := range map[string]*Report{"small": small(), "no run": noRun, "empty": empty, "large": synthetic(5000)} {
		b, err := EncodeClosure(r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if again, err := EncodeClosure(r); err != nil || !bytes.Equal(b, again) {
			t.Errorf("%s: two closure files of one report differ (%v)", name, err)
		}
		got, err := DecodeClosure(b)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d := cmp.Diff(r, got); d != "" {
			t.Errorf("%s: read is not what was written (-wrote +read):\n%s", name, d)
		}
	}
}

// Both forms of a report are read by their content, whatever the file is called.
func TestReadReportBothForms(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x")
	want := small()
	for name, write := range map[string]func(*bytes.Buffer) error{
		"json":    func(b *bytes.Buffer) error { return WriteReport(b, want) },
		"compact": func(b *bytes.Buffer) error { return WriteClosure(b, want) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, b.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
		got, err := ReadReport(file)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: (-wrote +read):\n%s", name, d)
		}
	}
}

func TestRecordedClosure(t *testing.T) {
	built := small()
	built.Key, built.Run = "", nil
	b, err := EncodeClosure(built)
	if err != nil {
		t.Fatal(err)
	}
	parts := []Part{{"environment variable A", "1234"}}
	rec, err := RecordedClosure(b, parts)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeClosure(rec)
	if err != nil {
		t.Fatal(err)
	}
	want := built
	want.Run = parts
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +recorded):\n%s", d)
	}
	b[len(b)/2] ^= 1
	if _, err := RecordedClosure(b, parts); !errors.Is(err, ErrClosure) {
		t.Errorf("a damaged closure is recorded: %v", err)
	}
}

// What can't be written is an error, rather than another report.
func TestEncodeClosureErrors(t *testing.T) {
	for name, edit := range map[string]func(r *Report){
		"two components have the ID main": func(r *Report) { r.Components[2].ID = "main" },
		"leads to nowhere":                func(r *Report) { r.Components[1].Links = []string{"nowhere"} },
		"leads to gone":                   func(r *Report) { r.Roots[0].Component = "gone" },
	} {
		r := small()
		edit(r)
		if _, err := EncodeClosure(r); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want an error with %s", err, name)
		}
	}
}

// Every bit of a closure file counts, and so does its end.
func TestClosureDamage(t *testing.T) {
	b, err := EncodeClosure(small())
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		for bit := range 8 {
			c := bytes.Clone(b)
			c[i] ^= 1 << bit
			if _, err := DecodeClosure(c); !errors.Is(err, ErrClosure) {
				t.Errorf("bit %d of byte %d changed: %v", bit, i, err)
			}
		}
		if _, err := DecodeClosure(b[:i]); !errors.Is(err, ErrClosure) {
			t.Errorf("cut off after %d bytes: %v", i, err)
		}
	}
	if _, err := DecodeClosure([]byte("tasting closure 99\nwhatever")); err == nil || !strings.Contains(err.Error(), "tasting closure 99") {
		t.Errorf("a newer closure file: %v", err)
	}
}

// A small file that unpacks to gigabytes is refused before memory is spent on it.
func TestClosureBomb(t *testing.T) {
	zeros, err := packed.Pack(bytes.Repeat([]byte(" "), maxClosure+1))
	if err != nil {
		t.Fatal(err)
	}
	file, err := closureFile(closureRun{}, zeros)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := DecodeClosure(file); !errors.Is(err, ErrClosure) {
		t.Errorf("bomb: %v", err)
	}
}

// Whatever is read can be written and gives the same again. The report comes unpacked, so that the
// fuzzer gets past checksums and compression.
func FuzzReadClosure(f *testing.F) {
	for _, r := range []*Report{small(), synthetic(20)} {
		b, err := EncodeClosure(r)
		if err != nil {
			f.Fatal(err)
		}
		run, report, err := splitClosure(b)
		if err != nil {
			f.Fatal(err)
		}
		if report, err = packed.Unpack(report, maxClosure); err != nil {
			f.Fatal(err)
		}
		f.Add(run, report)
	}
	f.Fuzz(func(t *testing.T, run, report []byte) {
		report, err := packed.Pack(report)
		if err != nil {
			t.Fatal(err)
		}
		rest := slices.Concat(run, []byte("\n"), report)
		r, err := DecodeClosure(slices.Concat(fmt.Appendf([]byte(closureMagic), "%016x\n", xxhash.Sum64(rest)), rest))
		if err != nil {
			if !errors.Is(err, ErrClosure) {
				t.Fatalf("an error that isn't ErrClosure: %v", err)
			}
			return
		}
		b, err := EncodeClosure(r)
		if err != nil {
			t.Fatalf("what was read can't be written: %v", err)
		}
		again, err := DecodeClosure(b)
		if err != nil {
			t.Fatalf("what was written can't be read: %v", err)
		}
		if d := cmp.Diff(r, again, cmpopts.EquateEmpty()); d != "" {
			t.Fatalf("(-first +second):\n%s", d)
		}
	})
}

// Raw bytes, as they are on a disk.
func FuzzReadClosureFile(f *testing.F) {
	b, err := EncodeClosure(small())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := DecodeClosure(b); err != nil && !errors.Is(err, ErrClosure) {
			t.Fatalf("an error that isn't ErrClosure: %v", err)
		}
	})
}

func BenchmarkClosure(b *testing.B) {
	r := synthetic(120_000)
	var buf bytes.Buffer
	if err := WriteReport(&buf, r); err != nil {
		b.Fatal(err)
	}
	file := filepath.Join(b.TempDir(), "r.json")
	if err := os.WriteFile(file, buf.Bytes(), 0o666); err != nil {
		b.Fatal(err)
	}
	closure, err := EncodeClosure(r)
	if err != nil {
		b.Fatal(err)
	}
	rec, err := RecordedClosure(closure, []Part{{"arguments", "1234"}})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("write json", func(b *testing.B) {
		for b.Loop() {
			_ = WriteReport(&bytes.Buffer{}, r)
		}
		b.ReportMetric(float64(buf.Len()), "bytes")
	})
	b.Run("write closure", func(b *testing.B) {
		for b.Loop() {
			_, _ = EncodeClosure(r)
		}
		b.ReportMetric(float64(len(closure)), "bytes")
	})
	b.Run("read json", func(b *testing.B) {
		for b.Loop() {
			_, _ = ReadReport(file)
		}
	})
	b.Run("read closure", func(b *testing.B) {
		for b.Loop() {
			_, _ = DecodeClosure(closure)
		}
	})
	b.Run("make recorded", func(b *testing.B) {
		for b.Loop() {
			_, _ = RecordedClosure(closure, []Part{{"arguments", "1234"}})
		}
		b.ReportMetric(float64(len(rec)), "bytes")
	})
}
