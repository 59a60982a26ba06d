package worktree

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// checkRoom returns a problem if the repository has as many trees as it may have. It parks idle ones first, those that
// were not used for the longest time before others.
func (r *Repository) checkRoom(ctx context.Context) error {
	keys, err := r.keys()
	if err != nil || r.options.Most == 0 {
		return err
	}
	type tree struct {
		key  string
		used time.Time
	}
	var trees []tree
	for _, key := range keys {
		if _, err := os.Lstat(filepath.Join(r.trees, key)); err != nil {
			continue // parked, or on a disk that is not mounted
		}
		var used time.Time // of a tree that was never used
		if info, err := os.Stat(r.lockPath(key)); err == nil {
			used = info.ModTime()
		}
		trees = append(trees, tree{key, used})
	}
	slices.SortStableFunc(trees, func(a, b tree) int { return a.used.Compare(b.used) })
	left := len(trees)
	for _, t := range trees {
		if left < r.options.Most {
			return nil
		}
		err := r.park(ctx, t.key)
		if _, busy := errors.AsType[*Problem](err); err != nil && !busy {
			return err
		}
		if err == nil {
			left--
		}
	}
	if left >= r.options.Most {
		return temporary("the repository has %d worktrees with work, as many as max_worktrees allows: mailroom worktrees",
			left)
	}
	return nil
}

// park removes the files of a tree if that loses nothing. The record and the branch stay, and the next Acquire of the
// task makes the tree again, at the same path and with the same branch.
func (r *Repository) park(ctx context.Context, key string) (err error) {
	lock, err := r.lockTree(ctx, key, lockPoll)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	rec, err := r.read(key)
	if err != nil {
		return err
	}
	if rec == nil || !rec.Complete || rec.Keep {
		return temporary("worktree %s is not idle", key)
	}
	t := &Tree{repository: r, record: *rec}
	if t.admin, err = r.adminOf(rec.Path); err != nil {
		return err
	}
	if t.admin == "" {
		return temporary("worktree %s has no entry in git", key)
	}
	if err := t.removeFiles(ctx, false); err != nil {
		return err
	}
	return t.recordAbsence()
}
