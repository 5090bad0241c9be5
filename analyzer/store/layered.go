package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Layered is several stores, the nearest first, as Bazel combines --disk_cache
// with --remote_cache. A result that only a store further away has is copied to
// the nearer ones if they may be written. Results are recorded in all of them.
type Layered struct {
	stores []Store
	mode   Mode
}

// String returns the locations.
func (l *Layered) String() string {
	var names []string
	for _, s := range l.stores {
		names = append(names, fmt.Sprint(s))
	}
	return strings.Join(names, ",")
}

// Close closes all of the stores.
func (l *Layered) Close() error {
	var errs []error
	for _, s := range l.stores {
		errs = append(errs, Close(s))
	}
	return errors.Join(errs...)
}

// Get implements Store. A store that can't be read doesn't keep others from
// being asked; if none of these has a result, the error is no miss.
func (l *Layered) Get(ctx context.Context, key Key) (*Result, error) {
	var errs []error
	for i, s := range l.stores {
		r, err := s.Get(ctx, key)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if l.mode.CanWrite() {
			for _, near := range l.stores[:i] {
				// The result is there, whether this works or not.
				_ = near.Put(ctx, key, r)
			}
		}
		return r, nil
	}
	return nil, noResult(errs)
}

func (l *Layered) probe(ctx context.Context, key Key) (*Info, error) {
	var errs []error
	for _, s := range l.stores {
		i, err := probe(ctx, s, key)
		if err == nil {
			return i, nil
		}
		errs = append(errs, err)
	}
	return nil, noResult(errs)
}

// noResult returns what stores say, none of which has a result: that some can't
// be used, or else that an entry is damaged, or else that there is none.
func noResult(errs []error) error {
	var unusable []error
	worst := errs[0]
	for _, err := range errs {
		if !IsMiss(err) {
			unusable = append(unusable, err)
		}
		if !errors.Is(err, ErrNotFound) && errors.Is(worst, ErrNotFound) {
			worst = err
		}
	}
	if len(unusable) > 0 {
		return errors.Join(unusable...)
	}
	return worst
}

// Put implements Store. The result is recorded wherever that is possible.
func (l *Layered) Put(ctx context.Context, key Key, r *Result) error {
	return l.write(func(s Store) error { return s.Put(ctx, key, r) })
}

// Set implements Store.
func (l *Layered) Set(ctx context.Context, key Key, r *Result) error {
	return l.write(func(s Store) error { return s.Set(ctx, key, r) })
}

func (l *Layered) write(f func(Store) error) error {
	var failed, exists []error
	for _, s := range l.stores {
		switch err := f(s); {
		case errors.Is(err, ErrExists):
			exists = append(exists, err)
		case err != nil:
			failed = append(failed, err)
		}
	}
	switch {
	case len(failed) == len(l.stores):
		return errors.Join(failed...)
	case len(failed) > 0:
		return fmt.Errorf("%w: %w", ErrPartly, errors.Join(failed...))
	case len(exists) == len(l.stores):
		return exists[0]
	}
	return nil
}
