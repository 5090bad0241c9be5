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

// A Query asks Bazel about a build.
type Query struct {
	Bazel *Bazel                        // with the bazelrc file of the build
	Flags func(command string) []string // of the build, as far as the command knows them
	File  string                        // which may be written
}

// ask returns the output of a command for a query.
func (q *Query) ask(ctx context.Context, command, query string, args ...string) ([]byte, error) {
	if err := os.WriteFile(q.File, []byte(query+"\n"), 0o666); err != nil {
		return nil, err
	}
	return q.Bazel.Output(ctx, command, slices.Concat(q.Flags(command), []string{"--query_file=" + q.File}, args)...)
}

// setQuery returns the query for a set of labels.
func setQuery(labels []string) string {
	var b strings.Builder
	for _, l := range labels {
		quote := `"`
		if strings.Contains(l, quote) {
			quote = "'" // both can't be said
		}
		b.WriteString("\n" + quote + l + quote)
	}
	return "set(" + b.String() + ")"
}

// A Source is a file of a package that no action makes.
type Source struct{ Label, Path string }

// withoutTools are flags of a cquery that leave out dependences on tools and on the toolchain.
var withoutTools = []string{"--notool_deps", "--noimplicit_deps"}

// Sources returns the sources that targets are built from, without those of tools and of the toolchain.
func (q *Query) Sources(ctx context.Context, labels []string) ([]Source, error) {
	out, err := q.ask(ctx, "cquery", fmt.Sprintf(`kind("^source file$", deps(%s))`, setQuery(labels)), append(withoutTools, "--output=jsonproto", "--norelative_locations")...)
	if err != nil {
		return nil, err
	}
	return readSources(out)
}

// Dependents returns those of targets that are built from one of sources. All are labels.
func (q *Query) Dependents(ctx context.Context, targets, sources []string) ([]string, error) {
	out, err := q.ask(ctx, "cquery", fmt.Sprintf("let all = %s in $all intersect rdeps($all, %s)", setQuery(targets), setQuery(sources)), append(withoutTools, "--output=label")...)
	var labels []string
	for line := range strings.Lines(string(out)) {
		label, _, _ := strings.Cut(strings.TrimSpace(line), " ") // and a configuration
		labels = append(labels, label)
	}
	return labels, err
}

// Aliases returns the aliases among targets, with the labels that these stand for. All labels are as build events
// spell them.
func (q *Query) Aliases(ctx context.Context, targets []string) (map[string]string, error) {
	out, err := q.ask(ctx, "query", fmt.Sprintf(`kind("^alias rule$", %s)`, setQuery(targets)), "--output=streamed_jsonproto", "--consistent_labels")
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
func (q *Query) Repositories(ctx context.Context) (map[string]string, error) {
	out, err := q.Bazel.Output(ctx, "mod", append([]string{"dump_repo_mapping", ""}, q.Flags("mod")...)...)
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
