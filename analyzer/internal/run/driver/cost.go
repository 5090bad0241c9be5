package driver

import (
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/cputime"
)

// cost is what the session has cost so far, beside the tests.
type cost struct {
	actions  map[string]int // executed, by mnemonic
	deciding time.Duration  // wall time until it was known what to run
	analysis time.Duration  // CPU time of the aspect's actions and of this process
	workers  time.Duration  // CPU time of Bazel's workers before the analysis
}

// add takes what one invocation of Bazel says about its actions. What workers do
// isn't in there.
func (c *cost) add(e *bazel.Event) {
	e.Actions(func(mnemonic string, executed int, cpu time.Duration) {
		if c.actions == nil {
			c.actions = map[string]int{}
		}
		c.actions[mnemonic] += executed
		if strings.HasPrefix(mnemonic, "Tasting") && c.deciding == 0 {
			c.analysis += cpu
		}
	})
}

// decided ends what belongs to deciding.
func (s *session) decided() {
	c := &s.cost
	c.deciding = time.Since(s.start)
	c.analysis += max(0, s.workersCPU()-c.workers)
	// Its children are Bazel's clients and links of probes.
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			c.analysis += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
}

// workersCPU returns the CPU time of those workers of Bazel's server that are this
// program, or 0 if the system doesn't tell.
func (s *session) workersCPU() (used time.Duration) {
	// The execution root is OUTPUT_BASE/execroot/NAME.
	pid, ok := cputime.Server(filepath.Join(s.execRoot, "..", ".."))
	if !ok {
		return 0
	}
	tree, err := cputime.Tree(pid)
	if err != nil {
		return 0
	}
	for _, p := range tree {
		if args := p.Args(); len(args) > 2 && slices.Contains([]string{"object", "compose"}, args[1]) && args[len(args)-1] == "--persistent_worker" {
			used += p.CPU
		}
	}
	return used
}
