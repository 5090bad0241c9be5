package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/frame"
)

// Health is how one location of a store answers.
type Health struct {
	Location string // without secrets
	About    []string
	// Read and Write are how long a look-up without a hit and a recording took;
	// zero if they weren't tried or have failed.
	Read, Write       time.Duration
	ReadErr, WriteErr error // nil if it works or isn't allowed
	CanRead, CanWrite bool  // what the mode allows
}

// OK tells whether all works that is allowed.
func (h *Health) OK() bool { return h.ReadErr == nil && h.WriteErr == nil }

// Ping tries each location of s: a look-up, and if s may be written, a small
// entry under a key of its own, which is read again if s may be read.
func Ping(ctx context.Context, s Store) []Health {
	if l, ok := s.(*Layered); ok {
		var all []Health
		for _, s := range l.stores {
			all = append(all, Ping(ctx, s)...)
		}
		return all
	}
	h := Health{Location: fmt.Sprint(s)}
	switch s := s.(type) {
	case *Disk:
		h.CanRead, h.CanWrite = s.mode.CanRead(), s.mode.CanWrite()
		h.About = []string{"directory"}
	case *Remote:
		h.CanRead, h.CanWrite = s.mode.CanRead(), s.mode.CanWrite()
		about, err := s.protocol.describe(ctx)
		if err != nil {
			h.ReadErr = err
			return []Health{h}
		}
		h.About = about
	}
	if h.CanRead {
		var key Key // that nobody has recorded anything under
		rand.Read(key[:])
		start := time.Now()
		r, err := s.Get(ctx, key)
		if err == nil {
			r.Close()
			err = fmt.Errorf("%s has a result for a key that is new", h.Location)
		}
		if errors.Is(err, ErrNotFound) {
			h.Read, err = time.Since(start), nil
		}
		h.ReadErr = err
	}
	if h.CanWrite && h.ReadErr == nil {
		start := time.Now()
		if h.WriteErr = pingWrite(ctx, s, h.CanRead); h.WriteErr == nil {
			h.Write = time.Since(start)
		}
	}
	return []Health{h}
}

func pingWrite(ctx context.Context, s Store, read bool) error {
	b := frame.New("tasting ping 1")
	key := Key(b.Sum())
	text := "tasting store ping\n"
	now := time.Now()
	r := &Result{Start: now, End: now, Log: io.NewSectionReader(strings.NewReader(text), 0, int64(len(text)))}
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
