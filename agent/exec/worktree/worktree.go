// Package worktree gives tasks working trees of a git repository. Each task has a folder and a branch of its own, so
// that several agents work in one repository at once and none sees the half-written changes of another.
//
// A tree is made in steps: the record, the branch, the entry of "git worktree", the files, and last the mark in the
// record that the tree is complete. Each step looks up whether it has happened before it acts. So a tree is made by
// calling [Repository.Acquire] again after a kill at any point, and there is no other recovery. Commands of the
// repository then set the tree up, if the owner of the machine trusts them, see [SetUp].
//
// The record is outside of the tree, where no agent writes. It names the branch, and the commit that the branch began
// at. A branch is ours only if its first log entry has the number in the record: a branch that a person made under the
// same name is left alone, and the task gets the next name. The package deletes no branch with commits, no file that
// git does not have, and nothing that it has no record of.
//
// All git commands of a tree run with the rights of its agent, see [Options.Isolation], because an agent may change the
// configuration of the repository, which names programs that git runs. No hook of the repository runs.
package worktree

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"mailroom/internal/proc"
)

// Options configure the trees of one repository. Folder and Root are required.
type Options struct {
	// Folder is a folder of the repository, and Root the absolute path of the folder of all trees and records. Root
	// must not be a folder that the system sweeps.
	Folder, Root string
	// Within are the folders that the repository must be in, with its working tree and its git folder; nil is anywhere.
	Within []string
	// Git is the program; "" is git in PATH. Env is its environment, NAME=VALUE, without the variables of git itself.
	Git string
	Env []string
	// Isolation restricts git as it restricts the agent of the trees; nil means no isolation. Its field Keep need not
	// name the trees.
	Isolation *proc.Isolation
	// Most is the maximum number of trees of the repository; 0 is no limit.
	Most int
	// Disposable are names of folders, such as node_modules, that a removal may delete where git ignores them.
	Disposable []string
	// Fresh lets new branches begin at the default branch of a remote, which is fetched first, and not at the current
	// commit of the repository. Remote names it; "", or one that does not exist, is origin, or the only remote.
	Fresh  bool
	Remote string
	// Pulls returns the pull requests of the repository with the address of a remote, or nil for a remote whose pull
	// requests gh or glab opens. A nil Pulls leaves all to these.
	Pulls func(address string) Pulls
}

// Problem is why a tree cannot be used, as one sentence for a person. Temporary is set if a repeat may succeed without
// a change of the configuration.
type Problem struct {
	Text      string
	Temporary bool
	cause     error // how git ended, or nil
}

func (p *Problem) Error() string { return p.Text }

// Unwrap returns the error of git that the problem explains, or nil.
func (p *Problem) Unwrap() error { return p.cause }

func permanent(format string, args ...any) error { return &Problem{Text: fmt.Sprintf(format, args...)} }

func temporary(format string, args ...any) error {
	return &Problem{Text: fmt.Sprintf(format, args...), Temporary: true}
}

// Repository is a git repository of a person whose trees are below Root. It is safe for concurrent use, also by several
// processes of a machine.
type Repository struct {
	options Options
	common  string // its git folder, which all of its working trees share
	top     string // working tree of the person, or "" if the repository is bare
	trees   string // folder of its trees, below Root
	records string // folder of their records, which no agent can reach
}

// Open returns the repository of a folder. The error is a [*Problem] if the folder has none.
func Open(ctx context.Context, o Options) (*Repository, error) {
	if info, err := os.Stat(o.Folder); err != nil || !info.IsDir() {
		return nil, permanent("the folder of the repository does not exist; set dir to a folder of a git repository")
	}
	root, err := makeFolder(o.Root)
	if err != nil {
		return nil, err
	}
	r := &Repository{options: o}
	// The trees of this repository are not known yet, so this command can reach none of them.
	out, err := r.run(ctx, command{dir: o.Folder, args: []string{"rev-parse", "--path-format=absolute",
		"--git-common-dir", "--is-bare-repository", "--show-toplevel"}})
	lines := strings.SplitN(strings.TrimSuffix(out, "\n"), "\n", 3)
	bare := len(lines) == 2 && lines[1] == "true"
	if err != nil && (!bare || !refused(err)) { // a bare repository has no top level
		return nil, fmt.Errorf("open the repository: %w", err)
	}
	if !bare && (len(lines) != 3 || lines[1] != "false") {
		return nil, permanent("the repository has no usable path; git 2.36 or later is required")
	}
	if r.common, err = filepath.EvalSymlinks(lines[0]); err != nil {
		return nil, fmt.Errorf("open the repository: %w", err)
	}
	if !bare {
		r.top = lines[2]
	}
	if o.Within != nil && !(IsWithin(r.common, o.Within) && (r.top == "" || IsWithin(r.top, o.Within))) {
		return nil, permanent("the git repository of the folder is not in one of the folders that repos allows")
	}
	name := r.name()
	if r.trees, err = makeFolder(filepath.Join(root, name)); err != nil {
		return nil, err
	}
	if r.records, err = makeFolder(filepath.Join(root, recordsFolder, name)); err != nil {
		return nil, err
	}
	if o.Isolation != nil && o.Isolation.User != nil {
		if o.Isolation.Kind != proc.KindNamespace {
			return nil, permanent("the user of the agent cannot reach trees in the data folder without namespaces; " +
				"remove user, or allow user namespaces")
		}
		err = os.Chown(r.trees, int(o.Isolation.User.UID), int(o.Isolation.User.GID))
	}
	return r, err
}

