package store_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
)

// Backend is an empty store and a way to damage what it holds behind its back.
type Backend struct {
	Store store.Store
	// ReadEntry returns the bytes of the entry of a key.
	ReadEntry func(key store.Key) []byte
	// WriteEntry and WriteBlob replace an entry or the blob with a SHA-256 (in
	// hex); nil removes it.
	WriteEntry func(key store.Key, data []byte)
	WriteBlob  func(hash string, data []byte)

	// LastWins: of writers at the same moment more than one may succeed, and
	// the last result stays.
	LastWins bool
	// Judges: the server looks at entries and contents itself, and may say that
	// there is none where one is damaged, or leave out what a content has too
	// much, or fail. If two write an entry and a third reads it at that moment, it may
	// take the entry for damaged and remove it.
	Judges bool
	// Keeps: the server doesn't replace a content that it has, even if that is
	// damaged. Then Put has to say that it failed.
	Keeps bool
}

// Key returns a key for tests.
func Key(name string) store.Key { return sha256.Sum256([]byte(name)) }

// Content returns a content that holds s.
func Content(s string) *io.SectionReader {
	return io.NewSectionReader(strings.NewReader(s), 0, int64(len(s)))
}

// Hash returns the SHA-256 of s in hex.
func Hash(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}

// Result returns a passed run with a log and files, given as path and content
// in turn.
func Result(log string, files ...string) *store.Result {
	r := &store.Result{
		Host:  "host.example",
		Start: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC),
		End:   time.Date(2026, 1, 2, 3, 4, 7, 8, time.UTC),
		Log:   Content(log),
	}
	for i := 0; i < len(files); i += 2 {
		r.Files = append(r.Files, store.File{Path: files[i], Content: Content(files[i+1])})
	}
	return r
}

// Flat is a result in comparable form.
type Flat struct {
	ExitCode   int
	Host       string
	Start, End time.Time
	Log        string
	Files      map[string]string // contents; "+x " before those of executables
}

// Flatten reads all contents of r.
func Flatten(t testing.TB, r *store.Result) Flat {
	t.Helper()
	read := func(c *io.SectionReader) string {
		b, err := io.ReadAll(c)
		if err != nil {
			t.Error(err)
		}
		return string(b)
	}
	f := Flat{ExitCode: r.ExitCode, Host: r.Host, Start: r.Start, End: r.End, Log: read(r.Log), Files: map[string]string{}}
	for _, file := range r.Files {
		c := read(file.Content)
		if file.Executable {
			c = "+x " + c
		}
		f.Files[file.Path] = c
	}
	return f
}

