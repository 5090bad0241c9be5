// Package runner stands in for a test's executable: it replays the recorded
// result of the test if there is one, and executes the test otherwise.
//
// # How a test starts
//
// The executable of a test rule is a link to the tasting binary at NAME; beside
// it is NAME.tasting, a fingerprint.Config that names the real test binary.
// Bazel starts NAME as it starts every test, and the runner behaves like one:
// arguments, environment, working directory, standard streams, exit code,
// signals and the files that Bazel expects are those of the real test.
//
// # What it decides
//
// The verdict is one of three. "Hit": a result is recorded under the key,
// and is replayed. "Miss": the test
// is executed, and a clean pass is recorded. "Always run": the key can't
// identify the outcome, or the user wants an execution. The
// test is executed and nothing is recorded. The first line of the log has
// the verdict.
//
// # Files
//
//	runner.go   the verdict
//	key.go      the key, and the environment in it
//	inputs.go   files that change while the test runs
//	execute.go  the process of the test
//	outputs.go  results: taken from the test, replayed
//	traces.go   executions under the tracer
//	cases.go    executions of some test cases
//
// docs/reference/what-counts.md lists what is in the key, variable by variable.
package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/explain"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/syslib"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/cases"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
)

// The longest that a store may keep a test waiting.
const (
	// maxGet is for the look-up before the test.
	maxGet = 10 * time.Second
	// maxTidy is for removing old results, once a day.
	maxTidy = 5 * time.Second
	// maxStore is for everything.
	maxStore = time.Minute
	// maxRest is for the calls after a failed look-up: the store may be back when
	// a long test has ended.
	maxRest = 5 * time.Second
	// For what explanations need.
	maxRemember = 2 * time.Second
	// maxSpare is for Bazel's script, which still has to write XML.
	maxSpare = 5 * time.Second
)

// ExitInternal is the exit code if the test can't even be started.
const ExitInternal = 3

// Test is a test as it was started.
type Test struct {
	// Path is the path of the executable as the caller gave it (argv[0]);
	// Path + ".tasting" is the configuration.
	Path string
	Args []string // without argv[0]
	Env  []string // as in os.Environ

	Stdin, Stdout, Stderr *os.File

	// Asked is set if the caller wants a verdict even if Bazel hasn't started
	// the test. Otherwise such a test is executed: a user who starts a test by
	// hand wants to see it run.
	Asked bool
}

// Configured reports whether argv0, the first argument of the process, is the
// executable of a test, and returns its path.
func Configured(argv0 string, getenv func(string) string) (path string, ok bool) {
	path = argv0
	if !strings.Contains(path, "/") {
		// A shell found it in PATH.
		for _, dir := range filepath.SplitList(getenv("PATH")) {
			if p := filepath.Join(dir, argv0); isFile(p) {
				path = p
				break
			}
		}
	}
	if _, err := os.Lstat(path + fingerprint.ConfigSuffix); err == nil {
		return path, true
	}
	// Bazel started it as a test, but the configuration is missing: Main reports that.
	if getenv("BAZEL_TEST") != "" && filepath.Base(getenv("TEST_BINARY")) == filepath.Base(argv0) {
		return path, true
	}
	return "", false
}

// Main replays or executes t and returns the exit code. If the test dies from
// a signal, so does this process.
func Main(t *Test) int {
	// The child dies with the thread that started it (see start).
	runtime.LockOSThread()
	r := &runner{Test: t, env: newEnviron(t.Env)}
	if seconds, err := strconv.Atoi(r.env.get("TEST_TIMEOUT")); err == nil {
		limit := time.Duration(seconds) * time.Second
		r.deadline = time.Now().Add(limit - min(limit/10, maxSpare))
	}
	code, err := r.main()
	if err != nil {
		r.say("%v", err)
		return ExitInternal
	}
	return code
}

type runner struct {
	*Test
	env    environ
	config *fingerprint.Config
	binary string // path of the real test
	// deadline is shortly before Bazel stops the test, or zero. A test that has passed
	// by then isn't kept waiting any longer.
	deadline time.Time

	manifest map[string]string // see runfilesManifest
}

