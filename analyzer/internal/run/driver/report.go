package driver

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/lazyregexp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/report"
)

// writeRun writes what happened for tasting report.
func (s *summary) writeRun(ctx context.Context) error {
	r := &report.Run{Start: s.start, End: time.Now(), Store: s.lookups(), Workspace: s.workspaceName(), Fallbacks: s.fallbacks}
	r.Host, _ = os.Hostname()
	r.Commit, r.Branch = s.git(ctx, "rev-parse", "HEAD"), s.git(ctx, "symbolic-ref", "--short", "-q", "HEAD")
	for _, t := range s.results {
		status, took := t.status()
		x := report.Test{Label: t.label, Verdict: t.verdict, Status: strings.ReplaceAll(status, " ", "_"), Seconds: took.Seconds(),
			Reason: t.why, Changed: t.changed, Cached: t.outcome.isCached(), Audited: t.audit, Trace: t.isByTrace()}
		if t.hasFingerprint() {
			x.Fingerprint = t.key.String()
		}
		r.Tests = append(r.Tests, x)
	}
	for _, l := range s.broken {
		r.Tests = append(r.Tests, report.Test{Label: l, Verdict: report.Other, Status: "FAILED_TO_BUILD"})
	}
	r.Cost = &report.Cost{WallSeconds: r.End.Sub(r.Start).Seconds(), DecidingSeconds: s.cost.deciding.Seconds(), AnalysisCPUSeconds: s.cost.analysis.Seconds(), Actions: s.spent.actions}
	_, err := report.WriteRun(s.RunsDir, r)
	return err
}

var moduleName = lazyregexp.New(`(?s)\bmodule\(.*?\bname\s*=\s*"([^"]+)"`)

// workspaceName returns the name of the root module, or of its directory.
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
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return ""
	}
	return strings.TrimSpace(string(out))
}
