package evaluate

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// Repository is a git repository. It is only read.
type Repository struct {
	Top    string // of its work tree
	Prefix string // of the workspace in it, "" or with a slash at its end
}

// Git runs a git command and returns what it prints.
func Git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	var out, messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &messages
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("git %s in %s: %w\n%s", args[0], dir, err, strings.TrimSpace(messages.String()))
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// Open finds the repository that a workspace is in.
func Open(ctx context.Context, dir string) (*Repository, error) {
	top, err := Git(ctx, dir, "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, fmt.Errorf("evaluate compares commits of a git repository: %w", err)
	}
	prefix, err := Git(ctx, dir, "rev-parse", "--show-prefix")
	return &Repository{top, prefix}, err
}

// List returns the commits of Options.Commits and Options.Every.
func (r *Repository) List(ctx context.Context, commits string, every int) (l []string, err error) {
	for _, x := range strings.Split(commits, ",") {
		from, to, ok := strings.Cut(x, "..")
		var hashes [2]string
		for i, commit := range []string{from, cmp.Or(to, "HEAD")} {
			if hashes[i], err = Git(ctx, r.Top, "rev-parse", "--verify", "--quiet", "--end-of-options", commit+"^{commit}"); err != nil {
				return nil, fmt.Errorf("--commits: %s: there is no commit %q in %s", x, commit, r.Top)
			}
		}
		l = append(l, hashes[0])
		if !ok {
			continue
		}
		out, err := Git(ctx, r.Top, "rev-list", "--first-parent", "--reverse", hashes[0]+".."+hashes[1])
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

// Subject returns the first line of a commit's message.
func (r *Repository) Subject(ctx context.Context, commit string) string {
	s, _ := Git(ctx, r.Top, "log", "-1", "--format=%s", commit, "--") // "" after an error
	return s
}

// Clone makes a work tree in dir that shares only objects with the repository.
// Unlike "git worktree", it changes nothing there.
func (r *Repository) Clone(ctx context.Context, dir string) error {
	_, err := Git(ctx, r.Top, "clone", "--quiet", "--shared", "--no-checkout", "--", r.Top, dir)
	return err
}
