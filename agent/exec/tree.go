package exec

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"mailroom"
	"mailroom/agent/exec/worktree"
	"mailroom/entry"
)

// Worktrees makes the runs of each thread work in a worktree of their own, of the git repository that Options.Dir is
// in, or that the option repo of a submit names. Root is the folder of all worktrees, and Most the maximum number for
// one repository; 0 is no limit. Push is the remote to which the branch is pushed after a success; "" pushes nothing.
type Worktrees struct {
	Root string
	Most int
	// Repos are the folders of repositories that a submit may name. Asked is set if only runs of threads
	// that have named one work in a worktree.
	Repos []string
	Asked bool
	// Disposable are names of ignored folders that a removal may delete.
	Disposable []string
	// Fresh lets new branches begin at the default branch of the remote, after a fetch.
	Fresh bool
	Push  string
	// PullRequest opens a pull request after the first push.
	PullRequest bool
	// Pulls is as in [worktree.Options].
	Pulls func(address string) worktree.Pulls
	// Trust is the file that says which set-up commands of repositories may run; with "" no command may.
	Trust string
}

// workplace is where an attempt works.
type workplace struct {
	agent *agent         // with the folder of the attempt
	tree  *worktree.Tree // nil: all runs share the folder of the agent
	repo  string         // that a submit named, or ""
}

// enter returns where an attempt works. All runs and attempts of a thread work in the same worktree, one at a time.
func (a *agent) enter(ctx context.Context, s mailroom.Session) (*workplace, error) {
	repo, err := a.repository(ctx, s)
	if err != nil {
		return nil, err
	}
	o := a.options.Worktrees
	if repo == "" && (o == nil || o.Asked) {
		return &workplace{agent: a}, nil
	}
	r, err := a.openRepository(ctx, repo)
	if err != nil {
		return nil, treeFailure(ctx, err, repo == "")
	}
	tree, err := r.Acquire(ctx, s.Run().Thread, "")
	if err != nil {
		return nil, treeFailure(ctx, err, false)
	}
	here := *a
	here.options.Dir = tree.Path()
	if i := a.options.Isolation; i != nil {
		own := *i
		own.Keep = append(slices.Clone(i.Keep), tree.Path())
		here.options.Isolation = &own
	}
	return &workplace{agent: &here, tree: tree, repo: repo}, nil
}

// openRepository returns the repository in a folder that a submit named, or in the folder of the agent for "".
func (a *agent) openRepository(ctx context.Context, repo string) (*worktree.Repository, error) {
	o := a.options.Worktrees
	folder, within := a.options.Dir, []string(nil)
	if repo != "" {
		folder, within = repo, o.Repos
	}
	env, _ := a.variables()
	if a.options.Mark != "" {
		env = append(env, envMark+"="+a.options.Mark)
	}
	return worktree.Open(ctx, worktree.Options{
		Folder: folder, Within: within, Root: o.Root, Most: o.Most, Env: env,
		Isolation: a.options.Isolation, Fresh: o.Fresh, Remote: o.Push,
		Disposable: o.Disposable, Pulls: o.Pulls,
	})
}

// repository returns the folder of a repository that the run names, or that an earlier run of the thread has named; ""
// if the thread works where the agent does. It fails if the settings do not allow the folder, or no longer: a thread
// that was sent to a repository must not go on in the folder of the agent.
func (a *agent) repository(ctx context.Context, s mailroom.Session) (string, error) {
	var allowed []string
	if o := a.options.Worktrees; o != nil {
		allowed = o.Repos
	}
	if allowed != nil { // without it, an option of that name is one of the command's own
		repo, err := RepoOption(s.Run().Options)
		if err == nil && repo != "" {
			err = CheckRepo(allowed, repo)
		}
		if err != nil {
			return "", &mailroom.Failure{Class: mailroom.ClassPermanent, Err: err}
		}
		if repo != "" {
			return repo, nil
		}
	}
	last, err := s.Log(ctx, mailroom.LogQuery{Kinds: []string{KindStarted}, Limit: 1})
	if err != nil {
		return "", contextCause(ctx, err)
	}
	var started Started
	for _, e := range last {
		if err := e.Decode(&started); err != nil {
			return "", fmt.Errorf("read where the thread works: %w", err)
		}
	}
	if started.Repo != "" && CheckRepo(allowed, started.Repo) != nil {
		return "", &mailroom.Failure{Class: mailroom.ClassPermanent, Err: fmt.Errorf("the thread works in %s, which "+
			"is not, or no more, a folder that repos of the agent allows; add it there, or use another thread", started.Repo)}
	}
	return started.Repo, nil
}

