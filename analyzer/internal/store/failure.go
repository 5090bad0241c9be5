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

// failureKey is where failures are noted. They are never replayed: a failure is
// worth a second look. But a pass after a failure, with everything the same,
// shows that the fingerprint doesn't decide the outcome.
func failureKey(key Key) Key {
	b := frame.New("tasting failure 1")
	b.Bytes(key[:])
	return b.Sum()
}

// RecordFailure notes that a test with fingerprint key failed, with when and
// where of r. A note has no contents, so that there is nothing that a cache
// could evict without the note. A pass that is recorded, by whoever ran the test at the same
// time or earlier, is withdrawn.
func RecordFailure(ctx context.Context, s Store, key Key, r *Result) error {
	if l, ok := s.(*Layered); ok {
		// A store that has withdrawn it says nothing of those behind it.
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
	case !errors.Is(err, ErrNotAllowed): // who may not read withdraws what may be there
		return noted
	}
	return errors.Join(noted, s.Set(ctx, key, withdrawn(r)))
}

// withdrawn is what takes the place of a pass, because of a failure.
func withdrawn(failure *Result) *Result {
	return &Result{ExitCode: 1, Host: failure.Host, Start: failure.Start, End: failure.End, Log: Content(nil)}
}

// Noted returns nil if nothing is known of a failure with fingerprint key, a *FlakyError
// if there was one, and another error if that can't be told. A store that may not be read
// isn't asked. Of several stores each can have noted one; it is enough if one of them can be asked.
func Noted(ctx context.Context, s Store, key Key) error {
	unknown, flaky := notes(ctx, Each(s), key)
	if flaky == nil && !slices.Contains(unknown, nil) {
		return together(unknown)
	}
	return flaky
}

// notes asks each of stores for a failure. It returns why those couldn't be asked that couldn't, and a
// *FlakyError if there was one. A pass that was withdrawn is as good as a note, which caches may have removed.
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
		// What is there can't be told only if it can't be recorded either.
		if i, err := probe(ctx, s, key); err == nil && i.ExitCode != 0 {
			return nil, &FlakyError{&Result{ExitCode: i.ExitCode, Host: i.Host, Start: i.Start, End: i.End}}
		}
	}
	return unknown, nil
}

// RecordPass records a pass, unless Noted returns an error. Of several stores, those don't get it
// of which that can't be told. A failure that is noted while it is being recorded withdraws it.
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
	// RecordFailure notes it before it looks for a pass, so one of both sees the other.
	for _, noted := range stores {
		if f, err := noted.Get(ctx, failureKey(key)); err == nil {
			f.Close()
			return errors.Join(&FlakyError{f}, s.Set(ctx, key, withdrawn(f)))
		}
	}
	return recorded
}
