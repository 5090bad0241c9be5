package checks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/rules-tasting/rules_tasting/analyzer/cmd/tasting/command"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/progress"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/component"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/evolve"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/evolve/autoep"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/served"
	"github.com/spf13/cobra"
)

// ours begins the names of tools that are this one.
const ours = "tasting"

// commonTools are the tools that need no Bazel: with source also ours by evidence by source, with traces ours
// that knows what tests have executed, and with cases ours by cases.
func commonTools(p evolve.Passes, source, traces, cases bool) []evolve.Tool {
	l := []evolve.Tool{
		evolve.BazelCache(p), evolve.Targets(p), evolve.Files(p), evolve.Hybrid(p, false), evolve.Hybrid(p, true),
		evolve.Ours(ours+", whole files", p, evolve.WholeFiles()), evolve.Ours(ours, p, &evolve.Evidence{}),
	}
	if source {
		l = append(l, evolve.Ours(ours+", by source", p, &evolve.Evidence{Source: true}))
	}
	if traces {
		l = append(l, evolve.OursWithTraces(ours+", with traces", p, &evolve.Evidence{}))
	}
	if cases {
		l = append(l, evolve.OursByCases(ours+", by cases", p, &evolve.Evidence{}))
	}
	return l
}

func evolveCommand() *cobra.Command {
	var o autoep.Options
	b := &evolve.Builder{}
	var out, replay string
	var asJSON, faults, traces, cases bool
	cmd := &cobra.Command{
		Use:   "evolve [flags]",
		Short: "Check what tools select of generated programs that evolve",
		Long: `Generate small programs with tests that evolve, run them through tasting and other tools that select
tests, and check by rules what each selects. No Bazel is started.`,
		Example: `  tasting check evolve --programs=1000 --out=/tmp/found
  tasting check evolve --replay=/tmp/found/R1-files-JD4+E3`,
		Args: command.Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.N == 0 && replay == "" {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), strings.Join(autoep.Modes(), "\n"))
				return err
			}
			if err := autoep.Check(o.Modes); err != nil {
				return fmt.Errorf("check evolve: --modes: %w", err)
			}
			for _, compiler := range []string{b.C, b.CXX} {
				if _, err := exec.LookPath(compiler); err != nil {
					return fmt.Errorf("check evolve: %w: it needs clang and clang++ on PATH, or compilers by --cc and --cxx", err)
				}
			}
			defer serveClang(b.C, cmd.ErrOrStderr())()
			var err error
			if b.Clang != "" {
				if b.Clang, err = component.FindClang(cmd.Context(), b.Clang); err != nil {
					return err
				}
			}
			if b.Dir, err = os.MkdirTemp(memory(), "tasting-evolve-"); err != nil {
				return err
			}
			defer os.RemoveAll(b.Dir)
			b.Traces = traces || faults
			c := &evolve.Campaign{Builder: b, Tools: func(p evolve.Passes) []evolve.Tool { return commonTools(p, b.Clang != "", traces, cases) }}
			if faults {
				if c.Tools = faultyTools; len(o.Modes) == 0 {
					o.Modes = evolve.FaultModes()
				}
			}
			programs, err := evolving(o, replay, cases, faults)
			if err != nil {
				return err
			}
			line := progress.On(cmd.ErrOrStderr())
			c.Progress = func(done int) { line.Show("%d of %d programs", done, o.N-o.Skip) }
			r, err := c.Run(cmd.Context(), programs)
			line.Clear()
			if err == nil && out != "" {
				err = writeFound(cmd.Context(), c, r, programs, out)
			}
			if err != nil {
				return err
			}
			return concludeEvolve(cmd.OutOrStdout(), r, asJSON, faults)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.N, "programs", 1000, "how many programs; 0: list the modes")
	f.IntVar(&o.Skip, "skip", 0, "leave out the first programs")
	f.Uint64Var(&o.Seed, "seed", 1, "which programs")
	f.StringSliceVar(&o.Modes, "modes", nil, "only these `MODES`, such as JD4+E3 or *+E3")
	f.StringVar(&b.C, "cc", "clang", "compiler of C")
	f.StringVar(&b.CXX, "cxx", "clang++", "compiler of C++")
	f.StringArrayVar(&b.Flags, "copt", []string{"-O0", "-w"}, "a `FLAG` of all compilations (repeatable)")
	f.StringArrayVar(&b.Links, "linkopt", []string{"-fuse-ld=lld"}, "a `FLAG` of all links (repeatable)")
	f.StringVar(&out, "out", "", "`DIR` for one small program of each group of violations")
	f.StringVar(&replay, "replay", "", "check only the program in this `DIR` of --out")
	f.BoolVar(&faults, "faults", false, "check that analyzers that are broken on purpose are found")
	f.BoolVar(&traces, "traces", false, "add tasting with traces as a tool")
	f.BoolVar(&cases, "cases", false, "make the tests of each program cases of one test, and add tasting by cases as a tool")
	f.BoolVar(&asJSON, "json", false, "print the report as JSON")
	f.StringVar(&b.Clang, "clang", "", "clang that dumps syntax trees (default: none)")
	return cmd
}

