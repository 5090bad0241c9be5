package programs

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os/exec"
	"strings"
	"sync/atomic"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/trace"
)

var allTraces = flag.Bool("traces", false, "check traces of all pairs; else of those that are about traces, and with -short of all that are left")

// traces checks traces: where that of one version of a pair has the key that it has for the other one, both have
// to do the same.
type traces struct{ all, givenUp, without, good, finer atomic.Int64 }

func (x *traces) String() string {
	return fmt.Sprintf("%d traces: %d given up, %d without a key, %d good for the other version, %d of these where the fingerprint isn't",
		x.all.Load(), x.givenUp.Load(), x.without.Load(), x.good.Load(), x.finer.Load())
}

// assumed are pairs that do without optimisation what nobody may do who has traces (docs/explanation/traces.md), beside all
// of trace-assumed.txtar: they read the code of functions as data.
var assumed = map[string]bool{"code-attr/patchable-entry": true, "code-flags/omit-frame-pointer": true, "code-data/function-bytes": true}

// check checks the traces of both versions of a pair, which are built, if they could be. An error is what is wrong.
func (x *traces) check(ctx context.Context, name string, c config, versions [2]*program, outcomes [2]string) error {
	wrong := x.compare(ctx, versions, outcomes, c.opt == "-O0" && strings.HasPrefix(name, "trace-precise/"))
	switch {
	case !assumed[name] && !strings.HasPrefix(name, "trace-assumed/"):
		return wrong
	case wrong == nil && c.opt == "-O0":
		return errors.New("nothing is wrong with its traces: it isn't needed that nobody does this")
	}
	return nil
}

func (x *traces) compare(ctx context.Context, versions [2]*program, outcomes [2]string, precise bool) error {
	for i, p := range versions {
		x.all.Add(1)
		if outcomes[i] == notBuilt {
			x.givenUp.Add(1)
			continue
		}
		idle, err := p.trace(ctx, outcomes[i])
		if err != nil {
			return fmt.Errorf("version %d: %w", i, err)
		}
		if idle == nil {
			x.givenUp.Add(1)
			continue
		}
		own, err := composedWithout(p, false, idle)
		if errors.Is(err, errAlwaysRun) {
			x.without.Add(1)
			continue
		}
		if err != nil {
			return err
		}
		other, err := composedWithout(versions[1-i], false, idle)
		if err != nil && !errors.Is(err, errAlwaysRun) {
			return err
		}
		if own != other {
			if precise {
				return fmt.Errorf("the trace of version %d isn't good for the other one", i)
			}
			continue
		}
		if outcomes[0] != outcomes[1] {
			return fmt.Errorf("violation: the trace of version %d is good for the other one, and the outcome is %s or %s", i, outcomes[0], outcomes[1])
		}
		x.good.Add(1)
		a, errA := composed(versions[0], false)
		b, errB := composed(versions[1], false)
		if errA != nil || errB != nil || a != b {
			x.finer.Add(1)
		}
	}
	return nil
}

// trace runs a program, which is built, under a tracer, and returns what it didn't enter. It has to
// do what it does without.
func (p *program) trace(ctx context.Context, outcome string) (idle map[string]bool, err error) {
	var r *trace.Result
	again, err := p.execute(ctx, func(cmd *exec.Cmd) (*trace.Result, error) {
		r, err = trace.Run(cmd, trace.Options{}, nil)
		return r, err
	})
	if err != nil {
		return nil, err
	}
	if r.Void == "" && again != outcome {
		// Some print addresses.
		if once, err := p.execute(ctx, trace.Bare); err != nil || once == outcome {
			return nil, fmt.Errorf("under a tracer it does something else: %s, without %s (%v)", again, outcome, err)
		}
	}
	return r.Idle, nil
}
