package worktree

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"mailroom/entry"
)

// pullSuffix is the suffix of the file with what the server knows of the pull request of a tree's branch. It is not in
// the record: a run may hold the lock of the tree for hours, and the record is its.
const pullSuffix = ".pull"

func (r *Repository) pullPath(key string) string { return filepath.Join(r.records, key+pullSuffix) }

// PushedBranch returns the branch of a task that was pushed last, "" if none was. ok is false if the task has no tree
// here.
func (r *Repository) PushedBranch(task string) (branch string, ok bool, err error) {
	rec, err := r.read(Key(task))
	switch {
	case err != nil || rec == nil:
		return "", false, err
	case rec.Pushed == "":
		return "", true, nil
	}
	return rec.Branch, true, nil
}

// OpenPull opens a pull request of the pushed branch of a task, as [Tree.PullRequest] does, and returns its address. It
// needs no lock of the tree: it changes nothing in it, and a run may work there.
func (r *Repository) OpenPull(ctx context.Context, task, remote, title, text string) (address string, err error) {
	rec, err := r.read(Key(task))
	if err != nil || rec == nil || rec.Pushed == "" || rec.PullRequest != "" {
		if rec != nil {
			address = rec.PullRequest
		}
		return address, err
	}
	out, err := r.git(ctx, "remote", "get-url", remote)
	if err != nil {
		return "", err
	}
	t := &Tree{repository: r, record: *rec}
	return findOrOpen(ctx, t.pulls(strings.TrimSpace(out)), rec.Branch, title, text)
}

// LookPull reads what the platform says of the pull request in p, and stores it in p. now is the time of the answer.
func (r *Repository) LookPull(ctx context.Context, remote string, p *entry.Pull, now time.Time) error {
	rec, err := r.read(Key(p.Thread))
	if err != nil {
		return err
	}
	if rec == nil {
		return permanent("its worktree was removed")
	}
	out, err := r.git(ctx, "remote", "get-url", remote)
	if err != nil {
		return err
	}
	t := &Tree{repository: r, record: *rec}
	a, err := t.pulls(strings.TrimSpace(out)).Look(ctx, p.Branch, p.Address, p.Tag)
	if err != nil {
		return err
	}
	if !a.Same {
		p.State, p.Head, p.Trouble, p.Tag = a.State, a.Head, a.Trouble, a.Tag
	}
	if p.IsFinal() {
		p.Trouble = ""
		if goesOn, err := r.goesOn(ctx, p.Head, rec.Pushed); err != nil {
			return err
		} else if goesOn {
			p.Trouble = "its branch has newer commits, which are not in it"
		}
	}
	p.At = now
	return nil
}

// goesOn reports whether a commit that was pushed comes after the newest one of a pull request. It is false if this
// repository does not have that one: a person has pushed it.
func (r *Repository) goesOn(ctx context.Context, head, pushed string) (bool, error) {
	if head == pushed || len(head) != len(pushed) || strings.Trim(head, "0123456789abcdef") != "" {
		return false, nil
	}
	_, err := r.git(ctx, "merge-base", "--is-ancestor", head, pushed)
	if failed(err) || refused(err) {
		return false, nil
	}
	return err == nil, err
}

// SavePull stores what is known of the pull request of a task, for the commands that look at the data folder. Of a task
// without a tree it stores nothing: a later tree of the task may have a branch of the same name.
func (r *Repository) SavePull(p *entry.Pull) error {
	if rec, err := r.read(Key(p.Thread)); err != nil || rec == nil {
		return err
	}
	raw, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the pull request of %s: %w", p.Branch, err)
	}
	return r.writeFile(r.pullPath(Key(p.Thread)), raw)
}

// pull returns what is known of the pull request of a record's branch.
func (r *Repository) pull(rec *record) (*entry.Pull, error) {
	p := &entry.Pull{Branch: rec.Branch, Address: rec.PullRequest}
	raw, err := os.ReadFile(r.pullPath(rec.Key))
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	var found entry.Pull
	if err == nil {
		err = json.Unmarshal(raw[:min(len(raw), maxRecord)], &found)
	}
	if err != nil {
		return p, fmt.Errorf("read what is known of the pull request of %s: %w", rec.Key, err)
	}
	if found.Branch != rec.Branch || rec.PullRequest != "" && found.Address != rec.PullRequest {
		return p, nil // of an earlier branch, or from before a run has opened it
	}
	return &found, nil
}
