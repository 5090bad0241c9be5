package cli

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/report"
	"github.com/rules-tasting/rules_tasting/docs/ci"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// docs/how-to/ci.md and the files of docs/ci: each step of each recipe is run as the
// CI service would, with the real tasting; only "tasting test", which needs
// Bazel and a workspace, is played by a script that notes how it was called.

const recipesDir = "../../../../docs/ci"

func recipeFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(recipesDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// recipeJob is what a CI service runs for one event.
type recipeJob struct {
	name   string   // of the job
	kind   string   // what tasting.sh is expected to be asked for
	script string   // all commands
	env    []string // what the service sets
	token  string   // that tasting is expected to be given
	shell  string
}

// What the services' secrets and variables hold in these tests.
const (
	readToken   = "read-token-1d6f"
	writeToken  = "write-token-98ac"
	serverStore = "grpcs://cache.example.com"
	publicStore = "https://cache.example.com/public"
)

type yamlMap = map[string]any

func parseYAML(t *testing.T, name string) yamlMap {
	t.Helper()
	var m yamlMap
	d := yaml.NewDecoder(bytes.NewReader(recipeFile(t, name)))
	d.KnownFields(true)
	if err := d.Decode(&m); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return m
}

func lines(t *testing.T, v any) []string {
	t.Helper()
	list, ok := v.([]any)
	if !ok {
		t.Fatalf("%v: want a list", v)
	}
	var out []string
	for _, x := range list {
		s, ok := x.(string)
		if !ok {
			t.Fatalf("%v: want a string; a colon in it?", x)
		}
		out = append(out, s)
	}
	return out
}

func githubJobs(t *testing.T) []recipeJob {
	m := parseYAML(t, "github.yml")
	on := m["on"].(yamlMap)
	if got := slices.Sorted(maps.Keys(on)); !slices.Equal(got, []string{"pull_request", "push", "schedule"}) {
		t.Errorf("github.yml: events %v; pull_request_target would hand secrets to forks", got)
	}
	if fmt.Sprint(on["push"]) != "map[branches:[main]]" || fmt.Sprint(m["permissions"]) != "map[contents:read]" {
		t.Errorf("github.yml: push %v, permissions %v", on["push"], m["permissions"])
	}
	var jobs []recipeJob
	add := func(name, kind, event, token string) {
		job := m["jobs"].(yamlMap)[name].(yamlMap)
		text := fmt.Sprint(job)
		if job["runs-on"] == nil {
			t.Errorf("github.yml: job %s has no machine", name)
		}
		if strings.Contains(text, "WRITE") && job["environment"] != "main" {
			t.Errorf("github.yml: job %s has the write token outside of the environment main", name)
		}
		if name == "fork" && strings.Contains(text, "secrets.") {
			t.Error("github.yml: the job for forks has a secret")
		}
		j := recipeJob{name: "github " + name + " " + event, kind: kind, token: token, shell: "bash"}
		uploads := false
		for _, s := range job["steps"].([]any) {
			step := s.(yamlMap)
			uses, _ := step["uses"].(string)
			if (uses == "") == (step["run"] == nil) {
				t.Errorf("github.yml: step %v: want either uses or run", step)
			}
			if uses != "" && !regexp.MustCompile(`^actions/[a-z-]+(/[a-z]+)?@v\d+$`).MatchString(uses) {
				t.Errorf("github.yml: action %q", uses)
			}
			if strings.HasPrefix(uses, "actions/upload-artifact@") {
				paths := step["with"].(yamlMap)["path"].(string)
				uploads = step["if"] == "always()" && strings.Contains(paths, "junit.xml") && strings.Contains(paths, "report.html")
			}
			if strings.HasPrefix(uses, "actions/checkout@") && step["with"].(yamlMap)["persist-credentials"] != false {
				t.Errorf("github.yml: job %s leaves credentials in the checkout", name)
			}
			if run, ok := step["run"].(string); ok {
				j.script += run + "\n"
			}
			env, _ := step["env"].(yamlMap)
			for k, v := range env {
				j.env = append(j.env, k+"="+githubValue(t, v.(string), event))
			}
		}
		if !uploads {
			t.Errorf("github.yml: job %s doesn't keep results when tests fail", name)
		}
		jobs = append(jobs, j)
	}
	add("presubmit", "presubmit", "pull_request", readToken)
	add("fork", "fork", "pull_request", "")
	add("main", "main", "push", writeToken)
	add("main", "nightly", "schedule", writeToken)
	if n := len(m["jobs"].(yamlMap)); n != 3 {
		t.Errorf("github.yml: %d jobs, tested are 3", n)
	}
	return jobs
}

// githubValue evaluates the expressions that the recipe has.
func githubValue(t *testing.T, text, event string) string {
	return regexp.MustCompile(`\$\{\{ *(.*?) *\}\}`).ReplaceAllStringFunc(text, func(x string) string {
		expr := strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(x, "${{"), "}}"))
		switch expr {
		case "secrets.TASTING_READ_TOKEN":
			return readToken
		case "secrets.TASTING_WRITE_TOKEN":
			return writeToken
		case "vars.TASTING_STORE":
			return serverStore
		case "github.event_name == 'schedule' && 'nightly' || 'main'":
			if event == "schedule" {
				return "nightly"
			}
			return "main"
		}
		t.Errorf("github.yml: unknown expression %q", expr)
		return ""
	})
}