// say writes a line to the log. It goes to standard error, which under Bazel is
// the same file as standard output.
func (r *runner) say(format string, args ...any) {
	msg := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " ")
	fmt.Fprintf(r.Stderr, "tasting: %s\n", msg)
}

func (r *runner) main() (int, error) {
	var err error
	r.config, err = fingerprint.ReadConfig(r.Path + fingerprint.ConfigSuffix)
	if err != nil {
		return 0, fmt.Errorf("the test can't be started without its configuration: %v; build it again", err)
	}
	if r.binary, err = r.findBinary(); err != nil {
		return 0, err
	}
	reasons := r.alwaysRun()
	if len(reasons) == 0 {
		// Bazel doesn't know what is in directories of sources, and may not have built the
		// configuration again.
		if dir := r.config.StaleDirectory(r.runfile); dir != "" {
			reasons = append(reasons, fmt.Sprintf("files in the directory %s aren't what they were when the test was built, which Bazel doesn't see: list them by glob, or build again after bazel clean", dir))
		}
	}
	var key store.Key
	var run *fingerprint.Run
	if len(reasons) == 0 {
		if key, run, err = r.key(); err != nil {
			reasons = append(reasons, err.Error())
		}
	}
	if len(reasons) > 0 {
		r.say("always run: %s", strings.Join(reasons, "; "))
		return r.run(nil)
	}
	s, mode, err := r.openStore()
	if err != nil {
		if _, ok := errors.AsType[*noStoreError](err); ok {
			r.say("always run: %v", err)
		} else {
			r.say("no store: %v; running", err)
		}
		return r.run(nil)
	}
	defer s.close()
	missed, unread := false, false // unread: a part of the store couldn't be read
	why := "the store isn't read (mode " + string(mode) + ")"
	if mode.CanRead() {
		res, err := s.get(key, maxGet)
		withdrawn := err == nil && res.ExitCode != 0
		if err == nil && !withdrawn {
			code, err := r.replay("fingerprint", key, res)
			res.Close()
			if err == nil {
				return code, nil
			}
			r.say("result of fingerprint %s could not be replayed: %v; running", key, err)
			return r.run(nil)
		}
		switch {
		case withdrawn:
			res.Close()
			why = "the recorded result was withdrawn"
		case errors.Is(err, store.ErrNotFound):
			why = "no recorded result"
		case store.IsMiss(err):
			why = err.Error()
		default:
			why = fmt.Sprintf("store could not be read: %v", err)
			s.left = min(s.left, maxRest)
		}
		missed, unread = !withdrawn, !withdrawn && !store.IsMiss(err)
	}
	traces := r.readTraces(run)
	if traces != nil && missed {
		if code, done := r.byTrace(s, mode.CanWrite(), key, traces, unread); done {
			return code, nil
		}
	}
	testCases, code, done := r.byCases(s, missed, key, run, traces)
	if done {
		return code, nil
	}
	r.say("%s for fingerprint %s; running", why, key)
	r.sayOther(missed)
	if !mode.CanWrite() {
		return r.run(nil)
	}
	return r.run(&recorder{s, key, run, traces, testCases})
}

// sayOther says why a test that was started by hand may have missed the results of bazel test.
func (r *runner) sayOther(missed bool) {
	if missed && r.env.get("BAZEL_TEST") == "" {
		r.say("results of bazel test have other fingerprints: it starts the test with another environment, other arguments and in another directory")
	}
}

// recorder keeps the result of an execution under a key.
type recorder struct {
	store *openStore
	key   store.Key
	run   *fingerprint.Run // of the key
	// traces is nil if the test isn't looked up by traces.
	traces *traces
	cases  *testCases // nil if it is decided as a whole
}

