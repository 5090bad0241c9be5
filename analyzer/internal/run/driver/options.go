package driver

import (
	_ "embed"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/lazyregexp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
)

// effect is the way in which an option of Bazel takes part in the keys of tests.
type effect string

const (
	inKey        effect = "key"            // in the key, as is an option without an entry
	nothing      effect = "nothing"        // it can't change a test's outcome if the rest of the key is equal
	ifUnmodelled effect = "seen"           // in the key if the environment of tests isn't modelled; else the environment shows its effect
	ifRemote     effect = "remote"         // in the key with remote execution
	ifExclusive  effect = "exclusive"      // in the key of tests with the tag exclusive
	runsAll      effect = "run all"        // runAllReasonOf knows its values; those without a reason can't change a test's outcome
	runsAllOrKey effect = "run all or key" // the same, but those without a reason are in the key
)

// optionTable has each option that `bazel help flags-as-proto` of Bazel 7.7.1 lists for its command test, with the
// effect and the reason for it. An option in doubt is in the key, which costs a run and no more.
//
//go:embed options.txt
var optionTable string

var optionEffects = sync.OnceValue(func() map[string]effect {
	m := map[string]effect{}
	var group effect
	for line := range strings.Lines(optionTable) {
		if name, _, ok := strings.Cut(line, ": "); ok {
			group = effect(name)
			continue
		}
		for option := range strings.FieldsSeq(line) {
			m[option] = group
		}
	}
	return m
})

// effectOf returns the effect of an option with its value.
func effectOf(o bazel.Option) effect {
	e, known := optionEffects()[o.OptionName]
	switch o.OptionName {
	case "remote_header", "remote_exec_header":
		// Some servers take properties of platforms from headers. Other headers have secrets.
		name, _, _ := strings.Cut(strings.ToLower(o.OptionValue), "=")
		if !strings.Contains(name, "platform") || strings.Contains(name, "registry-username") || strings.Contains(name, "registry-password") {
			return nothing
		}
	}
	// Clients of later releases describe themselves to the server by hidden options, which differ from call to call. Flags of Starlark
	// reach rules only, and the aspect sees the result.
	if !known && (slices.Contains(o.MetadataTags, "HIDDEN") || strings.HasPrefix(o.OptionName, "@") || strings.HasPrefix(o.OptionName, "/")) {
		return nothing
	}
	return e
}

// modifying are options that change the tags of actions.
var modifying = []string{"incompatible_modify_execution_info_additive", "modify_execution_info"}

// modifiesTests reports whether options of modifying may change the tags of tests: block-network, requires-fakeroot, no-sandbox, ...
// Source: Bazel's ExecutionInfoModifier and TestTargetProperties.
func modifiesTests(options []bazel.Option) bool {
	return slices.ContainsFunc(options, func(o bazel.Option) bool {
		if o.OptionName != "modify_execution_info" {
			return false
		}
		return slices.ContainsFunc(strings.Split(o.OptionValue, ","), func(s string) bool {
			pattern := s[:max(0, strings.LastIndex(s, "=+"), strings.LastIndex(s, "=-"))]
			re, err := regexp.Compile("^(?:" + pattern + ")$")
			return err != nil || unlikeJava.MatchString(pattern) || re.MatchString("TestRunner")
		})
	})
}

// unlikeJava matches regular expressions whose meaning may differ between Java and Go.
var unlikeJava = lazyregexp.New(`[^\w.*+?|()^$:-]`)
