package driver

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/lazyregexp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/cputime"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/report"
)

// writeRun writes the file of the run for tasting report.
func (s *summary) writeRun(ctx context.Context) error {
	r := &report.Run{Start: s.meter.start, End: time.Now(), Store: s.lookups(), Workspace: s.workspaceName(), Fallbacks: s.fallbacks}
	r.Host, _ = os.Hostname()
	r.Commit, r.Branch = s.git(ctx, "rev-parse", "HEAD"), s.git(ctx, "symbolic-ref", "--short", "-q", "HEAD")
	for _, t := range s.results {
		status, took := t.status()
		x := report.Test{Label: t.label, Verdict: t.verdict, Status: strings.ReplaceAll(status, " ", "_"), Seconds: took.Seconds(),
			Reason: t.why, Changed: t.changed, Cached: t.outcome.isCached(), Audited: t.audit, Trace: t.isByTrace(), Cases: t.caseCounts()}
		if t.hasFingerprint() {
			x.Fingerprint = t.key.String()
		}
		r.Tests = append(r.Tests, x)
	}
	for _, l := range s.broken {
		r.Tests = append(r.Tests, report.Test{Label: l, Verdict: report.Other, Status: "FAILED_TO_BUILD"})
	}
	r.Cost = &report.Cost{WallSeconds: r.End.Sub(r.Start).Seconds(), DecidingSeconds: s.cost.deciding.Seconds(), AnalysisCPUSeconds: s.cost.analysis.Seconds(), Actions: s.meter.actions}
	_, err := report.WriteRun(s.RunsDir, r)
	return err
}

var moduleName = lazyregexp.New(`(?s)\bmodule\(.*?\bname\s*=\s*"([^"]+)"`)

// workspaceName returns the name of the root module, else of its directory.
func (inv *invocation) workspaceName() string {
	dir := inv.workspaceDir()
	if b, err := os.ReadFile(filepath.Join(dir, "MODULE.bazel")); err == nil {
		if m := moduleName.FindSubmatch(b); m != nil {
			return string(m[1])
		}
	}
	return filepath.Base(dir)
}

// git returns the output of a git command, or "" if there is none.
func (inv *invocation) git(ctx context.Context, args ...string) string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = inv.workspaceDir()
	out, _ := cmd.Output()
	return strings.TrimSpace(string(out))
}

// meter has the cost of an invocation and all its calls of Bazel.
type meter struct {
	start         time.Time
	analysisBegan time.Time      // when the analysis began; zero if nothing is analysed
	workers       time.Duration  // CPU time of Bazel's workers by then
	actions       map[string]int // executed, by mnemonic
	cpu           time.Duration  // of this program's actions, without those that workers do
}

// add adds the actions of an event.
func (m *meter) add(e *bazel.Event) {
	e.Actions(func(mnemonic string, executed int, cpu time.Duration) {
		m.actions[mnemonic] += executed
		if strings.HasPrefix(mnemonic, "Tasting") {
			m.cpu += cpu
		}
	})
}

// beginAnalysis notes the time of its first call.
func (inv *invocation) beginAnalysis() {
	if inv.meter.analysisBegan.IsZero() {
		inv.meter.analysisBegan, inv.meter.workers = time.Now(), inv.workersCPU()
	}
}

// cost is the time that deciding took.
type cost struct {
	deciding time.Duration // wall time until all decisions were made
	analysis time.Duration // CPU time of the aspect's actions and of this process
}

// decidingCost returns the cost of deciding so far.
func (d *decisions) decidingCost() cost {
	c := cost{time.Since(d.meter.start), d.meter.cpu}
	if !d.meter.analysisBegan.IsZero() {
		c.analysis += max(0, d.workersCPU()-d.meter.workers)
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

// workersCPU returns the CPU time of Bazel's persistent workers that run this program, or 0 if it isn't known.
func (inv *invocation) workersCPU() (used time.Duration) {
	// The execution root is OUTPUT_BASE/execroot/NAME.
	pid, ok := cputime.Server(filepath.Join(inv.execRoot, "..", ".."))
	if !ok {
		return 0
	}
	tree, _ := cputime.Tree(pid)
	for _, p := range tree {
		args := p.Args()
		isOurs := func(name string) bool { return name == "object" || name == "compose" }
		if len(args) > 3 && slices.ContainsFunc(args[1:3], isOurs) && args[len(args)-1] == "--persistent_worker" {
			used += p.CPU
		}
	}
	return used
}

// planned is the entry of a test in the output of a dry run.
type planned struct {
	Label   string         `json:"label"`
	Run     bool           `json:"run"` // it would be given to Bazel
	Verdict report.Verdict `json:"verdict"`
	Reason  string         `json:"reason,omitempty"`
	Changed []string       `json:"changed,omitempty"` // since the nearest recorded result
	Key     string         `json:"fingerprint,omitempty"`
}

// printPlan prints which tests would be run. Its exit code is 0 if Bazel could analyse all of them.
func (d *decisions) printPlan() (code int, err error) {
	tests := []planned{}
	for _, t := range d.tests {
		p := planned{Label: t.label, Run: t.isRun(), Verdict: t.verdict, Reason: t.why, Changed: t.changed}
		switch {
		case t.skipped:
			p.Reason = "it isn't compatible with the platform"
		case t.audit:
			p.Reason = "--nocache_test_results"
		case t.hasRunner():
			p.Reason = byRunner
		case t.verdict == report.Other:
			p.Reason = "it isn't a cc_test"
		}
		if t.hasFingerprint() {
			p.Key = t.key.String()
		}
		tests = append(tests, p)
	}
	for _, label := range d.broken {
		tests = append(tests, planned{Label: label, Verdict: report.Other, Reason: "Bazel can't analyse it"})
	}
	e := json.NewEncoder(d.Out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if d.failed || d.runAll == "" && !d.complete {
		code = bazel.ExitBuildFailed
	}
	return code, e.Encode(map[string]any{"tests": tests})
}
