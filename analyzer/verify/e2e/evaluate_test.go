package e2e

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// commit NAME commits the workspace to a repository of its own, and tags that.
func (b *bazel) commit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: commit NAME")
	}
	b.workspace = filepath.Join(b.dir, "repository")
	git := func(args ...string) {
		cmd := exec.Command("git", append([]string{"-c", "user.name=e2e", "-c", "user.email=e2e", "-c", "init.defaultBranch=main"}, args...)...)
		cmd.Dir = b.workspace
		cmd.Env = environ()
		if out, err := cmd.CombinedOutput(); err != nil {
			ts.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	ts.Check(b.sync())
	if _, err := os.Stat(filepath.Join(b.workspace, ".git")); err != nil {
		git("init", "-q")
		// It is the program that is tried, and is put there by evaluate.
		ts.Check(os.WriteFile(filepath.Join(b.workspace, ".git", "info", "exclude"), []byte("/tasting/tasting\n"), 0o666))
	}
	git("add", "-A")
	git("commit", "-q", "-m", args[0])
	git("tag", "-f", args[0])
}

// evaluate is the command tasting evaluate, in that repository.
func (b *bazel) evaluate(ts *testscript.TestScript, neg bool, args []string) {
	command := append([]string{"-C", b.workspace, b.analyzer, "evaluate", "--dir=" + b.evaluation(), "--prepare=ln -sf " + b.analyzer + " tasting/tasting"}, b.driverFlags()...)
	err := ts.Exec("env", append(command, args...)...)
	if err != nil && !neg {
		ts.Fatalf("evaluate: %v", err)
	}
	if err == nil && neg {
		ts.Fatalf("evaluate: succeeded unexpectedly")
	}
}

// recorded is one of the commands of tasting check that record what Bazel does at commits of that
// repository.
func (b *bazel) recorded(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: recorded COMMAND [ARG]...")
	}
	command := append([]string{"-C", b.workspace, b.analyzer, "check", args[0], "--dir=" + filepath.Join(b.evaluation(), args[0]), "--prepare=ln -sf " + b.analyzer + " tasting/tasting"}, b.driverFlags()...)
	if err := ts.Exec("env", append(command, args[1:]...)...); (err != nil) != neg {
		ts.Fatalf("check %s: %v", args[0], err)
	}
}

// removeEvaluation removes what these commands have made.
func (b *bazel) removeEvaluation() error {
	for _, dir := range []string{b.evaluation(), filepath.Join(b.dir, "repository")} {
		filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				os.Chmod(path, 0o777) // Bazel's outputs are read-only
			}
			return nil
		})
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

func (b *bazel) evaluation() string { return filepath.Join(b.dir, "evaluation") }
