package driver

import (
	"cmp"
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/bazel"
	"github.com/rules-tasting/rules_tasting/analyzer/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/lazyregexp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/wordset"
	"github.com/rules-tasting/rules_tasting/analyzer/syslib"
)

// noEffect are options of Bazel that can't change what a test does. An option
// that isn't here is in the fingerprint, so that one that is missing costs a run
// and no more. Options of compilers are here: what they change is in manifests
// and in the flags of the link. Those of sandboxes and strategies are here that decide whether
// a test sees what it doesn't declare: it is assumed not to use that (docs/soundness.md).
var noEffect = wordset.Of(`
	announce_rc apple_platform_type aspects attempt_to_print_relative_paths auto_cpu_environment_group auto_output_filter
	bes_backend bes_header bes_instance_name bes_keywords bes_results_url bes_timeout bes_upload_mode build
	build_event_binary_file build_event_json_file build_event_json_file_path_conversion build_event_publish_all_actions build_event_text_file build_metadata
	build_tag_filters build_tests_only cache_test_results check_tests_up_to_date check_up_to_date check_visibility
	collect_code_coverage color combined_report compilation_mode compiler config conlyopt copt cpu credential_helper
	credential_helper_cache_duration credential_helper_timeout curses cxxopt define deleted_packages discard_analysis_cache
	disk_cache dynamic_local_strategy dynamic_mode dynamic_remote_strategy embed_label enable_bzlmod enable_workspace
	execution_log_binary_file execution_log_json_file experimental_build_event_upload_strategy
	experimental_convenience_symlinks experimental_record_metrics_for_all_mnemonics experimental_repository_cache_hardlinks experimental_ui_debug_all_events
	experimental_ui_max_stdouterr_bytes explain explicit_java_test_deps extra_execution_platforms extra_toolchains features
	fission flaky_test_attempts force_pic genrule_strategy google_credentials google_default_credentials
	grpc_keepalive_time grpc_keepalive_timeout high_priority_workers host_action_env host_compilation_mode host_compiler
	host_conlyopt host_copt host_cpu host_cxxopt host_features host_linkopt host_per_file_copt host_platform
	http_timeout_scaling incompatible_enable_cc_toolchain_resolution incompatible_strict_action_env
	interface_shared_objects internal_spawn_scheduler isatty java_language_version java_runtime_version javacopt jobs
	keep_going keep_state_after_build linkopt loading_phase_threads local_cpu_resources local_ram_resources local_resources
	local_termination_grace_seconds local_test_jobs lockfile_mode logging ltobackendopt ltoindexopt materialize_param_files
	max_computation_steps memory_profile nested_set_depth_limit output_filter output_groups override_module
	override_repository package_path per_file_copt per_file_ltobackendopt platforms print_relative_test_log_paths
	process_headers_in_dependencies profile progress_in_terminal_title progress_report_interval proto_compiler registry
	remote_accept_cached remote_bytestream_uri_prefix remote_cache remote_cache_async remote_cache_compression
	remote_cache_header remote_download_minimal remote_download_outputs remote_download_regex
	remote_download_symlink_template remote_exec_header remote_execution_priority remote_grpc_log remote_header
	remote_local_fallback remote_local_fallback_strategy remote_max_connections
	remote_print_execution_messages remote_proxy remote_result_cache_priority remote_retries remote_retry_max_delay
	remote_timeout remote_upload_local_results remote_verify_downloads repo_contents_cache repo_env repository_cache
	repository_disable_download run_validations runs_per_test sandbox_debug sandbox_writable_path save_temps show_loading_progress
	show_progress show_progress_rate_limit show_result show_task_finish show_timestamps slim_profile spawn_strategy stamp strategy strategy_regexp strip stripopt
	subcommands symlink_prefix target_pattern_file terminal_columns test_keep_going test_lang_filters test_output
	test_size_filters test_strategy test_summary test_tag_filters test_timeout test_timeout_filters test_verbose_timeout_warnings
	tls_certificate tls_client_certificate tls_client_key toolchain_resolution_debug ui_actions_shown ui_event_filters
	use_ijars verbose_explanations verbose_failures watchfs worker_max_instances worker_quit_after_build worker_sandboxing
	worker_verbose workspace_status_command
	bes_check_preceding_lifecycle_events bes_lifecycle_events bes_oom_finish_upload_timeout bes_outerr_buffer_size
	bes_outerr_chunk_size bes_proxy bes_system_keywords build_event_max_named_set_of_file_entries build_event_upload_max_retries
	check_bazel_compatibility check_direct_dependencies allow_yanked_versions distdir downloader_config enable_platform_specific_config
	experimental_collect_load_average_in_profiler experimental_collect_pressure_stall_indicators
	experimental_collect_resource_estimation experimental_collect_skyframe_counts_in_profiler
	experimental_collect_system_network_usage experimental_collect_worker_data_in_profiler experimental_disk_cache_gc_idle_delay
	experimental_disk_cache_gc_max_age experimental_disk_cache_gc_max_size experimental_downloader_config
	experimental_install_base_gc_max_age experimental_profile_additional_tasks experimental_profile_include_primary_output
	experimental_profile_include_target_label experimental_repository_downloader_retries experimental_worker_for_repo_fetching
	generate_json_trace_profile guard_against_concurrent_changes heap_dump_on_oom heuristically_drop_nodes http_connector_attempts
	http_connector_retry_max_timeout http_max_parallel_downloads ignore_dev_dependency invocation_id legacy_important_outputs
	profiles_to_retain remote_build_event_upload reuse_sandbox_directories starlark_cpu_profile tool_tag track_incremental_state vendor_dir`)

