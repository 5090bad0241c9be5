package store_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
)

// unreadable is a store that can be written, and read for a moment.
type unreadable struct {
	store.Store
	err error
}

func (u unreadable) Get(context.Context, store.Key) (*store.Result, error) { return nil, u.err }

// A pass is recorded if it is known that nothing speaks against it.
func TestRecordPass(t *testing.T) {
	key := Key("k")
	failed := Result("the log of a failure", "file", "that it wrote")
	failed.ExitCode = 1
	noted := func(t *testing.T, d *store.Disk, _ string) store.Store {
		if err := store.RecordFailure(ctx, d, key, failed); err != nil {
			t.Fatal(err)
		}
		return d
	}
	for _, c := range []struct {
		name     string
		with     func(t *testing.T, d *store.Disk, dir string) store.Store
		recorded bool
		flaky    bool
	}{
		{"nothing known", func(_ *testing.T, d *store.Disk, _ string) store.Store { return d }, true, false},
		{"a failure of another test", func(t *testing.T, d *store.Disk, _ string) store.Store {
			if err := store.RecordFailure(ctx, d, Key("other"), failed); err != nil {
				t.Fatal(err)
			}
			return d
		}, true, false},
		{"a failure", noted, false, true},
		{"a failure, and a cache that evicts blobs", func(t *testing.T, d *store.Disk, dir string) store.Store {
			noted(t, d, dir)
			err := filepath.WalkDir(filepath.Join(dir, "cas"), func(p string, e os.DirEntry, err error) error {
				if info, ierr := e.Info(); ierr == nil && !e.IsDir() && info.Size() > 0 {
					return os.Remove(p)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			return d
		}, false, true},
		{"a damaged note", func(t *testing.T, d *store.Disk, dir string) store.Store {
			noted(t, d, dir)
			err := filepath.WalkDir(filepath.Join(dir, "ac"), func(p string, e os.DirEntry, err error) error {
				if err == nil && !e.IsDir() {
					err = os.Truncate(p, 3)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			return d
		}, false, false},
		{"a withdrawn pass, and no note any more", func(t *testing.T, d *store.Disk, dir string) store.Store {
			if err := d.Set(ctx, key, failed); err != nil {
				t.Fatal(err)
			}
			return d
		}, false, true},
		{"notes can't be read", func(_ *testing.T, d *store.Disk, _ string) store.Store {
			return unreadable{d, errors.New("out of order")}
		}, false, false},
		{"the store may only be written", func(_ *testing.T, d *store.Disk, _ string) store.Store {
			return unreadable{d, store.ErrNotAllowed}
		}, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := newDir(t)
			d := store.OpenDisk(dir)
			err := store.RecordPass(ctx, c.with(t, d, dir), key, Result("passed"))
			var flaky *store.FlakyError
			if (err == nil) != c.recorded || errors.As(err, &flaky) != c.flaky {
				t.Errorf("%v", err)
			}
			r, err := d.Get(ctx, key)
			if (err == nil && r.ExitCode == 0) != c.recorded {
				t.Errorf("in the store: %v", err)
			}
			if err == nil {
				r.Close()
			}
		})
	}
}

// A failure withdraws a pass that was recorded before it.
func TestFailureAfterPass(t *testing.T) {
	d := store.OpenDisk(t.TempDir())
	key := Key("k")
	if err := store.RecordPass(ctx, d, key, Result("passed")); err != nil {
		t.Fatal(err)
	}
	failed := Result("failed")
	failed.ExitCode = 3
	for range 2 {
		if err := store.RecordFailure(ctx, d, key, failed); err != nil && !errors.Is(err, store.ErrExists) {
			t.Fatal(err)
		}
		r, err := d.Get(ctx, key)
		if err != nil || r.ExitCode == 0 {
			t.Fatalf("%+v, %v; want that it is withdrawn", r, err)
		}
		r.Close()
	}
	var flaky *store.FlakyError
	if err := store.RecordPass(ctx, d, key, Result("passed")); !errors.As(err, &flaky) {
		t.Errorf("%v, want that the test is flaky", err)
	}
}

// late is a store to which somebody else writes right before a result is put, and then, as on a
// server, the last one stays.
type late struct {
	store.Store
	key  store.Key
	then func()
}

func (l *late) Put(ctx context.Context, key store.Key, r *store.Result) error {
	if key == l.key {
		l.then()
	}
	return l.Store.Set(ctx, key, r)
}

// A failure that is recorded while a pass is on its way withdraws it.
func TestFailureMeanwhile(t *testing.T) {
	d := store.OpenDisk(t.TempDir())
	key := Key("k")
	failed := Result("failed")
	failed.ExitCode = 3
	l := &late{d, key, func() {
		if err := store.RecordFailure(ctx, d, key, failed); err != nil {
			t.Fatal(err)
		}
	}}
	var flaky *store.FlakyError
	if err := store.RecordPass(ctx, l, key, Result("passed")); !errors.As(err, &flaky) {
		t.Errorf("%v, want that the test is flaky", err)
	}
	r, err := d.Get(ctx, key)
	if err != nil || r.ExitCode == 0 {
		t.Fatalf("%+v, %v; want that it is withdrawn", r, err)
	}
	r.Close()
}

// A store in which a pass is withdrawn already doesn't hide another that still has it.
func TestFailureInLayers(t *testing.T) {
	near, far := t.TempDir(), t.TempDir()
	l, err := store.Open(near+","+far, store.Options{Mode: store.ReadWrite})
	if err != nil {
		t.Fatal(err)
	}
	key := Key("k")
	failed := Result("failed")
	failed.ExitCode = 1
	if err := errors.Join(store.OpenDisk(near).Set(ctx, key, failed), store.OpenDisk(far).Put(ctx, key, Result("passed"))); err != nil {
		t.Fatal(err)
	}
	if err := store.RecordFailure(ctx, l, key, failed); err != nil {
		t.Fatal(err)
	}
	r, err := store.OpenDisk(far).Get(ctx, key)
	if err != nil || r.ExitCode == 0 {
		t.Errorf("%+v, %v; want that it is withdrawn", r, err)
	}
}
