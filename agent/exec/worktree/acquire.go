package worktree

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"mailroom/internal/proc"
)

// Acquire returns the tree of a task, and makes it if the task has none. The caller works in the tree alone until it
// calls Release. base is the commit at which a new branch begins; "" leaves that to the options. An error
// that a person can mend is a [*Problem].
func (r *Repository) Acquire(ctx context.Context, task, base string) (t *Tree, err error) {
	key := Key(task)
	lock, err := r.lockTree(ctx, key, treeWait)
	if err != nil {
		return nil, err
	}
	t = &Tree{repository: r, lock: lock}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Unlock())
		}
	}()
	rec, err := r.read(key)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	if err := os.Chtimes(r.lockPath(key), now, now); err != nil {
		return nil, err
	}
	_, gone := os.Lstat(filepath.Join(r.trees, key))
	if rec != nil && rec.Removing != "" && errors.Is(gone, fs.ErrNotExist) { // the removal was not finished
		t.record = *rec
		if err := t.endRemoval(ctx); err != nil {
			return nil, err
		}
		rec = &t.record
	}
	if rec != nil && rec.Complete {
		t.record = *rec
		return t, t.reopen(ctx)
	}
	if errors.Is(gone, fs.ErrNotExist) {
		if err := r.checkRoom(ctx); err != nil {
			return nil, err
		}
	}
	if rec == nil {
		if rec, err = r.plan(ctx, task, base); err != nil {
			return nil, err
		}
	}
	t.record = *rec
	return t, t.build(ctx)
}

// plan stores the record of a new tree, before anything of the tree exists.
func (r *Repository) plan(ctx context.Context, task, base string) (*record, error) {
	key := Key(task)
	path := filepath.Join(r.trees, key)
	var from start
	var err error
	if base == "" {
		from, err = r.begin(ctx, path)
	} else {
		from.Commit, err = r.commit(ctx, base)
	}
	if err != nil {
		return nil, err
	}
	rec := &record{
		Key: key, Task: task, Repository: r.common, Top: r.top, Path: path, Branch: branchName(key, 1),
		Base: from.Commit, Remote: from.Remote, Ref: from.Ref, Stale: from.stale,
		Nonce: rand.Text(), Disposable: r.options.Disposable, Created: time.Now().UTC().Truncate(time.Second),
	}
	return rec, r.write(rec)
}

// folder returns the folder whose current commit counts: the working tree of the person, else the git folder.
func (r *Repository) folder() string {
	if r.top != "" {
		return r.options.Folder
	}
	return r.common
}

func branchName(key string, n int) string { return fmt.Sprintf("mailroom/%s-%d", key, n) }

// build makes the tree of a record. It does what has not happened yet. No run has worked in the tree before.
func (t *Tree) build(ctx context.Context) error {
	if err := killLeftovers(ctx, t.record.Path); err != nil {
		return err
	}
	if err := t.enter(ctx); err != nil {
		return err
	}
	if err := t.fill(ctx); err != nil {
		return err
	}
	var err error
	if t.record.Pointers, err = pointers(ctx, t); err != nil {
		return err
	}
	if err := t.include(ctx); err != nil {
		return err
	}
	if err := needsSetup(ctx, t); err != nil {
		return err
	}
	t.record.Complete = true
	return t.repository.write(&t.record)
}

