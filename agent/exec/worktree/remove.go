package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Remove removes the tree of a task, and its branch if that has no commit. It refuses with a [*Problem] that says what
// would be lost: a run or a process works in the tree, or the tree has changes, ignored files, or commits that its
// branch does not have. The branch stays otherwise. A removal that was killed is ended by calling Remove again. With
// force, which is a person's choice, it removes changes and ignored files too.
func (r *Repository) Remove(ctx context.Context, key string, force bool) (err error) {
	lock, err := r.lockTree(ctx, key, lockPoll)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	rec, err := r.read(key)
	if err != nil {
		return err
	}
	if rec == nil {
		return permanent("there is no worktree %q with a record", key)
	}
	t := &Tree{repository: r, record: *rec}
	if err := killLeftovers(ctx, rec.Path); err != nil {
		return err
	}
	if t.admin, err = r.adminOf(rec.Path); err != nil {
		return err
	}
	_, missing := os.Lstat(rec.Path)
	switch {
	case rec.Keep:
		return permanent("worktree %s is kept; end that first", key)
	case rec.Removing != "" && errors.Is(missing, fs.ErrNotExist):
		if err := t.removeEntry(ctx); err != nil {
			return err
		}
	case t.admin == "" && missing != nil: // nothing is made yet
	case t.admin == "" || missing != nil && rec.Removing == "":
		return permanent("worktree %s is not complete: its folder or its entry in git is missing; see: git worktree list",
			key)
	default:
		if err := t.removeFiles(ctx, force); err != nil {
			return err
		}
	}
	if err := t.removeBranch(ctx); err != nil {
		return err
	}
	if err := removeFile(r.pullPath(key)); err != nil {
		return err
	}
	return removeFile(r.recordPath(key))
}

