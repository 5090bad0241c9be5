package driver

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/history"
	"github.com/rules-tasting/rules_tasting/analyzer/report"
)

const (
	maxExplain  = 30 * time.Second // for all tests
	maxRemember = 10 * time.Second // for one
	compared    = 3                // recorded fingerprints that a test is compared with
)

// namedParts are contributions as explanations have them. What may be a secret
// is there with 16 bits of its hash only: see fingerprint.Run.Parts.
func namedParts(l []fingerprint.Contribution) []fingerprint.Part {
	var parts []fingerprint.Part
	for _, c := range l {
		p := fingerprint.Part{Name: c.Name, Sum: c.SHA256}
		if !strings.HasPrefix(c.Name, systemLibrary) {
			p.Sum = p.Sum[:4]
		}
		parts = append(parts, p)
	}
	return parts
}

// explainable returns all that a test's fingerprint is made of.
func (t *test) explainable() (*fingerprint.Report, error) {
	r, err := t.closure()
	if err != nil {
		return nil, err
	}
	r.Run, r.Key = namedParts(t.parts), t.key.String()
	return r, nil
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
	parallel(runtime.NumCPU(), s.tests, func(t *test) {
		if !t.hasKey() || ctx.Err() != nil {
			return
		}
		if f, err := history.Read(ctx, s.storeOf(t), t.label); err != nil || len(f.Entries) == 0 {
			return // it was never recorded, and so costs nothing more
		}
		current, err := t.explainable()
		if err != nil {
			return
		}
		nearest, err := history.Nearest(ctx, s.storeOf(t), t.label, current, compared)
		if errors.Is(err, history.ErrNone) {
			return
		}
		if err != nil {
			texts[index[t]] = fmt.Sprintf("%s: no explanation: %v\n", t.label, err)
			return
		}
		c := fingerprint.Explain(nearest.Report, current)
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
		case t.verdict == report.AlwaysRun || t.verdict == report.Miss:
			fmt.Fprintf(s.Err, "\n%s is run: %s\n", t.label, t.why)
		}
	}
}

// remember keeps what the fingerprint of a recorded result is made of, for later
// explanations. The result itself doesn't depend on it.
func (s *session) remember(ctx context.Context, t *test, end time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, maxRemember)
	defer cancel()
	r, err := t.explainable()
	if err != nil {
		return err
	}
	b, err := fingerprint.EncodeClosure(r)
	if err != nil {
		return err
	}
	if b, err = fingerprint.RecordedClosure(b, r.Run); err != nil {
		return err
	}
	host, _ := os.Hostname()
	return history.Record(ctx, s.storeOf(t), t.label, t.key, host, end, b)
}

// libraryPart is the contribution of a library of the system.
func libraryPart(name string, sum [32]byte) fingerprint.Contribution {
	return fingerprint.Contribution{Name: systemLibrary + name, SHA256: hex.EncodeToString(sum[:])}
}