// enter makes the branch and the entry in git's list of worktrees.
func (t *Tree) enter(ctx context.Context) (err error) {
	lock, err := t.repository.lockRepository(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	if err := t.makeBranch(ctx); err != nil {
		return err
	}
	if t.admin, err = t.repository.adminOf(t.record.Path); err != nil {
		return err
	}
	if t.admin != "" {
		if whole, err := t.onBranch(ctx); err != nil || whole {
			return err
		}
	}
	if err := t.removeHalf(); err != nil {
		return err
	}
	if _, err := t.repository.run(ctx, command{tree: t.record.Path, args: []string{"--git-dir=" + t.repository.common,
		"worktree", "add", "--quiet", "--no-checkout", "--lock", "--reason", t.reason(), t.record.Path, t.record.Branch,
	}}); err != nil {
		return err
	}
	if t.admin, err = t.repository.adminOf(t.record.Path); err == nil && t.admin == "" {
		err = fmt.Errorf("git made no entry for worktree %s", t.record.Key)
	}
	return err
}

// reason is the reason of the lock of our entry, which keeps git from pruning it, for example in the garbage collection
// of an agent that does not see the trees of other tasks.
func (t *Tree) reason() string { return "mailroom " + t.record.Key }

// maxBranches bounds the branches of one key that are not ours.
const maxBranches = 1000

// makeBranch makes the branch at the base, if it is not made yet. It leaves a branch that is not ours alone and takes
// the next name.
func (t *Tree) makeBranch(ctx context.Context) error {
	r, rec := t.repository, &t.record
	for n := 1; n <= maxBranches; n++ {
		if err := removeFile(t.refLock()); err != nil {
			return err
		}
		found, err := t.ownsBranch(ctx)
		if err != nil || found == ours {
			return err
		}
		if found == missing {
			none := strings.Repeat("0", len(rec.Base))
			_, err := r.git(ctx, "update-ref", "--create-reflog", "-m", rec.Nonce, "refs/heads/"+rec.Branch, rec.Base, none)
			if err == nil || !t.blocked(ctx) {
				return err
			}
			return permanent(
				"a branch of the repository is named mailroom, so that no branch mailroom/… can be made; rename it")
		}
		rec.Branch = branchName(rec.Key, n+1)
		if err := r.write(rec); err != nil {
			return err
		}
	}
	return permanent("the repository has %d branches mailroom/%s-…, and this server made no one of them", maxBranches,
		rec.Key)
}

// blocked reports whether a branch has the name of the folder of our branches.
func (t *Tree) blocked(ctx context.Context) bool {
	_, err := t.repository.git(ctx, "show-ref", "--verify", "--quiet", "refs/heads/mailroom")
	return err == nil
}

// refLock returns the lock file of the branch. It exists while git changes the branch, and after git was killed then.
func (t *Tree) refLock() string {
	return filepath.Join(t.repository.common, "refs", "heads", filepath.FromSlash(t.record.Branch)+".lock")
}

// ownership says whose a branch is.
type ownership int

const (
	missing ownership = iota
	ours
	foreign
)

// ownsBranch reports whether the branch exists, and whether the first entry of its log has the number of the record.
func (t *Tree) ownsBranch(ctx context.Context) (ownership, error) {
	r := t.repository
	_, err := r.git(ctx, "rev-parse", "--verify", "--quiet", "refs/heads/"+t.record.Branch)
	if failed(err) {
		return missing, nil
	}
	if err != nil {
		return missing, err
	}
	log, err := r.git(ctx, "log", "--walk-reflogs", "--format=%gs", "refs/heads/"+t.record.Branch, "--")
	if err != nil {
		return missing, err
	}
	if lines := strings.Split(log, "\n"); lines[len(lines)-1] == t.record.Nonce {
		return ours, nil
	}
	return foreign, nil
}

// adminOf returns the folder in the git folder that belongs to the tree at path, or "" if git has no entry for it.
func (r *Repository) adminOf(path string) (string, error) {
	found := ""
	err := r.eachAdmin(func(admin string) error {
		if treeOf(admin) == path {
			found = admin
		}
		return nil
	})
	return found, err
}

// eachAdmin calls f for the folder of each worktree of the repository, also for each worktree of a person.
func (r *Repository) eachAdmin(f func(admin string) error) error {
	all, err := os.ReadDir(filepath.Join(r.common, "worktrees"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, a := range all {
		err = errors.Join(err, f(filepath.Join(r.common, "worktrees", a.Name())))
	}
	return err
}

// treeOf returns the path of the tree of an admin folder, or "" if git has not written it yet.
func treeOf(admin string) string {
	raw, err := os.ReadFile(filepath.Join(admin, "gitdir"))
	path := strings.TrimSpace(string(raw))
	if err != nil || path == "" {
		return ""
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(admin, path)
	}
	return filepath.Dir(path)
}

// onBranch reports whether the tree is on its branch. A half-made tree is on none.
func (t *Tree) onBranch(ctx context.Context) (bool, error) {
	if _, err := os.Lstat(filepath.Join(t.record.Path, ".git")); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	head, err := t.git(ctx, command{}, "symbolic-ref", "--quiet", "HEAD")
	if e, ok := errors.AsType[*exitError](err); ok && (e.exit.Code == 1 || e.exit.Code == 128) {
		return false, nil // a git that was killed has another status
	}
	return strings.TrimSpace(head) == "refs/heads/"+t.record.Branch, err
}

// removeHalf removes what a killed "git worktree add" left: the file .git of the tree, and the folder in the git folder
// that belongs to this path, or that git had not finished.
func (t *Tree) removeHalf() error {
	all, err := os.ReadDir(t.record.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the folder of worktree %s: %w", t.record.Key, err)
	}
	for _, f := range all {
		if f.Name() != ".git" || !f.Type().IsRegular() {
			return permanent("the folder of worktree %s has files that are not of its branch; move them away", t.record.Key)
		}
	}
	if err := removeFile(filepath.Join(t.record.Path, ".git")); err != nil {
		return err
	}
	return t.repository.eachAdmin(func(admin string) error {
		if !t.isHalf(admin) {
			return nil
		}
		return os.RemoveAll(admin)
	})
}

// isHalf reports whether an admin folder is what a killed "git worktree add" of this tree left. git names the folder
// after the tree, and locks it first.
func (t *Tree) isHalf(admin string) bool {
	if path := treeOf(admin); path != "" {
		return path == t.record.Path
	}
	rest, named := strings.CutPrefix(filepath.Base(admin), t.record.Key)
	if !named || strings.Trim(rest, "0123456789") != "" {
		return false
	}
	all, err := os.ReadDir(admin)
	return err == nil && !slices.ContainsFunc(all, func(f fs.DirEntry) bool {
		return f.Name() != "locked" && f.Name() != "gitdir"
	})
}

// fill writes the files of the tree.
func (t *Tree) fill(ctx context.Context) error {
	if err := t.clearLocks(); err != nil {
		return err
	}
	if err := t.checkHalf(ctx); err != nil {
		return err
	}
	_, err := t.git(ctx, command{}, "reset", "--hard", "--quiet")
	return err
}

// checkHalf returns a problem if an unfinished tree has files that differ from its commit. The one file that a killed
// git was writing is no difference: it is the beginning of the file in the commit.
func (t *Tree) checkHalf(ctx context.Context) error {
	all, err := os.ReadDir(t.record.Path)
	if err != nil {
		return fmt.Errorf("read the folder of worktree %s: %w", t.record.Key, err)
	}
	if len(all) <= 1 { // .git
		return nil
	}
	if _, err := t.git(ctx, command{}, "read-tree", "HEAD"); err != nil {
		return err
	}
	out, err := t.git(ctx, command{}, "diff-files", "--name-only", "-z", "--no-ext-diff", "--diff-filter=MT",
		"--ignore-submodules=all")
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		if name == "" {
			continue
		}
		if half, err := t.isBeginning(ctx, "HEAD", name); err != nil {
			return err
		} else if half {
			continue
		}
		return permanent("worktree %s was not complete, but has changes in %q; save them, and remove that file", t.record.Key,
			name)
	}
	return nil
}

// isBeginning reports whether a file in the tree has the first bytes of the file in a commit, as git writes it.
func (t *Tree) isBeginning(ctx context.Context, commit, name string) (bool, error) {
	path := filepath.Join(t.record.Path, filepath.FromSlash(name))
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxOutput {
		return false, nil
	}
	have, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}
	want, err := t.git(ctx, command{}, "cat-file", "--filters", commit+":"+name)
	if e, ok := errors.AsType[*exitError](err); ok && e.exit.Code == 128 { // the commit does not have the file
		return false, nil
	}
	return strings.HasPrefix(want, string(have)), err
}

// clearLocks removes lock files that a killed git left in the folder of the tree. A process whose working folder is in
// the tree may be a git of a person, which holds them.
func (t *Tree) clearLocks() error {
	all, err := os.ReadDir(t.admin)
	if err != nil {
		return fmt.Errorf("read the entry of worktree %s: %w", t.record.Key, err)
	}
	var files []string
	if _, err := os.Lstat(t.refLock()); err == nil {
		files = append(files, t.refLock())
	}
	for _, f := range all { // such as index.lock, HEAD.lock and ORIG_HEAD.lock
		if strings.HasSuffix(f.Name(), ".lock") && f.Type().IsRegular() {
			files = append(files, filepath.Join(t.admin, f.Name()))
		}
	}
	if len(files) == 0 {
		return nil
	}
	if err := t.empty(); err != nil {
		return err
	}
	for _, path := range files {
		if err := removeFile(path); err != nil {
			return err
		}
	}
	return nil
}

// empty returns a problem if a process works in the tree.
func (t *Tree) empty() error {
	pids, err := proc.Inside(t.record.Path)
	if err == nil && len(pids) > 0 {
		err = temporary("process %d works in worktree %s", pids[0], t.record.Key)
	}
	return err
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("remove a rest of a killed git: %w", err)
	}
	return nil
}

