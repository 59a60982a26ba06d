package worktree

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Conflict is why a branch cannot become a part of the branch that its work is for.
type Conflict struct {
	With   string   `json:"with"` // names that branch for a person, such as "main of origin"
	Commit string   `json:"commit"`
	Files  []string `json:"files"` // that conflict, at least one
}

// move is a rebase whose commits exist, and that only moves the branch and its tree. It is recorded before it begins.
type move struct {
	From string `json:"from"`
	To   string `json:"to"`
	Onto string `json:"onto"`
}

// maxReplayed bounds the commits of a rebase.
const maxReplayed = 200

// Rebase compares the branch with the newest commit of the branch that its work is for, which it fetches from a remote.
// If both conflict, it rebases the branch, once, and returns the conflict if that fails too. All changes in the tree
// must be in a commit: with others it leaves the branch alone.
//
// The new commits are made without a working tree, and the tree moves to them at the end. So a kill leaves no rebase
// under way: either nothing has happened, or the next Acquire ends the move. An ignored file of the tree is not
// overwritten; it counts as a conflict.
func (t *Tree) Rebase(ctx context.Context) (*Conflict, error) {
	res, err := t.Result(ctx)
	if err != nil || res.Commits == 0 {
		return nil, err
	}
	onto, with, err := t.target(ctx)
	if err != nil || onto == "" || onto == t.record.Base {
		return nil, err
	}
	switch _, err := t.repository.git(ctx, "merge-base", "--is-ancestor", onto, res.Head); {
	case err == nil: // the agent has merged it, or has rebased the branch
		return nil, t.rebased(onto, res.Head)
	case !failed(err):
		return nil, err
	}
	_, files, err := t.merge(ctx, onto, res.Head)
	if err != nil || len(files) == 0 {
		return nil, err
	}
	to, err := t.replay(ctx, onto, res.Head)
	if err != nil {
		return nil, err
	}
	if to != "" {
		var in []string
		if in, err = t.obstacles(ctx, res.Head, to); err != nil {
			return nil, err
		}
		if len(in) == 0 {
			t.record.Move = &move{From: res.Head, To: to, Onto: onto}
			if err := t.repository.write(&t.record); err != nil {
				return nil, err
			}
			return nil, t.endMove(ctx)
		}
		files = in
	}
	return &Conflict{With: with, Commit: onto, Files: files}, nil
}

// target returns the newest commit of the branch that the work is for, and its name; "" if it is not known.
func (t *Tree) target(ctx context.Context) (commit, name string, err error) {
	rec := &t.record
	if rec.Remote != "" {
		s, err := t.repository.fetch(ctx, rec.Remote, rec.Path)
		return s.Commit, strings.TrimPrefix(s.Ref, "refs/heads/") + " of " + rec.Remote, err
	}
	if rec.Ref == "" {
		return "", "", nil
	}
	commit, err = t.repository.git(ctx, "rev-parse", "--verify", "--quiet", rec.Ref+"^{commit}")
	if failed(err) {
		return "", "", nil
	}
	return commit, strings.TrimPrefix(rec.Ref, "refs/heads/"), err
}

// merge returns the tree of a merge of two commits, and the files in which they conflict. It changes no file.
func (t *Tree) merge(ctx context.Context, one, other string) (tree string, files []string, err error) {
	out, err := t.repository.run(ctx, command{tree: t.record.Path, total: filesTimeout, args: []string{
		"--git-dir=" + t.repository.common, "merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", one,
		other}})
	tree, rest, _ := strings.Cut(out, "\x00")
	if e, ok := errors.AsType[*exitError](err); ok && e.exit.Code == 129 { // git before 2.38 has no such merge
		return "", nil, nil
	}
	if !failed(err) {
		return tree, nil, err
	}
	seen := map[string]bool{"": true}
	for name := range strings.SplitSeq(rest, "\x00") {
		if !seen[name] {
			seen[name], files = true, append(files, name)
		}
	}
	if len(files) == 0 {
		return "", nil, err
	}
	return tree, files, nil
}

// replay makes the commits of the branch again on top of another commit, and returns the last one; "" if one conflicts.
// It leaves out what the other side has already. The same commits have the same ids when it is repeated.
func (t *Tree) replay(ctx context.Context, onto, head string) (string, error) {
	r := t.repository
	merges, err := r.git(ctx, "rev-list", "--max-count=1", "--merges", onto+".."+head)
	if err != nil || merges != "" {
		return "", err
	}
	list, err := r.git(ctx, "rev-list", "--reverse", "--topo-order", "--right-only", "--cherry-pick", onto+"..."+head)
	commits := strings.Fields(list)
	if err != nil || len(commits) == 0 || len(commits) > maxReplayed {
		return "", err
	}
	at := onto
	for _, commit := range commits {
		raw, err := r.run(ctx, command{args: []string{"--git-dir=" + r.common, "cat-file", "commit", commit}})
		if err != nil {
			return "", err
		}
		parent, err := r.git(ctx, "rev-parse", "--verify", "--quiet", commit+"^")
		if failed(err) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		base, err := r.git(ctx, "rev-parse", at+"^{tree}")
		if err != nil {
			return "", err
		}
		// A commit with the files of at and the parent of commit, so that a merge applies only the change of commit.
		with, err := t.writeCommit(ctx, raw, base, parent)
		if err != nil {
			return "", err
		}
		tree, files, err := t.merge(ctx, with, commit)
		if err != nil || len(files) > 0 || tree == "" {
			return "", err
		}
		if tree == base {
			continue
		}
		if at, err = t.writeCommit(ctx, raw, tree, at); err != nil {
			return "", err
		}
	}
	if at == onto { // the branch would lose all of its commits
		return "", nil
	}
	return at, nil
}

