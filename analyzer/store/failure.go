package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/frame"
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
		return l.write(func(s Store) error { return RecordFailure(ctx, s, key, r) })
	}
	empty := io.NewSectionReader(strings.NewReader(""), 0, 0)
	note := &Result{ExitCode: r.ExitCode, Host: r.Host, Start: r.Start, End: r.End, Log: empty}
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
	return errors.Join(noted, s.Set(ctx, key, &Result{ExitCode: 1, Host: r.Host, Start: r.Start, End: r.End, Log: empty}))
}

// Noted returns nil if nothing is known of a failure with fingerprint key, a *FlakyError
// if there was one, and another error if that can't be told. A store that may not be read
// isn't asked. A pass that was withdrawn is as good as a note, which caches may have removed.
func Noted(ctx context.Context, s Store, key Key) error {
	f, err := s.Get(ctx, failureKey(key))
	switch {
	case err == nil:
		f.Close()
		return &FlakyError{f}
	case !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrNotAllowed):
		return fmt.Errorf("it can't be told whether the test has failed with the same fingerprint: %w", err)
	}
	// What is there can't be told only if it can't be recorded either.
	if i, err := probe(ctx, s, key); err == nil && i.ExitCode != 0 {
		return &FlakyError{&Result{ExitCode: i.ExitCode, Host: i.Host, Start: i.Start, End: i.End}}
	}
	return nil
}

// RecordPass records a pass, unless Noted returns an error. A failure that is noted while it is
// being recorded withdraws it.
func RecordPass(ctx context.Context, s Store, key Key, r *Result) error {
	if err := Noted(ctx, s, key); err != nil {
		return err
	}
	if err := s.Put(ctx, key, r); err != nil {
		return err
	}
	// RecordFailure notes it before it looks for a pass, so one of both sees the other.
	f, err := s.Get(ctx, failureKey(key))
	if err != nil {
		return nil
	}
	f.Close()
	empty := io.NewSectionReader(strings.NewReader(""), 0, 0)
	return errors.Join(&FlakyError{f}, s.Set(ctx, key, &Result{ExitCode: 1, Host: f.Host, Start: f.Start, End: f.End, Log: empty}))
}
