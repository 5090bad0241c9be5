package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Layered is several stores, the nearest first, as Bazel combines --disk_cache
// with --remote_cache. A result that only a store further away has is copied to
// the nearer ones if they may be written. Results are recorded in all of them.
type Layered struct{ stores []Store }

// String returns the locations.
func (l *Layered) String() string {
	return joined(l.stores, ",")
}

// joined returns the texts of a list, with a separator between them.
func joined[T any](list []T, separator string) string {
	var s []string
	for _, x := range list {
		s = append(s, fmt.Sprint(x))
	}
	return strings.Join(s, separator)
}

// Get implements Store. A store that can't be read doesn't keep others from
// being asked; if none of these has a result, the error is no miss. If a nearer
// store has noted that the test failed, that is the result.
func (l *Layered) Get(ctx context.Context, key Key) (*Result, error) {
	r, missed, err := nearest(l.stores, key, func(s Store, key Key) (*Result, error) { return s.Get(ctx, key) })
	for _, near := range missed {
		// The result is there, whether this works, or the mode allows it, or not.
		_ = near.Put(ctx, key, r)
	}
	return r, err
}

// probe implements Store.
func (l *Layered) probe(ctx context.Context, key Key) (*Info, error) {
	info, _, err := nearest(l.stores, key, func(s Store, key Key) (*Info, error) { return s.probe(ctx, key) })
	return info, err
}

// nearest returns the first result of stores under key, and which nearer stores miss it. If one of these
// has noted a failure, that is the result, and no store misses it.
func nearest[T any](stores []Store, key Key, get func(Store, Key) (T, error)) (result T, missed []Store, err error) {
	var errs []error
	for i, s := range stores {
		if result, err = get(s, key); err != nil {
			errs = append(errs, err)
			continue
		}
		for _, near := range stores[:i] {
			if failure, err := get(near, failureKey(key)); err == nil {
				if c, ok := any(result).(io.Closer); ok {
					c.Close()
				}
				return failure, nil, nil
			}
		}
		return result, stores[:i], nil
	}
	return result, nil, noResult(errs)
}

// noResult returns the error for several stores without a result: that some can't
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
		return joinedErrors(unusable)
	}
	return worst
}

// Put implements Store. The result is recorded wherever that is possible.
func (l *Layered) Put(ctx context.Context, key Key, r *Result) error {
	return write(l.stores, func(_ int, s Store) error { return s.Put(ctx, key, r) })
}

// Set implements Store.
func (l *Layered) Set(ctx context.Context, key Key, r *Result) error {
	return write(l.stores, func(_ int, s Store) error { return s.Set(ctx, key, r) })
}

// write calls f for each of stores. ErrNotAllowed from one is no failure if another takes the result.
func write(stores []Store, f func(i int, s Store) error) error {
	var failed, exists, forbidden []error
	for i, s := range stores {
		switch err := f(i, s); {
		case errors.Is(err, ErrExists):
			exists = append(exists, err)
		case errors.Is(err, ErrNotAllowed):
			forbidden = append(forbidden, err)
		case err != nil:
			failed = append(failed, err)
		}
	}
	switch {
	case len(failed)+len(forbidden) == len(stores):
		return joinedErrors(append(failed, forbidden...))
	case len(failed) > 0:
		return fmt.Errorf("%w: %w", ErrPartly, joinedErrors(failed))
	case len(exists)+len(forbidden) == len(stores):
		return exists[0]
	}
	return nil
}

// Each returns the stores that s consists of, the nearest first, or s itself. A caller who reads an
// entry to change it must do so in each of them: Get of several stores may return another store's entry.
func Each(s Store) []Store {
	if l, ok := s.(*Layered); ok {
		return l.stores
	}
	return []Store{s}
}

// Anywhere calls f with each of the stores that s consists of. It returns nil if f succeeds with one of them,
// else an error as Get does.
func Anywhere(s Store, f func(Store) error) error {
	var failed []error
	all := Each(s)
	for _, s := range all {
		if err := f(s); err != nil {
			failed = append(failed, err)
		}
	}
	if len(failed) == len(all) {
		return noResult(failed)
	}
	return nil
}

// joinedErrors are the errors of several stores, in one line.
type joinedErrors []error

func (l joinedErrors) Unwrap() []error { return l }

func (l joinedErrors) Error() string { return joined(l, "; ") }