func gitlabJobs(t *testing.T) []recipeJob {
	m := parseYAML(t, "gitlab.yml")
	base := m[".tasting"].(yamlMap)
	if artifacts := base["artifacts"].(yamlMap); artifacts["when"] != "always" || fmt.Sprint(artifacts["reports"]) != "map[junit:tasting-out/junit.xml]" {
		t.Errorf("gitlab.yml: artifacts %v", artifacts)
	}
	var jobs []recipeJob
	for name, x := range m {
		if name == "stages" || name == ".tasting" {
			continue
		}
		job := x.(yamlMap)
		if job["extends"] != ".tasting" || len(job["rules"].([]any)) != 1 {
			t.Errorf("gitlab.yml: job %s: %v", name, job)
		}
		j := recipeJob{name: "gitlab " + name, kind: name, script: strings.Join(lines(t, job["script"]), "\n"), shell: "bash"}
		// Unprotected variables are given to all jobs of the project.
		j.env = []string{"TASTING_STORE=" + serverStore, "TASTING_READ_TOKEN=" + readToken, "TASTING_PUBLIC_STORE=" + publicStore}
		cache, _ := job["cache"].(yamlMap)
		switch name {
		case "presubmit":
			j.token = readToken
		case "fork":
		default:
			j.token = writeToken
			j.env = append(j.env, "TASTING_WRITE_TOKEN="+writeToken)
			if cache["policy"] != "pull-push" || fmt.Sprint(cache["paths"]) != "[tasting-out/runs]" {
				t.Errorf("gitlab.yml: job %s doesn't keep its runs: %v", name, cache)
			}
			if rule := job["rules"].([]any)[0].(yamlMap)["if"].(string); !strings.Contains(rule, "$CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH") {
				t.Errorf("gitlab.yml: job %s runs on other branches: %s", name, rule)
			}
		}
		jobs = append(jobs, j)
	}
	return jobs
}