// runSuite runs the suite that every backend passes; open returns a new, empty backend.
func runSuite(t *testing.T, open func(t *testing.T) Backend) {
	run := func(name string, test func(*testing.T, Backend)) {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
	run("NotFound", testNotFound)
	run("RoundTrip", testRoundTrip)
	run("FirstStays", testFirstStays)
	run("EveryDamage", testEveryDamage)
	run("Set", testSet)
	run("ClockSkew", testClockSkew)
	run("BadPaths", testBadPaths)
	run("UnreadableContent", testUnreadableContent)
	run("Cancelled", testCancelled)
	run("Concurrent", testConcurrent)
	for _, d := range damages {
		run(d.name, func(t *testing.T, b Backend) { testDamage(t, b, d) })
	}
}

// put records r, which has to succeed.
func put(t *testing.T, s store.Store, k store.Key, r *store.Result) {
	t.Helper()
	if err := s.Put(ctx, k, r); err != nil {
		t.Fatalf("Put: %v", err)
	}
}

// want checks that Get returns a result that flattens to w.
func want(t *testing.T, s store.Store, k store.Key, w Flat) {
	t.Helper()
	r, err := s.Get(ctx, k)
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	defer r.Close()
	if d := cmp.Diff(w, Flatten(t, r)); d != "" {
		t.Fatalf("Get returned something else (-put +got):\n%s", d)
	}
	info := &store.Info{ExitCode: w.ExitCode, Host: w.Host, Start: w.Start, End: w.End}
	o := store.Lookup(ctx, s, []store.Key{k}, nil)[0]
	if o.Err != nil || cmp.Diff(info, o.Info) != "" {
		t.Fatalf("Lookup: %+v %v, want %+v", o.Info, o.Err, info)
	}
}

// miss checks that Get returns a miss for a reason.
func miss(t *testing.T, s store.Store, k store.Key, reason error) {
	t.Helper()
	r, err := s.Get(ctx, k)
	if err == nil {
		r.Close()
	}
	if !errors.Is(err, reason) || !store.IsMiss(err) {
		t.Fatalf("Get: error %v, want %v", err, reason)
	}
	// A look-up doesn't read contents, so it may think there is a result.
	if o := store.Lookup(ctx, s, []store.Key{k}, nil)[0]; (o.Info == nil) == (o.Err == nil) || o.Err != nil && !store.IsMiss(o.Err) {
		t.Fatalf("Lookup: %+v", o)
	}
}

func testNotFound(t *testing.T, b Backend) {
	miss(t, b.Store, Key("a"), store.ErrNotFound)
	put(t, b.Store, Key("a"), Result("log"))
	miss(t, b.Store, Key("b"), store.ErrNotFound)
}

func testRoundTrip(t *testing.T, b Backend) {
	big := make([]byte, 5<<20)
	rand.New(rand.NewSource(1)).Read(big)
	exec := Result("log", "test.outputs/run.sh", "#!/bin/sh\n")
	exec.Files[0].Executable = true
	failed := Result("failed")
	failed.ExitCode = 3
	for name, r := range map[string]*store.Result{
		"empty":      Result(""),
		"binary":     Result("\x00\xff\r\n not UTF-8 \xc3"),
		"big":        Result(string(big), "test.xml", string(big[1:])),
		"files":      Result("log", "test.xml", "<x/>", "test.outputs/a/b/c", "", "test.outputs/ä ö", "x"),
		"unsorted":   Result("log", "b", "1", "a", "2"),
		"one blob":   Result("same", "a", "same", "b", "same"),
		"executable": exec,
		"exit code":  failed,
	} {
		put(t, b.Store, Key(name), r)
		for _, f := range r.Files {
			f.Content.Seek(0, io.SeekStart)
		}
		r.Log.Seek(0, io.SeekStart)
		want(t, b.Store, Key(name), Flatten(t, r))
	}
}

func testFirstStays(t *testing.T, b Backend) {
	put(t, b.Store, Key("a"), Result("first"))
	if err := b.Store.Put(ctx, Key("a"), Result("second", "f", "x")); !errors.Is(err, store.ErrExists) {
		t.Fatalf("second Put: %v, want ErrExists", err)
	}
	want(t, b.Store, Key("a"), Flatten(t, Result("first")))
}

// damage is a way to damage the entry under Key("a") or one of its blobs, and the miss that it leads to.
type damage struct {
	name   string
	reason error
	do     func(b Backend)
}

var damages = []damage{
	{"MissingLog", store.ErrIncomplete, func(b Backend) { b.WriteBlob(Hash("the log"), nil) }},
	{"MissingFile", store.ErrIncomplete, func(b Backend) { b.WriteBlob(Hash("<xml/>"), nil) }},
	{"TruncatedBlob", store.ErrCorrupt, func(b Backend) { b.WriteBlob(Hash("<xml/>"), []byte("<xml")) }},
	{"EmptyBlob", store.ErrCorrupt, func(b Backend) { b.WriteBlob(Hash("the log"), []byte{}) }},
	{"LongerBlob", store.ErrCorrupt, func(b Backend) { b.WriteBlob(Hash("the log"), []byte("the log and more")) }},
	{"ChangedBlob", store.ErrCorrupt, func(b Backend) { b.WriteBlob(Hash("the log"), []byte("the lug")) }},
	{"EmptyEntry", store.ErrCorrupt, func(b Backend) { b.WriteEntry(Key("a"), []byte{}) }},
	{"ZeroedEntry", store.ErrCorrupt, func(b Backend) { b.WriteEntry(Key("a"), make([]byte, len(b.ReadEntry(Key("a"))))) }},
	{"GarbageEntry", store.ErrCorrupt, func(b Backend) { b.WriteEntry(Key("a"), []byte("<html>502 Bad Gateway</html>")) }},
	{"HugeEntry", store.ErrCorrupt, func(b Backend) { b.WriteEntry(Key("a"), bytes.Repeat([]byte{'x'}, 8<<20)) }},
	{"EntryOfAnotherKey", store.ErrCorrupt, func(b Backend) { b.WriteEntry(Key("a"), b.ReadEntry(Key("other"))) }},
}

// testDamage checks that a damaged entry is a miss with the right name, and that the next Put heals it.
func testDamage(t *testing.T, b Backend, d damage) {
	put(t, b.Store, Key("other"), Result("other log"))
	put(t, b.Store, Key("a"), Result("the log", "test.xml", "<xml/>"))
	d.do(b)
	if b.Judges {
		if r, err := b.Store.Get(ctx, Key("a")); err == nil {
			defer r.Close()
			if d := cmp.Diff(Flatten(t, Result("the log", "test.xml", "<xml/>")), Flatten(t, r)); d != "" {
				t.Fatalf("Get returned something else (-put +got):\n%s", d)
			}
			return
		} else if !store.IsMiss(err) {
			t.Fatalf("Get: %v, want a miss", err)
		}
	} else {
		miss(t, b.Store, Key("a"), d.reason)
	}
	if err := b.Store.Put(ctx, Key("a"), Result("the log", "test.xml", "<xml/>")); err != nil {
		if !b.Keeps || errors.Is(err, store.ErrExists) {
			t.Fatalf("Put: %v", err)
		}
		if r, err := b.Store.Get(ctx, Key("a")); !store.IsMiss(err) {
			t.Fatalf("Get after a Put that failed: %v, %v, want a miss", r, err)
		}
		return
	}
	want(t, b.Store, Key("a"), Flatten(t, Result("the log", "test.xml", "<xml/>")))
	want(t, b.Store, Key("other"), Flatten(t, Result("other log")))
}

// An entry cut off anywhere or with any bit wrong is a miss or, if the change has no meaning, the same result; never
// another one.
func testEveryDamage(t *testing.T, b Backend) {
	k := Key("a")
	put(t, b.Store, k, Result("the log", "test.outputs/a", "A", "test.xml", "<xml/>"))
	w := Flatten(t, Result("the log", "test.outputs/a", "A", "test.xml", "<xml/>"))
	entry := b.ReadEntry(k)
	misses := 0
	check := func(what string, data []byte) {
		b.WriteEntry(k, data)
		r, err := b.Store.Get(ctx, k)
		if err != nil {
			if !store.IsMiss(err) && !b.Judges {
				t.Fatalf("%s: %v, want a miss", what, err)
			}
			misses++
			return
		}
		defer r.Close()
		if d := cmp.Diff(w, Flatten(t, r)); d != "" {
			t.Fatalf("%s: Get returned something else (-put +got):\n%s", what, d)
		}
	}
	for i := range entry {
		check(fmt.Sprintf("cut at %d of %d", i, len(entry)), entry[:i])
		if misses != i+1 && !b.Judges {
			t.Fatalf("cut at %d of %d is no miss", i, len(entry))
		}
	}
	for i := range entry {
		for bit := range 8 {
			c := bytes.Clone(entry)
			c[i] ^= 1 << bit
			check(fmt.Sprintf("bit %d of byte %d flipped", bit, i), c)
		}
	}
	check("undamaged", entry)
}

func testSet(t *testing.T, b Backend) {
	set := func(r *store.Result) {
		t.Helper()
		if err := b.Store.Set(ctx, Key("a"), r); err != nil {
			t.Fatalf("Set: %v", err)
		}
	}
	set(Result("first"))
	want(t, b.Store, Key("a"), Flatten(t, Result("first")))
	set(Result("second", "f", "x"))
	want(t, b.Store, Key("a"), Flatten(t, Result("second", "f", "x")))
	set(Result("first"))
	want(t, b.Store, Key("a"), Flatten(t, Result("first")))
	b.WriteEntry(Key("a"), []byte("damaged"))
	set(Result("third"))
	want(t, b.Store, Key("a"), Flatten(t, Result("third")))
	if err := b.Store.Set(ctx, Key("b"), Result("log", "../a", "x")); err == nil {
		t.Error("Set of a bad path: no error")
	}
	// Readers see one of the results, whole.
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 8 {
				name := fmt.Sprintf("writer %d %d", i, j)
				if err := b.Store.Set(ctx, Key("c"), Result(name, "f", name)); err != nil {
					t.Errorf("Set: %v", err)
				}
				r, err := b.Store.Get(ctx, Key("c"))
				if b.Judges && store.IsMiss(err) {
					continue
				}
				if err != nil {
					t.Errorf("Get: %v", err)
					continue
				}
				if f := Flatten(t, r); f.Log != f.Files["f"] {
					t.Errorf("mixed result: %+v", f)
				}
				r.Close()
			}
		})
	}
	wg.Wait()
}

