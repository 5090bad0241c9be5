package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/frame"
)

// Health is how one location of a store answers.
type Health struct {
	Location string // without secrets
	About    []string
	// Read and Write are how long a look-up without a hit and a recording took.
	Read, Write       time.Duration
	ReadErr, WriteErr error // nil if it works or isn't allowed
	CanRead, CanWrite bool  // what the mode allows
}

// OK reports whether everything works that the mode allows.
func (h *Health) OK() bool { return h.ReadErr == nil && h.WriteErr == nil }

// Ping tries each location of s: a look-up, and if s may be written, a small
// entry under a key of its own, which is read again if s may be read.
func Ping(ctx context.Context, s Store) (all []Health) {
	for _, s := range Each(s) {
		h := Health{Location: fmt.Sprint(s)}
		mode := Off
		switch s := s.(type) {
		case *Disk:
			mode, h.About = s.mode, []string{"directory"}
		case *Remote:
			mode = s.mode
			h.About, h.ReadErr = s.describe(ctx)
		}
		h.CanRead, h.CanWrite = mode.CanRead(), mode.CanWrite()
		if h.CanRead && h.ReadErr == nil {
			h.Read, h.ReadErr = timed(func() error { return pingRead(ctx, s) })
		}
		if h.CanWrite && h.ReadErr == nil {
			h.Write, h.WriteErr = timed(func() error { return pingWrite(ctx, s, h.CanRead) })
		}
		all = append(all, h)
	}
	return all
}

func timed(f func() error) (time.Duration, error) {
	start := time.Now()
	err := f()
	return time.Since(start), err
}

func pingRead(ctx context.Context, s Store) error {
	var key Key // that nobody has recorded anything under
	rand.Read(key[:])
	r, err := s.Get(ctx, key)
	if err == nil {
		r.Close()
		return fmt.Errorf("%s has a result for a key that is new", s)
	}
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

func pingWrite(ctx context.Context, s Store, read bool) error {
	b := frame.New("tasting ping 1")
	key := Key(b.Sum())
	now := time.Now()
	r := &Result{Start: now, End: now, Log: Content([]byte("tasting store ping\n"))}
	r.Host, _ = os.Hostname()
	if err := s.Set(ctx, key, r); err != nil || !read {
		return err
	}
	got, err := s.Get(ctx, key)
	if err != nil {
		return fmt.Errorf("what was written can't be read: %w", err)
	}
	return got.Close()
}