// writeCommit makes a commit with the author, the dates and the message of another one, and returns its id.
func (t *Tree) writeCommit(ctx context.Context, raw, tree, parent string) (string, error) {
	head, message, _ := strings.Cut(raw, "\n\n")
	text := "tree " + tree + "\nparent " + parent + "\n"
	for line := range strings.Lines(head + "\n") {
		switch name, _, _ := strings.Cut(line, " "); name {
		case "author", "committer", "encoding": // a signature would not fit
			text += line
		}
	}
	id, err := t.repository.run(ctx, command{tree: t.record.Path, input: text + "\n" + message, args: []string{
		"--git-dir=" + t.repository.common, "hash-object", "-t", "commit", "-w", "--stdin"}})
	return strings.TrimSpace(id), err
}

// obstacles returns files that a move of the tree would overwrite: changes, and new or ignored files.
func (t *Tree) obstacles(ctx context.Context, from, to string) ([]string, error) {
	status, err := t.git(ctx, command{}, "status", "--porcelain", "-z", "--untracked-files=all", "--no-renames",
		"--ignore-submodules=none")
	if err != nil {
		return nil, err
	}
	for f := range strings.SplitSeq(status, "\x00") {
		if len(f) > 3 {
			return []string{f[3:]}, nil
		}
	}
	added, err := t.changed(ctx, "A", from, to)
	return slices.DeleteFunc(added, func(name string) bool { return !t.exists(name) }), err
}

// changed returns the names of files that differ between two commits in one of the ways of a filter of git.
func (t *Tree) changed(ctx context.Context, filter, from, to string) (names []string, err error) {
	out, err := t.git(ctx, command{}, "diff-tree", "-r", "--name-only", "-z", "--no-renames", "--diff-filter="+filter,
		from, to)
	for name := range strings.SplitSeq(out, "\x00") {
		if name != "" {
			names = append(names, name)
		}
	}
	return names, err
}

// exists reports whether the tree has something at the place of a file.
func (t *Tree) exists(name string) bool {
	_, err := os.Lstat(filepath.Join(t.record.Path, filepath.FromSlash(name)))
	return !errors.Is(err, fs.ErrNotExist) // a file in the place of a folder is another error
}

// endMove moves the branch and its tree as the record says. It ends what a kill has interrupted too.
func (t *Tree) endMove(ctx context.Context) error {
	m := t.record.Move
	if m == nil {
		return nil
	}
	res, err := t.Result(ctx)
	if err != nil {
		return err
	}
	on, err := t.onBranch(ctx)
	if err != nil {
		return err
	}
	if res.Head != m.To {
		if !on || res.Head != m.From || t.underway() != "" { // a person has gone on
			t.record.Move = nil
			return t.repository.write(&t.record)
		}
		if err := t.checkMove(ctx, m); err != nil {
			return err
		}
		if _, err := t.git(ctx, command{}, "reset", "--hard", "--quiet", m.To); err != nil { // moves the branch last
			return err
		}
	}
	t.record.Move = nil
	return t.rebased(m.Onto, m.From)
}

// rebased records that the branch begins at another commit now. Before is what it had: a push may have been killed
// before its record.
func (t *Tree) rebased(onto, from string) error {
	t.record.Before, t.record.Base = t.record.Base+".."+from, onto
	return t.repository.write(&t.record)
}

// checkMove returns a problem if a tree that is being moved has changes of others. A killed git has deleted files, or
// has written the beginning of the file in the new commit.
func (t *Tree) checkMove(ctx context.Context, m *move) error {
	added, err := t.changed(ctx, "A", m.From, m.To)
	if err != nil {
		return err
	}
	if _, err := t.git(ctx, command{}, "update-index", "-q", "--refresh"); err != nil && !failed(err) {
		return err
	}
	out, err := t.git(ctx, command{}, "diff-index", "--name-only", "-z", "--no-renames", "--no-ext-diff",
		"--ignore-submodules=all", m.From)
	if err != nil {
		return err
	}
	both, err := t.changed(ctx, "DMT", m.From, m.To)
	if err != nil {
		return err
	}
	const isNew, isOld = 1, 2
	moving := map[string]int{}
	for _, name := range added {
		moving[name] = isNew
	}
	for _, name := range both {
		moving[name] = isOld
	}
	// Files that From does not have do not differ from it, wherever they come from.
	for _, name := range append(strings.Split(strings.TrimSuffix(out, "\x00"), "\x00"), added...) {
		if name == "" || !t.exists(name) {
			continue
		}
		half := false
		if moving[name] != 0 {
			half, err = t.isBeginning(ctx, m.To, name)
		}
		if err == nil && !half && moving[name] == isOld { // git has not come to it
			half, err = t.isBeginning(ctx, m.From, name)
		}
		if err != nil {
			return err
		}
		if !half {
			return permanent("worktree %s was being rebased, but has changes in %q; save them, and remove that file",
				t.record.Key, name)
		}
	}
	return nil
}
