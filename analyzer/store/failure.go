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

// RecordPass records a pass. After a failure with the same key the error is a
// *FlakyError. If it can't be told whether there was one, nothing is recorded;
// only a store that may not be read isn't asked.
func RecordPass(ctx context.Context, s Store, key Key, r *Result) error {
	f, err := s.Get(ctx, failureKey(key))
	switch {
	case err == nil:
		f.Close()
		return &FlakyError{f}
	case !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrNotAllowed):
		return fmt.Errorf("it can't be told whether the test has failed with the same fingerprint: %w", err)
	}
	return s.Put(ctx, key, r)
}
