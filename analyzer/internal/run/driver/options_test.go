package driver

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
)

// known returns the options of `bazel test` in Bazel 7.7.1. TestOptions in analyzer/verify/e2e compares
// the list with the program's.
func known(t *testing.T) []string {
	b, err := os.ReadFile("testdata/options-7.7.1.txt")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(b))
}

// optionGroup is a part of the table.
type optionGroup struct {
	effect  string
	reason  string
	options []string
}

func optionGroups() (groups []*optionGroup) {
	for line := range strings.Lines(optionTable) {
		if effect, reason, ok := strings.Cut(line, ": "); ok {
			groups = append(groups, &optionGroup{effect: effect, reason: strings.TrimSpace(reason)})
		} else if len(groups) > 0 {
			g := groups[len(groups)-1]
			g.options = append(g.options, strings.Fields(line)...)
		}
	}
	return groups
}

func TestOptionTable(t *testing.T) {
	effects := []effect{inKey, nothing, ifUnmodelled, ifRemote, ifExclusive, runsAll, runsAllOrKey}
	list := known(t)
	seen := map[string]int{}
	for _, g := range optionGroups() {
		if !slices.Contains(effects, effect(g.effect)) || len(g.reason) < 10 || len(g.options) == 0 {
			t.Errorf("group %+v", g)
		}
		if !slices.IsSorted(g.options) {
			t.Errorf("%s: %s: the options aren't in order", g.effect, g.reason)
		}
		others := strings.HasPrefix(g.reason, "only other releases")
		for _, name := range g.options {
			seen[name]++
			if optionEffects()[name] != effect(g.effect) {
				t.Errorf("%s: effect %q, and it is in a group of %s", name, optionEffects()[name], g.effect)
			}
			if slices.Contains(list, name) == others {
				t.Errorf("%s: in Bazel 7.7.1 is %t", name, !others)
			}
		}
	}
	for _, name := range list {
		if seen[name] != 1 {
			t.Errorf("%s is in %d groups of optionTable: put it into the one that says what it decides, or in doubt into one of \"key\"", name, seen[name])
		}
	}
}

// What makes everything run is what the table says, with some value.
func TestRunAllOptions(t *testing.T) {
	st := store.OpenDisk(t.TempDir())
	for _, name := range known(t) {
		runs := ""
		for _, value := range []string{"0", "1", "2", "docker", "TestRunner=docker", "/a:/b"} {
			inv := &invocation{Options: &Options{Store: st}, options: []bazel.Option{option(name + "=" + value)}}
			runs = max(runs, inv.runAllReason())
		}
		e := optionEffects()[name]
		if (runs != "") != (e == runsAll || e == runsAllOrKey) {
			t.Errorf("%s: %q, and the table has it with effect %q", name, runs, e)
		}
	}
}

// besides returns what options contribute for a test with tags.
func besides(options, tags, release string) *fingerprint.Run {
	inv := &invocation{execRoot: "/base/execroot/_main", release: release}
	for _, o := range strings.Fields("client_env=PATH=/bin test_env=T=1 " + options) {
		inv.options = append(inv.options, option(o))
	}
	d := &description{Tags: strings.Fields(tags)}
	t := &subject{target: &target{label: "//p:t"}, evidence: &evidence{description: d}, composed: &fingerprint.Composed{Config: &fingerprint.Config{}}}
	t.remote = inv.option("remote_executor") != "" && d.isRemote()
	return inv.declaredRun(t, inv.commonInputs())
}