// invocation contributes what Bazel's options and the user's environment say
// about all tests: "option NAME" for each option, with its values in order.
func invocation(options []bazel.Option) []fingerprint.Contribution {
	values := map[string][]string{}
	client := clientEnv(options)
	for _, o := range options {
		hidden := slices.Contains(o.MetadataTags, "HIDDEN")
		if hidden || noEffect[o.OptionName] || strings.HasPrefix(o.OptionName, "experimental_remote_") || strings.HasPrefix(o.OptionName, "@") || strings.HasPrefix(o.OptionName, "/") {
			continue
		}
		v := o.OptionValue
		if o.OptionName == "test_env" || o.OptionName == "action_env" {
			if name, _, assigned := strings.Cut(v, "="); !assigned {
				value, set := client[name]
				v = inherited(name, value, set)
			}
		}
		values["option "+o.OptionName] = append(values["option "+o.OptionName], v)
	}
	// Bazel passes these on to all actions unless told otherwise.
	if !strict(options) {
		for _, name := range []string{"PATH", "LD_LIBRARY_PATH"} {
			v, set := client[name]
			values["environment variable "+name] = []string{inherited(name, v, set)}
		}
	}
	var l []fingerprint.Contribution
	for _, name := range slices.Sorted(maps.Keys(values)) {
		l = append(l, fingerprint.NewContribution(name, values[name]))
	}
	return l
}

// visible are options of which a test sees all that they do: in its environment, its arguments,
// its runfiles, how many shards it has.
var visible = wordset.Of("action_env legacy_external_runfiles test_arg test_env test_filter test_sharding_strategy")

// mappings contributes what a file of the workspace says of options for platforms, and of platforms
// for options: no event tells which of these are in effect. Source: Bazel's PlatformMappingFunction.
func (s *session) mappings() []fingerprint.Contribution {
	b, err := s.readMappings()
	if err != nil {
		return nil
	}
	values := []string{string(b)}
	for _, o := range s.options {
		if o.OptionName == "platforms" || o.OptionName == "cpu" || o.OptionName == "platform_mappings" {
			values = append(values, o.OptionName+"="+o.OptionValue)
		}
	}
	return []fingerprint.Contribution{fingerprint.NewContribution("platform mappings", values)}
}

