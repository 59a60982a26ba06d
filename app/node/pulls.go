package node

import (
	"context"
	"fmt"
	"time"

	"mailroom"
	"mailroom/agent/exec"
	"mailroom/agent/exec/worktree"
	"mailroom/app/config"
	"mailroom/auth"
	"mailroom/entry"
	"mailroom/internal/reserved"
	"mailroom/internal/setting"
	"mailroom/issues/board/github"
	"mailroom/store"
)

// newPulls returns how the pull requests of an agent are opened over the API of GitHub, or nil if it has no token for
// that. The token is read again at each call.
func newPulls(a *config.Agent) (func(address string) worktree.Pulls, error) {
	if !a.PullToken.IsSet() {
		return nil, nil
	}
	base, err := setting.ParseBaseURL(a.PullURL, "https://api.github.com")
	if err != nil {
		return nil, fmt.Errorf("pull_url: %w", err)
	}
	// GitHub asks for a second, as in github.Options.
	pulls := github.NewPulls(github.PullOptions{Base: base, Token: a.PullToken.Get, WritePause: time.Second})
	return func(address string) worktree.Pulls {
		if of := pulls.Of(address); of != nil {
			return gitHubPulls{of}
		}
		return nil
	}, nil
}

// gitHubPulls are the pull requests of a repository of GitHub.
type gitHubPulls struct{ *github.Repository }

// Look implements [worktree.Pulls].
func (g gitHubPulls) Look(ctx context.Context, branch, address, tag string) (worktree.PullAnswer, error) {
	p, err := g.Repository.Look(ctx, branch, address, tag)
	switch a := (worktree.PullAnswer{Same: p.Same, Head: p.Head, Tag: p.Tag}); {
	case err != nil || p.Same:
		return a, err
	case p.Open:
		a.State, a.Trouble = entry.PullOpen, worktree.PullTrouble(p.Status)
		return a, nil
	case p.Merged:
		a.State = entry.PullMerged
		return a, nil
	default:
		a.State = entry.PullClosed
		return a, nil
	}
}

// maxPulls is how many pull requests are opened or looked at at the same time. The calls of one token take turns.
const maxPulls = 4

// pullDeadline bounds an attempt: some calls of the platform, and the turns of other writes before them.
const pullDeadline = 10 * time.Minute

// newPullKeeper returns the agent that opens the pull requests which the ends of runs could not open.
func (a *assembly) newPullKeeper() *exec.PullKeeper {
	agents := a.agents.agents
	return &exec.PullKeeper{
		Agent:  func(name string) mailroom.Agent { return agents[name].Agent },
		Shared: a.node.shared,
		Sender: func(ctx context.Context, run string) (thread string, err error) {
			err = a.node.ledger.View(ctx, func(r store.Reader) error {
				rows, err := r.Runs(store.RunQuery{IDs: []string{run}})
				for _, row := range rows {
					if n := len(row.Lineage); n > 0 {
						thread = row.Lineage[n-1]
					}
				}
				return err
			})
			return thread, err
		},
		Ended: func(ctx context.Context, own, thread string) (why string, err error) {
			err = a.node.ledger.View(ctx, func(r store.Reader) error {
				why, err = pullEnded(r, own, thread, time.Now())
				return err
			})
			return why, err
		},
	}
}

// pullEnded returns why nothing may be done for the branch of a thread any more. own is the thread of its pull request,
// whose id has the owner.
func pullEnded(r store.Reader, own, thread string, now time.Time) (why string, err error) {
	owner := reserved.Owner(own)
	rows, err := r.Threads(store.ThreadQuery{IDs: []string{thread}})
	if err != nil {
		return "", err
	}
	if len(rows) == 0 || !rows[0].DeletedAt.IsZero() || rows[0].Owner != owner {
		return fmt.Sprintf("the thread %s was deleted", thread), nil
	}
	if owner == auth.Operator {
		return "", nil
	}
	tokens, err := r.Tokens(owner)
	if err != nil {
		return "", err
	}
	for _, t := range tokens {
		if t.Terms.Kind == auth.KindToken && t.RevokedAt.IsZero() && !t.Expired(now) {
			return "", nil
		}
	}
	return fmt.Sprintf("the token %s was revoked, or has expired", owner), nil
}
