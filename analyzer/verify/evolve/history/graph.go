package history

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// What target-level tools hash (bazel-diff, target-determinator): for each target its rule with all
// attributes, and of source files the content, together with the hashes of all that it depends on.

// queried is a target as `bazel cquery --output=jsonproto` prints it.
type queried struct {
	Target struct {
		Type string
		Rule struct {
			Name, RuleClass string
			Attribute       []json.RawMessage
			RuleInput       []string
		}
		SourceFile struct {
			Name, Location string
			Subinclude     []string
		}
		GeneratedFile struct{ Name, GeneratingRule string }
		PackageGroup  struct{ Name string }
	}
}

func (q *queried) name() string {
	t := &q.Target
	for _, n := range []string{t.Rule.Name, t.SourceFile.Name, t.GeneratedFile.Name, t.PackageGroup.Name} {
		if n != "" {
			return n
		}
	}
	return ""
}

// graph has the hashes of targets by label.
type graph struct {
	targets map[string][]*queried // several configurations
	content func(file string) string
	sums    map[string]string
}

// readGraph reads what cquery prints. Content returns the checksum of a file.
func readGraph(r io.Reader, content func(file string) string) (*graph, error) {
	var all struct{ Results []*queried }
	if err := json.NewDecoder(r).Decode(&all); err != nil {
		return nil, fmt.Errorf("bazel cquery --output=jsonproto: %w", err)
	}
	g := &graph{map[string][]*queried{}, content, map[string]string{}}
	for _, q := range all.Results {
		if name := q.name(); name != "" {
			g.targets[name] = append(g.targets[name], q)
		}
	}
	return g, nil
}

// sum returns the hash of a target and of all that it depends on, "" if it isn't known.
func (g *graph) sum(label string) string {
	if s, ok := g.sums[label]; ok {
		return s
	}
	list := g.targets[label]
	if len(list) == 0 {
		return ""
	}
	g.sums[label] = "" // a cycle, of which Bazel allows none
	h := sha256.New()
	for _, q := range list {
		t := &q.Target
		fmt.Fprintf(h, "%s %s %s\n", t.Type, label, t.Rule.RuleClass)
		for _, a := range attributes(t.Rule.Attribute) {
			fmt.Fprintf(h, "%s\n", a)
		}
		if file, _, ok := strings.Cut(t.SourceFile.Location, ":"); ok {
			fmt.Fprintf(h, "content %s\n", g.content(file))
		}
		inputs := slices.Clone(t.Rule.RuleInput)
		if t.GeneratedFile.GeneratingRule != "" {
			inputs = append(inputs, t.GeneratedFile.GeneratingRule)
		}
		slices.Sort(inputs)
		for _, i := range slices.Compact(inputs) {
			fmt.Fprintf(h, "%s %s\n", i, g.sum(i))
		}
	}
	g.sums[label] = fmt.Sprintf("%x", h.Sum(nil)[:16])
	return g.sums[label]
}

// attributes returns those that say what a rule is, and not where it stands.
func attributes(all []json.RawMessage) (l []string) {
	for _, a := range all {
		var named struct{ Name string }
		if json.Unmarshal(a, &named) == nil && !strings.HasPrefix(named.Name, "generator_") {
			l = append(l, string(a))
		}
	}
	slices.Sort(l)
	return l
}
