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
	"time"
)

// States of a tree: what can be done with it.
const (
	stateInUse      = "in use"     // a run works in it
	StateUnfinished = "unfinished" // its making or its removal was interrupted; the next run of the task goes on
	StateMissing    = "missing"    // its folder is not there; perhaps its disk is not mounted
	stateParked     = "parked"     // it has no folder now; the next run of the task makes it again, on its branch
	stateKept       = "kept"       // a person keeps it
	stateWork       = "work"       // it has something that is nowhere else
	StateIdle       = "idle"       // its removal loses nothing
	stateUnrecorded = "unrecorded" // ours, without a record; see [Adopt]
)

// Info describes a tree for a person.
type Info struct {
	Name       string    `json:"name"` // REPOSITORY/KEY
	Task       string    `json:"task"` // such as the id of a thread; "" if unrecorded
	Repository string    `json:"repository"`
	Path       string    `json:"path"`
	Branch     string    `json:"branch"`
	State      string    `json:"state"`
	Detail     string    `json:"detail"` // what would be lost, or ""
	Created    time.Time `json:"created_at"`
	Size       int64     `json:"size"` // bytes of its files
	// PullRequest is the address of its pull request, "" if none is known. Unopened then says why the server could not
	// open it, and Again that the server tries again by itself.
	PullRequest string `json:"pull_request,omitempty"`
	Unopened    string `json:"unopened,omitempty"`
	Again       bool   `json:"again,omitempty"`
	// PullState is open, merged or closed, as the platform said at PullAt, or "". Unread says why a later look failed.
	PullState string    `json:"pull_state,omitempty"`
	PullAt    time.Time `json:"pull_at,omitzero"`
	Trouble   string    `json:"trouble,omitempty"`
	Unread    string    `json:"unread,omitempty"`
}

