package store

import (
	"context"
	"fmt"
	"sync"
	"time"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"golang.org/x/sync/errgroup"
)

// Info is what an entry says without its contents.
type Info struct {
	ExitCode   int
	Host       string
	Start, End time.Time
}

func infoOf(e *repb.ActionResult) *Info {
	m := e.ExecutionMetadata
	return &Info{
		ExitCode: int(e.ExitCode),
		Host:     m.Worker,
		Start:    m.ExecutionStartTimestamp.AsTime(),
		End:      m.ExecutionCompletedTimestamp.AsTime(),
	}
}

// Outcome is what a store says about one key.
type Outcome struct {
	// Info is that of the recorded result, or nil.
	Info *Info
	// Err is why there is none, as Get's error.
	Err error
}

// DefaultConcurrency is how many look-ups are under way at once unless
// LookupOptions says otherwise.
const DefaultConcurrency = 64

// givenUp is the number of failures in a row after which Lookup doesn't try
// any more.
const givenUp = 16

// LookupOptions are options of Lookup.
type LookupOptions struct {
	Concurrency int // 0: DefaultConcurrency
	// Progress, if there is one, is called after each key with the number of
	// those that are done, not concurrently.
	Progress func(done int)
}

// Lookup tells for each of keys whether there is a usable result: whether the
// entry is what was written, and its contents are there with the right sizes.
// The contents aren't read; Get does that, and may still find one damaged.
//
// The outcomes are in the order of keys, and independent of each other, except
// that a store which has failed too often in a row isn't asked again: then the
// remaining keys have the last error. So a store that is out of reach costs the
// time of a few calls.
func Lookup(ctx context.Context, s Store, keys []Key, o LookupOptions) []Outcome {
	n := o.Concurrency
	if n <= 0 {
		n = DefaultConcurrency
	}
	outcomes := make([]Outcome, len(keys))
	var mu sync.Mutex
	done, failures := 0, 0
	var last error
	var g errgroup.Group
	g.SetLimit(n)
	for i := range keys {
		g.Go(func() error {
			mu.Lock()
			give := failures >= givenUp
			err := last
			mu.Unlock()
			if give {
				err = fmt.Errorf("not looked up after %d failures in a row: %w", givenUp, err)
			} else {
				outcomes[i].Info, err = probe(ctx, s, keys[i])
			}
			outcomes[i].Err = err
			mu.Lock()
			defer mu.Unlock()
			done++
			switch {
			case give:
			case err == nil || IsMiss(err):
				failures = 0
			default:
				failures++
				last = err
			}
			if o.Progress != nil {
				o.Progress(done)
			}
			return nil
		})
	}
	_ = g.Wait() // each outcome has its own error
	return outcomes
}

// probe looks up one key, without reading contents if s can do that.
func probe(ctx context.Context, s Store, key Key) (*Info, error) {
	if p, ok := s.(interface {
		probe(context.Context, Key) (*Info, error)
	}); ok {
		return p.probe(ctx, key)
	}
	r, err := s.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return &Info{ExitCode: r.ExitCode, Host: r.Host, Start: r.Start, End: r.End}, nil
}
