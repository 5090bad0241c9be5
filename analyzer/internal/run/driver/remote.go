package driver

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
)

// Under remote execution a test's outcome depends on the worker. The key has the properties of the worker's
// platform (Platform in remote_execution.proto). A server chooses workers by these properties only, and the digest of an
// action has nothing else of the worker. So equal properties have to mean equal images, or the remote cache itself would be wrong.

// worker has the known properties of the machines that link and run a test.
type worker struct {
	parts []fingerprint.Contribution
	why   string // why the test always runs if it runs remotely, or ""
}

// isRemote reports whether Bazel may run the test by remote execution.
func (d *description) isRemote() bool {
	for _, tag := range []string{"exclusive", "local", "no-remote", "no-remote-exec"} {
		if _, ok := d.Requirements[tag]; ok || slices.Contains(d.Tags, tag) {
			return false
		}
	}
	return true
}

// workers asks Bazel for the platforms that run and link tests. The link's platform is in the key of
// tests that run on this machine, too.
func (inv *invocation) workers(ctx context.Context, tests []*subject) map[*subject]worker {
	all := map[*subject]worker{}
	executions, err := inv.query().Executions(ctx, labels(tests), []string{"TestRunner", "CppLink"})
	platforms := map[string]*platform{}
	for _, t := range tests {
		all[t] = inv.workerOf(ctx, t, executions[t.label], platforms)
		if err != nil {
			all[t] = worker{why: err.Error()}
		}
	}
	return all
}

// platform is an execution platform, as Bazel describes it.
type platform struct {
	part       fingerprint.Contribution
	properties bool   // it has properties, which name the image of the workers
	why        string // why Bazel can't describe it
}

// workerOf returns the worker of a test. It adds new platforms to platforms, by label.
func (inv *invocation) workerOf(ctx context.Context, t *subject, executions []bazel.Execution, platforms map[string]*platform) (w worker) {
	defaults := inv.option("remote_default_exec_properties") != "" || inv.option("remote_default_platform_properties") != ""
	runs := false
	for _, x := range executions {
		p := platforms[x.Platform]
		if p == nil {
			p = inv.askPlatform(ctx, x.Platform)
			platforms[x.Platform] = p
		}
		if !slices.Contains(w.parts, p.part) {
			w.parts = append(w.parts, p.part)
		}
		w.why = cmp.Or(p.why, w.why)
		if x.Mnemonic == "TestRunner" {
			runs = true
			if !p.properties && !defaults && len(t.ExecProperties) == 0 {
				w.why = "its platform has no properties that say which image the workers have: set exec_properties of the platform, or --remote_default_exec_properties"
			}
		}
	}
	if !runs {
		w.why = "Bazel doesn't say on which platform it runs"
	}
	return w
}

func (inv *invocation) askPlatform(ctx context.Context, label string) *platform {
	p := &platform{}
	rules, err := inv.query().PlatformRules(ctx, label)
	if err != nil {
		p.why = err.Error()
	}
	var lines []string
	for _, r := range rules {
		lines = append(append(lines, r.Label), r.Attributes...)
		p.properties = p.properties || r.Properties
	}
	p.part = fingerprint.NewContribution("execution platform "+strings.TrimLeft(label, "@"), lines)
	return p
}

// findWorkers finds the workers of all tests that can be composed, with remote execution.
func (a *analysis) findWorkers(ctx context.Context) {
	if a.option("remote_executor") == "" {
		return
	}
	tests := filter(a.subjects, func(t *subject) bool { return t.evidence != nil })
	if len(tests) == 0 {
		return
	}
	a.say("asking Bazel for the platforms of %s", count(len(tests), "test"))
	for t, w := range a.workers(ctx, tests) {
		t.remote, t.worker = t.isRemote(), w
	}
}