// Options that bazelrc files of CI have: the results are those of laptops.
const ofCI = `skip_incompatible_explicit_targets=1 remote_instance_name=main tool_java_language_version=17 tool_java_runtime_version=remotejdk_17
	host_jvmopt=-Xmx1g protocopt=--experimental_allow_proto3_optional strict_proto_deps=off python_path=/usr/bin/python3
	modify_execution_info=CppLink=+no-remote-cache,^(Javac|Genrule)$=+no-remote incompatible_modify_execution_info_additive=1
	remote_default_exec_properties=image=1 build_runfile_links=0 instrumentation_filter=//a[/:]
	coverage_report_generator=@bazel_tools//tools/test:coverage_report_generator experimental_fetch_all_coverage_outputs=1
	experimental_cc_implementation_deps=1 experimental_inmemory_dotd_files=1 experimental_merged_skyframe_analysis_execution=1
	incompatible_default_to_explicit_init_py=1 incompatible_disallow_empty_glob=1 incompatible_exclusive_test_sandboxed=0
	max_config_changes_to_show=-1 expand_test_suites=0
	remote_cache=grpc://x remote_header=x-api-key=k experimental_remote_cache_compression_threshold=100 execution_log_compact_file=/x`

func TestOptionsOfCI(t *testing.T) {
	for _, release := range []string{"7.7.1", "9.0.0"} {
		if d := cmp.Diff(besides("", "", release), besides(ofCI, "", release)); d != "" {
			t.Error(d)
		}
	}
	const remote = "remote_executor=grpc://x "
	for _, c := range []struct{ with, options, tags string }{
		{remote, "remote_instance_name=main", ""},
		{remote, "remote_default_exec_properties=image=1", ""},
		{remote, "remote_default_platform_properties=x", ""},
		{remote, "modify_execution_info=CppLink=+no-remote", ""},
		{remote, "incompatible_modify_execution_info_additive=1", ""},
		{remote, "remote_exec_header=X-BuildBuddy-Platform.container-image=docker://x", ""},
		{remote, "remote_header=x-buildbuddy-platform.OSFamily=linux", ""},
		{remote, "remote_default_exec_properties=image=1", "no-remote"}, // its link isn't here
		{"", "remote_executor=grpc://x", ""},
		{"", "incompatible_exclusive_test_sandboxed=0", "exclusive"},
		{"", "incompatible_exclusive_test_sandboxed=0", "exclusive-if-local"},
		{"", "modify_execution_info=TestRunner=+block-network", ""},
		{"", "modify_execution_info=.*=+requires-fakeroot", ""},
		{"", "modify_execution_info=CppLink=+no-remote,(Test|Gen).*=+no-sandbox", ""},
		{"", "modify_execution_info=(?!CppLink).*=+no-sandbox", ""}, // Java's
		{"", "modify_execution_info=[A-Z&&[^C]].*=+no-sandbox", ""}, // Java's
		{"", "modify_execution_info=TestRunner=+no-sandbox=-", ""},  // whatever that is
		{"modify_execution_info=TestRunner=+block-network modify_execution_info=CppLink=+x ", "incompatible_modify_execution_info_additive=1", ""},
		{"", "sandbox_add_mount_pair=/a", ""},
		{"", "some_new_option=1", ""},
		{"", "experimental_remote_new_option=1", ""},
	} {
		if cmp.Equal(besides(c.with, c.tags, "7.7.1"), besides(c.with+c.options, c.tags, "7.7.1")) {
			t.Errorf("%s%s, tags %s: no difference", c.with, c.options, c.tags)
		}
	}
	for _, same := range []string{
		"remote_header=x-api-key=k", "remote_exec_header=x-buildbuddy-platform.container-registry-password=k", "remote_retries=7",
		"incompatible_exclusive_test_sandboxed=0", "jobs=3",
	} {
		if d := cmp.Diff(besides(remote, "", "7.7.1"), besides(remote+same, "", "7.7.1")); d != "" {
			t.Errorf("%s: %s", same, d)
		}
	}
}

// With these, calls of Bazel for one `tasting test` differ, whose options are compared.
func TestOwnOptions(t *testing.T) {
	own := slices.Concat(clientOptions, stepOptions, fileOptions, []string{"aspects", "cache_test_results", "experimental_build_event_upload_strategy", "keep_going", "target_pattern_file", "test_summary"})
	for _, name := range own {
		if l := invocationParts([]bazel.Option{option("incompatible_strict_action_env=1"), option(name + "=1")}); len(l) > 0 {
			t.Errorf("%s: %v", name, l)
		}
	}
}
