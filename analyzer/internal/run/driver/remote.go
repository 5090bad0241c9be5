package driver

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
)

// Under remote execution a test's outcome depends on the worker, of which this
// machine knows the properties of its platform. They are all that a server
// chooses a worker by and all that the digest of an action, by which results are
// cached, has of it (Platform in remote_execution.proto): equal properties have
// to mean equal images, or the remote cache itself would be wrong.

// A worker is what is known of where a test is linked and run.
type worker struct {
	parts []fingerprint.Contribution
	why   string // the test has to run always, if it does so remotely
}

// isRemote says whether Bazel may run the test by remote execution.
func (d *description) isRemote() bool {
	for _, tag := range []string{"exclusive", "local", "no-remote", "no-remote-exec"} {
		if _, ok := d.Requirements[tag]; ok || slices.Contains(d.Tags, tag) {
			return false
		}
	}
	return true
}

// workers asks Bazel for the platforms of tests. Those of the link count for
// tests that run on this machine as well.
func (s *session) workers(ctx context.Context, tests []*test) map[*test]worker {
	all := map[*test]worker{}
	if len(tests) == 0 {
		return all
	}
	var labels []string
	for _, t := range tests {
		labels = append(labels, t.label)
	}
	rc := s.rcFile()
	executions, err := s.Bazel.Executions(ctx, rc, filepath.Join(s.tmp, "aquery"), s.queryFlags("aquery"), labels, []string{"TestRunner", "CppLink"})
	defaults := s.option("remote_default_exec_properties") != "" || s.option("remote_default_platform_properties") != ""
	type platform struct {
		part       fingerprint.Contribution
		properties bool
		why        string
	}
	known := map[string]*platform{}
	for _, t := range tests {
		var w worker
		runs := false
		for _, x := range executions[t.label] {
			p := known[x.Platform]
			if p == nil {
				p = &platform{}
				known[x.Platform] = p
				rules, err := s.Bazel.PlatformRules(ctx, rc, s.queryFlags("cquery"), x.Platform)
				if err != nil {
					p.why = err.Error()
				}
				var lines []string
				for _, r := range rules {
					lines = append(append(lines, r.Label), r.Attributes...)
					p.properties = p.properties || r.Properties
				}
				p.part = fingerprint.NewContribution("execution platform "+strings.TrimLeft(x.Platform, "@"), lines)
			}
			if !slices.Contains(w.parts, p.part) {
				w.parts = append(w.parts, p.part)
			}
			if p.why != "" {
				w.why = p.why
			}
			if x.Mnemonic == "TestRunner" {
				runs = true
				if !p.properties && !defaults && len(t.description.ExecProperties) == 0 {
					w.why = "its platform has no properties that say which image the workers have: set exec_properties of the platform, or --remote_default_exec_properties"
				}
			}
		}
		switch {
		case err != nil:
			w.why = err.Error()
		case !runs:
			w.why = "Bazel doesn't say on which platform it runs"
		}
		all[t] = w
	}
	return all
}

// findWorkers finds out about the workers of all tests that can be composed.
func (s *session) findWorkers(ctx context.Context) {
	var tests []*test
	for _, t := range s.tests {
		if t.description != nil {
			t.remote = t.description.isRemote()
			tests = append(tests, t)
		}
	}
	if len(tests) == 0 {
		return
	}
	s.say("asking Bazel for the platforms of %s", count(len(tests), "test"))
	for t, w := range s.workers(ctx, tests) {
		t.worker = w
	}
}
