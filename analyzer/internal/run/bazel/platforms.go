package bazel

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// An Execution says that an action is executed on a platform.
type Execution struct {
	Mnemonic string
	Platform string // label
}

// Executions asks for those actions of targets that have one of mnemonics. The
// result maps the targets' labels to what there is, sorted and without
// repetition. Flags and rc are those of the build (see RunRC); queryFile is the
// name of a file that may be written.
func (b *Bazel) Executions(ctx context.Context, rc, queryFile string, flags, labels, mnemonics []string) (map[string][]Execution, error) {
	query := fmt.Sprintf("mnemonic(\"^(%s)$\", set(%s))\n", strings.Join(mnemonics, "|"), quote(labels))
	if err := os.WriteFile(queryFile, []byte(query), 0o666); err != nil {
		return nil, err
	}
	out, err := b.output(ctx, b.startup(rc), "aquery", append(slices.Clone(flags),
		"--query_file="+queryFile, "--output=jsonproto", "--noinclude_artifacts", "--noinclude_commandline", "--noinclude_aspects"))
	if err != nil {
		return nil, err
	}
	return readExecutions(out)
}

func quote(labels []string) string {
	var b strings.Builder
	for _, l := range labels {
		quote := `"`
		if strings.Contains(l, quote) {
			quote = "'" // both can't be said
		}
		b.WriteString("\n" + quote + l + quote)
	}
	return b.String()
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

// PlatformRules returns the rules of a platform and its parents, sorted. Flags and
// rc are those of the build. It is an error if the platform itself isn't declared
// by platform(): then it can't be told what it holds.
func (b *Bazel) PlatformRules(ctx context.Context, rc string, flags []string, label string) ([]PlatformRule, error) {
	out, err := b.output(ctx, b.startup(rc), "cquery", append(slices.Clone(flags),
		"--output=jsonproto", "--", fmt.Sprintf("kind(\"^platform rule$\", deps(\"%s\"))", label)))
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
