package driver

import (
	"fmt"
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

// rcLines returns those of a client's arguments, which tell the server of them, in their
// order.
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

// userValue returns the value of an option that this program replaces in one of
// its calls of Bazel: that of the command line, else of a bazelrc, or "".
func (inv *invocation) userValue(name string) (value string) {
	// What is said for a more specific command counts more.
	commands := []string{"always", "common", "build", "test"}
	lines := make([]map[string][]string, len(commands)) // by configuration
	for k := range lines {
		lines[k] = map[string][]string{}
	}
	for _, l := range rcLines(inv.overrides) {
		if k := slices.Index(commands, l.command); k >= 0 {
			lines[k][l.config] = append(lines[k][l.config], l.arg)
		}
	}
	applied := map[string]bool{} // configurations that are just being applied
	var apply func(args []string)
	applyConfig := func(config string) {
		for _, l := range lines {
			apply(l[config])
		}
	}
	apply = func(args []string) {
		words, _ := inv.flags.Split(args)
		for _, w := range words {
			if v, ok := strings.CutPrefix(w, "--"+name+"="); ok && w != inv.runUnder {
				value = v
			} else if c, ok := strings.CutPrefix(w, "--config="); ok && !applied[c] {
				applied[c] = true
				applyConfig(c)
				applied[c] = false
			}
		}
	}
	applyConfig("")
	if inv.enabled("enable_platform_specific_config") {
		applyConfig(runtime.GOOS)
	}
	apply(slices.DeleteFunc(slices.Clone(inv.overrides), func(a string) bool { return strings.HasPrefix(a, override) }))
	return value
}

// inQuotes has what is special between quotes in a bazelrc stand for itself. Source: Bazel's
// blaze_util::Tokenize.
var inQuotes = strings.NewReplacer(`\`, `\\`, `'`, `\'`)

// buildLines returns a bazelrc with what the user's files say for "test" alone, said for
// "build": the analysis has to be that of the tests. It is empty if they say
// nothing.
func (inv *invocation) buildLines() (string, error) {
	var b strings.Builder
	lines := slices.DeleteFunc(rcLines(inv.overrides), func(l rcLine) bool { return l.command != "test" })
	for len(lines) > 0 {
		// A flag and its value may be on two lines of a section.
		config, args := lines[0].config, []string(nil)
		for len(lines) > 0 && lines[0].config == config {
			args, lines = append(args, lines[0].arg), lines[1:]
		}
		words, _ := inv.flags.Split(args)
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
