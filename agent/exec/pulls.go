package exec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"mailroom"
	"mailroom/agent/exec/worktree"
	"mailroom/entry"
	"mailroom/internal/reserved"
)

// sendPull is the name of the message by which a run lets the server care for the pull request of its branch.
const sendPull = "tree.pull"

// pullOrder is that message. The server takes the name of the agent from the ledger, and everything else about the
// branch from the record of the worktree.
type pullOrder struct {
	Thread string `json:"thread"`
	Run    string `json:"run"`
	Repo   string `json:"repo,omitempty"`
}

// orderPull returns the message about the pull request of a run's branch.
func (w *workplace) orderPull(run mailroom.RunView) ([]mailroom.Send, error) {
	data, err := json.Marshal(pullOrder{Thread: run.Thread, Run: run.ID, Repo: w.repo})
	return []mailroom.Send{{Name: sendPull, Agent: reserved.Puller,
		Parts: []mailroom.Part{{Type: "data", Data: data}}}}, err
}

// pullText returns the title and the text of the pull request of a thread's branch.
func pullText(agent, thread, run string) (title, text string) {
	return fmt.Sprintf("Changes of %s in %s", agent, thread), fmt.Sprintf(
		"Made by the agent %s of Mailroom.\n\nThread: %s\nFirst run: %s\n", agent, thread, run)
}

// PullKeeper is the agent that opens the pull requests which the ends of runs could not open. Each of its runs first
// looks for the pull request, so it may be repeated, also after a kill. A reason that can pass fails the attempt, and
// the retries of the run are the only ones; any other reason is the result.
type PullKeeper struct {
	// Agent returns an agent of this server by its name, or nil.
	Agent func(name string) mailroom.Agent
	// Ended returns why nothing may be done for a thread any more; "" allows it. own is the thread of its pull request.
	Ended func(ctx context.Context, own, thread string) (why string, err error)
	// Shared says that another server may have the worktree that this one does not have.
	Shared bool
}

// Run implements [mailroom.Agent].
func (k *PullKeeper) Run(ctx context.Context, s mailroom.Session) error {
	run := s.Run()
	if run.Checkpoint != nil {
		return nil // an earlier attempt has committed the result
	}
	p, err := readPull(ctx, s)
	if err != nil {
		return err
	}
	if p == nil {
		return s.Stream(ctx, "This thread belongs to the pull request of a branch. Only runs of its thread begin it.")
	}
	why, err := k.Ended(ctx, run.Thread, p.Thread)
	if err != nil {
		return err
	}
	if why != "" {
		return s.Stream(ctx, "Nothing is done about the pull request any more: "+why+".")
	}
	r, o, err := k.repository(ctx, p)
	if err == nil {
		err = k.open(ctx, r, o, p)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	again := judgePull(p, err)
	if r != nil && p.Branch != "" {
		if err := r.SavePull(p); err != nil {
			return err
		}
	}
	return concludePull(ctx, s, p, again)
}

// readPull returns what is known of the pull request that a run is about, or nil for a message that is about none. The
// id of the thread is a digest of the other thread's id, so no run can speak for another thread.
func readPull(ctx context.Context, s mailroom.Session) (*entry.Pull, error) {
	run := s.Run()
	p := entry.PullOf(map[string]json.RawMessage{reserved.Puller: s.State()})
	if run.Origin.Via != "run" || run.Origin.Sender == reserved.Puller {
		return p, nil
	}
	input, err := s.Input(ctx)
	if err != nil {
		return nil, contextCause(ctx, err)
	}
	for _, m := range input {
		for _, part := range m.Parts {
			var order pullOrder
			if part.Type != "data" || json.Unmarshal(part.Data, &order) != nil ||
				!reserved.IsPulls(run.Thread, order.Thread) {
				continue
			}
			if p == nil {
				p = &entry.Pull{Thread: order.Thread, Run: order.Run}
			}
			p.Agent, p.Repo = run.Origin.Sender, order.Repo
		}
	}
	return p, nil
}

// repository returns the repository of the branch, with the rights of the agent that published it, and the settings of
// that agent. An error is a [*mailroom.Failure] or a problem of the worktree.
func (k *PullKeeper) repository(ctx context.Context, p *entry.Pull) (*worktree.Repository, *Worktrees, error) {
	var a *agent
	switch found := k.Agent(p.Agent).(type) {
	case *agent:
		a = found
	case *programAgent:
		a = found.agent
	}
	if a == nil || a.options.Worktrees == nil || a.options.Worktrees.Push == "" || !a.options.Worktrees.PullRequest {
		return nil, nil, &mailroom.Failure{Class: mailroom.ClassPermanent,
			Err: fmt.Errorf("the settings of the agent %s open no pull requests on this server, or no more", p.Agent)}
	}
	o := a.options.Worktrees
	if p.Repo != "" && CheckRepo(o.Repos, p.Repo) != nil {
		return nil, nil, &mailroom.Failure{Class: mailroom.ClassPermanent,
			Err: fmt.Errorf("repos of the agent %s does not allow %s, or no more", p.Agent, p.Repo)}
	}
	r, err := a.openRepository(ctx, p.Repo)
	return r, o, err
}

// open opens the pull request of the branch that is recorded for the thread, unless it is known or there is one.
func (k *PullKeeper) open(ctx context.Context, r *worktree.Repository, o *Worktrees, p *entry.Pull) error {
	branch, ok, err := r.PushedBranch(p.Thread)
	switch {
	case err != nil:
		return err
	case !ok && k.Shared:
		return &mailroom.Failure{Class: mailroom.ClassUnavailable,
			Err: errors.New("this server does not have the worktree of the thread, and another one may have it")}
	case !ok:
		return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: errors.New("its worktree was removed")}
	}
	if branch != p.Branch {
		p.Branch, p.Address = branch, ""
	}
	if branch == "" {
		return nil
	}
	title, text := pullText(p.Agent, p.Thread, p.Run)
	address, err := r.OpenPull(ctx, p.Thread, o.Push, title, text)
	if err == nil {
		p.Address = address
	}
	return err
}

