package interval

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/frontier"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/trace"
)

// ProgramFile is the name of the file of a table with what the service was composed of when it was collected.
const ProgramFile = "service.traces"

// Record writes what a service is composed of, by its manifests, into a file: they may be made anew meanwhile.
func Record(file string, manifests []string) error {
	return frontier.WriteProgram(file, service(manifests), false)
}

func service(manifests []string) *fingerprint.Test {
	return &fingerprint.Test{Binary: "service", Manifests: manifests}
}

// Selected is the decision about a test.
type Selected struct {
	Test string
	// Why it has to be executed, or empty.
	Why string
}

// Select decides which tests of a table a change can affect: from the version of the service that a file of Record has to
// that of manifests. It returns all tests, sorted by name.
func Select(tests []*trace.Interval, before string, after []string) ([]Selected, error) {
	p, err := frontier.ReadProgram(before)
	if err != nil {
		return nil, err
	}
	if p.Unknown != "" {
		return nil, fmt.Errorf("%s: %s", before, p.Unknown)
	}
	dir, err := os.MkdirTemp("", "tasting-service-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	old, err := p.Unpack(dir, func(string) string { return "" })
	if err != nil {
		return nil, err
	}
	var which []int
	var idle []map[string]bool
	for _, t := range tests {
		if t.Idle != nil {
			which, idle = append(which, 0), append(idle, t.Idle)
		}
	}
	was := fingerprint.NewTraced([]*fingerprint.Test{old}).Compose(which, idle)
	is := fingerprint.NewTraced([]*fingerprint.Test{service(after)}).Compose(which, idle)
	changed, err := changes(old, after)
	if err != nil {
		return nil, err
	}
	var list []Selected
	k := 0
	for _, t := range tests {
		s := Selected{Test: t.Name}
		if t.Idle == nil {
			s.Why = "what it executes isn't known"
			if len(t.Trace.GaveUp) > 0 {
				s.Why += ": " + t.Trace.GaveUp[0]
			}
		} else {
			if s.Why, err = differ(&was[k], &is[k]); err != nil {
				return nil, err
			}
			if s.Why == affected {
				s.Why = executes(t, changed)
			}
			k++
		}
		list = append(list, s)
	}
	return list, nil
}

const affected = "what it executes has changed"

// differ returns why the executions of two versions may differ, or "".
func differ(was, is *fingerprint.Composed) (string, error) {
	for _, c := range []*fingerprint.Composed{was, is} {
		if c.Err != nil {
			return "", c.Err
		}
		if why := c.Undecided(); why != nil {
			return why.Error(), nil
		}
	}
	// Whether it can be linked was found out by who runs it.
	if was.Config.Code != is.Config.Code {
		return affected, nil
	}
	return "", nil
}

// changes returns the names of functions that aren't what they were, by their hashes: for people.
func changes(old *fingerprint.Test, after []string) (map[string]bool, error) {
	hashes := func(manifests []string) (map[string]string, error) {
		r, err := fingerprint.FromFiles(manifests, fingerprint.Roots{Exported: true})
		if err != nil {
			return nil, err
		}
		m := map[string]string{}
		for _, c := range r.Components {
			m[c.Name] += c.Local
		}
		return m, nil
	}
	was, err := hashes(old.Manifests)
	if err != nil {
		return nil, err
	}
	is, err := hashes(after)
	if err != nil {
		return nil, err
	}
	changed := map[string]bool{}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(was)), slices.Collect(maps.Keys(is))) {
		if was[name] != is[name] {
			changed[name] = true
		}
	}
	return changed, nil
}

// executes returns a reason with the names of the changed functions that a test executes, if there are any.
func executes(t *trace.Interval, changed map[string]bool) string {
	var names []string
	for _, s := range t.Trace.Symbols() {
		if changed[s.Name] {
			names = append(names, s.Name)
		}
	}
	if len(names) == 0 {
		return "what its functions refer to has changed"
	}
	slices.Sort(names)
	names = slices.Compact(names)
	const shown = 3
	if n := len(names); n > shown {
		names = append(names[:shown], fmt.Sprintf("%d more", n-shown))
	}
	return "changed: " + strings.Join(names, ", ")
}
