package driver

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/rules-tasting/rules_tasting/analyzer/bazel"
	"github.com/rules-tasting/rules_tasting/analyzer/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/wordset"
	"github.com/rules-tasting/rules_tasting/analyzer/linkflags"
	"github.com/rules-tasting/rules_tasting/analyzer/store"
	"github.com/rules-tasting/rules_tasting/analyzer/syslib"
)

// systemLibrary precedes the name of a library in the name of its part.
const systemLibrary = "system library "

// noEffect are options of Bazel that can't change what a test does. An option
// that isn't here is in the fingerprint, so that one that is missing costs a run
// and no more. Options of compilers are here: what they change is in manifests
// and in the flags of the link.
var noEffect = wordset.Of(`
	announce_rc apple_platform_type aspects attempt_to_print_relative_paths auto_cpu_environment_group auto_output_filter
	bes_backend bes_header bes_instance_name bes_keywords bes_results_url bes_timeout bes_upload_mode build
	build_event_binary_file build_event_json_file build_event_json_file_path_conversion build_event_publish_all_actions build_event_text_file build_metadata
	build_tag_filters build_tests_only cache_test_results check_up_to_date check_visibility
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
	repository_disable_download run_validations runs_per_test sandbox_debug save_temps show_loading_progress
	show_progress show_progress_rate_limit show_result show_task_finish show_timestamps slim_profile stamp strip stripopt
	subcommands symlink_prefix target_pattern_file terminal_columns test_keep_going test_lang_filters test_output
	test_size_filters test_summary test_tag_filters test_timeout_filters test_verbose_timeout_warnings
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
var ofTests = regexp.MustCompile(`(?m)^[^#\n]*(--(?:no)?(?:test_\w*|\w*action_env|run_under|runs_per_test|cache_test_results|collect_code_coverage|\w*strategy\w*|\w*sandbox\w*))`)

// name contributes what the test is called: TEST_TARGET, TEST_BINARY and
// TEST_WORKSPACE say so.
func (s *session) name(t *test) fingerprint.Contribution {
	return fingerprint.NewContribution("name", []string{t.label, filepath.Base(s.execRoot)})
}

// bazel contributes which Bazel it is, without its patches: releases start tests in their own
// ways, and lay out their runfiles differently.
func (s *session) bazel() fingerprint.Contribution {
	major, _, _ := strings.Cut(s.release, ".")
	return fingerprint.NewContribution("release of Bazel", []string{major})
}

// user contributes who runs tests on this machine.
func user() fingerprint.Contribution {
	root := "user"
	if os.Geteuid() == 0 {
		root = "root" // reads and writes what others can't
	}
	return fingerprint.NewContribution("user", []string{root})
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
	env := map[string]string{}
	inherit := func(name string) {
		if v, set := client[name]; set {
			env[name] = v
		}
	}
	if !strict(options) {
		inherit("LD_LIBRARY_PATH")
	}
	for _, o := range options {
		if o.OptionName != "test_env" && o.OptionName != "action_env" {
			continue
		}
		if name, value, assigned := strings.Cut(o.OptionValue, "="); assigned {
			env[name] = value
		} else {
			inherit(name)
		}
	}
	for _, name := range d.EnvInherited {
		inherit(name)
	}
	// Which of two says the last word doesn't matter: one is enough.
	var set []string
	for _, m := range []map[string]string{env, d.Env} {
		for name, value := range m {
			if syslib.ChangesLoading(name, value) {
				set = append(set, name)
			}
		}
	}
	if len(set) == 0 {
		return ""
	}
	return slices.Min(set) + " is set: what it has the test load isn't known"
}

// actionEnv is the environment in which Bazel starts actions, but for what each has of its
// own: nothing else of the user's is there, so no LIBRARY_PATH that leads to other libraries.
// Source: Bazel's BazelRuleClassProvider.SHELL_ACTION_ENV.
func actionEnv(options []bazel.Option) []string {
	client := clientEnv(options)
	var env []string
	inherit := func(name string) {
		if v, set := client[name]; set {
			env = append(env, name+"="+v)
		}
	}
	if strict(options) {
		env = append(env, "PATH=/bin:/usr/bin:/usr/local/bin")
	} else {
		inherit("PATH")
		inherit("LD_LIBRARY_PATH")
	}
	for _, o := range options {
		if o.OptionName != "action_env" {
			continue
		}
		if name, unset := strings.CutPrefix(o.OptionValue, "="); unset {
			env = slices.DeleteFunc(env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
			continue
		}
		if _, _, assigned := strings.Cut(o.OptionValue, "="); assigned {
			env = append(env, o.OptionValue)
		} else {
			inherit(o.OptionValue)
		}
	}
	return env
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

// declaration contributes what the test's rule says about how it is run.
func (d *description) declaration(client map[string]string) []fingerprint.Contribution {
	var l []fingerprint.Contribution
	add := func(name string, values ...string) {
		if len(values) > 0 {
			l = append(l, fingerprint.NewContribution(name, values))
		}
	}
	add("arguments", d.Args...)
	add("variables in arguments", pairs(d.Variables)...)
	for _, kv := range pairs(d.Env) {
		name, _, _ := strings.Cut(kv, "=")
		add("environment variable "+name, "of the rule", kv)
	}
	for _, name := range slices.Sorted(slices.Values(d.EnvInherited)) {
		v, set := client[name]
		add("environment variable "+name, "inherited", inherited(name, v, set))
	}
	if d.ShardCount > 0 {
		add("number of shards", strconv.Itoa(d.ShardCount))
	}
	// Bazel tells tests of these, in TEST_SIZE and TEST_TIMEOUT.
	add("size and timeout", d.Size, d.Timeout)
	// Tags choose the sandbox, the network, and the like.
	add("tags", d.Tags...)
	add("execution properties", pairs(d.ExecProperties)...)
	add("execution requirements", pairs(d.Requirements)...)
	return l
}

func pairs(m map[string]string) []string {
	var l []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		l = append(l, k+"="+m[k])
	}
	return l
}

// keyOf is the SHA-256 of everything that can decide the outcome of a test.
func keyOf(c *fingerprint.Config, parts []fingerprint.Contribution) (store.Key, error) {
	b := frame.New("tasting driver 2")
	err := c.Frame(&b)
	b.Strings(c.Executable)
	parts = slices.SortedFunc(slices.Values(parts), func(x, y fingerprint.Contribution) int {
		return cmp.Or(strings.Compare(x.Name, y.Name), strings.Compare(x.SHA256, y.SHA256))
	})
	b.Int(len(parts))
	for _, p := range parts {
		b.String(p.Name)
		b.String(p.SHA256)
	}
	return b.Sum(), err
}

// A prober finds out what tests that aren't linked yet take from the system, by a
// syslib.Probe. It may be used concurrently.
type prober struct {
	dir string   // the execution root, which flags refer to
	env []string // actionEnv
	tmp string

	mu     sync.Mutex
	known  map[string]*probe
	shared map[string]*syslib.Shared // by linker and environment
	data   sync.Map                  // loaded to *loads
	checks int
}

type probe struct {
	once   sync.Once
	number int
	link   func(tmp string, shared map[string]*syslib.Shared) (*system, error)
	*system
	err error
}

// system is what tests that are linked in one way take from the system.
type system struct {
	linked, loaded []fingerprint.Contribution
	provides       func(symbol string) bool
}

// libraries contributes what links by some lines take from the system, and the
// machine and the libraries of the system that such a program is run with.
func (p *prober) libraries(ctx context.Context, d *description, lines []*linkflags.Line) (*system, error) {
	linker := strings.Join(append([]string{d.Linker}, pairs(d.LinkEnv)...), "\x00")
	words := []string{linker}
	for _, l := range lines {
		compile, link := l.Probe()
		words = append(slices.Concat(words, compile, link), "")
	}
	key := strings.Join(words, "\x00")
	p.mu.Lock()
	x := p.known[key]
	if x == nil {
		x = &probe{number: len(p.known), link: func(tmp string, shared map[string]*syslib.Shared) (*system, error) {
			p.mu.Lock()
			if shared[linker] == nil {
				shared[linker] = new(syslib.Shared)
			}
			by := shared[linker]
			p.mu.Unlock()
			return p.link(ctx, d, lines, tmp, by)
		}}
		p.known[key] = x
	}
	if p.shared == nil {
		p.shared = map[string]*syslib.Shared{}
	}
	p.mu.Unlock()
	x.once.Do(func() {
		x.system, x.err = x.link(filepath.Join(p.tmp, fmt.Sprintf("probe%d", x.number)), p.shared)
	})
	return x.system, x.err
}

// unchanged tells whether all that has been found out is still true.
func (p *prober) unchanged() bool {
	p.checks++
	shared := map[string]*syslib.Shared{}
	for _, x := range p.known {
		if x.err != nil {
			continue // such a test has no fingerprint
		}
		now, err := x.link(filepath.Join(p.tmp, fmt.Sprintf("probe%d-%d", x.number, p.checks)), shared)
		if err != nil || !slices.Equal(now.linked, x.linked) || !slices.Equal(now.loaded, x.loaded) {
			return false
		}
	}
	same := true
	p.data.Range(func(x, known any) bool {
		before := known.(*loads)
		if before.err == nil {
			now := new(loads)
			now.find(x.(loaded))
			same = now.err == nil && slices.Equal(now.libs, before.libs)
		}
		return same
	})
	return same
}

// loaded is a file of a test: of its data, or a library that it is linked with, and
// where the test has the loader look for more.
type loaded struct {
	file, dirs string
	linked     bool
}

// loads is what a test is run with because of such a file, if that is a program or a
// library.
type loads struct {
	once sync.Once
	libs []syslib.Library
	err  error
}

func (x *loads) find(f loaded) {
	x.once.Do(func() {
		unset := func(string) string { return "" }
		if f.linked {
			x.libs, x.err = syslib.LoadsLinked(f.file, strings.Split(f.dirs, ":"), unset)
		} else {
			x.libs, x.err = syslib.Loads(f.file, unset)
		}
	})
}

// loads contributes what programs and libraries among the data are run with, and
// libraries that Bazel hasn't linked.
func (p *prober) loads(t *test) ([]fingerprint.Contribution, error) {
	var files []loaded
	for _, file := range t.data {
		files = append(files, loaded{file: file})
	}
	var dirs []string
	for _, line := range t.lines {
		for _, d := range line.RunPath {
			if filepath.IsAbs(d) {
				dirs = append(dirs, d)
			}
		}
	}
	for _, file := range t.prebuilt {
		files = append(files, loaded{file, strings.Join(dirs, ":"), true})
	}
	var l []fingerprint.Contribution
	for _, f := range files {
		known, _ := p.data.LoadOrStore(f, new(loads))
		x := known.(*loads)
		x.find(f)
		of := "data"
		if f.linked {
			of = "prebuilt library"
		}
		if x.err != nil {
			return nil, fmt.Errorf("%s, %s: %w", f.file, of, x.err)
		}
		for _, lib := range x.libs {
			l = append(l, libraryPart(lib.Name+" ("+of+")", lib.SHA256))
		}
	}
	slices.SortFunc(l, func(a, b fingerprint.Contribution) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.SHA256, b.SHA256))
	})
	return slices.Compact(l), nil
}

