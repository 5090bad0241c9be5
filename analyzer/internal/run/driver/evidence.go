package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/plan"
)

// Manifests are made of objects or, for plain C, of sources that aren't compiled yet. This file has the
// differences between the two:
//
//   - Analyse requests manifests of sources. Tests with C that isn't plain are analysed once more,
//     by objects (composeObjects).
//   - Execute requests manifests of the same kind (outputGroups).
//   - Record doesn't record a test if one of its sources was touched meanwhile (sources).
//   - Traces need manifests of objects (withObjects, objects).

// Output groups of the aspect: manifests of objects only, and manifests of sources where there are some.
const (
	byObject = "tasting_test"
	bySource = "tasting_source"
)

// evidence is the description of a test and the kind of its manifests.
type evidence struct {
	*description
	file    string // of the description
	sources bool   // manifests of sources are preferred
}

// readsSources reports whether some manifests are made of sources, which the compiler reads at another moment.
func (e *evidence) readsSources() bool { return e.sources && e.Source }

// group returns the output group of the aspect that the evidence is from.
func (e *evidence) group() string {
	if e.readsSources() {
		return bySource
	}
	return byObject
}

var errNothingMade = errors.New("the aspect has made nothing for the test")

// evidence returns the evidence for a test in an output group. With own, the test has another configuration than
// its analysis: because of --nocache_test_results for an audit, or of --test_filter.
func (l *aspectOutputs) evidence(t *target, group string, own bool) (*evidence, error) {
	x, ok := l.found[aspectOutput{group, t.label}]
	switch {
	case !ok:
		return nil, errNothingMade
	case x.config != t.config && !own:
		return nil, errors.New("the analysis has another configuration than the test")
	case x.err != nil:
		return nil, x.err
	}
	d, err := readDescription(x.file)
	if err != nil {
		return nil, err
	}
	return &evidence{description: d, file: x.file, sources: group == bySource}, nil
}

// composeObjects composes tests with C that isn't plain once more, by their objects.
func (a *analysis) composeObjects(ctx context.Context) error {
	var again []*subject
	why := ""
	for _, t := range a.subjects {
		if t.composed != nil && t.composed.NotPlain != "" {
			again, why = append(again, t), cmp.Or(why, t.label+": "+t.composed.NotPlain)
			t.composed = nil
		}
	}
	if len(again) == 0 {
		return nil
	}
	a.say("analysing %s by the objects: not all of their C is plain (%s)", count(len(again), "test"), why)
	if err := a.analyseBy(ctx, byObject, again); err != nil {
		return err
	}
	a.composeAll(ctx, again)
	return nil
}

// outputGroups returns the value of --output_groups for a run of tests: it adds their manifests.
func outputGroups(tests []*decision, traced bool) string {
	add := map[string]bool{}
	for _, t := range tests {
		add["+"+t.group()] = true
		if traced {
			add["+"+byObject] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(add)), ",")
}

// sources are the source files of tests with manifests of sources.
type sources struct {
	files []bazel.Source
	tests []string // labels
	err   error
}

// listSources asks Bazel for the sources of tests that are to be recorded or audited.
func (d *decisions) listSources(ctx context.Context) *sources {
	s := &sources{tests: labels(filter(d.tests, func(t *decision) bool {
		return t.isRun() && t.hasFingerprint() && t.readsSources() && (d.Write || t.audit)
	}))}
	if len(s.tests) > 0 {
		s.files, s.err = d.query().Sources(ctx, s.tests)
	}
	return s
}

// doubts returns a function from a test to a doubt: one of its sources was touched since the analysis began.
func (s *sources) doubts(ctx context.Context, inv *invocation, touches *touches) func(t *decision) string {
	var touched, dependents []string
	for _, x := range s.files {
		if _, err := os.Stat(x.Path); err != nil || touches.touched(x.Path) {
			touched = append(touched, x.Label)
		}
	}
	err := s.err
	if err == nil && len(touched) > 0 {
		dependents, err = inv.query().Dependents(ctx, s.tests, touched)
	}
	return func(t *decision) string {
		switch {
		case !t.readsSources():
		case err != nil:
			return fmt.Sprintf("it can't be told whether its sources were edited: %v", err)
		case slices.Contains(dependents, t.label):
			return "its sources were saved while it was tested"
		}
		return ""
	}
}

// withObjects returns tests, and each as plans have it. Bazel compiles the
// objects first if the manifests are made of sources. Tests whose objects can't be read are left out.
func (d *decisions) withObjects(ctx context.Context, tests []*decision) (known []*decision, plans []plan.Test, err error) {
	asked := labels(filter(tests, func(t *decision) bool { return t.readsSources() }))
	outputs := newAspectOutputs(d.Aspect)
	if len(asked) > 0 {
		d.say("compiling what %s made of, of which traces are known", map[bool]string{true: "1 test is", false: count(len(asked), "test") + " are"}[len(asked) == 1])
		if outputs, _, err = d.applyTo(ctx, byObject, asked); err != nil {
			if errors.Is(err, interrupted) {
				err = nil // Execute will be interrupted, too
			}
			return nil, nil, err
		}
		d.built = outputs.built
	}
	for _, t := range tests {
		if x, err := d.objects(ctx, t, outputs); err == nil {
			known, plans = append(known, t), append(plans, t.planned(x))
		}
	}
	return known, plans, nil
}

// objects returns the arguments of a composition of a test by its objects. They are those of its own evidence or, if
// manifests are made of sources, of that in outputs.
func (a *analysis) objects(ctx context.Context, t *decision, outputs *aspectOutputs) (*fingerprint.Test, error) {
	e := t.evidence
	if e.readsSources() {
		var err error
		if e, err = outputs.evidence(t.target, byObject, t.audit); err != nil {
			return nil, err
		}
	}
	return a.arguments(ctx, e)
}

// descriptionSuffix ends the names of the files that describe tests.
const descriptionSuffix = ".tasting-test.json"

// description is how Bazel starts a test, as the aspect knows it
// (_describe in rules/private/aspect.bzl).
type description struct {
	// Compose is the file with the arguments of tasting compose, relative to
	// the execution root.
	Compose string `json:"compose"`
	// Source is set if some of the code has manifests of its sources.
	Source bool `json:"source"`
	// Args are those of the BUILD file, with labels expanded. Variables are the values of the make variables in them.
	Args      []string          `json:"args"`
	Variables map[string]string `json:"variables"`
	// Env is the environment that the rule sets, expanded; EnvInherited names
	// the variables that it takes from the user.
	Env          map[string]string `json:"env"`
	EnvInherited []string          `json:"env_inherited"`
	ShardCount   int               `json:"shard_count"`
	Tags         []string          `json:"tags"`
	// ExecProperties and Requirements decide where and how the test is run.
	ExecProperties map[string]string `json:"exec_properties"`
	Requirements   map[string]string `json:"requirements"`
	// Linker is the program that links, LinkEnv its environment.
	Linker  string            `json:"linker"`
	LinkEnv map[string]string `json:"link_env"`
}

// equal reports whether two descriptions are of the same test.
func (d *description) equal(e *description) bool { return reflect.DeepEqual(d, e) }

func readDescription(file string) (*description, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	d := new(description)
	// Strict: an unknown field might belong into the fingerprint.
	if err := json.Unmarshal(b, d, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%s: %w: the rules are of another version than this program", file, err)
	}
	if d.Compose == "" {
		return nil, fmt.Errorf("%s: no arguments for the composition: the rules are of another version than this program", file)
	}
	return d, nil
}
