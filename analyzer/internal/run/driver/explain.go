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
	"sync/atomic"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/explain"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/report"
)

const (
	maxExplain  = 30 * time.Second // for all tests
	maxRemember = 10 * time.Second // for one
	maxCompared = 10               // recorded fingerprints that a test is compared with if the user asks
	fewCompared = 1                // and if not, for "tasting report"
	maxClosures = 256 << 20        // bytes of closures that are kept until the tests have run
)

// eachReport calls do with the report of each test's fingerprint, concurrently.
func eachReport(tests []*decision, do func(t *decision, r *fingerprint.Report, err error)) {
	composed := collect(tests, func(t *decision) *fingerprint.Composed { return t.composed })
	fingerprint.Reports(composed, func(i int, r *fingerprint.Report, err error) {
		if err == nil {
			r.Run, r.Key = tests[i].run.Parts(), tests[i].key.String()
		}
		do(tests[i], r, err)
	})
}

// explain compares the fingerprint of each test that isn't recorded with the
// nearest recorded fingerprint.
func (d *decisions) explain(ctx context.Context) {
	if d.Store == nil || !d.Read {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, maxExplain)
	defer cancel()
	known := slices.Clone(d.tests)
	parallel(transfers, len(known), func(i int) {
		t := known[i]
		known[i] = nil // no report is made of a test that was never recorded
		if t.hasKey() && ctx.Err() == nil {
			if f, err := explain.Read(ctx, d.storeOf(t), t.label); err == nil && len(f.Entries) > 0 {
				known[i] = t
			}
		}
	})
	known = slices.DeleteFunc(known, func(t *decision) bool { return t == nil })
	compared := fewCompared
	if d.Explain || d.DryRun {
		compared = maxCompared
	}
	var texts sync.Map // by *decision
	var kept atomic.Int64
	eachReport(known, func(t *decision, current *fingerprint.Report, err error) {
		if err != nil || ctx.Err() != nil {
			return
		}
		if d.Write && kept.Load() < maxClosures {
			t.closure, _ = closureOf(current) // else it is made once more
			kept.Add(int64(len(t.closure)))
		}
		nearest, err := explain.Nearest(ctx, d.storeOf(t), t.label, current, compared)
		if errors.Is(err, explain.ErrNone) {
			return
		}
		var b strings.Builder
		if err != nil {
			fmt.Fprintf(&b, "%s: no explanation: %v\n", t.label, err)
		} else {
			c := explain.Compare(nearest.Report, current)
			t.changed, t.why = c.Changed(), c.Reason()
			fmt.Fprintf(&b, "\n%s runs. Changed since the result recorded on %s, %s:\n", t.label, nearest.Host, nearest.Time.UTC().Format(time.DateTime+" UTC"))
			c.Text(&b, false)
		}
		texts.Store(t, b.String())
	})
	if !d.Explain {
		return
	}
	for _, t := range d.tests {
		switch text, ok := texts.Load(t); {
		case ok:
			fmt.Fprint(d.Err, text)
		case t.isByTrace():
			fmt.Fprintf(d.Err, "\n%s is replayed: the functions that it entered are as they were (trace %s)\n", t.label, t.byTrace.key)
		case t.hasRunner():
			fmt.Fprintf(d.Err, "\n%s: %s\n", t.label, byRunner)
		case t.verdict == report.AlwaysRun || t.verdict == report.Miss:
			fmt.Fprintf(d.Err, "\n%s runs: %s\n", t.label, t.why)
		}
		if t.isPartial() {
			fmt.Fprintf(d.Err, "%s: only cases run whose outcome isn't known, %s\n", t.label, t.cases)
		} else if t.byCases {
			fmt.Fprintf(d.Err, "\n%s is replayed: the outcome of each of its %d cases is known\n", t.label, t.cases.Len())
		}
	}
}

// recordClosures keeps the closures of recorded results, for later explanations. Ended has the time when each
// test ended.
func (r *recorder) recordClosures(ctx context.Context, ended map[*decision]time.Time) {
	host, _ := os.Hostname()
	do := func(t *decision, closure []byte, err error) {
		if err == nil {
			ctx, cancel := context.WithTimeout(ctx, maxRemember)
			defer cancel()
			err = explain.Record(ctx, r.storeOf(t), t.label, t.key, host, ended[t], closure)
		}
		if err != nil {
			r.addRefusal("kept for later runs to be compared with", err)
		}
	}
	all := slices.Collect(maps.Keys(ended))
	known := filter(all, func(t *decision) bool { return t.closure != nil })
	parallel(transfers, len(known), func(i int) { do(known[i], known[i].closure, nil) })
	eachReport(filter(all, func(t *decision) bool { return t.closure == nil }), func(t *decision, x *fingerprint.Report, err error) {
		var closure []byte
		if err == nil {
			closure, err = closureOf(x)
		}
		do(t, closure, err)
	})
}

// closureOf returns the closure file of a report for a recorded result.
func closureOf(x *fingerprint.Report) ([]byte, error) {
	b, err := fingerprint.EncodeClosure(x)
	if err != nil {
		return nil, err
	}
	return fingerprint.RecordedClosure(b, x.Run)
}
