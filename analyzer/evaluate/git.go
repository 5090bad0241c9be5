package evaluate

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// repository is a git repository, which is only read.
type repository struct {
	top    string // of its work tree
	prefix string // of the workspace in it, "" or with a slash at its end
}

// git runs a git command and returns what it prints.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	var out, messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &messages
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("git %s in %s: %w\n%s", args[0], dir, err, strings.TrimSpace(messages.String()))
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// open finds the repository that a workspace is in.
func open(ctx context.Context, dir string) (*repository, error) {
	top, err := git(ctx, dir, "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, err
	}
	prefix, err := git(ctx, dir, "rev-parse", "--show-prefix")
	return &repository{top, prefix}, err
}

// list returns the commits that are meant: see Options.Commits and Every.
func (r *repository) list(ctx context.Context, commits string, every int) (l []string, err error) {
	for _, x := range strings.Split(commits, ",") {
		from, to, ok := strings.Cut(x, "..")
		first, err := git(ctx, r.top, "rev-parse", "--verify", "--end-of-options", from+"^{commit}")
		if err != nil {
			return nil, fmt.Errorf("--commits: %s: %w", x, err)
		}
		l = append(l, first)
		if !ok {
			continue
		}
		out, err := git(ctx, r.top, "rev-list", "--first-parent", "--reverse", "--end-of-options", from+".."+to)
		if err != nil {
			return nil, fmt.Errorf("--commits: %s: %w", x, err)
		}
		later := strings.Fields(out)
		if len(later) == 0 {
			return nil, fmt.Errorf("--commits: %s: no commit of %s comes after %s", x, to, from)
		}
		for i, c := range later {
			if (i+1)%max(1, every) == 0 || i == len(later)-1 {
				l = append(l, c)
			}
		}
	}
	return l, nil
}

// subject returns the first line of a commit's message.
func (r *repository) subject(ctx context.Context, commit string) string {
	s, err := git(ctx, r.top, "log", "-1", "--format=%s", commit, "--")
	if err != nil {
		return ""
	}
	return s
}

// clone makes a work tree in dir that shares the objects of the repository and
// nothing else: unlike "git worktree", it leaves no trace there.
func (r *repository) clone(ctx context.Context, dir string) error {
	_, err := git(ctx, r.top, "clone", "--quiet", "--shared", "--no-checkout", "--", r.top, dir)
	return err
}