func (p *prober) link(ctx context.Context, d *description, lines []*linkflags.Line, tmp string, shared *syslib.Shared) (*system, error) {
	if err := os.Mkdir(tmp, 0o777); err != nil {
		return nil, err
	}
	linker := syslib.Linker{Path: d.Linker, Dir: p.dir, Env: slices.Concat([]string{"TMPDIR=" + tmp}, p.env, pairs(d.LinkEnv)), Shared: shared}
	probe, err := linker.Probe(ctx, tmp, lines...)
	if err != nil {
		return nil, err
	}
	taken := probe.Of(lines...)
	s := &system{provides: taken.Provides}
	s.linked = append(s.linked, fingerprint.NewContribution("linker", taken.Linker))
	for _, x := range taken.Files {
		s.linked = append(s.linked, libraryPart(x.Name+" (linked)", x.SHA256))
	}
	libs, err := probe.Loaded(func(string) string { return "" })
	if err != nil {
		return nil, err
	}
	machine, err := syslib.Machine()
	if err != nil {
		return nil, err
	}
	s.loaded = append(s.loaded, fingerprint.NewContribution("machine", []string{machine}))
	for _, x := range libs {
		s.loaded = append(s.loaded, libraryPart(x.Name, x.SHA256))
	}
	return s, nil
}
