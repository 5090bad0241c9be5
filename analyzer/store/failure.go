package store

import (
	"context"
	"fmt"
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

// RecordFailure notes that a test with fingerprint key failed.
func RecordFailure(ctx context.Context, s Store, key Key, r *Result) error {
	return s.Put(ctx, failureKey(key), r)
}

// RecordPass records a pass. After a failure with the same key the error is a
// *FlakyError.
func RecordPass(ctx context.Context, s Store, key Key, r *Result) error {
	if f, err := s.Get(ctx, failureKey(key)); err == nil {
		f.Close()
		return &FlakyError{f}
	}
	return s.Put(ctx, key, r)
}
