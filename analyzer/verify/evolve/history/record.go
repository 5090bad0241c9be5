package history

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/tools/evaluate"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/trace"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/evolve"
)

// Options say what is recorded, and how.
type Options struct {
	// Dir is a directory in the workspace, which is in a git repository that is only read.
	Dir string
	// State is the directory where all is kept. Bazel's sandbox has to see it.
	State string
	// Prepare is a shell command that is run in the work tree after each checkout, or empty.
	Prepare string
	// Bazel is the path or name of Bazel, Startup are options for it.
	Bazel   string
	Startup []string
	Aspect  string
	// Tasting is a program whose command "test" is run as well, or empty.
	Tasting string
	// Tracer is a tasting by which tests are traced, or empty.
	Tracer string
	// Objects keeps the objects, so that Emitted can compare them.
	Objects bool
	// Args are flags of bazel test and target patterns.
	Args []string
	// Err is where progress is told.
	Err io.Writer
}

// Recorder records revisions.
type Recorder struct {
	*Options
	state
	git             *evaluate.Repository
	tree            string
	bazel           *bazel.Bazel
	flags, patterns []string
	known           bazel.Flags
	sums            sums
	last            map[string]Test // of the revision that was built before
	logs            int
}

// plan is what is recorded in a directory.
type plan struct {
	Format     int
	Repository string
	Bazel      []string
	Args       []string
	Prepare    string
	Real       bool
	Objects    bool
	Traces     bool `json:",omitzero"`
}

// Open makes the directory, or goes on with it.
func Open(ctx context.Context, o *Options) (*Recorder, error) {
	git, err := evaluate.Open(ctx, o.Dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.State, 0o777); err != nil {
		return nil, err
	}
	p := plan{Format, git.Top, append([]string{o.Bazel}, o.Startup...), o.Args, o.Prepare, o.Tasting != "", o.Objects, o.Tracer != ""}
	if _, err := evaluate.Agree(filepath.Join(o.State, "plan.json"), p, "is about"); err != nil {
		return nil, err
	}
	r := &Recorder{Options: o, state: state{o.State}, git: git, tree: filepath.Join(o.State, "tree"), sums: sums{}}
	if _, err := os.Stat(filepath.Join(r.tree, ".git")); errors.Is(err, fs.ErrNotExist) {
		if err := errors.Join(os.RemoveAll(r.tree), git.Clone(ctx, r.tree)); err != nil {
			return nil, err
		}
	}
	r.bazel = &bazel.Bazel{Program: o.Bazel, Dir: r.workspace(), Startup: append(slices.Clone(o.Startup), "--output_base="+filepath.Join(o.State, "base")), Cache: o.State}
	return r, nil
}

func (r *Recorder) workspace() string { return filepath.Join(r.tree, r.git.Prefix) }

// Close ends Bazel's server.
func (r *Recorder) Close() {
	if _, err := os.Stat(filepath.Join(r.State, "base")); err == nil {
		_, _ = r.bazel.Run(context.Background(), bazel.Streams{}, "shutdown")
	}
}

func (r *Recorder) say(format string, args ...any) {
	fmt.Fprintf(r.Err, "tasting: "+format+"\n", args...)
}

