package driver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/explain"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/report"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
)

const (
	maxExplain  = 30 * time.Second // for all tests
	maxRemember = 10 * time.Second // for one
	compared    = 3                // recorded fingerprints that a test is compared with
)

// eachReport calls do with all that the fingerprints of tests are made of, of several at once.
func eachReport(tests []*test, do func(t *test, r *fingerprint.Report, err error)) {
	var composed []*fingerprint.Composed
	for _, t := range tests {
		composed = append(composed, t.composition)
	}
	fingerprint.Reports(composed, func(i int, r *fingerprint.Report, err error) {
		if err == nil {
			r.Run, r.Key = tests[i].run.Parts(), tests[i].key.String()
		}
		do(tests[i], r, err)
	})
}

// explain finds out for each test that isn't recorded what is different from the
// nearest recorded fingerprint.
func (s *session) explain(ctx context.Context) {
	if s.Store == nil || !s.Read {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, maxExplain)
	defer cancel()
	texts := make([]string, len(s.tests))
	index := map[*test]int{}
	for i, t := range s.tests {
		index[t] = i
	}
	var recorded []*test
	var mu sync.Mutex
	parallel(transfers, s.tests, func(t *test) {
		if !t.hasKey() || ctx.Err() != nil {
			return
		}
		// What was never recorded costs nothing more.
		if f, err := explain.Read(ctx, s.storeOf(t), t.label); err == nil && len(f.Entries) > 0 {
			mu.Lock()
			defer mu.Unlock()
			recorded = append(recorded, t)
		}
	})
	eachReport(recorded, func(t *test, current *fingerprint.Report, err error) {
		if err != nil || ctx.Err() != nil {
			return
		}
		nearest, err := explain.Nearest(ctx, s.storeOf(t), t.label, current, compared)
		if errors.Is(err, explain.ErrNone) {
			return
		}
		if err != nil {
			texts[index[t]] = fmt.Sprintf("%s: no explanation: %v\n", t.label, err)
			return
		}
		c := explain.Compare(nearest.Report, current)
		t.changed, t.why = c.Changed(), c.Reason()
		if s.Explain {
			var b strings.Builder
			fmt.Fprintf(&b, "\n%s is run: since %s, recorded by %s,\n", t.label, nearest.Time.Format(time.RFC3339), nearest.Host)
			c.Text(&b, false)
			texts[index[t]] = b.String()
		}
	})
	if !s.Explain {
		return
	}
	for i, t := range s.tests {
		switch {
		case texts[i] != "":
			fmt.Fprint(s.Err, texts[i])
		case t.byTrace != (store.Key{}):
			fmt.Fprintf(s.Err, "\n%s isn't run: what it has executed is as it was (trace %s)\n", t.label, t.byTrace)
		case t.verdict == report.AlwaysRun || t.verdict == report.Miss:
			fmt.Fprintf(s.Err, "\n%s is run: %s\n", t.label, t.why)
		}
	}
}

// remember keeps what the fingerprints of recorded results are made of, for later
// explanations: of those of tests, with when they ended. The results themselves don't depend
// on it.
func (s *session) remember(ctx context.Context, recorded map[*test]time.Time) {
	eachReport(slices.Collect(maps.Keys(recorded)), func(t *test, r *fingerprint.Report, err error) {
		if err == nil {
			err = s.rememberOne(ctx, t, r, recorded[t])
		}
		if err != nil {
			s.refused.add("kept for later runs to be compared with", err)
		}
	})
}

func (s *session) rememberOne(ctx context.Context, t *test, r *fingerprint.Report, end time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, maxRemember)
	defer cancel()
	b, err := fingerprint.EncodeClosure(r)
	if err != nil {
		return err
	}
	if b, err = fingerprint.RecordedClosure(b, r.Run); err != nil {
		return err
	}
	host, _ := os.Hostname()
	return explain.Record(ctx, s.storeOf(t), t.label, t.key, host, end, b)
}
