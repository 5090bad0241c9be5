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

// recorder records results. What a store hasn't kept it counts, by what that means, each with an example of why: a store that is
// full or down refuses everything, and that is said once.
type recorder struct {
	*invocation
	mu       sync.Mutex
	refusals map[string]refusal
}

type refusal struct {
	n   int
	why string
}

func (r *recorder) addRefusal(what string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refusals == nil {
		r.refusals = map[string]refusal{}
	}
	why := strings.TrimPrefix(err.Error(), store.ErrPartly.Error()+": ")
	r.refusals[what] = refusal{r.refusals[what].n + 1, max(r.refusals[what].why, why)}
}

// sayRefusals says what hasn't been kept.
func (r *recorder) sayRefusals() {
	for _, what := range slices.Sorted(maps.Keys(r.refusals)) {
		x := r.refusals[what]
		r.say("warning: %s not %s: %s", map[bool]string{true: "1 result is", false: fmt.Sprint(x.n, " results are")}[x.n == 1], what, x.why)
	}
}

// recordPass records a pass of a test under a key. By says under which, if that isn't its fingerprint alone.
func (r *recorder) recordPass(ctx context.Context, t *decision, key store.Key, by string, result *store.Result) error {
	err := store.RecordPass(ctx, r.storeOf(t), key, result)
	var flaky *store.FlakyError
	switch {
	case errors.As(err, &flaky):
		r.say("%s isn't recorded%s: %v", t.label, by, err)
	case errors.Is(err, store.ErrPartly):
		r.addRefusal("recorded everywhere"+by, err)
	case !store.IsRecorded(err):
		r.addRefusal("recorded"+by, err)
	}
	return err
}