func (s *session) readMappings() ([]byte, error) {
	file := cmp.Or(s.option("platform_mappings"), "platform_mappings")
	if !filepath.IsAbs(file) {
		file = filepath.Join(s.workspaceDir(), file)
	}
	return os.ReadFile(file)
}

// ofTests matches flags about how tests are run.
var ofTests = lazyregexp.New(`(?m)^[^#\n]*(--(?:no)?(?:test_\w*|\w*action_env|run_under|runs_per_test|cache_test_results|collect_code_coverage|\w*strategy\w*|\w*sandbox\w*))`)

// runOf returns what an execution of a test adds to what the build knows of it: what a runner would
// observe inside of the test, and otherwise what it comes from.
//
// What the environment of tests is like was found out with the releases of Bazel in modelled. With
// another one, and on the workers of remote execution, all options count, and the release.
func (s *session) runOf(ctx context.Context, t *test, all *ofAll) (*fingerprint.Run, error) {
	run := s.declared(t, all)
	return run, s.machine(ctx, t, run)
}

// ofAll is what options and the user's environment say of all tests.
type ofAll struct {
	client     map[string]string // the user's environment
	env        map[string]string // what tests have of it
	disputed   []string
	args       []string
	filter     *string // nil if there is none
	mappings   []fingerprint.Contribution
	invocation []fingerprint.Contribution
}

func (s *session) ofAll() *ofAll {
	all := &ofAll{
		client: clientEnv(s.options), env: optionsEnv(s.options, "action_env", "test_env"), disputed: disputed(s.options),
		mappings: s.mappings(), invocation: invocation(s.options),
	}
	for _, o := range s.options {
		switch o.OptionName {
		case "test_arg":
			all.args = append(all.args, o.OptionValue)
		case "test_filter": // an empty one is one
			all.filter = &o.OptionValue
		}
	}
	return all
}

// declared is what runOf returns, without what counts of this machine.
func (s *session) declared(t *test, all *ofAll) *fingerprint.Run {
	c, d := t.composed, t.description
	run := &fingerprint.Run{
		Dir: "\x00runfiles\x00/" + s.runfilesRoot(), Executable: c.Executable, Shards: s.shards(d),
		Besides: slices.Concat(all.mappings, t.worker.parts, t.links),
	}
	besides := func(name string, values ...string) {
		run.Besides = append(run.Besides, fingerprint.NewContribution(name, values))
	}
	here := modelled[s.major()] && !t.remote
	if !here {
		besides("release of Bazel", s.major())
	}
	for _, x := range all.invocation {
		name, isOption := strings.CutPrefix(x.Name, "option ")
		if !here || isOption && !visible[name] {
			run.Besides = append(run.Besides, x)
		}
	}
	env, contested := s.environment(t, all)
	run.Env = fingerprint.Environment(env, c.EnvKeys, func(v string) string { return v })
	if len(contested) > 0 {
		besides("variables that Bazel sets as well", contested...)
	}
	for _, a := range d.Args {
		if !literal.MatchString(a) {
			besides("arguments as declared", append(append(slices.Clone(d.Args), ""), pairs(d.Variables)...)...)
			break
		}
	}
	run.Args = slices.Concat(d.Args, all.args)
	run.External = s.external(t)
	slices.SortFunc(run.Besides, func(x, y fingerprint.Contribution) int {
		return cmp.Or(strings.Compare(x.Name, y.Name), strings.Compare(x.SHA256, y.SHA256))
	})
	// Files without read permission, ports below 1024, chown: root is different from everybody
	// else, who are alike.
	run.Root = os.Geteuid() == 0
	return run
}

// major is the first number of the release of Bazel.
func (s *session) major() string {
	major, _, _ := strings.Cut(cmp.Or(s.version, s.release), ".")
	return major
}