// reopen checks that a complete tree is where its record says, and removes what a killed git left in it.
func (t *Tree) reopen(ctx context.Context) (err error) {
	key := t.record.Key
	if _, err := os.Lstat(t.record.Path); err != nil {
		return temporary("worktree %s is missing; perhaps its disk is not mounted, or see: mailroom worktrees", key)
	}
	if t.admin, err = t.repository.adminOf(t.record.Path); err != nil {
		return err
	}
	if t.admin == "" {
		return temporary("git does not know worktree %s any more; repair it: git worktree repair", key)
	}
	if err := killLeftovers(ctx, t.record.Path); err != nil {
		return err
	}
	if err := t.clearLocks(); err != nil {
		return err
	}
	if err := t.linkBack(); err != nil {
		return err
	}
	if t.record.Removing != "" { // the removal was not finished, and the task goes on
		if _, err := t.git(ctx, command{}, "checkout-index", "--all"); err != nil { // only missing files
			return err
		}
		t.record.Removing, t.record.Entry = "", ""
		if s := t.record.Setup; s != nil && !s.Skipped { // what it made may be gone
			t.record.Setup = &setup{Report: s.Report}
		}
		if err := t.repository.write(&t.record); err != nil {
			return err
		}
	}
	if err := t.relock(); err != nil {
		return err
	}
	if now := t.repository.options.Disposable; !slices.Equal(now, t.record.Disposable) {
		t.record.Disposable = now
		if err := t.repository.write(&t.record); err != nil {
			return err
		}
	}
	return t.endMove(ctx)
}

// linkBack writes the file .git of the tree, unless it exists. Without it, a git in the tree would work in a repository
// around it.
func (t *Tree) linkBack() error {
	f, err := os.OpenFile(filepath.Join(t.record.Path, ".git"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		_, err = f.WriteString("gitdir: " + t.admin + "\n")
		err = errors.Join(err, f.Close())
	}
	return diskProblem(err)
}

// relock locks the entry of the tree, unless it is locked.
func (t *Tree) relock() error {
	path := filepath.Join(t.admin, "locked")
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	return os.WriteFile(path, []byte(t.reason()+"\n"), 0o644)
}
