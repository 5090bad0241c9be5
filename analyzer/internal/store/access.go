package store

import (
	"context"
	"errors"
	"fmt"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
)

// backend is a place for entries and contents: a directory or a server.
type backend interface {
	// String returns where it is.
	String() string
	// entry returns the bytes of an entry, or ErrNotFound, or ErrCorrupt.
	entry(ctx context.Context, key Key) ([]byte, error)
	// result returns the result that an entry describes, with verified contents.
	result(ctx context.Context, key Key, e *repb.ActionResult) (*Result, error)
	// check returns an error unless the contents of an entry are there, with the right sizes.
	check(ctx context.Context, key Key, e *repb.ActionResult) error
	// used marks an entry as used now.
	used(key Key)
	// put records a result where there is none, or a damaged one.
	put(ctx context.Context, key Key, r *Result, damaged bool) error
	// set records a result over any other one.
	set(ctx context.Context, key Key, r *Result) error
}

// access makes a Store of a backend. It does what the mode allows.
type access struct {
	backend
	mode Mode
}

func (a *access) notAllowed(what string) error {
	return fmt.Errorf("%w: %s must not be %s (mode %s)", ErrNotAllowed, a, what, a.mode)
}

// Get implements Store.
func (a *access) Get(ctx context.Context, key Key) (*Result, error) {
	if !a.mode.CanRead() {
		return nil, a.notAllowed("read")
	}
	r, err := a.get(ctx, key)
	if err == nil {
		a.used(key)
	}
	return r, err
}

func (a *access) get(ctx context.Context, key Key) (*Result, error) {
	e, err := a.readEntry(ctx, key)
	if err != nil {
		return nil, err
	}
	return a.result(ctx, key, e)
}

func (a *access) readEntry(ctx context.Context, key Key) (*repb.ActionResult, error) {
	data, err := a.entry(ctx, key)
	if errors.Is(err, ErrNotFound) {
		return nil, fmt.Errorf("%w for %s in %s", ErrNotFound, key, a)
	}
	if err != nil {
		return nil, err
	}
	e, err := readEntry(key, data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a, err)
	}
	return e, nil
}

// probe implements Store.
func (a *access) probe(ctx context.Context, key Key) (*Info, error) {
	if !a.mode.CanRead() {
		return nil, a.notAllowed("read")
	}
	e, err := a.readEntry(ctx, key)
	if err != nil {
		return nil, err
	}
	if err := a.check(ctx, key, e); err != nil {
		return nil, err
	}
	a.used(key)
	return infoOf(e), nil
}

// Put implements Store. An entry that merely can't be read now, as with too many open files, may be whole and stays.
func (a *access) Put(ctx context.Context, key Key, r *Result) error {
	switch {
	case !a.mode.CanWrite():
		return a.notAllowed("written")
	case !a.mode.CanRead():
		return a.set(ctx, key, r)
	}
	old, err := a.get(ctx, key)
	if err == nil {
		old.Close()
		return fmt.Errorf("%w for %s in %s", ErrExists, key, a)
	}
	if !IsMiss(err) {
		return err
	}
	return a.put(ctx, key, r, !errors.Is(err, ErrNotFound))
}

// Set implements Store.
func (a *access) Set(ctx context.Context, key Key, r *Result) error {
	if !a.mode.CanWrite() {
		return a.notAllowed("written")
	}
	return a.set(ctx, key, r)
}