// judgePull notes in p why the pull request was not opened. again is not nil if the reason can pass.
func judgePull(p *entry.Pull, err error) (again *mailroom.Failure) {
	p.Unopened, p.Again = "", false
	if err == nil {
		return nil
	}
	problem, known := errors.AsType[*worktree.Problem](err)
	f, classed := errors.AsType[*mailroom.Failure](err)
	p.Unopened = worktree.PullText(err)
	if classed && f.Class != mailroom.ClassPermanent || !classed && known && problem.Temporary {
		p.Again, again = true, &mailroom.Failure{Class: mailroom.ClassUnavailable, Err: errors.New(p.Unopened)}
		if classed {
			again.RetryAfter = f.RetryAfter
		}
	}
	return again
}

// concludePull commits what is known of a pull request, and the reply if it has changed. It returns again, for another
// attempt.
func concludePull(ctx context.Context, s mailroom.Session, p *entry.Pull, again *mailroom.Failure) error {
	state, err := encode("the state of the pull request", p)
	if err != nil {
		return err
	}
	st := mailroom.Step{State: state, NoProgress: again != nil}
	if again == nil {
		if err := s.Stream(ctx, p.Summary()); err != nil {
			return contextCause(ctx, err)
		}
		st.Checkpoint = json.RawMessage(`{"done":true}`)
	}
	if again == nil || string(s.State()) != string(state) {
		if err := s.Append(ctx, st); err != nil {
			return contextCause(ctx, err)
		}
	}
	if again != nil {
		return again
	}
	return nil
}

// refuses reports whether an error of an Append is about what the step sends, and not about the store or the claim.
func refuses(err error) bool {
	return slices.Contains([]mailroom.Code{
		mailroom.CodeInvalid, mailroom.CodeNotFound, mailroom.CodeForbidden, mailroom.CodeConflict, mailroom.CodeBusy,
		mailroom.CodeRateLimited, mailroom.CodeQuotaExceeded,
	}, mailroom.CodeOf(err))
}
