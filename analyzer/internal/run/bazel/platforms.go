package bazel

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// An Execution is an action and the platform that executes it.
type Execution struct {
	Mnemonic string
	Platform string // label
}

// Executions returns those actions of targets that have one of mnemonics: by the targets' labels, sorted and without
// repetition.
func (q *Query) Executions(ctx context.Context, labels, mnemonics []string) (map[string][]Execution, error) {
	out, err := q.ask(ctx, "aquery", fmt.Sprintf(`mnemonic("^(%s)$", %s)`, strings.Join(mnemonics, "|"), setQuery(labels)),
		"--output=jsonproto", "--noinclude_artifacts", "--noinclude_commandline", "--noinclude_aspects")
	if err != nil {
		return nil, err
	}
	return readExecutions(out)
}

// readExecutions reads an ActionGraphContainer (analysis_v2.proto).
func readExecutions(b []byte) (map[string][]Execution, error) {
	var graph struct {
		Actions []struct {
			TargetID                    int
			Mnemonic, ExecutionPlatform string
		}
		Targets []struct {
			ID    int
			Label string
		}
	}
	if err := json.Unmarshal(b, &graph); err != nil {
		return nil, fmt.Errorf("bazel aquery: %w", err)
	}
	label := map[int]string{}
	for _, t := range graph.Targets {
		label[t.ID] = t.Label
	}
	all := map[string][]Execution{}
	for _, a := range graph.Actions {
		if l := label[a.TargetID]; l != "" && a.ExecutionPlatform != "" {
			all[l] = append(all[l], Execution{a.Mnemonic, a.ExecutionPlatform})
		}
	}
	for l, x := range all {
		slices.SortFunc(x, func(x, y Execution) int {
			return cmp.Or(strings.Compare(x.Mnemonic, y.Mnemonic), strings.Compare(x.Platform, y.Platform))
		})
		all[l] = slices.Compact(x)
	}
	return all, nil
}

// A PlatformRule is what decides where a platform's actions are executed.
type PlatformRule struct {
	Label      string
	Attributes []string // as JSON, sorted
	Properties bool     // it has properties for remote execution
}

// PlatformRules returns the rules of a platform and its parents, sorted. It is an error if the platform itself isn't
// declared by platform(): then it can't be told what it holds.
func (q *Query) PlatformRules(ctx context.Context, label string) ([]PlatformRule, error) {
	out, err := q.ask(ctx, "cquery", fmt.Sprintf(`kind("^platform rule$", deps(%s))`, setQuery([]string{label})), "--output=jsonproto")
	if err != nil {
		return nil, err
	}
	rules, err := readPlatformRules(out)
	if err == nil && !slices.ContainsFunc(rules, func(r PlatformRule) bool {
		return strings.TrimLeft(r.Label, "@") == strings.TrimLeft(label, "@")
	}) {
		err = fmt.Errorf("%s isn't declared by platform(): what it holds isn't known", label)
	}
	return rules, err
}

// readPlatformRules reads a CqueryResult (analysis_v2.proto).
func readPlatformRules(b []byte) ([]PlatformRule, error) {
	var result struct {
		Results []struct {
			Target struct {
				Rule struct {
					Name      string
					Attribute []json.RawMessage
				}
			}
		}
	}
	if err := json.Unmarshal(b, &result); err != nil {
		return nil, fmt.Errorf("bazel cquery: %w", err)
	}
	var rules []PlatformRule
	for _, x := range result.Results {
		r := PlatformRule{Label: x.Target.Rule.Name}
		for _, raw := range x.Target.Rule.Attribute {
			var a struct {
				Name            string
				StringDictValue []json.RawMessage
				StringValue     string
			}
			if err := json.Unmarshal(raw, &a); err != nil {
				return nil, fmt.Errorf("bazel cquery: %s: %w", r.Label, err)
			}
			switch a.Name {
			case "exec_properties", "remote_execution_properties":
				r.Properties = r.Properties || len(a.StringDictValue) > 0 || a.StringValue != ""
			case "parents", "constraint_values", "flags":
			default:
				continue
			}
			r.Attributes = append(r.Attributes, string(raw))
		}
		slices.Sort(r.Attributes)
		rules = append(rules, r)
	}
	slices.SortFunc(rules, func(x, y PlatformRule) int { return strings.Compare(x.Label, y.Label) })
	return rules, nil
}
