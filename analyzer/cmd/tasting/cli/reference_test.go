package cli

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "rewrite docs/reference/cli.md and cli-internal.md")

const (
	referenceDir = "../../../../docs/reference/"
	generated    = "Written by `go test ./analyzer/cmd/tasting/cli -run TestReference -update`; don't edit.\n"
)

// isForUsers reports whether a command belongs on the page for users.
func isForUsers(c *cobra.Command) bool {
	for ; c.HasParent(); c = c.Parent() {
		if c.Hidden || c.GroupID == "contributors" {
			return false
		}
	}
	return true
}

// flagLine describes a flag. "..." marks one that can be repeated.
func flagLine(f *pflag.Flag) string {
	flag := "--" + f.Name
	if f.Shorthand != "" {
		flag = "-" + f.Shorthand + ", " + flag
	}
	value, usage := pflag.UnquoteUsage(f)
	if value != "" {
		flag += "=" + value
	}
	if once, ok := strings.CutSuffix(usage, " (repeatable)"); ok {
		flag, usage = flag+"...", once
	}
	if d := f.DefValue; d != "" && d != "[]" && d != "false" && d != "0" && d != "0s" {
		usage += fmt.Sprintf(" (default `%s`)", d)
	}
	return fmt.Sprintf("- `%s`: %s\n", flag, usage)
}

// reference renders the commands for which is returns true as Markdown, and reports what has no description. Flags that several commands
// have in common come first.
func reference(is func(*cobra.Command) bool) (text string, undocumented []string) {
	_, lines, _ := referenceWithout(nil, is)
	var common []string
	count := map[string]int{}
	name := func(line string) string {
		return strings.FieldsFunc(line, func(c rune) bool { return strings.ContainsRune("`=.:", c) })[1]
	}
	for _, line := range lines {
		isSame := func(c string) bool { return name(c) == name(line) } // two flags of one name can't both be common
		if count[line]++; count[line] == 2 && name(line) != "--json" && !slices.ContainsFunc(common, isSame) {
			common = append(common, line)
		}
	}
	text, _, undocumented = referenceWithout(common, is)
	if len(common) > 0 {
		slices.Sort(common)
		text = "\nFlags of several commands:\n\n" + strings.Join(common, "") + text
	}
	return text, undocumented
}

// referenceWithout renders the commands, but of the common lines of flags only the names, and returns the lines of all flags as well.
func referenceWithout(common []string, is func(*cobra.Command) bool) (text string, lines, undocumented []string) {
	var b strings.Builder
	visit(Root(), func(c *cobra.Command) {
		name := c.Name()
		if !c.HasParent() || name == "help" || name == "completion" || c.Parent().Name() == "completion" || !is(c) || strings.HasPrefix(c.Use, "no-help") {
			return
		}
		if c.Short == "" {
			undocumented = append(undocumented, c.CommandPath())
		}
		fmt.Fprintf(&b, "\n## %s\n\n", c.CommandPath())
		if !c.HasSubCommands() {
			fmt.Fprintf(&b, "    %s\n\n", c.UseLine())
		}
		about := c.Long
		if about == "" {
			about = c.Short + "."
		}
		fmt.Fprintf(&b, "%s\n", about)
		if c.Example != "" {
			fmt.Fprintf(&b, "\nFor example:\n\n    %s\n", strings.ReplaceAll(strings.TrimSpace(c.Example), "\n  ", "\n    "))
		}
		list, also, omitted := &strings.Builder{}, []string{}, false
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name == "help" || f.Hidden {
				return
			}
			if f.Usage == "" {
				undocumented = append(undocumented, c.CommandPath()+" --"+f.Name)
			}
			if strings.HasPrefix(f.Name, "store") && name != "store" && c.LocalFlags().Lookup("store_mode") != nil {
				omitted = true // once is enough
				return
			}
			if c.GroupID == "contributors" && f.Name == "json" || name != "test" && slices.Contains([]string{"bazel", "bazel_startup", "aspect"}, f.Name) {
				return // the introductions have them
			}
			line := flagLine(f)
			lines = append(lines, line)
			if slices.Contains(common, line) {
				also = append(also, "`--"+f.Name+"`")
				return
			}
			list.WriteString(line)
		})
		if len(also) > 0 {
			fmt.Fprintf(list, "- %s, see above\n", strings.Join(also, ", "))
		}
		if list.Len() > 0 {
			fmt.Fprintf(&b, "\n%s", list)
		}
		if omitted {
			b.WriteString("\nThe flags of the store are those of [tasting store](#tasting-store).\n")
		}
	})
	return b.String(), lines, undocumented
}

// Every command and flag is documented, and the documentation is current.
func TestReference(t *testing.T) {
	t.Setenv("TASTING_CLANG", "")
	users, internals := &strings.Builder{}, &strings.Builder{}
	fmt.Fprintf(users, "# The command line\n\nThe commands of `tasting`, for users. %s", generated)
	fmt.Fprintf(users, `
Exit codes: 0 done, 1 a difference was found, 2 bad usage or input, 3 internal error. Those of %s are Bazel's.
In names of flags, %s stands for %s, too. %s prints the version.
Commands that start Bazel take --bazel and --bazel_startup, evaluate also --aspect, as test does.
A flag with ... can be repeated.
`, "`tasting test`", "`-`", "`_`", "`tasting --version`")
	fmt.Fprintf(internals, "# Checks\n\nCommands for work on tasting itself. Rules of Bazel call others, which `tasting internal --help` lists. %s", generated)
	internals.WriteString("\nThe checks take --json, but defects, generated and history take --aspect, --bazel and --bazel_startup, as tasting test does.\nExit code 1: tasting violates a rule of safety or generality. A flag with ... can be repeated.\n")
	_, undocumented := reference(func(*cobra.Command) bool { return true })
	for _, u := range undocumented {
		t.Errorf("%s has no description", u)
	}
	for name, page := range map[string]struct {
		text *strings.Builder
		is   func(*cobra.Command) bool
	}{
		"cli.md": {users, isForUsers},
		"cli-internal.md": {internals, func(c *cobra.Command) bool {
			return !isForUsers(c) && c.HasParent() && c.Parent().Name() == "check"
		}},
	} {
		text, _ := reference(page.is)
		got := page.text.String() + text
		if *update {
			if err := os.WriteFile(referenceDir+name, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(referenceDir + name)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), got); d != "" {
			t.Errorf("docs/reference/%s is out of date; go test ./analyzer/cmd/tasting/cli -run TestReference -update\n%s", name, d)
		}
	}
}
