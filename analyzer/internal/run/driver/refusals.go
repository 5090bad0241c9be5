package driver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
)

// refusals count what a store hasn't kept, by what that means for it, each with an example of why. A store that is
// full or down refuses everything: that is said once.
type refusals struct {
	mu sync.Mutex
	of map[string]refusal
}

type refusal struct {
	n   int
	why string
}

func (r *refusals) add(what string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = map[string]refusal{}
	}
	why := strings.TrimPrefix(err.Error(), store.ErrPartly.Error()+": ")
	r.of[what] = refusal{r.of[what].n + 1, max(r.of[what].why, why)}
}

// tellRefused says what hasn't been kept since it was called before.
func (s *session) tellRefused() {
	s.refused.mu.Lock()
	defer s.refused.mu.Unlock()
	for _, what := range slices.Sorted(maps.Keys(s.refused.of)) {
		r := s.refused.of[what]
		s.say("warning: %s not %s: %s", map[bool]string{true: "1 result is", false: fmt.Sprint(r.n, " results are")}[r.n == 1], what, r.why)
	}
	clear(s.refused.of)
}

// recordPass records a pass of a test under a key. By says under which, if that isn't its fingerprint alone.
func (s *session) recordPass(ctx context.Context, t *test, key store.Key, by string, r *store.Result) error {
	err := store.RecordPass(ctx, s.storeOf(t), key, r)
	var flaky *store.FlakyError
	switch {
	case errors.As(err, &flaky):
		s.say("%s isn't recorded%s: %v", t.label, by, err)
	case errors.Is(err, store.ErrPartly):
		s.refused.add("recorded everywhere"+by, err)
	case !store.IsRecorded(err):
		s.refused.add("recorded"+by, err)
	}
	return err
}
