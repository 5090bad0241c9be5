package explain

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
)

const label = "//pkg:t"

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// report has one function for each hash.
func report(hashes ...string) *fingerprint.Report {
	r := &fingerprint.Report{Format: fingerprint.ReportFormat, Fingerprint: "00", Contributions: []fingerprint.Contribution{}, Roots: []fingerprint.Root{}, Components: []fingerprint.Component{}}
	for i, h := range hashes {
		r.Components = append(r.Components, fingerprint.Component{ID: fmt.Sprint("f", i), Name: fmt.Sprint("f", i), Local: h, Links: []string{}})
	}
	return r
}

func keyOf(name string) store.Key { return sha256.Sum256([]byte(name)) }

func closure(t testing.TB, r *fingerprint.Report) []byte {
	t.Helper()
	b, err := fingerprint.EncodeClosure(r)
	if err == nil {
		b, err = fingerprint.RecordedClosure(b, []fingerprint.Part{{Name: "machine", Sum: "0000"}})
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func record(t testing.TB, s store.Store, name string, minute int, r *fingerprint.Report) {
	t.Helper()
	err := Record(t.Context(), s, label, keyOf(name), "host", noon.Add(time.Duration(minute)*time.Minute), closure(t, r))
	if err != nil {
		t.Fatal(err)
	}
}

func TestNearest(t *testing.T) {
	s := store.OpenDisk(t.TempDir())
	if _, err := Nearest(t.Context(), s, label, report("01"), 10); !errors.Is(err, ErrNone) {
		t.Errorf("empty store: %v", err)
	}
	record(t, s, "a", 1, report("01", "02", "03"))
	record(t, s, "b", 2, report("01", "02", "04"))
	record(t, s, "c", 3, report("01", "05", "06"))
	for _, tc := range []struct {
		name    string
		current *fingerprint.Report
		n       int
		want    string
	}{
		{"same", report("01", "02", "03"), 10, "a"},
		{"equally near: the newest", report("01", "02", "ff"), 10, "b"},
		{"nothing in common", report("ff"), 10, "c"},
		{"too old", report("01", "02", "03"), 2, "b"},
	} {
		got, err := Nearest(t.Context(), s, label, tc.current, tc.n)
		if err != nil {
			t.Fatal(err)
		}
		if got.Key != keyOf(tc.want).String() || got.Report.Key != got.Key || got.Host != "host" {
			t.Errorf("%s: %+v, want %s", tc.name, got.Entry, tc.want)
		}
	}
	if _, err := Nearest(t.Context(), s, "//other:t", report("01"), 10); !errors.Is(err, ErrNone) {
		t.Errorf("another label: %v", err)
	}

	// The last one is compared with the ones before.
	before, last, err := Last(t.Context(), s, label, 10)
	if err != nil || last.Key != keyOf("c").String() || before.Key != keyOf("b").String() {
		t.Errorf("%v, %v, %v", before, last, err)
	}
	// A closure that was evicted is passed over.
	if err := s.Set(t.Context(), closureKey(keyOf("b")), &store.Result{Log: store.Content([]byte("no closure"))}); err != nil {
		t.Fatal(err)
	}
	if got, err := Nearest(t.Context(), s, label, report("01", "02", "04"), 10); err != nil || got.Key != keyOf("a").String() {
		t.Errorf("%v, %v", got, err)
	}
}

func TestRecord(t *testing.T) {
	s := store.OpenDisk(t.TempDir())
	for i := range maxEntries + 5 {
		record(t, s, fmt.Sprint(i), i, report(fmt.Sprintf("%02x", i)))
	}
	// Again, and a second key of the same closure: moved to the front.
	record(t, s, "10", 30, report("0a"))
	record(t, s, "shard", 31, report("0b"))
	f, err := Read(t.Context(), s, label)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Entries) != maxEntries {
		t.Errorf("%d entries", len(f.Entries))
	}
	var got []string
	for _, e := range f.Entries[:3] {
		got = append(got, e.Key+" "+e.Time.Format(time.RFC3339))
	}
	want := []string{
		keyOf("shard").String() + " 2026-01-02T12:31:00Z",
		keyOf("10").String() + " 2026-01-02T12:30:00Z",
		keyOf("24").String() + " 2026-01-02T12:24:00Z",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if err := Record(t.Context(), s, label, keyOf("x"), "host", noon, make([]byte, MaxClosure+1)); err == nil {
		t.Error("a closure of any size is recorded")
	}
}

// Nothing in a store is believed: what isn't a history, or not this one, is no
// history, and is replaced by the next one.
func TestDamagedHistory(t *testing.T) {
	for name, content := range map[string]string{
		"not JSON":     "hello",
		"another test": `{"format": 1, "label": "//other:t", "entries": []}`,
		"another form": `{"format": 2, "label": "//pkg:t", "entries": []}`,
		"bad key":      `{"format": 1, "label": "//pkg:t", "entries": [{"key": "../../etc"}]}`,
		"too large":    strings.Repeat(" ", maxFile+1),
	} {
		t.Run(name, func(t *testing.T) {
			s := store.OpenDisk(t.TempDir())
			res := &store.Result{Host: "host", Start: noon, End: noon, Log: io.NewSectionReader(strings.NewReader(content), 0, int64(len(content)))}
			if err := s.Set(t.Context(), historyKey(label), res); err != nil {
				t.Fatal(err)
			}
			if _, err := Nearest(t.Context(), s, label, report("01"), 10); !errors.Is(err, ErrNone) {
				t.Errorf("%v", err)
			}
			record(t, s, "a", 1, report("01"))
			if got, err := Nearest(t.Context(), s, label, report("01"), 10); err != nil || got.Key != keyOf("a").String() {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
}

// A store that fails is an error, not an empty history.
func TestFailingStore(t *testing.T) {
	s := failing{store.OpenDisk(t.TempDir())}
	if _, err := Nearest(t.Context(), s, label, report("01"), 10); !errors.Is(err, errBroken) || errors.Is(err, ErrNone) {
		t.Errorf("%v", err)
	}
	if err := Record(t.Context(), s, label, keyOf("a"), "host", noon, closure(t, report("01"))); !errors.Is(err, errBroken) {
		t.Errorf("%v", err)
	}
}

// Of a list of stores, what any of them knows is known, and each keeps what it knew.
func TestListOfStores(t *testing.T) {
	for _, bad := range []string{"http://127.0.0.1:1", "/proc/tasting"} {
		near, far := filepath.Join(t.TempDir(), "store"), filepath.Join(t.TempDir(), "store")
		list, err := store.Open(near+","+bad+","+far, store.Options{Retries: new(int)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Read(t.Context(), list, label); err == nil {
			t.Error("a history of nothing")
		}
		record(t, store.OpenDisk(near), "a", 1, report("01"))
		record(t, store.OpenDisk(far), "b", 2, report("02"))
		record(t, list, "c", 3, report("03"))
		for s, want := range map[store.Store]string{list: "c b a", store.OpenDisk(near): "c a", store.OpenDisk(far): "c b"} {
			f, err := Read(t.Context(), s, label)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range f.Entries {
				got = append(got, map[string]string{keyOf("a").String(): "a", keyOf("b").String(): "b", keyOf("c").String(): "c"}[e.Key])
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%v: %s, want %s", s, got, want)
			}
		}
		for name, r := range map[string]*fingerprint.Report{"a": report("01"), "b": report("02")} {
			if got, err := Nearest(t.Context(), list, label, r, 10); err != nil || got.Key != keyOf(name).String() {
				t.Errorf("%s: %v, %v", name, got, err)
			}
		}
		// A closure that may be where nobody can be asked is passed over.
		for _, dir := range []string{near, far} {
			if err := store.OpenDisk(dir).Set(t.Context(), closureKey(keyOf("c")), &store.Result{Log: store.Content([]byte("no closure"))}); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := Nearest(t.Context(), list, label, report("02", "ff"), 10); err != nil || got.Key != keyOf("b").String() {
			t.Errorf("%v, %v", got, err)
		}
	}
}

var errBroken = errors.New("broken")

type failing struct{ store.Store }

func (failing) Get(context.Context, store.Key) (*store.Result, error) { return nil, errBroken }

// Many writers lose entries of the history at worst, never the history.
func TestConcurrentRecords(t *testing.T) {
	s := store.OpenDisk(t.TempDir())
	var wg sync.WaitGroup
	for i := range 8 {
		b := closure(t, report(fmt.Sprintf("%02x", i)))
		wg.Go(func() {
			if err := Record(t.Context(), s, label, keyOf(fmt.Sprint(i)), "host", noon, bytes.Clone(b)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	f, err := Read(t.Context(), s, label)
	if err != nil || len(f.Entries) == 0 || len(f.Entries) > 8 {
		t.Errorf("%+v, %v", f, err)
	}
}