// List returns all trees below a root, by name. env is the environment of git, as in [Options].
func List(ctx context.Context, root string, env []string) (all []Info, err error) {
	err = eachRepository(root, env, func(r *Repository) error {
		keys, err := r.keys()
		for _, key := range keys {
			info, e := r.describe(ctx, key)
			if e == nil {
				all = append(all, info)
			}
			err = errors.Join(err, e)
		}
		found, e := r.unrecorded(keys)
		all = append(all, found...)
		return errors.Join(err, e)
	})
	slices.SortFunc(all, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return all, err
}

// eachRepository calls f for each repository that has or had trees below a root.
func eachRepository(root string, env []string, f func(*Repository) error) error {
	root, err := filepath.EvalSymlinks(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find the worktrees: %w", err)
	}
	all, err := os.ReadDir(filepath.Join(root, recordsFolder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, folder := range all {
		r := &Repository{options: Options{Root: root, Env: env}, trees: filepath.Join(root, folder.Name()),
			records: filepath.Join(root, recordsFolder, folder.Name())}
		if r.common = r.findCommon(); r.common != "" {
			err = errors.Join(err, f(r))
		}
	}
	return err
}

// findCommon returns the git folder of a repository, by its records or by the files .git of its trees; "" if it has
// neither.
func (r *Repository) findCommon() string {
	keys, err := r.keys()
	if err != nil {
		return ""
	}
	for _, key := range keys {
		if rec, err := r.read(key); err == nil && rec != nil {
			return rec.Repository
		}
	}
	all, err := os.ReadDir(r.trees)
	if err != nil {
		return ""
	}
	for _, tree := range all {
		raw, err := os.ReadFile(filepath.Join(r.trees, tree.Name(), ".git"))
		if admin, ok := strings.CutPrefix(strings.TrimSpace(string(raw)), "gitdir: "); ok && err == nil {
			return filepath.Dir(filepath.Dir(admin))
		}
	}
	return ""
}

func (r *Repository) nameOf(key string) string { return filepath.Base(r.trees) + "/" + key }

// describe describes a tree that has a record.
func (r *Repository) describe(ctx context.Context, key string) (info Info, err error) {
	rec, err := r.read(key)
	if err != nil || rec == nil {
		return info, err
	}
	info = Info{Name: r.nameOf(key), Task: rec.Task, Repository: personal(rec.Repository), Path: rec.Path,
		Branch: rec.Branch, Created: rec.Created, Size: sizeOf(rec.Path)}
	pull, err := r.pull(rec)
	if err != nil {
		return info, err
	}
	info.PullRequest, info.Unopened, info.Again = pull.Address, pull.Unopened, pull.Again
	info.PullState, info.PullAt, info.Trouble, info.Unread = pull.State, pull.At, pull.Trouble, pull.Unread
	lock, err := r.lockTree(ctx, key, lockPoll)
	if _, busy := errors.AsType[*Problem](err); busy {
		info.State = stateInUse
		return info, nil
	}
	if err != nil {
		return info, err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	t := &Tree{repository: r, record: *rec}
	if t.admin, err = r.adminOf(rec.Path); err != nil {
		return info, err
	}
	_, gone := os.Lstat(rec.Path)
	switch {
	case !rec.Complete && gone != nil:
		info.State = stateParked
	case !rec.Complete || rec.Removing != "":
		info.State = StateUnfinished
	case gone != nil || t.admin == "":
		info.State = StateMissing
	case rec.Keep:
		info.State = stateKept
	default:
		info.State = StateIdle
		lost := errors.Join(t.empty(), t.losesNothing(ctx, false))
		if p, ok := errors.AsType[*Problem](lost); ok {
			info.State, info.Detail = stateWork, strings.TrimPrefix(p.Text, "worktree "+key+" is kept: ")
		} else if lost != nil {
			info.State, info.Detail = stateWork, lost.Error()
		}
	}
	return info, nil
}

// personal returns the folder in which a person works on a repository.
func personal(common string) string {
	return strings.TrimSuffix(common, string(filepath.Separator)+".git")
}

// sizeOf returns the bytes of the files in a folder, as far as they can be read.
func sizeOf(path string) (sum int64) {
	_ = filepath.WalkDir(path, func(_ string, f fs.DirEntry, err error) error {
		if err == nil && f.Type().IsRegular() {
			if info, err := f.Info(); err == nil {
				sum += info.Size()
			}
		}
		return nil // a program may be changing the folder
	})
	return sum
}

// unrecorded returns the worktrees of git in our folder that have the reason of our lock, and no record.
func (r *Repository) unrecorded(keys []string) (found []Info, err error) {
	err = r.eachAdmin(func(admin string) error {
		path := treeOf(admin)
		key := filepath.Base(path)
		if filepath.Dir(path) != r.trees || slices.Contains(keys, key) || !isOurs(admin, key) {
			return nil
		}
		found = append(found, Info{Name: r.nameOf(key), Repository: personal(r.common), Path: path,
			State: stateUnrecorded, Size: sizeOf(path)})
		return nil
	})
	return found, err
}

// isOurs reports whether a worktree of git has the reason of our lock.
func isOurs(admin, key string) bool {
	reason, err := os.ReadFile(filepath.Join(admin, "locked"))
	return err == nil && strings.TrimSpace(string(reason)) == "mailroom "+key
}

// Find returns the repository and the key of a tree by its name, which may lack the repository if that is clear.
func Find(root, name string, env []string) (found *Repository, key string, err error) {
	err = eachRepository(root, env, func(r *Repository) error {
		keys, err := r.keys()
		if err != nil {
			return err
		}
		orphans, err := r.unrecorded(keys)
		for _, o := range orphans {
			keys = append(keys, filepath.Base(o.Path))
		}
		for _, k := range keys {
			if name != k && name != r.nameOf(k) {
				continue
			}
			if found != nil {
				err = errors.Join(err, permanent("%q is the name of several worktrees; use REPOSITORY/NAME", name))
			}
			found, key = r, k
		}
		return err
	})
	if err == nil && found == nil {
		err = permanent("there is no worktree %q; list them: mailroom worktrees", name)
	}
	return found, key, err
}

// Keep makes a tree stay, or ends that.
func (r *Repository) Keep(ctx context.Context, key string, keep bool) (err error) {
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
		return permanent("worktree %s has no record; adopt it first", key)
	}
	rec.Keep = keep
	return r.write(rec)
}

// Adopt makes a record for a tree that has none, for example after the data folder was restored from a copy. The next
// runs of the task work in it; its key must be the key of the tree.
func (r *Repository) Adopt(ctx context.Context, key, task string) (err error) {
	if Key(task) != key {
		return permanent("%q cannot be the task of worktree %s", task, key)
	}
	lock, err := r.lockTree(ctx, key, lockPoll)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	rec, err := r.read(key)
	if err != nil {
		return err
	}
	if rec != nil {
		return permanent("worktree %s has a record already", key)
	}
	t := &Tree{repository: r, record: record{Key: key, Task: task, Repository: r.common,
		Path: filepath.Join(r.trees, key), Created: time.Now().UTC().Truncate(time.Second), Complete: true}}
	if t.admin, err = r.adminOf(t.record.Path); err != nil {
		return err
	}
	if t.admin == "" || !isOurs(t.admin, key) {
		return permanent("no worktree of git has the name %s and a lock of mailroom", key)
	}
	head, err := t.git(ctx, command{}, "symbolic-ref", "--quiet", "HEAD")
	branch, named := strings.CutPrefix(strings.TrimSpace(head), "refs/heads/mailroom/"+key+"-")
	if err != nil || !named {
		return permanent("worktree %s is not on a branch mailroom/%s-…; check one out first", key, key)
	}
	t.record.Branch = "mailroom/" + key + "-" + branch
	log, err := r.git(ctx, "log", "--walk-reflogs", "--format=%H %gs", "refs/heads/"+t.record.Branch, "--")
	if err != nil {
		return err
	}
	var ok bool
	lines := strings.Split(log, "\n")
	t.record.Base, t.record.Nonce, ok = strings.Cut(lines[len(lines)-1], " ")
	if !ok || t.record.Nonce == "" {
		return permanent("the log of branch %s does not say where it began", t.record.Branch)
	}
	return r.write(&t.record)
}
