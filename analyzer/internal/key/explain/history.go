package explain

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/wholefile"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
)

// HistoryFormat is the version of File.
//
// History:
//
//	1  first version
const HistoryFormat = 1

const (
	// maxEntries is the number of results of a test in its history.
	maxEntries = 20
	// MaxClosure is the size in bytes of the largest closure that is recorded.
	// A test of 120,000 components has 7 MB.
	MaxClosure = 64 << 20
	// maxFile bounds the size in bytes of a history that is read.
	maxFile = 1 << 20
)

// File is the history of a test.
type File struct {
	Format int    `json:"format"`
	Label  string `json:"label"`
	// Entries are sorted, newest first. Results with the same closure, such as
	// those of the shards of a test, are one entry.
	Entries []Entry `json:"entries"`
}

// Entry is a recorded result.
type Entry struct {
	Key     string    `json:"key"`     // of the result, in hex
	Closure string    `json:"closure"` // SHA-256 of the recorded closure, in hex
	Time    time.Time `json:"time"`
	Host    string    `json:"host"`
}

func closureKey(key store.Key) store.Key {
	b := frame.New("tasting closure 1")
	b.Bytes(key[:])
	return b.Sum()
}

func historyKey(label string) store.Key {
	b := frame.New("tasting history 1")
	b.String(label)
	return b.Sum()
}

// Record adds the result under key to the history of the test of a label, in every
// store that accepts it. closure is the result of fingerprint.RecordedClosure. The
// caller bounds the time by ctx. An error affects no result.
func Record(ctx context.Context, s store.Store, label string, key store.Key, host string, at time.Time, closure []byte) error {
	if len(closure) > MaxClosure {
		return fmt.Errorf("the closure has more than %d bytes", MaxClosure)
	}
	at = at.UTC().Truncate(time.Second)
	result := func(b []byte) *store.Result {
		return &store.Result{Host: host, Start: at, End: at, Log: store.Content(b)}
	}
	e := Entry{Key: key.String(), Closure: wholefile.Checksum(closure), Time: at, Host: host}
	return store.Anywhere(s, func(s store.Store) error {
		// The closure first: a history shouldn't name a closure that doesn't exist.
		if err := s.Set(ctx, closureKey(key), result(closure)); err != nil {
			return err
		}
		f, err := read(ctx, s, label)
		if err != nil && !store.IsMiss(err) {
			return err
		}
		if err != nil {
			f = &File{Format: HistoryFormat, Label: label}
		}
		f.Entries = slices.DeleteFunc(f.Entries, func(x Entry) bool { return x.Closure == e.Closure || x.Key == e.Key })
		f.Entries = slices.Insert(f.Entries, 0, e)
		f.Entries = f.Entries[:min(len(f.Entries), maxEntries)]
		b, err := json.MarshalIndent(f, "", " ")
		if err != nil {
			return err
		}
		return s.Set(ctx, historyKey(label), result(append(b, '\n')))
	})
}

