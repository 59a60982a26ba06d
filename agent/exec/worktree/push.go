package worktree

import (
	"context"
	"slices"
	"strings"
	"time"
)

// pushTimeout bounds a call of git that uses the network.
const pushTimeout = 5 * time.Minute

// Push makes the branch on a remote the same as here, unless it has no commit of its own. It looks first what the
// remote has, so a repeat after a kill pushes nothing again. It replaces only what this server has pushed: a branch
// that others made, changed or deleted there is a [*Problem].
func (t *Tree) Push(ctx context.Context, remote string) error {
	res, err := t.Result(ctx)
	if err != nil || res.Commits == 0 {
		return err
	}
	ref := "refs/heads/" + t.record.Branch
	at := t.repository.reach(ctx, remote, true)
	there, err := t.remoteHead(ctx, at, ref)
	if err != nil {
		return err
	}
	if there == "" && t.record.Pushed != "" {
		return permanent("the branch %s was deleted on %s after it was pushed; push it by hand if you still need it",
			t.record.Branch, remote)
	}
	if there != res.Head {
		mine, err := t.pushed(ctx, there, res.Head)
		if err != nil {
			return err
		}
		if !mine {
			return permanent(
				"the branch %s of %s has commits that this server did not push; look at it, then delete or rename it",
				t.record.Branch, remote)
		}
		if _, err := t.git(ctx, command{total: pushTimeout}, "push", "--quiet", "--no-follow-tags", "--no-signed",
			"--no-verify", "--recurse-submodules=no", "--force-with-lease="+ref+":"+there, at,
			res.Head+":"+ref); err != nil {
			return err
		}
	}
	t.record.Pushed = res.Head
	return t.repository.write(&t.record)
}

// remoteHead returns the commit that a branch has on a remote, or "" if the remote has no such branch.
func (t *Tree) remoteHead(ctx context.Context, remote, ref string) (string, error) {
	out, err := t.git(ctx, command{total: pushTimeout}, "ls-remote", "--quiet", "--refs", remote, ref)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(out) {
		if commit, name, _ := strings.Cut(strings.TrimSpace(line), "\t"); name == ref {
			return commit, nil
		}
	}
	return "", nil
}

// pushed reports whether a remote has what this server pushed: nothing before the first push, or the commit that was
// recorded. After a kill the record may be behind; then the remote has another commit that was made in this tree.
func (t *Tree) pushed(ctx context.Context, there, head string) (bool, error) {
	if there == t.record.Pushed {
		return true, nil
	}
	made, err := t.repository.git(ctx, "rev-list", t.record.Base+".."+head)
	if err == nil && t.record.Before != "" {
		var before string
		before, err = t.repository.git(ctx, "rev-list", t.record.Before)
		made += "\n" + before
	}
	return there != "" && slices.Contains(strings.Split(made, "\n"), there), err
}

// Patch returns the commits of a tree's branch as patches for "git am".
func (r *Repository) Patch(ctx context.Context, key string) (string, error) {
	rec, err := r.read(key)
	if err != nil {
		return "", err
	}
	if rec == nil {
		return "", permanent("there is no worktree %q with a record", key)
	}
	return r.run(ctx, command{total: filesTimeout, args: []string{"--git-dir=" + r.common, "format-patch", "--stdout",
		"--binary", "--no-signature", "--no-ext-diff", "--no-textconv", rec.Base + "..refs/heads/" + rec.Branch}})
}