// Clocks differ; a result from the future is a result.
func testClockSkew(t *testing.T, b Backend) {
	r := Result("log")
	r.Start, r.End = r.Start.AddDate(100, 0, 0), r.End.AddDate(-50, 0, 0)
	put(t, b.Store, Key("a"), r)
	want(t, b.Store, Key("a"), Flatten(t, r))
}

func testBadPaths(t *testing.T, b Backend) {
	for _, p := range []string{"", ".", "..", "../a", "a/../../b", "/a", "a//b", "./a", "a/", `a\b`, "a\x00"} {
		err := b.Store.Put(ctx, Key(p), Result("log", p, "x"))
		if err == nil || errors.Is(err, store.ErrExists) {
			t.Errorf("Put of a file %q: %v, want an error", p, err)
		}
		miss(t, b.Store, Key(p), store.ErrNotFound)
	}
	if err := b.Store.Put(ctx, Key("twice"), Result("log", "a", "x", "a", "y")); err == nil {
		t.Errorf("Put of two files with one name: want an error")
	}
}

func testUnreadableContent(t *testing.T, b Backend) {
	r := Result("log", "a", "x")
	r.Files[0].Content = io.NewSectionReader(failingReader{}, 0, 10)
	if err := b.Store.Put(ctx, Key("a"), r); !errors.Is(err, errRead) {
		t.Errorf("Put: %v, want %v", err, errRead)
	}
	miss(t, b.Store, Key("a"), store.ErrNotFound)
}

