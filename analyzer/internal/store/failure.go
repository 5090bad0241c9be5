package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/frame"
)

// FlakyError is why a pass isn't recorded.
type FlakyError struct{ Failure *Result }

func (e *FlakyError) Error() string {
	return fmt.Sprintf("the test failed with the same fingerprint on %s, on %s: it is flaky, or depends on something that isn't declared",
		e.Failure.End.Format(time.RFC3339), e.Failure.Host)
}

// failureKey is the key for a note that the test failed with a key. Failures
// are never replayed. But a pass after a failure shows that the test is flaky.
func failureKey(key Key) Key {
	b := frame.New("tasting failure 1")
	b.Bytes(key[:])
	return b.Sum()
}

// RecordFailure notes that a test with fingerprint key failed, with the times and the
// host of r. A note has no contents, so that a cache can't evict them without the note.
// A failure withdraws a recorded pass for the same key, even one that another machine wrote meanwhile.
func RecordFailure(ctx context.Context, s Store, key Key, r *Result) error {
	if l, ok := s.(*Layered); ok {
		// The other stores may still have a pass.
		return write(l.stores, func(_ int, s Store) error { return RecordFailure(ctx, s, key, r) })
	}
	note := &Result{ExitCode: r.ExitCode, Host: r.Host, Start: r.Start, End: r.End, Log: Content(nil)}
	noted := s.Put(ctx, failureKey(key), note)
	pass, err := s.Get(ctx, key)
	switch {
	case err == nil:
		pass.Close()
		if pass.ExitCode != 0 {
			return noted
		}
	case !errors.Is(err, ErrNotAllowed): // if the mode forbids reading, there may be a pass
		return noted
	}
	return errors.Join(noted, s.Set(ctx, key, withdrawn(r)))
}

// withdrawn returns the result that replaces a pass because of a failure.
func withdrawn(failure *Result) *Result {
	return &Result{ExitCode: 1, Host: failure.Host, Start: failure.Start, End: failure.End, Log: Content(nil)}
}

// Noted returns a *FlakyError if a failure with fingerprint key is known, nil if none is, and
// another error if no store can be read. A store that the mode forbids to read is skipped. Each of
// several stores may have noted a failure.
func Noted(ctx context.Context, s Store, key Key) error {
	unknown, flaky := notes(ctx, Each(s), key)
	if flaky == nil && !slices.Contains(unknown, nil) {
		return joinedErrors(unknown)
	}
	return flaky
}

// notes looks for a failure in each of stores. It returns for each store why that couldn't be read, or nil,
// and a *FlakyError if there was a failure. A withdrawn pass counts as a note, which caches may have removed.
func notes(ctx context.Context, stores []Store, key Key) (unknown []error, flaky error) {
	unknown = make([]error, len(stores))
	for i, s := range stores {
		f, err := s.Get(ctx, failureKey(key))
		switch {
		case err == nil:
			f.Close()
			return nil, &FlakyError{f}
		case !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrNotAllowed):
			unknown[i] = fmt.Errorf("it can't be told whether the test has failed with the same fingerprint: %w", err)
			continue
		}
		// If that fails, recording will fail as well.
		if i, err := s.probe(ctx, key); err == nil && i.ExitCode != 0 {
			return nil, &FlakyError{&Result{ExitCode: i.ExitCode, Host: i.Host, Start: i.Start, End: i.End}}
		}
	}
	return unknown, nil
}

// RecordPass records a pass, unless Noted returns an error. A store that can't be read for notes
// doesn't get it. A failure that is noted while the pass is being recorded withdraws it.
func RecordPass(ctx context.Context, s Store, key Key, r *Result) error {
	stores := Each(s)
	unknown, flaky := notes(ctx, stores, key)
	if flaky != nil {
		return flaky
	}
	recorded := write(stores, func(i int, s Store) error {
		if unknown[i] != nil {
			return unknown[i]
		}
		return s.Put(ctx, key, r)
	})
	if recorded != nil && !errors.Is(recorded, ErrPartly) {
		return recorded
	}
	// RecordFailure writes its note before it looks for a pass, so one of the two sees the other.
	for _, noted := range stores {
		if f, err := noted.Get(ctx, failureKey(key)); err == nil {
			f.Close()
			return errors.Join(&FlakyError{f}, s.Set(ctx, key, withdrawn(f)))
		}
	}
	return recorded
}
