// Package frontier keeps the functions that executions of a test didn't enter, next to the recorded results.
//
// A test that was traced has two keys: its fingerprint, and the key of its trace, which ends where the execution
// did (docs/explanation/traces.md). The trace key of another version can be computed only with the functions where the walk
// stops: reachable ones that the execution didn't enter. They are the frontier of that execution. So a test without
// a result for its fingerprint is looked up by each known frontier, the newest first.
//
// Frontiers can't make a result wrong. The functions of a frontier are part of the key that is looked up, and a result is
// recorded under that key only after an execution that passed. A frontier that is lost, damaged or of another test
// leads to a key without a result.
//
// The newest frontier comes with the functions that its execution entered: when the test is executed again,
// they need no breakpoints.
//
// A Program has the files that a test is composed of, so that the runner can compose it given a frontier.
package frontier

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/nameset"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
)

const (
	// Max is how many frontiers of a test are kept.
	Max = 8
	// maxNames bounds the size in bytes of all names of a test, maxFile that of the file that has them.
	maxNames = 16 << 20
	maxFile  = 2 * maxNames
)

// format is the version of the file.
//
// History:
//
//	1  first version; later with entered and refused, which others do without
const format = 1

// file is the file of a test.
type file struct {
	Format int    `json:"format"`
	Label  string `json:"label"`
	// Frontiers are the newest first.
	Frontiers [][]string `json:"frontiers"`
	// Entered is a nameset.Set, of the first of them.
	Entered []byte `json:"entered,omitempty"`
	// Refused: there will be no frontiers.
	Refused bool `json:"refused,omitempty"`
}

// Known is the knowledge about executions of a test.
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

// Read returns the knowledge that any of several stores has about the test of a label. It is no error if there is none. The
// error is store.ErrCorrupt for a file that Add hasn't written, else one for which store.IsMiss doesn't hold.
func Read(ctx context.Context, s store.Store, label string) (*Known, error) {
	k, refused := new(Known), false
	var seen [][]string
	err := store.Anywhere(s, func(s store.Store) error {
		f, err := read(ctx, s, label)
		if err != nil {
			return err
		}
		refused = refused || f.Refused
		entered, err := nameset.Decode(f.Entered)
		if err != nil {
			return fmt.Errorf("%w: frontiers of %s: %v", store.ErrCorrupt, label, err)
		}
		if len(seen) == 0 {
			k.Entered = entered
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
	if refused {
		return new(Known), nil
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
	f := new(file)
	if err := r.ReadDocument(f, maxFile); err != nil {
		return nil, fmt.Errorf("frontiers of %s: %w", label, err)
	}
	if f.Format != format || f.Label != label || len(f.Frontiers) > Max {
		return nil, fmt.Errorf("%w: frontiers of %s: it is of %s in format %d", store.ErrCorrupt, label, f.Label, f.Format)
	}
	return f, nil
}

// Add makes names the newest frontier of the test of a label, by an execution that may have entered the functions of entered.
// It drops the oldest frontiers if there are more than Max, or too many names. If two processes add at once, one frontier may be
// lost. It is enough if one of several stores takes it.
func Add(ctx context.Context, s store.Store, label string, names []string, entered nameset.Set) error {
	return store.Anywhere(s, func(s store.Store) error { return add(ctx, s, label, names, entered) })
}

func add(ctx context.Context, s store.Store, label string, names []string, entered nameset.Set) error {
	before, err := read(ctx, s, label)
	if err != nil && !store.IsMiss(err) {
		return err
	}
	if before == nil {
		before = new(file)
	}
	if before.Refused {
		return nil
	}
	f, known := file{Format: format, Label: label, Entered: entered.Encode()}, before.Frontiers
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
	return store.SetDocument(ctx, s, keyOf(label), f)
}

// Refuse drops the frontiers of the test of a label for good: its executions enter different functions by chance.
func Refuse(ctx context.Context, s store.Store, label string) error {
	return store.Anywhere(s, func(s store.Store) error {
		return store.SetDocument(ctx, s, keyOf(label), file{Format: format, Label: label, Refused: true})
	})
}