func testCancelled(t *testing.T, b Backend) {
	put(t, b.Store, Key("a"), Result("log"))
	c, cancel := context.WithCancel(ctx)
	cancel()
	if r, err := b.Store.Get(c, Key("a")); !errors.Is(err, context.Canceled) {
		t.Errorf("Get: %v, %v, want %v", r, err, context.Canceled)
	}
	if err := b.Store.Put(c, Key("b"), Result("log")); !errors.Is(err, context.Canceled) {
		t.Errorf("Put: %v, want %v", err, context.Canceled)
	}
	miss(t, b.Store, Key("b"), store.ErrNotFound)
}

// 64 writers with different results for one key, and as many readers:
// everyone sees nothing or a whole result, and from the first sight on the
// same one, unless the last one wins.
func testConcurrent(t *testing.T, b Backend) {
	const n = 64
	results := map[string]Flat{}
	name := func(i int) string { return fmt.Sprintf("log of writer %d", i) }
	result := func(i int) *store.Result {
		return Result(name(i), "test.xml", "shared", "test.outputs/big", strings.Repeat(name(i), 5000))
	}
	for i := range n {
		results[name(i)] = Flatten(t, result(i))
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	stored := 0
	for i := range n {
		wg.Go(func() {
			err := b.Store.Put(ctx, Key("one"), result(i))
			if err == nil {
				mu.Lock()
				stored++
				mu.Unlock()
			} else if !errors.Is(err, store.ErrExists) && !b.Judges {
				t.Errorf("Put %d: %v", i, err)
			}
		})
		wg.Go(func() {
			seen := ""
			for range 20 {
				r, err := b.Store.Get(ctx, Key("one"))
				if errors.Is(err, store.ErrNotFound) && (seen == "" || b.Judges) {
					continue
				}
				if err != nil {
					t.Errorf("Get after %q: %v", seen, err)
					return
				}
				f := Flatten(t, r)
				r.Close()
				if seen != "" && f.Log != seen && !b.LastWins {
					t.Errorf("the result changed from %q to %q", seen, f.Log)
				}
				seen = f.Log
				if d := cmp.Diff(results[f.Log], f); d != "" {
					t.Errorf("mixed result:\n%s", d)
				}
			}
		})
	}
	wg.Wait()
	if stored != 1 && !b.LastWins || stored == 0 {
		t.Errorf("%d writers stored a result, want 1", stored)
	}
	// What was recorded isn't lost, and if it is, can be recorded again.
	r, err := b.Store.Get(ctx, Key("one"))
	if b.Judges && errors.Is(err, store.ErrNotFound) {
		put(t, b.Store, Key("one"), result(0))
		r, err = b.Store.Get(ctx, Key("one"))
	}
	if err != nil {
		t.Fatalf("Get in the end: %v", err)
	}
	r.Close()
}

var errRead = errors.New("read error")

type failingReader struct{}

func (failingReader) ReadAt([]byte, int64) (int, error) { return 0, errRead }
