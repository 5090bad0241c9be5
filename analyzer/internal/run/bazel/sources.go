package bazel

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

// A Source is a file of a package that no action makes.
type Source struct{ Label, Path string }

// Sources returns the sources that targets are built from, without those of tools
// and of the toolchain. Flags and rc are those of the build; queryFile is the name
// of a file that may be written.
func (b *Bazel) Sources(ctx context.Context, rc, queryFile string, flags, labels []string) ([]Source, error) {
	out, err := b.cquery(ctx, rc, queryFile, flags, fmt.Sprintf(`kind("^source file$", deps(set(%s)))`, quote(labels)), "jsonproto")
	if err != nil {
		return nil, err
	}
	return readSources(out)
}

// Dependents returns those of targets that are built from one of sources, which
// are labels.
func (b *Bazel) Dependents(ctx context.Context, rc, queryFile string, flags, targets, sources []string) ([]string, error) {
	out, err := b.cquery(ctx, rc, queryFile, flags, fmt.Sprintf("let all = set(%s) in $all intersect rdeps($all, set(%s))", quote(targets), quote(sources)), "label")
	var labels []string
	for line := range strings.Lines(string(out)) {
		label, _, _ := strings.Cut(strings.TrimSpace(line), " ") // and a configuration
		labels = append(labels, label)
	}
	return labels, err
}

// Aliases returns which of targets are aliases, with the labels that these stand for; all labels are as build events
// spell them. Other arguments are those of Sources.
func (b *Bazel) Aliases(ctx context.Context, rc, queryFile string, flags, targets []string) (map[string]string, error) {
	if err := os.WriteFile(queryFile, []byte(fmt.Sprintf("kind(\"^alias rule$\", set(%s))\n", quote(targets))), 0o666); err != nil {
		return nil, err
	}
	out, err := b.output(ctx, b.startup(rc), "query", append(slices.Clone(flags), "--query_file="+queryFile, "--output=streamed_jsonproto", "--consistent_labels"))
	if err != nil {
		return nil, err
	}
	return readAliases(out)
}

// readAliases reads a stream of Target messages (build.proto) of aliases.
func readAliases(b []byte) (map[string]string, error) {
	spelt := func(label string) string {
		if rest, ok := strings.CutPrefix(label, "@@//"); ok {
			return "//" + rest
		}
		return label
	}
	aliases := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(b)); ; {
		var t struct {
			Rule struct {
				Name      string
				Attribute []struct{ Name, StringValue string }
			}
		}
		if err := d.Decode(&t); err == io.EOF {
			return aliases, nil
		} else if err != nil {
			return nil, fmt.Errorf("bazel query: %w", err)
		}
		for _, a := range t.Rule.Attribute {
			if a.Name == "actual" && a.StringValue != "" {
				aliases[spelt(t.Rule.Name)] = spelt(a.StringValue)
			}
		}
	}
}

// Repositories returns the names by which the main repository calls others, by their canonical names.
func (b *Bazel) Repositories(ctx context.Context, rc string, flags []string) (map[string]string, error) {
	out, err := b.output(ctx, b.startup(rc), "mod", append([]string{"dump_repo_mapping", ""}, flags...))
	if err != nil {
		return nil, err
	}
	apparent := map[string]string{}
	if err := json.Unmarshal(out, &apparent); err != nil {
		return nil, fmt.Errorf("bazel mod dump_repo_mapping: %w", err)
	}
	canonical := map[string]string{}
	for name, repo := range apparent {
		if old := canonical[repo]; old == "" || name < old {
			canonical[repo] = name
		}
	}
	return canonical, nil
}

func (b *Bazel) cquery(ctx context.Context, rc, queryFile string, flags []string, query, format string) ([]byte, error) {
	if err := os.WriteFile(queryFile, []byte(query+"\n"), 0o666); err != nil {
		return nil, err
	}
	return b.output(ctx, b.startup(rc), "cquery", append(slices.Clone(flags),
		"--query_file="+queryFile, "--output="+format, "--notool_deps", "--noimplicit_deps", "--norelative_locations"))
}

var location = regexp.MustCompile(`:\d+:\d+$`)

// readSources reads a CqueryResult (analysis_v2.proto) of source files.
func readSources(b []byte) ([]Source, error) {
	var result struct {
		Results []struct {
			Target struct {
				SourceFile struct{ Name, Location string }
			}
		}
	}
	if err := json.Unmarshal(b, &result); err != nil {
		return nil, fmt.Errorf("bazel cquery: %w", err)
	}
	var sources []Source
	for _, x := range result.Results {
		f := x.Target.SourceFile
		if f.Name == "" || !location.MatchString(f.Location) {
			return nil, fmt.Errorf("bazel cquery: %q at %q: want a source file", f.Name, f.Location)
		}
		sources = append(sources, Source{f.Name, location.ReplaceAllString(f.Location, "")})
	}
	return sources, nil
}