// checkout makes the work tree that of a commit, but without some files or with those of another one.
func (r *Recorder) checkout(ctx context.Context, commit string, from string, files, without []string) error {
	if _, err := evaluate.Git(ctx, r.tree, "checkout", "--quiet", "--force", "--detach", commit); err != nil {
		return err
	}
	if len(files) > 0 {
		if _, err := evaluate.Git(ctx, r.tree, append([]string{"checkout", "--quiet", from, "--"}, files...)...); err != nil {
			return err
		}
	}
	for _, f := range without {
		if err := os.Remove(filepath.Join(r.tree, f)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if r.Prepare == "" {
		return nil
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", r.Prepare)
	cmd.Dir = r.workspace()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("--prepare failed in %s: %w\n%s", cmd.Dir, err, out)
	}
	return nil
}

// Commit returns a commit, recorded now unless it is already.
func (r *Recorder) Commit(ctx context.Context, commit string) (*Revision, error) {
	return r.revision(ctx, commit, commit, "", nil, nil)
}

// revision returns a revision: a commit, in which some files are those of another one, and others
// aren't there.
func (r *Recorder) revision(ctx context.Context, id, commit, from string, files, without []string) (*Revision, error) {
	x, err := Load(r.dir, id)
	if !errors.Is(err, fs.ErrNotExist) {
		return x, err
	}
	if err := r.checkout(ctx, commit, from, files, without); err != nil {
		return nil, err
	}
	x = &Revision{Format: Format, ID: id, Subject: r.git.Subject(ctx, commit)}
	if err := r.record(ctx, x); err != nil {
		return nil, fmt.Errorf("%s: %w", id, err)
	}
	if r.Tasting != "" && x.Unbuilt == "" {
		_, err := os.Stat(r.store())
		first := errors.Is(err, fs.ErrNotExist)
		if x.Real, err = r.real(ctx); err == nil && first {
			x.RealAgain, err = r.real(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", id, err)
		}
	}
	if err := r.save(x); err != nil {
		return nil, err
	}
	return x, nil
}

// own are flags of all commands.
var own = []string{
	"--noexperimental_inmemory_dotd_files", // what was read is in files
	"--remote_download_outputs=all",
	"--keep_going",
}

// tracing are flags of all commands, or none: with other ones Bazel would analyse all once more.
func (r *Recorder) tracing() []string {
	if r.Tracer == "" {
		return nil
	}
	return []string{trace.RunUnder(r.Tracer)}
}

// run runs a command of Bazel that builds something, and reads its events.
func (r *Recorder) run(ctx context.Context, command string, more []string, f func(*bazel.Event) error) (code int, seconds float64, err error) {
	if r.known == nil {
		if r.known, err = r.bazel.Flags(ctx); err != nil {
			return 0, 0, err
		}
		r.flags, r.patterns = r.known.Split(r.Args)
	}
	events := filepath.Join(r.State, "events.json")
	if err := os.Remove(events); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, 0, err
	}
	r.logs++
	log, err := os.Create(filepath.Join(r.State, fmt.Sprintf("log-%d.txt", r.logs%20)))
	if err != nil {
		return 0, 0, err
	}
	defer log.Close()
	args := slices.Concat(r.known.Known(command, r.flags), own, r.tracing(), []string{"--build_tests_only", "--build_event_json_file=" + events}, more, []string{"--"}, r.patterns)
	start := time.Now()
	code, err = r.bazel.Run(ctx, bazel.Streams{Out: log, Err: log}, command, args...)
	seconds = time.Since(start).Seconds()
	switch {
	case err != nil:
		return 0, 0, err
	case ctx.Err() != nil || code == bazel.ExitInterrupted:
		return 0, 0, cmp.Or(ctx.Err(), context.Canceled)
	case code == bazel.ExitUsage:
		return 0, 0, fmt.Errorf("bazel %s ends with exit code %d: see %s", command, code, log.Name())
	}
	if err := bazel.ReadEvents(events, f); err != nil && (code == bazel.ExitOK || !errors.Is(err, fs.ErrNotExist)) {
		return 0, 0, err
	}
	return code, seconds, nil
}

// seen is what the events of the builds of a revision say.
type seen struct {
	sets         bazel.FileSets
	kinds        map[string]string  // of targets
	descriptions map[string]string  // files of the aspect
	failed       map[string]bool    // to build
	status       map[string]string  // of tests
	seconds      map[string]float64 // of executions, and of those that are cached
	executed     map[string]bool
	logs         map[string][]string // of tests, and their shards
	execRoot     string
}

const descriptionSuffix = ".tasting-test.json"

func (s *seen) add(e *bazel.Event) error {
	s.sets.Add(e)
	switch c := e.ID.TargetCompleted; {
	case e.WorkspaceInfo.LocalExecRoot != "":
		s.execRoot = e.WorkspaceInfo.LocalExecRoot
	case e.Configured != nil && e.ID.TargetConfigured.Aspect == "":
		s.kinds[e.ID.TargetConfigured.Label] = e.Configured.TargetKind
	case e.TestResult != nil:
		label := e.ID.TestResult.Label
		_, took := e.TestResult.When()
		s.seconds[label] += took.Seconds()
		log := "" // if it isn't on this machine
		for _, f := range e.TestResult.TestActionOutput {
			if file, err := f.Path(); err == nil && f.Name == "test.log" {
				log = file
			}
		}
		s.logs[label] = append(s.logs[label], log)
		if !e.TestResult.CachedLocally && !e.TestResult.ExecutionInfo.CachedRemotely {
			s.executed[label] = true
		}
	case e.TestSummary != nil:
		s.status[e.ID.TestSummary.Label] = e.TestSummary.OverallStatus
	case e.Completed != nil && c.Aspect == "":
		if !e.Completed.Success {
			s.failed[c.Label] = true
		}
	case e.Completed != nil:
		for _, g := range e.Completed.OutputGroup {
			for _, set := range g.FileSets {
				for _, f := range s.sets.Files(set.ID) {
					if strings.HasSuffix(f.Name, descriptionSuffix) {
						file, err := f.Path()
						if err != nil {
							return err
						}
						s.descriptions[c.Label] = file
					}
				}
			}
		}
	}
	return nil
}

func (r *Recorder) record(ctx context.Context, x *Revision) (err error) {
	s := &seen{bazel.FileSets{}, map[string]string{}, map[string]string{}, map[string]bool{}, map[string]string{}, map[string]float64{}, map[string]bool{}, map[string][]string{}, ""}
	var code int
	step := func(command string, seconds *float64, more ...string) {
		if err != nil {
			return
		}
		s.sets, s.failed = bazel.FileSets{}, map[string]bool{}
		code, *seconds, err = r.run(ctx, command, more, s.add)
	}
	aspect := "--aspects=" + r.Aspect
	step("build", &x.Build)
	step("build", &x.Objects, aspect, "--output_groups=+tasting_test")
	step("build", &x.Sources, aspect, "--output_groups=+tasting_test,+tasting_source")
	step("test", &x.Test, aspect, "--output_groups=+tasting_config", "--test_output=errors")
	if err != nil {
		return err
	}
	var labels []string
	for label, kind := range s.kinds {
		switch {
		case !strings.HasSuffix(kind, "_test rule"):
		case s.descriptions[label] == "" && !s.failed[label] && s.status[label] != "":
			x.Others = append(x.Others, label)
		default:
			labels = append(labels, label)
		}
	}
	slices.Sort(labels)
	slices.Sort(x.Others)
	if len(labels) == 0 {
		x.Unbuilt = fmt.Sprintf("bazel test ends with exit code %d, and there is no test in C or C++", code)
		return nil
	}
	graph, err := r.query(ctx, x, labels)
	if err != nil {
		return err
	}
	n := &noting{r: r, x: x, execRoot: s.execRoot, links: map[string]int{}, units: map[string]int{}, files: map[string]int{}}
	last := maps.Clone(r.last) // a test may be away for some revisions
	if last == nil {
		last = map[string]Test{}
	}
	for _, label := range labels {
		t := Test{Label: label, Status: s.status[label], Seconds: s.seconds[label], Cached: !s.executed[label], Graph: graph.sum(label)}
		if s.failed[label] || t.Status == "" || s.descriptions[label] == "" {
			t.Status = cmp.Or(t.Status, "FAILED_TO_BUILD")
		} else if err := n.test(&t, s.descriptions[label]); err != nil {
			return fmt.Errorf("%s: %w", label, err)
		} else if r.Tracer != "" {
			if t.Idle, err = r.idle(s.logs[label]); err != nil {
				return fmt.Errorf("%s: %w", label, err)
			}
		}
		// Bazel remembers the last execution: what it doesn't execute has the same inputs as then.
		if before, ok := r.last[label]; ok && t.Cached && t.built() && before.built() && before.Inputs != t.Inputs && !r.diskCache() {
			return fmt.Errorf("%s: Bazel hasn't executed it, and its inputs are noted down as other ones: this is a bug of this program", label)
		}
		if t.built() {
			last[label] = t
		}
		x.Tests = append(x.Tests, t)
	}
	r.last = last
	return nil
}

// idle keeps what none of the shards of a test has entered, and returns the blob, or "" if that isn't known.
func (r *Recorder) idle(logs []string) (string, error) {
	var dirs []string
	for _, log := range logs {
		if log == "" {
			return "", nil
		}
		dirs = append(dirs, filepath.Dir(log))
	}
	idle, _, err := trace.ReadIdle(dirs)
	var unknown trace.UnknownError
	if errors.As(err, &unknown) || err == nil && idle == nil {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	b, err := trace.EncodeIdle(idle, nil)
	if err != nil {
		return "", err
	}
	return r.blob(b)
}

// diskCache reports whether Bazel may know more than the last execution of a test.
func (r *Recorder) diskCache() bool {
	return slices.ContainsFunc(r.flags, func(f string) bool {
		return strings.HasPrefix(f, "--disk_cache") || strings.HasPrefix(f, "--remote_cache")
	})
}

// query asks Bazel for the build graph.
func (r *Recorder) query(ctx context.Context, x *Revision, labels []string) (*graph, error) {
	file := filepath.Join(r.State, "query")
	if err := os.WriteFile(file, []byte("deps(set("+strings.Join(labels, " ")+"))\n"), 0o666); err != nil {
		return nil, err
	}
	start := time.Now()
	var out, messages bytes.Buffer
	args := slices.Concat(r.known.Known("cquery", r.flags), own, r.tracing())
	code, err := r.bazel.Run(ctx, bazel.Streams{Out: &out, Err: &messages}, "cquery", append(args, "--output=jsonproto", "--query_file="+file)...)
	if err != nil {
		return nil, err
	}
	if code != bazel.ExitOK { // a BUILD file that isn't right
		r.say("%s: bazel cquery ends with exit code %d: at the level of targets, each test counts as changed: %s", x.ID, code, lastLine(messages.String()))
		return &graph{}, nil
	}
	g, err := readGraph(&out, func(file string) string {
		sum, err := r.sums.of(file)
		if err != nil {
			return "none"
		}
		return sum
	})
	x.Query = time.Since(start).Seconds()
	return g, err
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

// noting notes down what tests are made from.
type noting struct {
	r                   *Recorder
	x                   *Revision
	execRoot            string
	links, units, files map[string]int
}

func (n *noting) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(n.execRoot, name)
}

// file notes a file down, by the path that stands for it.
func (n *noting) file(path, at string) (int, error) {
	if i, ok := n.files[path]; ok {
		return i, nil
	}
	sum, err := n.r.sums.of(n.path(at))
	if err != nil {
		return 0, err
	}
	n.files[path] = len(n.x.Files)
	n.x.Files = append(n.x.Files, File{path, sum})
	return n.files[path], nil
}

// blob keeps the content of a file, of a directory or something special what identifies it.
func (n *noting) blob(name string) (string, error) {
	b, err := os.ReadFile(n.path(name))
	if err != nil {
		sum, serr := n.r.sums.of(n.path(name))
		if serr != nil {
			return "", err
		}
		b = []byte(sum)
	}
	return n.r.blob(b)
}

func (n *noting) test(t *Test, description string) error {
	b, err := os.ReadFile(description)
	if err != nil {
		return err
	}
	var d map[string]any
	if err := json.Unmarshal(b, &d); err != nil {
		return fmt.Errorf("%s: %w", description, err)
	}
	compose, _ := d["compose"].(string)
	delete(d, "compose") // where it is
	for _, a := range d["args"].([]any) {
		t.Args = append(t.Args, a.(string))
	}
	if b, err = json.Marshal(d); err != nil {
		return err
	}
	t.Description = string(b)
	args, err := os.ReadFile(n.path(compose))
	if err != nil {
		return err
	}
	inputs := sha256.New()
	fmt.Fprintf(inputs, "%s\n", t.Description)
	var lines []string
	for line := range strings.SplitSeq(strings.TrimSuffix(string(args), "\n"), "\n") {
		flag, value, _ := strings.Cut(line, "=")
		switch flag {
		case "-o", "--closure":
			continue
		case "--link":
			i, err := n.link(value)
			if err != nil {
				return err
			}
			t.Links = append(t.Links, i)
			line = flag + "=" + n.x.Links[i].Text
		case "--tools", "--toolchain-files", "--link-input", "--repo-mapping":
			blob, err := n.blob(value)
			if err != nil {
				return err
			}
			line = flag + "=" + blob
			if flag == "--repo-mapping" {
				fmt.Fprintf(inputs, "%s\n", line)
			}
		case "--data":
			path, at := n.data(value)
			i, err := n.file("runfiles/"+path, at)
			if err != nil {
				return err
			}
			blob, err := n.blob(at)
			if err != nil {
				return err
			}
			t.Data = append(t.Data, i)
			line = flag + "=" + path + "=" + blob
			fmt.Fprintf(inputs, "%s %s\n", path, n.x.Files[i].Sum)
		default:
			fmt.Fprintf(inputs, "%s\n", line)
		}
		lines = append(lines, line)
	}
	for k, i := range t.Links {
		if l := &n.x.Links[i]; k == 0 || l.Kind == "shared" {
			sum, err := n.r.sums.of(n.path(l.Output))
			if err != nil {
				return err
			}
			fmt.Fprintf(inputs, "%s %s\n", l.Output, sum)
		}
	}
	t.Inputs = fmt.Sprintf("%x", inputs.Sum(nil)[:16])
	t.Compose, err = n.r.blob([]byte(strings.Join(lines, "\n")))
	return err
}

// data splits RUNFILES_PATH=FILE, as tasting compose does.
func (n *noting) data(s string) (path, at string) {
	for i := 1; i < len(s); i++ {
		if s[i] == '=' {
			if _, err := os.Lstat(n.path(s[i+1:])); err == nil {
				return s[:i], s[i+1:]
			}
		}
	}
	return s, ""
}

// link notes a link down.
func (n *noting) link(name string) (int, error) {
	if i, ok := n.links[name]; ok {
		return i, nil
	}
	b, err := os.ReadFile(n.path(name))
	if err != nil {
		return 0, err
	}
	var l Link
	lines := strings.Split(string(b), "\n")
	index := map[string]int{}
	for k, line := range lines {
		word, rest, _ := strings.Cut(line, " ")
		path, file, _ := strings.Cut(rest, "\t")
		switch word {
		case "output":
			l.Output = rest
		case "kind":
			l.Kind = rest
		case "unit":
			i, err := n.unit(path, file)
			if err != nil {
				return 0, err
			}
			index[path] = i
			l.Units = append(l.Units, i)
			lines[k] = word + " " + path + "\t" + n.x.Units[i].Manifest
		case "source":
			u := &n.x.Units[index[path]]
			if u.BySource == "" {
				if u.BySource, err = n.blob(file); err != nil {
					return 0, err
				}
			}
			lines[k] = word + " " + path + "\t" + u.BySource
		}
	}
	if l.Text, err = n.r.blob([]byte(strings.Join(lines, "\n"))); err != nil {
		return 0, err
	}
	n.links[name] = len(n.x.Links)
	n.x.Links = append(n.x.Links, l)
	return n.links[name], nil
}

func (n *noting) unit(path, manifest string) (int, error) {
	if i, ok := n.units[path]; ok {
		return i, nil
	}
	sum, err := n.r.sums.of(n.path(path))
	if err != nil {
		return 0, err
	}
	u := Unit{Path: path, Source: path, Sum: sum}
	if u.Manifest, err = n.blob(manifest); err != nil {
		return 0, err
	}
	reads := []string{path}
	switch text, err := os.ReadFile(n.path(strings.TrimSuffix(path, filepath.Ext(path)) + ".d")); {
	case err == nil:
		u.Source, reads = evolve.Makefile(string(text))
		if n.r.Objects {
			if u.Object, err = n.blob(path); err != nil {
				return 0, err
			}
		}
	case !errors.Is(err, fs.ErrNotExist):
		return 0, err
	}
	for _, f := range reads {
		i, err := n.file(f, f)
		if err != nil {
			return 0, err
		}
		u.Reads = append(u.Reads, i)
	}
	n.units[path] = len(n.x.Units)
	n.x.Units = append(n.x.Units, u)
	return n.units[path], nil
}