// serveClang keeps clang and its linker loaded until stop, if the compiler is clang.
func serveClang(compiler string, stderr io.Writer) (stop func()) {
	if compiler != "clang" {
		return func() {}
	}
	stop, err := served.Start("clang", "ld.lld")
	if err != nil {
		fmt.Fprintln(stderr, "clang is loaded at each call:", err)
	}
	return stop
}

// evolving returns the programs to check: the one in a directory, or generated ones, by cases or as faults need them.
func evolving(o autoep.Options, replay string, cases, faults bool) (iter.Seq[*evolve.Program], error) {
	switch programs := autoep.Programs(o); {
	case replay != "": // it was written as it was checked
		p, err := evolve.Read(replay)
		return slices.Values([]*evolve.Program{p}), err
	case faults:
		return evolve.WithCases(programs), nil
	case cases:
		return evolve.ByCases(programs), nil
	default:
		return programs, nil
	}
}

// concludeEvolve prints a report, and returns an error if it isn't as it has to be.
func concludeEvolve(out io.Writer, r *evolve.Report, asJSON, faults bool) (err error) {
	switch {
	case asJSON:
		err = command.PrintJSON(out, r)
	case faults:
		err = r.FaultsText(out)
	default:
		err = r.Text(out)
	}
	switch n := len(ourViolations(r)); {
	case err != nil:
		return err
	case len(r.Programs) == 0:
		return errors.New("check evolve: no program was checked: --programs counts those that --skip leaves out, too")
	case faults:
		return unfound(r)
	case n > 0:
		return command.Exit(command.Difference, fmt.Errorf("check evolve: %d violations of safety or generality: this is a bug of the analyzer, please report it with what --out writes", n))
	}
	return nil
}

// ourViolations are the violations of rules of safety and generality by this tool.
func ourViolations(r *evolve.Report) (l []string) {
	for _, t := range r.Tools {
		if strings.HasPrefix(t, ours) {
			for _, v := range r.Wrong(t) {
				l = append(l, v.String())
			}
		}
	}
	return l
}

// memory is a directory that is no disk, if the machine has one where programs may run: nothing
// in it has to last.
func memory() string {
	const shm, noexec = "/dev/shm", 8
	var s syscall.Statfs_t
	if os.Getenv("TMPDIR") == "" && syscall.Statfs(shm, &s) == nil && s.Flags&noexec == 0 {
		return shm
	}
	return ""
}

// faultyTools are analyzers that are broken on purpose, and one that isn't.
func faultyTools(p evolve.Passes) []evolve.Tool {
	l := []evolve.Tool{evolve.Ours(ours, p, &evolve.Evidence{})}
	for _, f := range evolve.Faults {
		l = append(l, f.Tool(p))
	}
	return l
}

// unfound returns an error that names the faults that no rule has found, if any.
func unfound(r *evolve.Report) error {
	var missed []string
	for _, f := range evolve.Faults {
		if len(r.Wrong(f.Name)) == 0 {
			missed = append(missed, f.Name)
		}
	}
	if len(missed) > 0 {
		return command.Exit(command.Difference, fmt.Errorf("check evolve: no program finds %s: take more of them, or other ones", strings.Join(missed, ", ")))
	}
	return nil
}

// writeFound writes one program of each group, as small as it gets.
func writeFound(ctx context.Context, c *evolve.Campaign, r *evolve.Report, programs iter.Seq[*evolve.Program], dir string) error {
	first := map[string][]*evolve.Violation{}
	for _, g := range r.Groups() {
		first[g.First.Program] = append(first[g.First.Program], g.First)
	}
	for p := range programs {
		for _, v := range first[p.Name] {
			small := evolve.Reduce(ctx, c.Builder, p, c.Tools, v)
			name := strings.NewReplacer(" ", "_", "/", "_", ",", "").Replace(v.Rule + "-" + v.Tool + "-" + v.Mode)
			if err := small.Write(filepath.Join(dir, name), []*evolve.Violation{v}); err != nil {
				return errors.Join(err, ctx.Err())
			}
		}
	}
	return ctx.Err()
}