// removeFiles removes the folder of the tree and its entry in git.
func (t *Tree) removeFiles(ctx context.Context, force bool) (err error) {
	if err := t.clearLocks(); err != nil {
		return err
	}
	again := t.record.Removing != ""
	if err := t.empty(); err != nil {
		return err
	}
	if _, err := os.Lstat(t.record.Path); err == nil {
		if !force {
			if err := t.losesNothing(ctx, again); err != nil {
				return err
			}
		}
		if err := t.linkBack(); err != nil {
			return err
		}
	}
	if !again {
		res, err := t.Result(ctx)
		if err != nil {
			return err
		}
		t.record.Removing, t.record.Entry = res.Head, filepath.Base(t.admin)
		if err := t.repository.write(&t.record); err != nil {
			return err
		}
	}
	lock, err := t.repository.lockRepository(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	// Force is needed twice: for the lock, and for what a killed removal has already deleted. losesNothing has looked for
	// everything else that git would refuse.
	_, err = t.repository.run(ctx, command{tree: t.record.Path, total: filesTimeout, args: []string{
		"--git-dir=" + t.repository.common, "worktree", "remove", "--force", "--force", t.record.Path}})
	return err
}

// removeEntry removes what is left in the git folder of a tree that was being removed and whose folder is gone. A git
// that was killed may have deleted some files of the entry, also the one that says to which tree it belongs: git would
// take it for locked, and keep it for ever.
func (t *Tree) removeEntry(ctx context.Context) (err error) {
	lock, err := t.repository.lockRepository(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	admin := t.admin
	if admin == "" {
		if t.record.Entry == "" {
			return nil
		}
		admin = filepath.Join(t.repository.common, "worktrees", filepath.Base(t.record.Entry))
		reason, err := os.ReadFile(filepath.Join(admin, "locked"))
		if treeOf(admin) != "" || err == nil && strings.TrimSpace(string(reason)) != t.reason() {
			return nil // a person has made a worktree whose entry has the same name
		}
	}
	return os.RemoveAll(admin)
}

// endRemoval ends the removal of a tree whose folder is gone, so that the tree can be made again.
func (t *Tree) endRemoval(ctx context.Context) (err error) {
	if err := killLeftovers(ctx, t.record.Path); err != nil {
		return err
	}
	if t.admin, err = t.repository.adminOf(t.record.Path); err != nil {
		return err
	}
	if err := t.removeEntry(ctx); err != nil {
		return err
	}
	return t.recordAbsence()
}

// recordAbsence records that the tree has no files, so that the next Acquire makes it again on its branch.
func (t *Tree) recordAbsence() error {
	t.record.Complete, t.record.Removing, t.record.Entry, t.record.Move = false, "", "", nil
	return t.repository.write(&t.record)
}

// losesNothing returns a problem if the tree has something that is nowhere else. If a removal began before, missing
// files are no change.
func (t *Tree) losesNothing(ctx context.Context, again bool) error {
	keep := func(format string, args ...any) error {
		return permanent("worktree %s is kept: "+format, append([]any{t.record.Key}, args...)...)
	}
	if what := t.underway(); what != "" {
		return keep("a %s is under way in it", what)
	}
	if err := t.branchHasHead(ctx, keep); err != nil {
		return err
	}
	hidden, err := t.git(ctx, command{}, "ls-files", "-v", "-z")
	if err != nil {
		return err
	}
	for f := range strings.SplitSeq(hidden, "\x00") {
		// git does not look at files with a lower-case letter or S.
		if f != "" && (f[0] >= 'a' && f[0] <= 'z' || f[0] == 'S') {
			if _, err := os.Lstat(filepath.Join(t.record.Path, filepath.FromSlash(f[2:]))); err == nil {
				return keep("git is told not to look for changes in %q", f[2:])
			}
		}
	}
	status, err := t.git(ctx, command{}, "status", "--porcelain", "-z", "--untracked-files=all", "--ignored=matching",
		"--ignore-submodules=none", "--no-renames")
	if err != nil {
		return err
	}
	for f := range strings.SplitSeq(status, "\x00") {
		if len(f) < 4 || again && f[:2] == " D" {
			continue
		}
		switch f[:2] {
		case "??":
			return keep("%q is not in git", f[3:])
		case "!!":
			if t.isCopy(f[3:]) || t.isDisposable(f[3:]) {
				continue
			}
			return keep("git ignores %q, so it is only there", f[3:])
		}
		return keep("%q has changes that are in no commit", f[3:])
	}
	return t.checkSubmodules(ctx, keep)
}

// isDisposable reports whether something that git ignores is a disposable folder, or is in one. The name of a folder
// ends with a slash.
func (t *Tree) isDisposable(name string) bool {
	parts := strings.Split(name, "/")
	return slices.ContainsFunc(parts[:len(parts)-1], func(folder string) bool {
		return slices.Contains(t.record.Disposable, folder)
	})
}

// branchHasHead returns a problem if the commit of the tree is not in its branch, or if the tree has references of its
// own: its removal would lose them.
func (t *Tree) branchHasHead(ctx context.Context, keep func(string, ...any) error) error {
	branch := "refs/heads/" + t.record.Branch
	_, err := t.git(ctx, command{}, "merge-base", "--is-ancestor", "HEAD", branch)
	if err != nil {
		if _, gone := t.repository.git(ctx, "rev-parse", "--verify", "--quiet", branch); failed(gone) {
			return keep("its branch %s does not exist any more", t.record.Branch)
		}
		if failed(err) {
			return keep("its commit is not in its branch %s", t.record.Branch)
		}
		return err
	}
	own, err := t.git(ctx, command{}, "for-each-ref", "--count=1", "--format=%(refname)", "refs/worktree", "refs/bisect",
		"refs/rewritten")
	if own != "" && err == nil {
		return keep("it has the reference %s of its own", strings.TrimSpace(own))
	}
	return err
}

// checkSubmodules returns a problem if the folder of a submodule is not empty.
func (t *Tree) checkSubmodules(ctx context.Context, keep func(string, ...any) error) error {
	if _, err := os.Lstat(filepath.Join(t.admin, "modules")); err == nil {
		return keep("it has repositories of submodules")
	}
	out, err := t.git(ctx, command{}, "ls-files", "--stage", "-z")
	if err != nil {
		return err
	}
	for f := range strings.SplitSeq(out, "\x00") {
		entry, name, ok := strings.Cut(f, "\t")
		if !ok || !strings.HasPrefix(entry, "160000 ") {
			continue
		}
		all, err := os.ReadDir(filepath.Join(t.record.Path, filepath.FromSlash(name)))
		if len(all) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
			return keep("the submodule %q is not empty", name)
		}
	}
	return nil
}

// removeBranch deletes the branch if it has no commit of its own. git refuses to delete one whose base is in no other
// branch; it stays then.
func (t *Tree) removeBranch(ctx context.Context) (err error) {
	lock, err := t.repository.lockRepository(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	found, err := t.ownsBranch(ctx)
	if err != nil || found != ours {
		return err
	}
	res, err := t.Result(ctx)
	if err != nil || res.Head != t.record.Base {
		return err
	}
	if _, err := t.repository.git(ctx, "branch", "--delete", "--quiet", t.record.Branch); err != nil {
		p, known := errors.AsType[*Problem](err)
		if _, refused := errors.AsType[*exitError](err); !refused || known && p.Temporary {
			return fmt.Errorf("delete the empty branch %s: %w", t.record.Branch, err)
		}
	}
	return nil
}