func (rec *recorder) passed(res *store.Result) error {
	err := rec.store.do(maxStore, func(ctx context.Context, s store.Store) error { return store.RecordPass(ctx, s, rec.key, res) })
	if dir := store.Local(rec.store.options.Location); dir != "" && (errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission)) {
		// The reason is nearly always Bazel's sandbox.
		dir, _, _ = strings.Cut(dir, ",")
		err = fmt.Errorf("%w; to record from within Bazel's sandbox, create %s and put into .bazelrc: test --sandbox_writable_path=%[2]s; to only read: test --test_env=TASTING_STORE_MODE=ro", err, dir)
	}
	return err
}

// remember keeps the closure of a recorded result, for tasting
// explain. It needs the label that Bazel gives to tests and the closure file,
// which is beside the configuration.
func (r *runner) remember(rec *recorder, res *store.Result) error {
	label := r.env.get("TEST_TARGET")
	if label == "" {
		return nil
	}
	file := r.Path + fingerprint.ClosureSuffix
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // built by an older version of the rules
	}
	if err != nil {
		return err
	}
	if info.Size() > explain.MaxClosure {
		return fmt.Errorf("its closure has more than %d bytes", explain.MaxClosure)
	}
	return rec.store.do(maxRemember, func(ctx context.Context, s store.Store) error {
		b, err := os.ReadFile(file)
		if err == nil {
			b, err = fingerprint.RecordedClosure(b, rec.run.Parts())
		}
		if err == nil {
			err = explain.Record(ctx, s, label, rec.key, res.Host, res.End, b)
		}
		return err
	})
}

var errNoTime = errors.New("the test's time is nearly over (TEST_TIMEOUT)")

// openStore is a store whose calls have time limits.
type openStore struct {
	store    store.Store
	options  store.Options
	left     time.Duration
	deadline time.Time // or zero
}

func (s *openStore) close() { store.Close(s.store) }

