package worktree

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Result is what a task has made so far.
type Result struct {
	Head    string // commit of the branch
	Commits int    // commits since the base
	// Left says, in one sentence, why changes in the tree are not in a commit; "" if all are.
	Left string
	// Pointers says, in one sentence, which files of the tree had only pointers of git LFS when it was made; "" if none.
	Pointers string
}

// Commit commits all changes in the tree that git does not ignore, and returns what the branch has. Commits that the
// agent made itself stay. author is the name of the agent. Nothing to commit is no error.
func (t *Tree) Commit(ctx context.Context, author, message string) (Result, error) {
	if err := t.clearLocks(); err != nil {
		return Result{}, err
	}
	left, err := t.unfit(ctx)
	if err != nil {
		return Result{}, err
	}
	if left == "" {
		if left, err = t.commit(ctx, author, message); err != nil {
			return Result{}, err
		}
	}
	res, err := t.Result(ctx)
	res.Left = left
	return res, err
}

// unfit returns why changes in the tree cannot become a commit of the branch, or "".
func (t *Tree) unfit(ctx context.Context) (string, error) {
	if on, err := t.onBranch(ctx); err != nil {
		return "", err
	} else if !on {
		return "the worktree is not on its branch " + t.record.Branch + " but on another one, or on none", nil
	}
	if what := t.underway(); what != "" {
		return "a " + what + " is under way in the worktree", nil
	}
	return "", nil
}

// underway returns the operation of git that has begun in the tree and not ended, or "".
func (t *Tree) underway() string {
	for _, o := range []struct{ file, name string }{
		{"MERGE_HEAD", "merge"}, {"rebase-merge", "rebase"}, {"rebase-apply", "rebase"}, {"CHERRY_PICK_HEAD", "cherry-pick"},
		{"REVERT_HEAD", "revert"}, {"BISECT_LOG", "bisect"},
	} {
		if _, err := os.Lstat(filepath.Join(t.admin, o.file)); err == nil {
			return o.name
		}
	}
	return ""
}

func (t *Tree) commit(ctx context.Context, author, message string) (left string, err error) {
	if _, err := t.git(ctx, command{}, "add", "--all"); err != nil {
		return "", err
	}
	left, changed, err := t.leaveRepositories(ctx)
	if err != nil || !changed {
		return left, err
	}
	name := strings.Map(func(c rune) rune {
		if strings.ContainsRune("<>\n\x00", c) {
			return -1
		}
		return c
	}, author)
	env := []string{}
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		env = append(env, "GIT_"+who+"_NAME="+name, "GIT_"+who+"_EMAIL="+Key(name)+"@mailroom.invalid")
	}
	_, err = t.git(ctx, command{env: env}, "commit", "--quiet", "--no-verify", "--cleanup=verbatim", "--message", message)
	return left, err
}

// leaveRepositories takes git repositories that an agent made inside of the tree out of the next commit. A commit would
// have only their names: the tree would look as if all of it were saved, and its removal would delete them. changed
// reports whether the commit has other changes.
func (t *Tree) leaveRepositories(ctx context.Context) (left string, changed bool, err error) {
	out, err := t.git(ctx, command{}, "diff", "--cached", "--raw", "-z", "--no-renames", "--no-ext-diff")
	if err != nil {
		return "", false, err
	}
	fields := strings.Split(out, "\x00")
	for i := 0; i+1 < len(fields); i += 2 { // ":000000 160000 0000000 1234567 A", "name"
		row := strings.Fields(fields[i])
		if len(row) != 5 || row[1] != "160000" || !strings.Contains("AT", row[4]) {
			changed = true
			continue
		}
		if _, err := t.git(ctx, command{}, "reset", "--quiet", "HEAD", "--", ":(literal)"+fields[i+1]); err != nil {
			return "", false, err
		}
		left = fmt.Sprintf("%q is a git repository inside of the worktree", fields[i+1])
	}
	return left, changed, nil
}

// Result returns what the branch has.
func (t *Tree) Result(ctx context.Context) (res Result, err error) {
	head, err := t.repository.git(ctx, "rev-parse", "--verify", "--quiet", "refs/heads/"+t.record.Branch)
	if failed(err) {
		return res, permanent("the branch %s does not exist any more", t.record.Branch)
	}
	if err != nil {
		return res, err
	}
	n, err := t.repository.git(ctx, "rev-list", "--count", t.record.Base+".."+head)
	if err == nil {
		_, err = fmt.Sscan(n, &res.Commits)
	}
	res.Head, res.Pointers = head, t.record.Pointers
	return res, err
}
