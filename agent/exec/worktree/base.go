package worktree

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// start is where a new branch begins.
type start struct {
	Remote string `json:"remote,omitempty"` // "": the repository itself
	Ref    string `json:"ref,omitempty"`    // of the branch that the work is for, such as refs/heads/main; "" if none
	Commit string `json:"commit"`
	stale  string // why it may not be the newest commit of Ref, as a sentence; "" if it is
}

// begin returns where a new branch begins. With Options.Fresh that is the default branch of the remote, after a fetch.
// If the fetch fails, it is the last commit of that branch that is known here.
func (r *Repository) begin(ctx context.Context, tree string) (start, error) {
	remote := ""
	if r.options.Fresh {
		var err error
		if remote, err = r.remote(ctx); err != nil {
			return start{}, err
		}
	}
	if remote == "" {
		return r.current(ctx)
	}
	s, failed := r.fetch(ctx, remote, tree)
	if failed == nil {
		return s, nil
	}
	if ctx.Err() != nil {
		return s, context.Cause(ctx)
	}
	s, what, err := r.lastKnown(ctx, remote)
	s.stale = fmt.Sprintf("the remote %s could not be fetched, so the branch begins at %s: %v", remote, what, failed)
	return s, err
}

// current returns the current commit and branch of the person.
func (r *Repository) current(ctx context.Context) (start, error) {
	commit, err := r.commit(ctx, "HEAD")
	if err != nil {
		return start{}, err
	}
	ref, err := r.run(ctx, command{dir: r.folder(), args: []string{"symbolic-ref", "--quiet", "HEAD"}})
	if failed(err) { // no branch is checked out
		err = nil
	}
	return start{Ref: strings.TrimSpace(ref), Commit: commit}, err
}

// commit returns the id of a commit, which may be relative to the folder of the person.
func (r *Repository) commit(ctx context.Context, name string) (string, error) {
	commit, err := r.run(ctx, command{dir: r.folder(), args: []string{"rev-parse", "--verify", "--quiet",
		"--end-of-options", name + "^{commit}"}})
	switch {
	case failed(err) && name == "HEAD":
		return "", permanent("the repository has no commit to begin at; make one: git commit --allow-empty -m begin")
	case failed(err):
		return "", permanent("the repository has no commit %q", name)
	}
	return strings.TrimSpace(commit), err
}

// remote returns the remote that branches begin at: the one of the options if the repository has it, else origin, else
// the only one; "" if it has no remote.
func (r *Repository) remote(ctx context.Context) (string, error) {
	out, err := r.git(ctx, "remote")
	if err != nil {
		return "", err
	}
	all := strings.Fields(out)
	for _, name := range []string{r.options.Remote, "origin"} {
		if slices.Contains(all, name) {
			return name, nil
		}
	}
	if len(all) == 1 && all[0][0] != '-' {
		return all[0], nil
	}
	return "", nil
}

// reach returns how git reaches a remote from any folder: by its name, or by the absolute path of one with a relative
// address such as ../origin.git, which counts from the working tree of the person, or from the folder of a bare
// repository. If the address cannot be read, the call that follows says why.
func (r *Repository) reach(ctx context.Context, remote string, push bool) string {
	args := []string{"remote", "get-url", remote}
	if push {
		args = slices.Insert(args, 2, "--push")
	}
	address, err := r.git(ctx, args...)
	if err != nil || !strings.HasPrefix(address, "./") && !strings.HasPrefix(address, "../") {
		return remote
	}
	return filepath.Join(cmp.Or(r.top, r.common), address)
}

// fetch gets the newest commit of the default branch of a remote. It changes no reference: a remote-tracking branch is
// what a person has seen, on which "git push --force-with-lease" relies. A repeat after a kill loads only what is
// missing. tree is the path of the tree that the commit is for.
func (r *Repository) fetch(ctx context.Context, remote, tree string) (s start, err error) {
	call := func(c command) (string, error) {
		c.tree, c.args = tree, append([]string{"--git-dir=" + r.common}, c.args...)
		return r.run(ctx, c)
	}
	at := r.reach(ctx, remote, false)
	out, err := call(command{args: []string{"ls-remote", "--quiet", "--symref", at, "HEAD"}})
	if err != nil {
		return s, err
	}
	s.Remote = remote
	for line := range strings.Lines(out) {
		value, name, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if ref, ok := strings.CutPrefix(value, "ref: "); ok && name == "HEAD" {
			s.Ref = ref
		} else if name == "HEAD" {
			s.Commit = value
		}
	}
	if !strings.HasPrefix(s.Ref, "refs/heads/") || s.Commit == "" {
		return s, permanent("it has no default branch with a commit")
	}
	if _, err := call(command{total: pushTimeout, args: []string{"fetch", "--quiet", "--no-tags", "--no-prune",
		"--no-write-fetch-head", "--no-recurse-submodules", "--refmap=", at, s.Ref}}); err != nil {
		return s, err
	}
	if _, err := r.git(ctx, "cat-file", "-e", s.Commit+"^{commit}"); err != nil {
		return s, temporary("its branch moved during the fetch")
	}
	return s, r.remember(s)
}

// fetchedPath returns the file with what was fetched last from a remote.
func (r *Repository) fetchedPath(remote string) string {
	return filepath.Join(r.records, shortDigest(remote)+".fetched")
}

func (r *Repository) remember(s start) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return r.writeFile(r.fetchedPath(s.Remote), raw)
}

// lastKnown returns the last commit of the default branch of a remote that is known here, from a fetch of this server
// or of a person, else the current commit of the person. what describes it.
func (r *Repository) lastKnown(ctx context.Context, remote string) (s start, what string, err error) {
	raw, err := os.ReadFile(r.fetchedPath(remote))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s, "", fmt.Errorf("read what was fetched from %s: %w", remote, err)
	}
	if err != nil || json.Unmarshal(raw, &s) != nil || s.Remote != remote {
		s = start{}
	}
	what = "the last commit of it that is known here"
	names := []string{s.Commit, "refs/remotes/" + remote + "/HEAD"}
	if branch, ok := strings.CutPrefix(s.Ref, "refs/heads/"); ok {
		names = append(names, "refs/remotes/"+remote+"/"+branch)
	}
	s.Commit = ""
	for _, name := range names {
		if name == "" {
			continue
		}
		commit, err := r.git(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
		if err != nil {
			continue // not known
		}
		if s.Commit != "" { // a newer one is a descendant
			if _, err := r.git(ctx, "merge-base", "--is-ancestor", s.Commit, commit); err != nil {
				continue
			}
		}
		s.Commit = commit
	}
	if s.Commit != "" {
		s.Remote = remote
		return s, what, nil
	}
	s, err = r.current(ctx)
	return s, "the current commit of the repository", err
}