func buildkiteJobs(t *testing.T, machine string) []recipeJob {
	m := parseYAML(t, "buildkite.yml")
	queues := map[string]string{"presubmit": "default", "fork": "untrusted", "main": "trusted", "nightly": "trusted"}
	var jobs []recipeJob
	for _, s := range m["steps"].([]any) {
		step := s.(yamlMap)
		name := step["key"].(string)
		if queue := step["agents"].(yamlMap)["queue"]; queue != queues[name] {
			t.Errorf("buildkite.yml: step %s in queue %v", name, queue)
		}
		if paths := lines(t, step["artifact_paths"]); !slices.Contains(paths, "tasting-out/junit.xml") || !slices.Contains(paths, "tasting-out/report.html") {
			t.Errorf("buildkite.yml: step %s keeps %v", name, paths)
		}
		if _, ok := step["if"].(string); !ok {
			t.Errorf("buildkite.yml: step %s has no condition", name)
		}
		script := strings.Join(lines(t, step["command"]), "\n")
		if strings.Contains(strings.ReplaceAll(script, "$$", ""), "$") {
			t.Errorf("buildkite.yml: step %s: a $ that the upload would replace: %s", name, script)
		}
		// What the agent has.
		script = strings.ReplaceAll(strings.ReplaceAll(script, "$$", "$"), "/etc/tasting", filepath.Join(machine, "agent", queues[name]))
		j := recipeJob{name: "buildkite " + name, kind: name, script: script, shell: "bash",
			env: []string{"TASTING_STORE=" + serverStore, "TASTING_RUNS=" + filepath.Join(machine, "kept runs")}}
		j.token = map[string]string{"default": readToken, "trusted": writeToken}[queues[name]]
		jobs = append(jobs, j)
	}
	for queue, token := range map[string]string{"default/read-token": readToken, "trusted/write-token": writeToken} {
		file := filepath.Join(machine, "agent", queue)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return jobs
}

// jenkinsJobs reads the stages by their layout: this isn't a parser of Groovy.
func jenkinsJobs(t *testing.T) []recipeJob {
	text := string(recipeFile(t, "Jenkinsfile"))
	depth := 0
	for _, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "// ")
		depth += strings.Count(line, "{") - strings.Count(line, "}")
		if depth < 0 {
			t.Fatalf("Jenkinsfile: a bracket too many: %s", line)
		}
	}
	if depth != 0 || strings.Count(text, "'''")%2 != 0 {
		t.Error("Jenkinsfile: brackets or quotes don't match")
	}
	for _, want := range []string{"junit testResults: 'tasting-out/junit.xml'", "archiveArtifacts artifacts: 'tasting-out/report.html"} {
		if !strings.Contains(text, want) {
			t.Errorf("Jenkinsfile: no %s", want)
		}
	}
	if strings.Contains(text, `"`+`""`) || regexp.MustCompile(`sh\s+"`).MatchString(text) {
		t.Error("Jenkinsfile: Groovy would put secrets into a command in double quotes")
	}
	store := regexp.MustCompile(`TASTING_STORE = '(.*)'`).FindStringSubmatch(text)
	if store == nil {
		t.Fatal("Jenkinsfile: no store")
	}
	credential := regexp.MustCompile(`TASTING_TOKEN = credentials\('(.*)'\)`)
	var jobs []recipeJob
	for _, stage := range regexp.MustCompile(`(?s)stage\('(\w+)'\)(.*?)'''(.*?)'''`).FindAllStringSubmatch(text, -1) {
		j := recipeJob{name: "jenkins " + stage[1], kind: strings.ToLower(stage[1]), script: stage[3], env: []string{"TASTING_STORE=" + store[1]}, shell: "sh"}
		if c := credential.FindStringSubmatch(stage[2]); c != nil {
			j.token = map[string]string{"tasting-read-token": readToken, "tasting-write-token": writeToken}[c[1]]
			if j.token == "" {
				t.Errorf("Jenkinsfile: unknown credential %s", c[1])
			}
			j.env = append(j.env, "TASTING_TOKEN="+j.token)
		}
		jobs = append(jobs, j)
	}
	return jobs
}

// recipeMachine is a checkout on a CI machine.
type recipeMachine struct {
	dir, work string
	env       []string
}

const bazelStub = `#!/bin/sh
# bazel run ... -- COMMAND...: starts tasting elsewhere, as Bazel does. "tasting
# test" is played: it notes how it was called, and leaves what it would.
while [ "$1" != -- ]; do shift; done
shift
wd=$PWD
cd / || exit 9
for a; do printf '%s\n' "$a"; done >"$MACHINE/call-$1"
if [ "$1" != test ]; then
    BUILD_WORKING_DIRECTORY=$wd exec "$REAL_TASTING" "$@"
fi
env >"$MACHINE/env"
for a; do
    case $a in
    --store_flags=*) stat -c %a "${a#*=}" >"$MACHINE/permissions"; cat "${a#*=}" >"$MACHINE/flags"; echo "${a#*=}" >"$MACHINE/flags-file" ;;
    --junit_xml=*) echo '<testsuites/>' >"${a#*=}" ;;
    --runs_dir=*) cp "$MACHINE/run.json" "${a#*=}/1.tasting-run.json" ;;
    --) break ;;
    esac
done
if [ -n "${HANG:-}" ]; then
    touch "$MACHINE/hangs"
    sleep 60
fi
exit ${STATUS:-0}
`