// shards is the number of shards that Bazel makes of a test, or 0 for none. Source: Bazel's
// TestShardingStrategy.
func (s *session) shards(d *description) int {
	strategy := s.option("test_sharding_strategy")
	if strategy == "disabled" {
		return 0
	}
	if n, err := strconv.Atoi(strings.TrimPrefix(strategy, "forced=")); err == nil {
		return n
	}
	return max(0, d.ShardCount) // -1 unless it is declared
}

// modelled are the first numbers of the releases of Bazel of which environment is true.
var modelled = wordset.Of("7")

// literal matches arguments that Bazel passes on as they are in the BUILD file.
var literal = lazyregexp.New(`^[\w./=:,+@%^-]+$`)

// environment returns the environment that Bazel starts a test with on this machine, and those of
// the user's and the rule's variables that Bazel may set itself. Source: Bazel's TestPolicy,
// TestRunnerAction.setupEnvVariables and test-setup.sh. (onekey.txtar compares it with what a runner sees.)
func (s *session) environment(t *test, all *ofAll) (env, contested []string) {
	d := t.description
	values := maps.Clone(all.env)
	maps.Copy(values, d.Env)
	for _, name := range d.EnvInherited {
		if v, set := all.client[name]; set {
			values[name] = v
		}
	}
	own := map[string]string{
		"BAZEL_TEST": "1", "EXPERIMENTAL_SPLIT_XML_GENERATION": "1", "RUN_UNDER_RUNFILES": "1", "TZ": "UTC",
		"TEST_BINARY": s.testBinary(t), "TEST_TARGET": t.label, "TEST_WORKSPACE": s.runfilesRoot(),
	}
	for _, name := range fingerprint.SetByBazel {
		own[name] = ""
	}
	if all.filter != nil {
		own["TESTBRIDGE_TEST_ONLY"] = *all.filter
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		_, set := own[name]
		if set || ofBazel.MatchString(name) {
			contested = append(contested, name+"="+values[name])
		}
	}
	contested = append(contested, all.disputed...)
	if path, set := values["PATH"]; set {
		values["PATH"] = ".:" + path
	} else {
		contested = append(contested, "PATH")
	}
	maps.Copy(values, own)
	return pairs(values), contested
}

// ofBazel matches the names of variables that Bazel sets for some tests.
var ofBazel = lazyregexp.New(`^(TEST_|GTEST_|TESTBRIDGE_|BASH_FUNC_|COVERAGE|RUNFILES_|BAZEL_|EXPERIMENTAL_|OLDPWD$|SHLVL$|_$)`)

// testBinary is the path of a test's executable in the runfiles of its workspace.
func (s *session) testBinary(t *test) string {
	repo, path, _ := strings.Cut(t.label, "//")
	pkg, name, _ := strings.Cut(path, ":")
	switch {
	case repo != "":
		return "../" + strings.TrimLeft(repo, "@") + "/" + filepath.Join(pkg, name)
	case pkg == "" && !strings.Contains(name, "/"):
		return "./" + name
	}
	return filepath.Join(pkg, name)
}

// runfilesRoot is the name of the directory in the runfiles where a test starts: that of its workspace.
func (s *session) runfilesRoot() string { return filepath.Base(s.execRoot) }

// external tells whether there are files of other repositories in the runfiles a second time.
func (s *session) external(t *test) bool {
	legacy := s.option("legacy_external_runfiles")
	if isFalse(legacy) || legacy == "" && !modelled[s.major()] {
		return false
	}
	if strings.HasPrefix(t.label, "@") {
		return true // the test itself
	}
	return slices.ContainsFunc(t.composed.Data, func(f fingerprint.File) bool { return !strings.HasPrefix(f.Path, s.runfilesRoot()+"/") })
}

// strict tells whether Bazel keeps PATH and LD_LIBRARY_PATH of the user from
// tests.
func strict(options []bazel.Option) bool {
	return isTrue(effective(options, strictActionEnv))
}

