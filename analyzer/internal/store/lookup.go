package store

import (
	"context"
	"sync"
	"time"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"golang.org/x/sync/errgroup"
)

// Info is a result without its contents.
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

// Outcome is the result of a look-up of one key.
type Outcome struct {
	// Info is that of the recorded result, or nil.
	Info *Info
	// Err is why there is none, as Get's error.
	Err error
}

// maxLookups bounds the look-ups under way at once.
const maxLookups = 64

// Lookup reports for each of keys whether there is a usable result: the
// entry is intact, and its contents are there with the right sizes.
// Only Get reads the contents, and may still find one damaged.
//
// The outcomes are in the order of keys, and independent of each other. After each key, Lookup calls progress, if
// that isn't nil, with the number of keys that are done. It doesn't call it concurrently.
func Lookup(ctx context.Context, s Store, keys []Key, progress func(done int)) []Outcome {
	outcomes := make([]Outcome, len(keys))
	var mu sync.Mutex
	done := 0
	var g errgroup.Group
	g.SetLimit(maxLookups)
	for i := range keys {
		g.Go(func() error {
			outcomes[i].Info, outcomes[i].Err = s.probe(ctx, keys[i])
			mu.Lock()
			defer mu.Unlock()
			if done++; progress != nil {
				progress(done)
			}
			return nil
		})
	}
	_ = g.Wait() // each outcome has its own error
	return outcomes
}