// do calls f with the store. It waits at most for limit and the time that is left, even if f doesn't heed its context:
// a file system may not answer.
func (s *openStore) do(limit time.Duration, f func(context.Context, store.Store) error) error {
	limit = min(limit, s.left)
	start := time.Now()
	defer func() { s.left -= time.Since(start) }()
	if limit <= 0 {
		return errors.New("it has taken too long already")
	}
	if !s.deadline.IsZero() {
		if limit = min(limit, time.Until(s.deadline)); limit <= 0 {
			return errNoTime
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	err, ok := await(limit+limit/10, func() error { return f(ctx, s.store) })
	if !ok {
		s.left = 0 // f may wait for ever, and so may others
		return fmt.Errorf("no answer within %v", limit)
	}
	return err
}

// await returns f's result, or ok false if there is none within limit. Then f may still be under way.
func await[T any](limit time.Duration, f func() T) (x T, ok bool) {
	c := make(chan T, 1)
	go func() { c <- f() }()
	select {
	case x = <-c:
		return x, true
	case <-time.After(limit):
		return x, false
	}
}

// inTime is await, which also ends shortly before Bazel stops the test.
func inTime[T any](r *runner, limit time.Duration, f func() T) (x T, ok bool) {
	if !r.deadline.IsZero() {
		limit = min(limit, time.Until(r.deadline))
	}
	return await(limit, f)
}

func (s *openStore) get(key store.Key, limit time.Duration) (*store.Result, error) {
	var r *store.Result
	err := s.do(limit, func(ctx context.Context, s store.Store) (err error) {
		r, err = s.Get(ctx, key)
		return err
	})
	if err != nil {
		return nil, err // the call may still be under way, so r isn't read
	}
	return r, nil
}

// noStoreError is why a test has no store, although there is one for others.
type noStoreError struct{ reasons []string }

func (e *noStoreError) Error() string { return strings.Join(e.reasons, "; ") }

// openStore opens the store that the environment names, or else the one that
// was set when the test was built, or else the default one. Results of tests
// that must stay on this machine don't go to servers, nor come from there.
func (r *runner) openStore() (*openStore, store.Mode, error) {
	o, err := store.FromEnvironment(r.env.get)
	if err != nil {
		return nil, "", err
	}
	location := cmp.Or(o.Location, r.config.Store)
	if location == "" {
		if location, err = store.DefaultDir(r.env.get); err != nil {
			return nil, "", err
		}
	}
	if len(r.config.LocalOnly) > 0 && store.IsRemote(location) {
		if location = store.Local(location); location == "" {
			return nil, "", &noStoreError{r.config.LocalOnly}
		}
	}
	s, err := store.Open(location, o)
	if err != nil {
		return nil, "", err
	}
	o.Location = location
	return &openStore{s, o, maxStore, r.deadline}, o.Mode, nil
}

// alwaysRun returns the reasons why the test has to be executed.
func (r *runner) alwaysRun() []string {
	reasons := append([]string(nil), r.config.AlwaysRun...)
	switch v := r.env.get("TASTING"); v {
	case "", "on":
	case "off":
		reasons = append(reasons, "TASTING=off")
	case "nocache_test_results":
		reasons = append(reasons, "--nocache_test_results") // as the rule says it
	default:
		reasons = append(reasons, fmt.Sprintf("TASTING=%s: want on or off", v))
	}
	if r.env.get("COVERAGE") != "" || r.env.get("COVERAGE_DIR") != "" {
		reasons = append(reasons, "coverage is collected")
	}
	if r.env.get("TEST_RUN_NUMBER") != "" || r.env.get("TEST_RANDOM_SEED") != "" {
		reasons = append(reasons, "one of several runs (--runs_per_test)")
	}
	known := len(reasons)
	for name, value := range r.env {
		if syslib.ChangesLoading(name, value) {
			reasons = append(reasons, name+" is set: what it has the test load isn't known")
		}
		if syslib.Suppresses(name, value) && !slices.Contains(r.config.EnvKeys, name) {
			reasons = append(reasons, name+" has suppressions: put it into the test's env, or give it a value with --test_env")
		}
	}
	slices.Sort(reasons[known:])
	if !r.Asked {
		if r.env.get("BAZEL_TEST") == "" {
			reasons = append(reasons, "not started by bazel test")
		} else if why := r.startDoubt(); why != "" {
			reasons = append(reasons, why)
		}
	}
	return reasons
}

// setupScript is a process of Bazel's test-setup.sh.
type setupScript struct {
	command string // the program that it was to start
	parent  string // the program that has started this process, if that isn't the script
}

// startDoubt returns why this process isn't the one that Bazel has started as its test, or "".
//
// Bash runs Bazel's script, and puts the path of each program that it starts into the variable "_".
// A --run_under script does so as well, but then it is the command of Bazel's script. A process
// that the test itself starts isn't the test: its inputs aren't known.
func (r *runner) startDoubt() string {
	const tool = "started by %s (--run_under)"
	test := filepath.Clean(r.env.get("TEST_BINARY"))
	if s, ok := findSetupScript(); ok && test != "." {
		switch {
		case filepath.Clean(s.command) != test:
			return fmt.Sprintf(tool, s.command)
		case s.parent != "":
			return fmt.Sprintf("started by %s, not by Bazel: what it is given to read isn't known", s.parent)
		}
	}
	if !r.isTest(test) {
		return fmt.Sprintf("started in the place of %s: what it is given to read isn't known", test)
	}
	started := r.env.get("_")
	if started == "" {
		return ""
	}
	a, errA := os.Stat(started)
	b, errB := os.Stat(r.Path)
	if errA != nil || errB != nil || !os.SameFile(a, b) {
		return fmt.Sprintf(tool, started)
	}
	return ""
}

// isTest reports whether this process may be the one that Bazel calls test, a path in the runfiles of
// the workspace.
func (r *runner) isTest(test string) bool {
	path := filepath.Clean(r.Path)
	if test == "." || path == test {
		return true
	}
	if dir := filepath.Clean(r.env.get("TEST_SRCDIR")); strings.HasPrefix(path, dir+"/") {
		return path == filepath.Join(dir, r.env.get("TEST_WORKSPACE"), test)
	}
	return strings.HasSuffix(path, "/"+strings.TrimPrefix(test, "../"))
}

// findBinary returns the path of the real test, in the runfiles of this test.
func (r *runner) findBinary() (string, error) {
	for _, d := range r.runfilesDirs() {
		if p := filepath.Join(d, r.config.Binary); isFile(p) {
			return filepath.Abs(p)
		}
	}
	if p := r.runfilesManifest()[r.config.Binary]; isFile(p) {
		return p, nil
	}
	return "", fmt.Errorf("the real test %s is not in the runfiles (looked for %s): build it again",
		r.config.Binary, strings.Join(slices.Concat(r.runfilesDirs(), r.runfilesManifests()), ", "))
}

func isFile(p string) bool {
	info, err := os.Stat(p)
	return err == nil && info.Mode().IsRegular()
}

// crashSignals are the signals by which a program dies from its own actions. Others
// may have been sent to it because of a timeout or a lack of memory.
var crashSignals = []syscall.Signal{
	syscall.SIGABRT, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGILL, syscall.SIGSEGV, syscall.SIGSYS, syscall.SIGTRAP,
}

// run executes the test and has rec, if there is one, keep a clean result.
func (r *runner) run(rec *recorder) (int, error) {
	if rec == nil {
		o, err := r.execute(nil, nil)
		if err != nil {
			return 0, fmt.Errorf("the test could not be started: %v", err)
		}
		if o.signal != 0 {
			Die(o.signal)
		}
		return o.code, nil
	}
	obstacle := r.outputsInTheWay()
	before := r.stampInputs()
	start := time.Now()
	o, spool, err := r.executeCases(rec)
	defer spool.Close()
	if err != nil {
		return 0, fmt.Errorf("the test could not be started: %v", err)
	}
	res := &store.Result{ExitCode: o.code, Start: start, End: time.Now(), Log: spool.Content()}
	res.Host, _ = os.Hostname()
	if o.code != 0 || o.signal != 0 {
		infrastructure := isFile(r.env.get("TEST_INFRASTRUCTURE_FAILURE_FILE"))
		clean := o.obstacle == "" && !infrastructure && (o.signal == 0 || slices.Contains(crashSignals, o.signal))
		if clean && r.changedReasonInTime(before, rec.key) == "" {
			if o.signal != 0 {
				res.ExitCode = 128 + int(o.signal)
			}
			// Without the note, a flaky test may be recorded.
			_ = rec.store.do(maxStore, func(ctx context.Context, s store.Store) error { return store.RecordFailure(ctx, s, rec.key, res) })
			r.recordTrace(rec, o.idle, res)
			r.failedCases(rec, spool, res)
		}
		if o.signal != 0 {
			Die(o.signal)
		}
		return o.code, nil
	}
	if spool.size > 0 && spool.last != '\n' {
		fmt.Fprintln(r.Stderr)
	}
	if obstacle = cmp.Or(obstacle, o.obstacle, r.uncleanReason()); obstacle == "" {
		obstacle = r.changedReasonInTime(before, rec.key)
	}
	if obstacle != "" {
		r.say("not recorded: %s", obstacle)
		return o.code, nil
	}
	files, closeFiles, err := r.collect()
	defer closeFiles()
	res.Files = files
	var run *cases.Run
	if err == nil {
		if run, res, err = r.passedCases(rec, spool, res); err == nil {
			err = rec.passed(res)
		}
	}
	if store.IsRecorded(err) {
		r.recordTrace(rec, o.idle, res)
		if run != nil {
			err = errors.Join(err, r.recordCases(rec, o, run, res))
		}
	}
	switch {
	case errors.Is(err, store.ErrExists):
		r.say("recorded already by another run")
	case store.IsRecorded(err):
		r.say("%v", cmp.Or(err, errors.New("recorded")))
		if err := r.remember(rec, res); err != nil {
			r.say("tasting explain won't know of this result: %v", err)
		}
		_ = rec.store.do(maxTidy, func(ctx context.Context, _ store.Store) error {
			store.Tidy(ctx, rec.store.options)
			return nil
		})
	default:
		r.say("not recorded: %v", err)
	}
	r.writeXML(res) // made anew for each replay
	return o.code, nil
}
