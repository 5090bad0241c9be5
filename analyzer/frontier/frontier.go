// Package frontier keeps what executions of a test didn't enter, beside the recorded results.
//
// A test that was traced has two keys: its fingerprint, and that of its trace, which ends where the execution
// did (docs/traces.md). To tell whether another version has the same trace key, one has to know where
// to stop: at the functions that were reachable and nobody entered, the frontier of that execution. So a test that
// isn't known by its fingerprint is looked up by each frontier that is known of it, the newest first.
//
// Frontiers can't make a result wrong: which functions they name is part of the key that is looked up, and only
// who has seen a test pass records something under that. A frontier that is lost, damaged or somebody else's
// leads to a key that nobody has recorded.
package frontier

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/store"
)

const (
	// Max is how many frontiers of a test are kept.
	Max = 8
	// maxNames bounds the size in bytes of all names of a test, and of the file that has them.
	maxNames = 16 << 20
)

// format is the version of the file.
//
// History:
//
//	1  first version
const format = 1

// file is what is kept of a test.
type file struct {
	Format int    `json:"format"`
	Label  string `json:"label"`
	// Frontiers are the newest first.
	Frontiers [][]string `json:"frontiers"`
}

func keyOf(label string) store.Key {
	b := frame.New("tasting frontiers 1")
	b.String(label)
	return b.Sum()
}

// Read returns the frontiers that are known of the test of a label, the newest first: sets of names of functions, as
// linkers have them. None is no error; the error is one for which store.IsMiss doesn't hold, or
// store.ErrCorrupt for a file that isn't what Add has written.
func Read(ctx context.Context, s store.Store, label string) ([]map[string]bool, error) {
	lists, err := read(ctx, s, label)
	var sets []map[string]bool
	for _, names := range lists {
		set := make(map[string]bool, len(names))
		for _, name := range names {
			set[name] = true
		}
		sets = append(sets, set)
	}
	return sets, err
}

// read is Read, with sorted names.
func read(ctx context.Context, s store.Store, label string) ([][]string, error) {
	r, err := s.Get(ctx, keyOf(label))
	if err != nil {
		if store.IsMiss(err) {
			err = nil
		}
		return nil, err
	}
	defer r.Close()
	damaged := func(why any) error { return fmt.Errorf("%w: frontiers of %s: %v", store.ErrCorrupt, label, why) }
	if r.Log.Size() > maxNames {
		return nil, damaged(fmt.Sprintf("%d bytes", r.Log.Size()))
	}
	packed, err := io.ReadAll(r.Log)
	if err != nil {
		return nil, err
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(2*maxNames))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	b, err := d.DecodeAll(packed, nil)
	if err != nil {
		return nil, damaged(err)
	}
	var f file
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, damaged(err)
	}
	if f.Format != format || f.Label != label || len(f.Frontiers) > Max {
		return nil, damaged(fmt.Sprintf("it is of %s in format %d", f.Label, f.Format))
	}
	return f.Frontiers, nil
}

// Add makes names the newest frontier of the test of a label. The oldest are forgotten if there are more than
// Max, or if their names are too many. Of two who add at once one may be forgotten.
func Add(ctx context.Context, s store.Store, label string, names []string) error {
	known, err := read(ctx, s, label)
	if err != nil && !store.IsMiss(err) {
		return err
	}
	if len(known) > 0 && slices.Equal(known[0], names) {
		return nil
	}
	known = slices.DeleteFunc(known, func(l []string) bool { return slices.Equal(l, names) })
	f := file{Format: format, Label: label}
	size := 0
	for _, l := range append([][]string{names}, known...) {
		for _, name := range l {
			size += len(name) + 3
		}
		if size > maxNames || len(f.Frontiers) == Max {
			break
		}
		f.Frontiers = append(f.Frontiers, l)
	}
	if len(f.Frontiers) == 0 {
		return fmt.Errorf("the names of what it didn't execute have more than %d bytes", maxNames)
	}
	b, err := json.Marshal(f)
	if err != nil {
		return err
	}
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	b = e.EncodeAll(b, nil)
	now := time.Now().UTC().Truncate(time.Second)
	return s.Set(ctx, keyOf(label), &store.Result{Start: now, End: now, Log: io.NewSectionReader(bytes.NewReader(b), 0, int64(len(b)))})
}