// Read returns the history of the test of a label, joined from all stores. If no store
// has a usable one, store.IsMiss holds for the error.
func Read(ctx context.Context, s store.Store, label string) (*File, error) {
	all := &File{Format: HistoryFormat, Label: label}
	if err := store.Anywhere(s, func(s store.Store) error {
		f, err := read(ctx, s, label)
		if err != nil {
			return err
		}
		for _, e := range f.Entries {
			if !slices.ContainsFunc(all.Entries, func(x Entry) bool { return x.Closure == e.Closure }) {
				all.Entries = append(all.Entries, e)
			}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	slices.SortStableFunc(all.Entries, func(a, b Entry) int { return b.Time.Compare(a.Time) })
	return all, nil
}

// read returns the history in one store.
func read(ctx context.Context, s store.Store, label string) (*File, error) {
	b, err := content(ctx, s, historyKey(label), maxFile)
	if err != nil {
		return nil, err
	}
	f := new(File)
	if err := json.Unmarshal(b, f); err != nil {
		return nil, fmt.Errorf("%w: history of %s: %v", store.ErrCorrupt, label, err)
	}
	if f.Format != HistoryFormat || f.Label != label {
		return nil, fmt.Errorf("%w: history of %s: it is of %s in format %d", store.ErrCorrupt, label, f.Label, f.Format)
	}
	f.Entries = f.Entries[:min(len(f.Entries), maxEntries)]
	return f, nil
}

// Recorded is a recorded result and the parts of its key.
type Recorded struct {
	Entry
	Report *fingerprint.Report
}

// ErrNone is the error if there is nothing to compare with.
var ErrNone = errors.New("no recorded fingerprint")

// Nearest returns the result whose closure differs least from current, among the last
// n recorded results of the test of a label. The newest of several equally near ones
// wins. The result under current.Key isn't considered. Nearest reads and unpacks n
// closures.
//
// The error is ErrNone if nothing usable is recorded, else that of the store.
func Nearest(ctx context.Context, s store.Store, label string, current *fingerprint.Report, n int) (*Recorded, error) {
	f, err := Read(ctx, s, label)
	if err != nil {
		return nil, none(label, err)
	}
	return f.nearest(ctx, s, f.Entries, current, n)
}

// Last returns the last recorded result of the test of a label, and the nearest of the
// n before it.
func Last(ctx context.Context, s store.Store, label string, n int) (before, last *Recorded, err error) {
	f, err := Read(ctx, s, label)
	if err != nil {
		return nil, nil, none(label, err)
	}
	switch len(f.Entries) {
	case 0:
		return nil, nil, fmt.Errorf("%w of %s", ErrNone, label)
	case 1:
		return nil, nil, fmt.Errorf("%s was recorded once, on %s, %s: there is no earlier result to compare it with", label, f.Entries[0].Host, f.Entries[0].Time.UTC().Format(time.DateTime+" UTC"))
	}
	if last, err = load(ctx, s, f.Entries[0]); err != nil {
		return nil, nil, none(label, err)
	}
	before, err = f.nearest(ctx, s, f.Entries[1:], last.Report, n)
	return before, last, err
}

func none(label string, err error) error {
	if store.IsMiss(err) {
		return fmt.Errorf("%w of %s: %w", ErrNone, label, err)
	}
	return err
}

func (f *File) nearest(ctx context.Context, s store.Store, entries []Entry, current *fingerprint.Report, n int) (*Recorded, error) {
	var best *Recorded
	var failed error
	least := 0
	entries = slices.DeleteFunc(entries, func(e Entry) bool { return e.Key == current.Key })
	entries = entries[:min(n, len(entries))]
	for _, e := range entries {
		r, err := load(ctx, s, e)
		if err != nil {
			if !store.IsMiss(err) { // a miss: evicted, damaged, or of another version
				failed = err
			}
			continue
		}
		if len(entries) == 1 {
			return r, nil
		}
		if d := Distance(r.Report, current); best == nil || d < least {
			best, least = r, d
		}
	}
	if best == nil {
		return nil, cmp.Or(failed, fmt.Errorf("%w of %s", ErrNone, f.Label))
	}
	return best, nil
}

// load reads the closure of an entry.
func load(ctx context.Context, s store.Store, e Entry) (*Recorded, error) {
	key, err := store.ParseKey(e.Key)
	if err != nil {
		return nil, fmt.Errorf("%w: history: %v", store.ErrCorrupt, err)
	}
	b, err := content(ctx, s, closureKey(key), MaxClosure)
	if err != nil {
		return nil, err
	}
	r, err := fingerprint.DecodeClosure(b)
	if err != nil {
		return nil, fmt.Errorf("%w: closure of %s: %w", store.ErrCorrupt, key, err)
	}
	// The closure has no key, so that equal closures are equal bytes.
	r.Key = e.Key
	return &Recorded{e, r}, nil
}

// content returns the log of an entry.
func content(ctx context.Context, s store.Store, key store.Key, limit int64) ([]byte, error) {
	r, err := s.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if r.Log.Size() > limit {
		return nil, fmt.Errorf("%w: entry %s has %d bytes, more than %d", store.ErrCorrupt, key, r.Log.Size(), limit)
	}
	return io.ReadAll(r.Log)
}