// treeFailure classifies an error of a worktree. own is set if no run of the agent can have one.
func treeFailure(ctx context.Context, err error, own bool) error {
	p, ok := errors.AsType[*worktree.Problem](err)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case !ok:
		return fmt.Errorf("make the worktree of the thread: %w", err)
	case p.Temporary:
		return &mailroom.Failure{Class: mailroom.ClassUnavailable, Err: err}
	}
	return &mailroom.Failure{Class: mailroom.ClassPermanent, Agent: own, Err: err}
}

// leave ends the use of the worktree, and adds a failure to err.
func (w *workplace) leave(err *error) {
	if w.tree != nil {
		*err = errors.Join(*err, w.tree.Release())
	}
}

// named returns the repository that a submit named, or "".
func (w *workplace) named() string {
	if w == nil {
		return ""
	}
	return w.repo
}

// branch returns the name of the branch, or "".
func (w *workplace) branch() string {
	if w == nil || w.tree == nil {
		return ""
	}
	return w.tree.Branch()
}

// finish commits what an attempt that succeeded has changed in the worktree, publishes it, and returns the step about
// it. Changes that cannot be committed stay in the worktree, and the entry says why: the run has its result, and
// another attempt would do the work twice. With ask it publishes nothing that conflicts, and returns the conflict.
func (w *workplace) finish(ctx context.Context, run mailroom.RunView, verdict error, ask bool) (mailroom.Step,
	*conflict, error) {
	if w == nil || w.tree == nil || verdict != nil {
		return mailroom.Step{}, nil, nil
	}
	message := fmt.Sprintf("Changes of %s\n\nMailroom-Run: %s\nMailroom-Thread: %s\n", run.Agent, run.ID, run.Thread)
	res, err := w.tree.Commit(ctx, run.Agent, message)
	if ctx.Err() != nil {
		return mailroom.Step{}, nil, context.Cause(ctx)
	}
	left := res.Left
	if err != nil {
		left = err.Error()
	}
	var over *conflict
	why := ""
	if ask && left == "" && res.Commits > 0 && w.agent.options.Worktrees.Push != "" {
		found, err := w.tree.Rebase(ctx) // an error is no conflict; the push says what is wrong
		if err == nil && found != nil {
			over = newConflict(w.tree.Branch(), found)
			why = over.text()
		}
	}
	st, err := w.report(ctx, run, left, why)
	return st, over, err
}

// report publishes the branch, unless unpushed says why it is not, and returns the step about it.
func (w *workplace) report(ctx context.Context, run mailroom.RunView, left, unpushed string) (st mailroom.Step,
	err error) {
	res, err := w.tree.Result(ctx)
	if err != nil && left == "" {
		left = err.Error()
	}
	t := entry.Tree{Branch: w.tree.Branch(), Base: w.tree.Base(), Head: res.Head, Commits: res.Commits,
		Stale: w.tree.Stale(), Left: left, Unpushed: unpushed, Pointers: res.Pointers}
	if err == nil && t.Commits > 0 && unpushed == "" {
		w.publish(ctx, run, &t)
	}
	if ctx.Err() != nil {
		return st, context.Cause(ctx)
	}
	if st, err = newStep(entry.KindTree, t, nil); err == nil && t.Unopened+t.PullRequest != "" {
		st.Sends, err = w.orderPull(run)
	}
	return st, err
}

// publish pushes the branch and opens its pull request, as far as the owner of the agent allows it.
func (w *workplace) publish(ctx context.Context, run mailroom.RunView, t *entry.Tree) {
	o := w.agent.options.Worktrees
	if o.Push == "" {
		return
	}
	if err := w.tree.Push(ctx, o.Push); err != nil {
		t.Unpushed = err.Error()
		return
	}
	t.Pushed = o.Push
	if !o.PullRequest {
		return
	}
	title, text := pullText(run.Agent, run.Thread, run.ID)
	var err error
	if t.PullRequest, err = w.tree.PullRequest(ctx, o.Push, title, text); err != nil {
		t.Unopened = worktree.PullText(err)
	}
}