func inherited(name, value string, set bool) string {
	if !set {
		return name
	}
	return name + "=" + value
}

// loading says why it can't be told which libraries a test loads, or "": its own
// environment, or that of all tests, has a variable of the loader. Of the user's
// environment LD_LIBRARY_PATH alone reaches tests, unless Bazel is strict.
func (d *description) loading(options []bazel.Option) string {
	client := clientEnv(options)
	var set []string
	note := func(name, value string) {
		if syslib.ChangesLoading(name, value) {
			set = append(set, name)
		}
	}
	if !strict(options) {
		note("LD_LIBRARY_PATH", client["LD_LIBRARY_PATH"])
	}
	// Which of several says the last word doesn't matter: one is enough.
	for _, o := range options {
		if o.OptionName != "test_env" && o.OptionName != "action_env" {
			continue
		}
		if name, value, assigned := strings.Cut(o.OptionValue, "="); assigned {
			note(name, value)
		} else if value, there := client[name]; there {
			note(name, value)
		}
	}
	for _, name := range d.EnvInherited {
		if value, there := client[name]; there {
			note(name, value)
		}
	}
	for name, value := range d.Env {
		note(name, value)
	}
	if len(set) == 0 {
		return ""
	}
	return slices.Min(set) + " is set: what it has the test load isn't known"
}

// optionsEnv is the environment in which Bazel starts actions, but for what each has of its
// own: nothing else of the user's is there, so no LIBRARY_PATH that leads to other libraries. Options
// that say more of it are applied one after the other; the last mention of a variable counts.
// Source: Bazel's BazelRuleClassProvider.SHELL_ACTION_ENV, ActionEnvironment.
func optionsEnv(options []bazel.Option, names ...string) map[string]string {
	client := clientEnv(options)
	env := map[string]string{}
	inherit := func(name string) {
		if v, set := client[name]; set {
			env[name] = v
		}
	}
	if strict(options) {
		env["PATH"] = "/bin:/usr/bin:/usr/local/bin"
	} else {
		inherit("PATH")
		inherit("LD_LIBRARY_PATH")
	}
	for _, option := range names {
		last := map[string]string{} // the whole word
		for _, o := range options {
			if o.OptionName != option {
				continue
			}
			if name, unset := strings.CutPrefix(o.OptionValue, "="); unset {
				delete(last, name)
				delete(env, name)
				continue
			}
			name, _, _ := strings.Cut(o.OptionValue, "=")
			last[name] = o.OptionValue
		}
		for name, word := range last {
			if _, value, assigned := strings.Cut(word, "="); assigned {
				env[name] = value
			} else {
				inherit(name)
			}
		}
	}
	return env
}

// disputed returns what several options say of one variable.
func disputed(options []bazel.Option) (words []string) {
	said := map[string]map[string]bool{}
	of := func(o bazel.Option) string {
		name, _, _ := strings.Cut(strings.TrimPrefix(o.OptionValue, "="), "=")
		return name
	}
	among := slices.DeleteFunc(slices.Clone(options), func(o bazel.Option) bool { return o.OptionName != "test_env" && o.OptionName != "action_env" })
	for _, o := range among {
		if said[of(o)] == nil {
			said[of(o)] = map[string]bool{}
		}
		said[of(o)][o.OptionName+"="+o.OptionValue] = true
	}
	for _, o := range among {
		if len(said[of(o)]) > 1 {
			words = append(words, o.OptionName+"="+o.OptionValue)
		}
	}
	return words
}

// clientEnv is the environment that Bazel's client has passed on.
func clientEnv(options []bazel.Option) map[string]string {
	env := map[string]string{}
	for _, o := range options {
		if o.OptionName == "client_env" {
			k, v, _ := strings.Cut(o.OptionValue, "=")
			env[k] = v
		}
	}
	return env
}

func pairs(m map[string]string) []string {
	var l []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		l = append(l, k+"="+m[k])
	}
	return l
}