func newRecipeMachine(t *testing.T) *recipeMachine {
	dir := t.TempDir()
	m := &recipeMachine{dir: dir, work: filepath.Join(dir, "a checkout")}
	tasting, err := exec.LookPath("tasting") // put there by TestMain
	if err != nil {
		t.Fatal(err)
	}
	m.write(t, "bin/bazel", bazelStub)
	m.write(t, "run.json", `{"format":1,"id":"r1","start":"2026-01-01T00:00:00Z","end":"2026-01-01T00:01:00Z","store":{"lookups":1,"hits":1,"misses":0,"lookup_seconds":0.01},"tests":[{"label":"//a","verdict":"hit","status":"PASSED","seconds":3}]}`)
	m.write(t, "a checkout/ci/tasting.sh", string(recipeFile(t, "tasting.sh")))
	m.write(t, "tmp/.keep", "")
	m.env = []string{"PATH=" + dir + "/bin:/usr/bin:/bin", "HOME=" + dir, "TMPDIR=" + filepath.Join(dir, "tmp"), "MACHINE=" + dir, "REAL_TASTING=" + tasting}
	return m
}

func (m *recipeMachine) write(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join(m.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// read returns a file that the stub has left, "" if there is none.
func (m *recipeMachine) read(name string) string {
	b, _ := os.ReadFile(filepath.Join(m.dir, name))
	return string(b)
}

func (m *recipeMachine) command(shell, script string, env ...string) *exec.Cmd {
	args := []string{"-e", "-c", script}
	if shell == "bash" {
		args = append([]string{"-o", "pipefail"}, args...)
	}
	cmd := exec.Command(shell, args...)
	cmd.Dir, cmd.Env = m.work, append(slices.Clone(m.env), env...)
	return cmd
}

func (m *recipeMachine) run(t *testing.T, shell, script string, env ...string) (code int, output string) {
	t.Helper()
	cmd := m.command(shell, script, env...)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// How tasting has to be called for each kind of run.
var recipeModes = map[string][2]string{"presubmit": {"ro", "0.01"}, "fork": {"ro", "0"}, "main": {"rw", "0.01"}, "nightly": {"rw", "1"}}

func TestRecipes(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Fatal(err)
	}
	var jobs []recipeJob
	jobs = append(jobs, githubJobs(t)...)
	jobs = append(jobs, gitlabJobs(t)...)
	jobs = append(jobs, buildkiteJobs(t, t.TempDir())...)
	jobs = append(jobs, jenkinsJobs(t)...)
	if len(jobs) != 16 {
		t.Fatalf("%d jobs, want 4 of each of 4 services", len(jobs))
	}
	for _, j := range jobs {
		t.Run(j.name, func(t *testing.T) {
			if out, err := exec.Command(j.shell, "-n", "-c", j.script).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s\n%s", err, out, j.script)
			}
			m := newRecipeMachine(t)
			code, output := m.run(t, j.shell, j.script, j.env...)
			if code != 0 {
				t.Fatalf("exit code %d\n%s", code, output)
			}
			call := m.read("call-test")
			mode := recipeModes[j.kind]
			for _, want := range []string{"--store_mode=" + mode[0], "--audit=" + mode[1], "--", "//..."} {
				if !slices.Contains(strings.Split(call, "\n"), want) {
					t.Errorf("called without %s:\n%s", want, call)
				}
			}
			store := serverStore
			if j.kind == "fork" && !strings.HasPrefix(j.name, "buildkite") && !strings.HasPrefix(j.name, "jenkins") {
				store = publicStore
			}
			want := "--store=" + store + "\n"
			if j.token != "" {
				want += "--store_header=Authorization=Bearer " + j.token + "\n"
			}
			if got := m.read("flags"); got != want {
				t.Errorf("flags %q, want %q", got, want)
			}
			if p := m.read("permissions"); p != "600\n" {
				t.Errorf("permissions %s", p)
			}
			for _, secret := range []string{readToken, writeToken} {
				for where, text := range map[string]string{"its environment": m.read("env"), "its command line": call, "the log": output} {
					if strings.Contains(text, secret) {
						t.Errorf("%s is in %s:\n%s", secret, where, text)
					}
				}
			}
			if left, _ := os.ReadDir(filepath.Join(m.dir, "tmp")); len(left) != 1 {
				t.Errorf("files are left: %v", left)
			}
			for _, file := range []string{"junit.xml", "report.html", "report.json"} {
				if _, err := os.Stat(filepath.Join(m.work, "tasting-out", file)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestRecipeScript(t *testing.T) {
	script := "sh ci/tasting.sh "
	t.Run("failure of tests", func(t *testing.T) {
		m := newRecipeMachine(t)
		if code, out := m.run(t, "sh", script+"presubmit", "STATUS=3"); code != 3 {
			t.Errorf("exit code %d, want that of tasting test\n%s", code, out)
		}
		if _, err := os.Stat(filepath.Join(m.work, "tasting-out", "report.html")); err != nil {
			t.Errorf("no report of a run with failures: %v", err)
		}
	})
	t.Run("failure of the report", func(t *testing.T) {
		m := newRecipeMachine(t)
		m.write(t, "a checkout/tasting-out/report.html/in/the/way", "")
		if code, out := m.run(t, "sh", script+"main"); code != 0 || !strings.Contains(out, "no report") {
			t.Errorf("exit code %d\n%s", code, out)
		}
	})
	t.Run("without a store", func(t *testing.T) {
		m := newRecipeMachine(t)
		if code, out := m.run(t, "sh", script+"main"); code != 0 || !strings.Contains(m.read("call-test"), "--store_mode=off\n") || m.read("flags") != "" {
			t.Errorf("exit code %d, flags %q\n%s", code, m.read("flags"), out)
		}
	})
	t.Run("a fork's token isn't used", func(t *testing.T) {
		m := newRecipeMachine(t)
		if code, _ := m.run(t, "sh", script+"fork", "TASTING_STORE="+serverStore, "TASTING_TOKEN="+writeToken); code != 0 || strings.Contains(m.read("flags"), writeToken) {
			t.Errorf("exit code %d, flags %q", code, m.read("flags"))
		}
	})
	t.Run("targets and flags", func(t *testing.T) {
		m := newRecipeMachine(t)
		if code, out := m.run(t, "sh", script+"main //a/... '-//a:b c'", "TASTING_FLAGS=--config=ci -k"); code != 0 || !strings.HasSuffix(m.read("call-test"), "\n--config=ci\n-k\n--\n//a/...\n-//a:b c\n") {
			t.Errorf("exit code %d, called with\n%s\n%s", code, m.read("call-test"), out)
		}
	})
	t.Run("own tasting", func(t *testing.T) {
		m := newRecipeMachine(t)
		m.write(t, "mine", "#!/bin/sh\necho \"mine $1\" >>\"$MACHINE/mine-called\"\n")
		if code, out := m.run(t, "sh", script+"main", "TASTING="+m.dir+"/mine"); code != 0 || m.read("mine-called") != "mine test\nmine report\n" {
			t.Errorf("exit code %d: %s\n%s", code, m.read("mine-called"), out)
		}
	})
	t.Run("usage", func(t *testing.T) {
		m := newRecipeMachine(t)
		for _, args := range []string{"", "publish"} {
			if code, out := m.run(t, "sh", script+args); code != 2 || !strings.Contains(out, "usage: ") || m.read("call-test") != "" {
				t.Errorf("%q: exit code %d\n%s", args, code, out)
			}
		}
	})
	t.Run("stopped", func(t *testing.T) {
		m := newRecipeMachine(t)
		cmd := m.command("sh", "exec "+script+"main", "HANG=1", "TASTING_STORE="+serverStore, "TASTING_TOKEN="+writeToken)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for m.read("flags-file") == "" || !fileExists(filepath.Join(m.dir, "hangs")) {
			time.Sleep(10 * time.Millisecond)
		}
		syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 143 {
			t.Errorf("exit code %d, want 143", code)
		}
		if file := strings.TrimSpace(m.read("flags-file")); fileExists(file) {
			t.Errorf("the token is left in %s", file)
		}
	})
}

func fileExists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// bazelFlags returns the flags of Bazel 7.7.1.
func bazelFlags(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile("../../../internal/run/driver/testdata/options-7.7.1.txt")
	if err != nil {
		t.Fatal(err)
	}
	var flags []string
	for _, name := range strings.Fields(string(b)) {
		flags = append(flags, name, "no"+name)
	}
	return flags
}

// Each flag that a recipe names exists, and each call of tasting in
// the script has flags of that command.
func TestRecipeFlags(t *testing.T) {
	known := map[string]bool{"version": true, "output_base": true, "output_user_root": true}
	ofBazel := bazelFlags(t)
	for _, name := range ofBazel {
		known[name] = true
	}
	visit(Root(), func(c *cobra.Command) { c.LocalFlags().VisitAll(func(f *pflag.Flag) { known[f.Name] = true }) })
	recipes, err := ci.Files.ReadDir(".")
	if err != nil || len(recipes) != 5 {
		t.Fatalf("%v %v", recipes, err)
	}
	var files []string
	for _, r := range recipes {
		files = append(files, filepath.Join(recipesDir, r.Name()))
	}
	flag := regexp.MustCompile("(?:^|[\\s`\"'(\\[])--([a-z][a-z_-]*[a-z])")
	named := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range flag.FindAllSubmatch(text, -1) {
			named++
			if !known[string(x[1])] {
				t.Errorf("%s: there is no flag --%s", filepath.Base(file), x[1])
			}
		}
	}
	if named < 10 {
		t.Errorf("only %d flags were found", named)
	}

	m := newRecipeMachine(t)
	if code, out := m.run(t, "sh", "sh ci/tasting.sh nightly", "TASTING_STORE="+m.dir); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	for _, name := range []string{"test", "report", "store"} {
		args := strings.Split(strings.TrimSpace(m.read("call-"+name)), "\n")
		c, rest, err := Root().Find(args)
		if err != nil && name != "test" {
			t.Error(err)
		}
		for _, a := range rest {
			if a == "--" {
				break
			}
			long, ok := strings.CutPrefix(a, "--")
			if !ok {
				continue
			}
			long, _, _ = strings.Cut(long, "=")
			bazels := name == "test" && slices.Contains(ofBazel, long)
			if exists := c != nil && c.Flags().Lookup(long) != nil; !exists && !bazels {
				t.Errorf("tasting %s has no flag --%s", name, long)
			}
		}
	}
}

// docs/reference/formats.md has each field of the file of a run.
func TestRunSchemaIsDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(recipesDir, "../reference/formats.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, schema, ok := strings.Cut(string(text), "## The file of a run")
	if !ok {
		t.Fatal("docs/reference/formats.md has no such section")
	}
	fields := 0
	for prefix, v := range map[string]any{"": report.Run{}, "store.": report.Store{}, "tests[].": report.Test{}, "fallbacks[].": report.Fallback{}, "cost.": report.Cost{}} {
		for f := range reflect.TypeOf(v).Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			fields++
			documented := strings.Contains(schema, "`"+prefix+name)
			if prefix != "" {
				documented = documented || strings.Contains(schema, "`."+name+"`")
			}
			if !documented {
				t.Errorf("docs/reference/formats.md doesn't have %s%s", prefix, name)
			}
		}
	}
	if fields < 25 {
		t.Errorf("only %d fields", fields)
	}
}