// IsWithin reports whether a path is one of some folders, or is in one of them. Links count as what they lead to.
func IsWithin(path string, folders []string) bool {
	path, err := filepath.EvalSymlinks(path)
	return err == nil && slices.ContainsFunc(folders, func(folder string) bool {
		folder, err := filepath.Abs(folder)
		if err == nil {
			folder, err = filepath.EvalSymlinks(folder)
		}
		if err != nil {
			return false
		}
		rest, err := filepath.Rel(folder, path)
		return err == nil && filepath.IsLocal(rest)
	})
}

// recordsFolder is the folder in Root with the records of all repositories. No name of a repository begins with a dot.
const recordsFolder = ".records"

// makeFolder makes a folder that only its owner can read, and returns its path without links.
func makeFolder(path string) (string, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return "", fmt.Errorf("make the folder of worktrees: %w", diskProblem(err))
	}
	return filepath.EvalSymlinks(path)
}

// name returns the name of the repository's folder in Root: the name of its folder, and a digest of the whole path.
func (r *Repository) name() string {
	path := strings.TrimSuffix(r.common, string(filepath.Separator)+".git")
	return cleanName(strings.TrimSuffix(filepath.Base(path), ".git")) + "-" + shortDigest(r.common)
}

func shortDigest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}

// maxKey is the maximum length of the readable part of a key, in bytes.
const maxKey = 40

// Key returns the key of a task: its name with unusual characters replaced, and a digest of the name if that changed
// it. A key is a file name on every system, and part of the name of a branch.
func Key(task string) string {
	key := cleanName(task)
	if key == task {
		return key
	}
	return key + "-" + shortDigest(task)
}

// cleanName returns a name of lower-case letters, digits, and single dashes and dots inside. On some file systems,
// names that differ only in their case are the same.
func cleanName(text string) string {
	usual := func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '.':
			return c
		case c >= 'A' && c <= 'Z':
			return c + 'a' - 'A'
		}
		return '-'
	}
	name := strings.Map(usual, text[:min(len(text), maxKey)])
	for _, twice := range []string{"..", "--", "-.", ".-"} {
		for strings.Contains(name, twice) {
			name = strings.ReplaceAll(name, twice, "-")
		}
	}
	name = strings.Trim(name, ".-")
	if name == "" || strings.HasSuffix(name, ".lock") {
		return "task"
	}
	return name
}

// Tree is the working tree of a task. It is locked until Release is called.
type Tree struct {
	repository *Repository
	record     record
	admin      string // folder of the tree in the git folder of the repository
	lock       *flock.Flock
}

// Path returns the absolute path of the tree.
func (t *Tree) Path() string { return t.record.Path }

// Branch returns the name of the branch, without refs/heads/.
func (t *Tree) Branch() string { return t.record.Branch }

// Base returns the commit at which the branch began.
func (t *Tree) Base() string { return t.record.Base }

// Stale says, in one sentence, why Base may not be the newest commit of the remote's branch; "" if it was.
func (t *Tree) Stale() string { return t.record.Stale }

// Release ends the use of the tree.
func (t *Tree) Release() error { return t.lock.Unlock() }

const (
	lockPoll = 20 * time.Millisecond
	// treeWait is how long Acquire waits for a tree that another process uses, such as one that is being killed.
	treeWait = 20 * time.Second
	// repositoryWait is how long a step waits for steps of other trees. Each of them takes about 20 ms.
	repositoryWait = 2 * time.Minute
)

// lockFile locks a file until the returned lock is released. The kernel releases it if the process dies. what names
// for the error what is locked.
func lockFile(ctx context.Context, path string, wait time.Duration, what string) (*flock.Flock, error) {
	lock := flock.New(path)
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	ok, err := lock.TryLockContext(ctx, lockPoll)
	switch {
	case ok:
		return lock, nil
	case errors.Is(err, context.DeadlineExceeded):
		return nil, temporary("%s is in use by another process (waited %v)", what, wait)
	}
	return nil, fmt.Errorf("lock %s: %w", what, err)
}

// lockRepository keeps steps of other trees from changing the branches and the list of trees, in all processes of the
// machine and with all data folders.
func (r *Repository) lockRepository(ctx context.Context) (*flock.Flock, error) {
	return lockFile(ctx, filepath.Join(r.common, "mailroom.lock"), repositoryWait, "the repository")
}

func (r *Repository) lockTree(ctx context.Context, key string, wait time.Duration) (*flock.Flock, error) {
	return lockFile(ctx, r.lockPath(key), wait, "the worktree "+key)
}

// lockPath returns the lock file of a tree. Its time says when the tree was used last.
func (r *Repository) lockPath(key string) string { return filepath.Join(r.records, key+".lock") }

// keys returns the keys of all trees that have a record, sorted.
func (r *Repository) keys() (keys []string, err error) {
	all, err := os.ReadDir(r.records)
	for _, f := range all {
		if key, ok := strings.CutSuffix(f.Name(), recordSuffix); ok {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys, err
}
