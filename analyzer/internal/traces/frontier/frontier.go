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
//
// Beside the newest frontier is what that execution entered: when the test is executed again, it needs
// no breakpoints there.
package frontier

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/nameset"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/packed"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
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
//	1  first version; later with entered, which others do without
const format = 1

// file is what is kept of a test.
type file struct {
	Format int    `json:"format"`
	Label  string `json:"label"`
	// Frontiers are the newest first.
	Frontiers [][]string `json:"frontiers"`
	// Entered is a nameset.Set, of the first of them.
	Entered []byte `json:"entered,omitempty"`
}

// Known is what is known of executions of a test.
type Known struct {
	// Frontiers are the newest first: sets of names of functions, as linkers have them.
	Frontiers []map[string]bool
	// Entered is what the execution with the first one may have entered; it may be nil.
	Entered nameset.Set
}

func keyOf(label string) store.Key {
	b := frame.New("tasting frontiers 1")
	b.String(label)
	return b.Sum()
}

// Read returns what is known of the test of a label: of several stores, what any of them knows. Nothing is no error; the error
// is one for which store.IsMiss doesn't hold, or store.ErrCorrupt for a file that isn't what Add has written.
func Read(ctx context.Context, s store.Store, label string) (*Known, error) {
	var k *Known
	var seen [][]string
	err := store.Anywhere(s, func(s store.Store) error {
		f, err := read(ctx, s, label)
		if err != nil {
			return err
		}
		entered, err := nameset.Decode(f.Entered)
		if err != nil {
			return fmt.Errorf("%w: frontiers of %s: %v", store.ErrCorrupt, label, err)
		}
		if len(seen) == 0 {
			k = &Known{Entered: entered}
		}
		for _, names := range f.Frontiers {
			if slices.ContainsFunc(seen, func(l []string) bool { return slices.Equal(l, names) }) || len(seen) == Max {
				continue
			}
			seen = append(seen, names)
			set := make(map[string]bool, len(names))
			for _, name := range names {
				set[name] = true
			}
			k.Frontiers = append(k.Frontiers, set)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return k, nil
}

// read returns the file of a test, which is empty if there is none.
func read(ctx context.Context, s store.Store, label string) (*file, error) {
	r, err := s.Get(ctx, keyOf(label))
	if err != nil {
		if store.IsMiss(err) {
			return new(file), nil
		}
		return nil, err
	}
	defer r.Close()
	damaged := func(why any) error { return fmt.Errorf("%w: frontiers of %s: %v", store.ErrCorrupt, label, why) }
	if r.Log.Size() > maxNames {
		return nil, damaged(fmt.Sprintf("%d bytes", r.Log.Size()))
	}
	b, err := io.ReadAll(r.Log)
	if err != nil {
		return nil, err
	}
	if b, err = packed.Unpack(b, 2*maxNames); err != nil {
		return nil, damaged(err)
	}
	var f file
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, damaged(err)
	}
	if f.Format != format || f.Label != label || len(f.Frontiers) > Max {
		return nil, damaged(fmt.Sprintf("it is of %s in format %d", f.Label, f.Format))
	}
	return &f, nil
}

// Add makes names the newest frontier of the test of a label, of an execution that may have entered what is said. The oldest are forgotten if there are more than
// Max, or if their names are too many. Of two who add at once one may be forgotten. Of several stores, it is enough if one takes it.
func Add(ctx context.Context, s store.Store, label string, names []string, entered nameset.Set) error {
	return store.Anywhere(s, func(s store.Store) error { return add(ctx, s, label, names, entered) })
}

func add(ctx context.Context, s store.Store, label string, names []string, entered nameset.Set) error {
	before, err := read(ctx, s, label)
	if err != nil && !store.IsMiss(err) {
		return err
	}
	f := file{Format: format, Label: label, Entered: entered.Encode()}
	var known [][]string
	if before != nil {
		known = before.Frontiers
	}
	if len(known) > 0 && slices.Equal(known[0], names) && bytes.Equal(before.Entered, f.Entered) {
		return nil
	}
	known = slices.DeleteFunc(known, func(l []string) bool { return slices.Equal(l, names) })
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
	if b, err = packed.Pack(b); err != nil {
		return err
	}
	now := time.Now().UTC().Truncate(time.Second)
	return s.Set(ctx, keyOf(label), &store.Result{Start: now, End: now, Log: store.Content(b)})
}
