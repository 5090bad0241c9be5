package bazel

import (
	"context"
	"encoding/json"
	"fmt"
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
