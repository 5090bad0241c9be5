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
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/report"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
)

// writeRun writes what happened for tasting report.
func (s *session) writeRun(ctx context.Context) error {
	r := &report.Run{Start: s.start, End: time.Now(), Store: s.lookedUp}
	r.Host, _ = os.Hostname()
	r.Workspace = s.workspaceName()
	r.Commit, r.Branch = s.git(ctx, "rev-parse", "HEAD"), s.git(ctx, "symbolic-ref", "--short", "-q", "HEAD")
	r.Store.Location = s.StoreName
	for _, t := range s.tests {
		status, took := t.status()
		x := report.Test{Label: t.label, Verdict: report.Verdict(t.verdict), Status: strings.ReplaceAll(status, " ", "_"), Seconds: took.Seconds(),
			Reason: t.why, Changed: t.changed, Cached: t.outcome.cached(), Audited: t.audit, Trace: t.byTrace != (store.Key{})}
		if t.hasFingerprint() {
			x.Fingerprint = t.key.String()
		}
		r.Tests = append(r.Tests, x)
	}
	for _, l := range s.broken {
		r.Tests = append(r.Tests, report.Test{Label: l, Verdict: report.Other, Status: "FAILED_TO_BUILD"})
	}
	r.Fallbacks = s.fallbacks
	r.Cost = &report.Cost{WallSeconds: r.End.Sub(r.Start).Seconds(), DecidingSeconds: s.cost.deciding.Seconds(), AnalysisCPUSeconds: s.cost.analysis.Seconds(), Actions: s.cost.actions}
	_, err := report.WriteRun(s.RunsDir, r)
	return err
}

var moduleName = lazyregexp.New(`(?s)\bmodule\(.*?\bname\s*=\s*"([^"]+)"`)

// workspaceName is the name of the root module, or of its directory.
func (s *session) workspaceName() string {
	dir := s.workspaceDir()
	if b, err := os.ReadFile(filepath.Join(dir, "MODULE.bazel")); err == nil {
		if m := moduleName.FindSubmatch(b); m != nil {
			return string(m[1])
		}
	}
	return filepath.Base(dir)
}

// workspaceDir is the directory of MODULE.bazel or WORKSPACE.
func (s *session) workspaceDir() string {
	start := s.option("client_cwd")
	if root, ok := bazel.Workspace(start); ok {
		return root
	}
	return start
}

// git returns the output of a git command, or "" if there is none.
func (s *session) git(ctx context.Context, args ...string) string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = s.workspaceDir()
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return ""
	}
	return strings.TrimSpace(string(out))
}
