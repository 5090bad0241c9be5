package bazel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// ExecutionPlatforms asks on which platforms Bazel executes the actions of
// targets that have one of mnemonics. The result maps the targets' labels to
// those of platforms, sorted. Flags and rc are those of the build (see RunRC);
// queryFile is the name of a file that may be written.
func (b *Bazel) ExecutionPlatforms(ctx context.Context, rc, queryFile string, flags, labels, mnemonics []string) (map[string][]string, error) {
	query := fmt.Sprintf("mnemonic(\"^(%s)$\", set(%s))\n", strings.Join(mnemonics, "|"), quote(labels))
	if err := os.WriteFile(queryFile, []byte(query), 0o666); err != nil {
		return nil, err
	}
	out, err := b.output(ctx, append(slices.Clone(b.Startup), "--bazelrc="+rc), "aquery", append(slices.Clone(flags),
		"--query_file="+queryFile, "--output=jsonproto", "--noinclude_artifacts", "--noinclude_commandline", "--noinclude_aspects"))
	if err != nil {
		return nil, err
	}
	return readExecutionPlatforms(out)
}

func quote(labels []string) string {
	var b strings.Builder
	for _, l := range labels {
		fmt.Fprintf(&b, "\n\"%s\"", l)
	}
	return b.String()
}

// readExecutionPlatforms reads an ActionGraphContainer (analysis_v2.proto).
func readExecutionPlatforms(b []byte) (map[string][]string, error) {
	var graph struct {
		Actions []struct {
			TargetID          int
			ExecutionPlatform string
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
	platforms := map[string][]string{}
	for _, a := range graph.Actions {
		if l := label[a.TargetID]; l != "" && a.ExecutionPlatform != "" && !slices.Contains(platforms[l], a.ExecutionPlatform) {
			platforms[l] = append(platforms[l], a.ExecutionPlatform)
		}
	}
	for _, p := range platforms {
		slices.Sort(p)
	}
	return platforms, nil
}

// A PlatformRule is what decides where a platform's actions are executed.
type PlatformRule struct {
	Label      string
	Attributes []string // as JSON, sorted
	Properties bool     // it has properties for remote execution
}

// PlatformRules returns the rules of a platform and its parents, sorted. Flags are those of `bazel query`.
func (b *Bazel) PlatformRules(ctx context.Context, flags []string, label string) ([]PlatformRule, error) {
	out, err := b.Output(ctx, "query", append(slices.Clone(flags), "--output=streamed_jsonproto", "--", fmt.Sprintf("kind(\"^platform rule$\", deps(\"%s\"))", label))...)
	if err != nil {
		return nil, err
	}
	return readPlatformRules(out)
}

// readPlatformRules reads Targets (build.proto), one on each line.
func readPlatformRules(b []byte) ([]PlatformRule, error) {
	var rules []PlatformRule
	for dec := json.NewDecoder(bytes.NewReader(b)); ; {
		var target struct {
			Rule struct {
				Name, RuleClass string
				Attribute       []json.RawMessage
			}
		}
		err := dec.Decode(&target)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("bazel query: %w", err)
		}
		r := PlatformRule{Label: target.Rule.Name}
		for _, raw := range target.Rule.Attribute {
			var a struct {
				Name            string
				StringDictValue []json.RawMessage
				StringValue     string
			}
			if err := json.Unmarshal(raw, &a); err != nil {
				return nil, fmt.Errorf("bazel query: %s: %w", r.Label, err)
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
