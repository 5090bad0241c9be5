package driver

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// rcLine is an argument that a bazelrc file has for a command.
type rcLine struct{ file, command, config, arg string }

const override = "--default_override="

// rcLines returns the lines of bazelrc files, in their order, from the client's arguments to the server.
func rcLines(args []string) (lines []rcLine) {
	files := append([]string{"client"}, rcFiles(args)...)
	for _, a := range args {
		x, ok := strings.CutPrefix(a, override)
		if !ok {
			continue
		}
		file, x, _ := strings.Cut(x, ":")
		if n, err := strconv.Atoi(file); err == nil && n >= 0 && n < len(files) {
			file = files[n]
		}
		section, arg, _ := strings.Cut(x, "=")
		command, config, _ := strings.Cut(section, ":")
		lines = append(lines, rcLine{file, command, config, arg})
	}
	return lines
}

// rcFiles returns the bazelrc files of a client's arguments, in the order of their numbers,
// from 1. The client itself has the number 0.
func rcFiles(args []string) (files []string) {
	for _, a := range args {
		if f, ok := strings.CutPrefix(a, "--rc_source="); ok && f != "client" {
			files = append(files, f)
		}
	}
	return files
}

// rcArgs returns the arguments that bazelrc files have for commands, by configuration, in the order of commands. A flag and its
// value may be on two lines.
func (inv *invocation) rcArgs(commands ...string) map[string][]string {
	of := map[string][]string{}
	for _, command := range commands {
		for _, l := range rcLines(inv.overrides) {
			if l.command == command {
				of[l.config] = append(of[l.config], l.arg)
			}
		}
	}
	return of
}

// userValue returns the user's value of an option that this program overrides in some calls of Bazel: the value on the
// command line, else in a bazelrc, or "".
func (inv *invocation) userValue(name string) (value string) {
	of := inv.rcArgs("always", "common", "build", "test") // a more specific command counts more
	applied := map[string]bool{}                          // configurations being applied
	var apply func(args []string)
	apply = func(args []string) {
		words, _ := inv.flags.Split(args)
		for _, w := range words {
			if v, ok := strings.CutPrefix(w, "--"+name+"="); ok && w != inv.runUnder {
				value = v
			} else if c, ok := strings.CutPrefix(w, "--config="); ok && !applied[c] {
				applied[c] = true
				apply(of[c])
				applied[c] = false
			}
		}
	}
	apply(of[""])
	if inv.enabled("enable_platform_specific_config") {
		apply(of[runtime.GOOS])
	}
	apply(slices.DeleteFunc(slices.Clone(inv.overrides), func(a string) bool { return strings.HasPrefix(a, override) }))
	return value
}

// inQuotes escapes the characters that are special between quotes in a bazelrc. Source: Bazel's
// blaze_util::Tokenize.
var inQuotes = strings.NewReplacer(`\`, `\\`, `'`, `\'`)

// buildLines returns a bazelrc that has the lines for "test" of the user's files as lines for "build",
// because the analysis needs the options of the tests.
func (inv *invocation) buildLines() (string, error) {
	var b strings.Builder
	of := inv.rcArgs("test")
	for _, config := range slices.Sorted(maps.Keys(of)) {
		words, _ := inv.flags.Split(of[config])
		for _, f := range inv.flags.Known("build", words) {
			if strings.Contains(f, "\n") {
				return "", fmt.Errorf("%s: a line end in a flag for \"test\" in a bazelrc can't be passed on: move it to \"build\"", f)
			}
			fmt.Fprintf(&b, "%s '%s'\n", strings.TrimSuffix("build:"+config, ":"), inQuotes.Replace(f))
		}
	}
	return b.String(), nil
}

// rcFile returns the file that writeRC writes.
func (inv *invocation) rcFile() string { return filepath.Join(inv.tmp, "rc") }

func (inv *invocation) writeRC() error {
	lines, err := inv.buildLines()
	if err != nil {
		return err
	}
	return os.WriteFile(inv.rcFile(), []byte(lines), 0o666)
}
