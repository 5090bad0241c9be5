package main

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A side is one of the two that are compared.
type side struct {
	name  string
	title string // of what runs its tests
	plain bool
	run   []string // the command line of tasting test, if that runs its tests
	flags []string // of its tests
	here  checkout
	there checkout // the second checkout
}

// sides checks out the sides of a story: that of plain Bazel, unless it is left out, and the other one.
func (t *tour) sides(ctx context.Context, s *story) ([]*side, error) {
	store := filepath.Join(t.scratch, "store-"+s.name)
	if err := os.MkdirAll(store, 0o777); err != nil {
		return nil, err
	}
	tasting := &side{name: "tasting", title: "tasting test", flags: s.Flags}
	if s.Rule {
		tasting.title = "bazel test of tasting_cc_test"
		tasting.flags = slices.Concat(s.Flags, []string{"--@rules_tasting//rules:store=" + store, "--sandbox_writable_path=" + store})
	} else {
		// An audit would run a test now and then whose result is recorded.
		tasting.run = []string{t.analyzer, "test", "--store=" + store, "--audit=0"}
	}
	sides := []*side{tasting}
	if t.plain {
		sides = []*side{{name: "plain", title: "bazel test", plain: true, flags: s.Flags}, tasting}
	}
	for _, side := range sides {
		side.here = checkout(filepath.Join(t.scratch, s.name+"-"+side.name))
		side.there = side.here + "-elsewhere"
		if err := t.checkOut(ctx, s, side); err != nil {
			return nil, err
		}
	}
	return sides, nil
}

// checkOut makes the first checkout of a side: the example's files, its fetched
// sources, the side's rule, and the way to rules_tasting.
func (t *tour) checkOut(ctx context.Context, s *story, side *side) error {
	t.step("sources of " + s.name)
	root := filepath.Dir(t.module)
	dir := string(side.here)
	if err := copyExample(dir, filepath.Join(root, "examples", cmp.Or(s.Example, s.name)), s.Sources); err != nil {
		return err
	}
	for _, source := range s.Sources {
		if out, err := exec.CommandContext(ctx, t.fetch, source.Corpus, filepath.Join(dir, source.Dir)).CombinedOutput(); err != nil {
			return fmt.Errorf("fetching %s: %w\n%s", source.Corpus, err, out)
		}
	}
	if err := side.here.rewrite("MODULE.bazel", func(text string) (string, error) {
		text = strings.Replace(text, `path = "../.."`, fmt.Sprintf("path = %q", root), 1)
		return text + "\nregister_toolchains(\"//prebuilt\")\n", nil
	}); err != nil {
		return err
	}
	if s.Loads && (side.plain || !s.Rule) {
		if err := side.here.replace("BUILD.bazel", tastingLoad, plainLoad); err != nil {
			return err
		}
	}
	// The sources are ignored where they don't belong to the repository; here they do.
	return errors.Join(
		side.here.git("init", "--quiet"),
		side.here.git("add", "--all", "--force"),
		side.here.git("commit", "--quiet", "--message=As fetched"),
		t.addPrebuilt(ctx, side.here),
	)
}

// cloneElsewhere makes the second checkout of a side.
func (t *tour) cloneElsewhere(ctx context.Context, side *side) error {
	if err := side.here.git("clone", "--quiet", string(side.here), string(side.there)); err != nil {
		return err
	}
	return t.addPrebuilt(ctx, side.there)
}

// prebuilt is a BUILD file, without the path of clang.
//
//go:embed prebuilt.txt
var prebuilt string

// addPrebuilt makes a package of the analyzer that we were given in a checkout, so that it doesn't build that, and Go, again.
func (t *tour) addPrebuilt(ctx context.Context, c checkout) error {
	clang, err := exec.LookPath(cmp.Or(os.Getenv("TASTING_CLANG"), "clang"))
	if err != nil {
		return fmt.Errorf("%w; install clang, or set TASTING_CLANG to its path", err)
	}
	version, err := exec.CommandContext(ctx, clang, "--version").Output()
	if err != nil {
		return fmt.Errorf("%s --version: %w", clang, err)
	}
	analyzer, err := os.ReadFile(t.analyzer)
	if err != nil {
		return err
	}
	dir := filepath.Join(string(c), "prebuilt")
	return errors.Join(
		os.Mkdir(dir, 0o777),
		os.WriteFile(filepath.Join(dir, "tasting"), analyzer, 0o777),
		os.WriteFile(filepath.Join(dir, "clang.txt"), version, 0o666),
		os.WriteFile(filepath.Join(dir, "BUILD.bazel"), fmt.Appendf(nil, prebuilt, clang), 0o666),
	)
}

// copyExample copies what is committed of an example: not its fetched sources,
// the user's settings, or the links that Bazel makes.
func copyExample(dst, src string, sources []source) error {
	if err := os.CopyFS(dst, os.DirFS(src)); err != nil {
		return err
	}
	others, err := filepath.Glob(filepath.Join(dst, "bazel-*"))
	others = append(others, filepath.Join(dst, "user.bazelrc"))
	for _, s := range sources {
		others = append(others, filepath.Join(dst, s.Dir))
	}
	for _, other := range others {
		err = errors.Join(err, os.RemoveAll(other))
	}
	return err
}

// A checkout is the directory of an example's workspace, a git repository.
type checkout string

// git runs git in the checkout.
func (c checkout) git(args ...string) error {
	own := []string{"-c", "user.name=tour", "-c", "user.email=tour@localhost", "-c", "commit.gpgsign=false"}
	cmd := command(context.Background(), c, "git", append(own, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s in %s: %w\n%s", strings.Join(args, " "), c, err, out)
	}
	return nil
}

// replace replaces the only occurrence of old in file.
func (c checkout) replace(file, old, new string) error {
	return c.rewrite(file, func(text string) (string, error) {
		if n := strings.Count(text, old); n != 1 {
			return "", fmt.Errorf("want one %q, found %d: the sources aren't those that the tour was written for", old, n)
		}
		return strings.Replace(text, old, new, 1), nil
	})
}

func (c checkout) rewrite(file string, change func(string) (string, error)) error {
	path := filepath.Join(string(c), file)
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text, err := change(string(b))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if text == string(b) {
		return fmt.Errorf("%s: the edit changes nothing", path)
	}
	return os.WriteFile(path, []byte(text), 0o666)
}
