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

// spent is what calls of Bazel have spent on actions. What workers do isn't in it.
type spent struct {
	actions map[string]int // executed, by mnemonic
	cpu     time.Duration  // of this program's actions
}

// add adds what one invocation of Bazel says about its actions.
func (s *spent) add(e *bazel.Event) {
	e.Actions(func(mnemonic string, executed int, cpu time.Duration) {
		if s.actions == nil {
			s.actions = map[string]int{}
		}
		s.actions[mnemonic] += executed
		if strings.HasPrefix(mnemonic, "Tasting") {
			s.cpu += cpu
		}
	})
}

// plus returns the sum of both.
func (s spent) plus(t spent) spent {
	sum := spent{map[string]int{}, s.cpu + t.cpu}
	for _, x := range []spent{s, t} {
		for mnemonic, n := range x.actions {
			sum.actions[mnemonic] += n
		}
	}
	return sum
}

// cost is what it took to decide.
type cost struct {
	deciding time.Duration // wall time until it was known what to run
	analysis time.Duration // CPU time of the aspect's actions and of this process
}

// decidingCost returns what it has taken to decide, by now.
func (d *decisions) decidingCost() cost {
	c := cost{time.Since(d.start), d.spent.cpu}
	if d.began != nil {
		c.analysis += max(0, d.workersCPU()-d.began.workers)
	}
	// Its children are Bazel's clients and links of probes.
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			c.analysis += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return c
}

// workersCPU returns the CPU time of those workers of Bazel's server that are this
// program, or 0 if the system doesn't tell.
func (inv *invocation) workersCPU() (used time.Duration) {
	// The execution root is OUTPUT_BASE/execroot/NAME.
	pid, ok := cputime.Server(filepath.Join(inv.execRoot, "..", ".."))
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
