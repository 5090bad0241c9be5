package driver

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/report"
)

// Under remote execution a test's outcome depends on the worker, of which this
// machine knows the properties of its platform. They are all that a server
// chooses a worker by and all that the digest of an action, by which results are
// cached, has of it (Platform in remote_execution.proto): equal properties have
// to mean equal images, or the remote cache itself would be wrong.

// isRemote says whether Bazel may run the test by remote execution.
func (d *description) isRemote() bool {
	for _, tag := range []string{"local", "no-remote", "no-remote-exec"} {
		if _, ok := d.Requirements[tag]; ok || slices.Contains(d.Tags, tag) {
			return false
		}
	}
	return true
}

// findWorkers finds out about the workers of all tests that are run remotely.
func (s *session) findWorkers(ctx context.Context, rc string) error {
	var labels []string
	for _, t := range s.tests {
		if t.description != nil && t.description.isRemote() {
			t.remote = true
			labels = append(labels, t.label)
		}
	}
	if len(labels) == 0 {
		return nil
	}
	s.say("asking Bazel for the platforms of %s", count(len(labels), "test"))
	// A library of the system that is linked statically is one of the worker that
	// links.
	platforms, err := s.Bazel.ExecutionPlatforms(ctx, rc, filepath.Join(s.tmp, "aquery"), s.flags.Known("aquery", s.args), labels, []string{"TestRunner", "CppLink"})
	if err != nil {
		return err
	}
	instance := fingerprint.NewContribution("option remote_instance_name", []string{s.option("remote_instance_name")})
	defaults := s.option("remote_default_exec_properties") != "" || s.option("remote_default_platform_properties") != ""
	type platform struct {
		part       fingerprint.Contribution
		properties bool
	}
	known := map[string]*platform{}
	for _, t := range s.tests {
		if !t.remote {
			continue
		}
		of := platforms[t.label]
		if len(of) == 0 {
			t.why = "Bazel doesn't say on which platform it runs"
			t.description = nil
			continue
		}
		properties := defaults || len(t.description.ExecProperties) > 0
		t.parts = append(t.parts, instance)
		for _, label := range of {
			p := known[label]
			if p == nil {
				rules, err := s.Bazel.PlatformRules(ctx, s.flags.Known("query", s.args), label)
				if err != nil {
					return err
				}
				var lines []string
				p = &platform{}
				for _, r := range rules {
					lines = append(append(lines, r.Label), r.Attributes...)
					p.properties = p.properties || r.Properties
				}
				p.part = fingerprint.NewContribution("execution platform "+strings.TrimLeft(label, "@"), lines)
				known[label] = p
			}
			t.parts = append(t.parts, p.part)
			properties = properties || p.properties
		}
		if !properties {
			t.verdict, t.why = report.AlwaysRun, "its platform has no properties that say which image the workers have: set exec_properties of the platform, or --remote_default_exec_properties"
		}
	}
	return nil
}
