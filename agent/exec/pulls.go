package exec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

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

// PullKeeper is the agent that opens the pull requests which the ends of runs could not open, and follows them until
// they are merged or closed. Each of its runs first looks for the pull request, so it may be repeated, also after a
// kill. A reason that can pass fails the attempt, and the retries of the run are the only ones; any other reason is the
// result. A look that fails fails no run: the last answer stays, with its time.
type PullKeeper struct {
	// Agent returns an agent of this server by its name, or nil.
	Agent func(name string) mailroom.Agent
	// Sender returns the thread whose run has sent a run, or "". An order does not say so itself: each run of the owner
	// can make one.
	Sender func(ctx context.Context, run string) (thread string, err error)
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
	now := time.Now().UTC().Truncate(time.Second)
	if run.NotBefore.After(now) {
		now = run.NotBefore // the clock of the server that made the run due is ahead
	}
	p, err := k.readPull(ctx, s, now)
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
	if err == nil && p.Address != "" {
		err = r.LookPull(ctx, o.Push, p, now)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.As(err, new(elsewhere)) {
		return &mailroom.Failure{Class: mailroom.ClassUnavailable, Err: err}
	}
	again, pause := judgePull(p, err)
	if r != nil && p.Branch != "" {
		if err := r.SavePull(p); err != nil {
			return err
		}
	}
	if again != nil {
		return postponePull(ctx, s, p, again)
	}
	return concludePull(ctx, s, p, planLook(p, pause, now))
}

// elsewhere is the error of a server that does not have the worktree or its agent, beside others.
type elsewhere struct{}

func (elsewhere) Error() string {
	return "this server does not have the worktree of the thread, and another one may have it"
}

// readPull returns what is known of the pull request that a run is about, or nil for a message that is about none. Only
// the first message of a run that the other thread has sent is an order: any run of the owner can send to this thread,
// or add a message to a run.
func (k *PullKeeper) readPull(ctx context.Context, s mailroom.Session, now time.Time) (*entry.Pull, error) {
	run := s.Run()
	p := entry.PullOf(map[string]json.RawMessage{reserved.Puller: s.State()})
	timer := run.Origin.Via == "run" && run.Origin.Sender == reserved.Puller
	if p != nil && !timer {
		p.Since = now
	}
	if run.Origin.Via != "run" || timer {
		return p, nil
	}
	from, err := k.Sender(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	input, err := s.Input(ctx)
	if err != nil {
		return nil, contextCause(ctx, err)
	}
	for _, m := range input[:min(len(input), 1)] {
		for _, part := range m.Parts {
			var order pullOrder
			if part.Type != "data" || json.Unmarshal(part.Data, &order) != nil ||
				order.Thread != from || !reserved.IsPulls(run.Thread, from) {
				continue
			}
			if p == nil {
				p = &entry.Pull{Thread: order.Thread, Run: order.Run, Since: now}
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
	case nil:
		if k.Shared {
			return nil, nil, elsewhere{}
		}
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
		return elsewhere{}
	case !ok:
		p.Since = time.Time{} // ends the looks
		return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: errors.New("its worktree was removed")}
	}
	if branch != p.Branch {
		*p = entry.Pull{Thread: p.Thread, Agent: p.Agent, Run: p.Run, Repo: p.Repo, Branch: branch, Since: p.Since,
			Next: p.Next}
	}
	if branch == "" || p.Address != "" {
		return nil
	}
	title, text := pullText(p.Agent, p.Thread, p.Run)
	address, err := r.OpenPull(ctx, p.Thread, o.Push, title, text)
	if err == nil {
		p.Address = address
	}
	return err
}

// judgePull notes in p why the pull request was not opened, or its state not read. again is not nil if it was not
// opened for a reason that can pass, and pause is the least time to the next look.
func judgePull(p *entry.Pull, err error) (again *mailroom.Failure, pause time.Duration) {
	p.Unopened, p.Again, p.Unread = "", false, ""
	if err == nil {
		p.Misses = 0
		return nil, 0
	}
	problem, known := errors.AsType[*worktree.Problem](err)
	f, classed := errors.AsType[*mailroom.Failure](err)
	if classed {
		pause = f.RetryAfter
	}
	if p.Address != "" {
		p.Unread, p.Misses = worktree.PullText(err), p.Misses+1
		return nil, max(pause, min(lookSoon<<min(p.Misses, 10), lookLater))
	}
	p.Unopened = worktree.PullText(err)
	if classed && f.Class != mailroom.ClassPermanent || !classed && known && problem.Temporary {
		p.Again = true
		again = &mailroom.Failure{Class: mailroom.ClassUnavailable, RetryAfter: pause, Err: errors.New(p.Unopened)}
	}
	return again, pause
}

// Pauses between two looks at a pull request. A request that finds nothing new costs nothing of the limits of GitHub.
const (
	lookSoon  = 5 * time.Minute  // in the first hour after a run has published the branch
	lookToday = 30 * time.Minute // on the first day
	lookWeek  = 3 * time.Hour
	lookLater = 12 * time.Hour
	// lookEnds is when the server looks no more by itself: no report shows older branches.
	lookEnds = 31 * 24 * time.Hour
)

// planLook returns when to look again, at least a pause later; zero if never, or if an earlier look is sent.
func planLook(p *entry.Pull, pause time.Duration, now time.Time) time.Time {
	if !p.Next.After(now) {
		p.Next = time.Time{}
	}
	age := now.Sub(p.Since)
	if p.Address == "" || p.IsFinal() || age >= lookEnds {
		return time.Time{}
	}
	usual := lookLater
	switch {
	case age < time.Hour:
		usual = lookSoon
	case age < 24*time.Hour:
		usual = lookToday
	case age < 7*24*time.Hour:
		usual = lookWeek
	}
	at := now.Add(max(usual, pause))
	if !p.Next.IsZero() && !p.Next.After(at) {
		return time.Time{}
	}
	p.Next = at
	return at
}

// postponePull keeps why the pull request was not opened, and fails the attempt.
func postponePull(ctx context.Context, s mailroom.Session, p *entry.Pull, again *mailroom.Failure) error {
	state, err := encode("the state of the pull request", p)
	if err != nil {
		return err
	}
	if string(s.State()) != string(state) {
		if err := s.Append(ctx, mailroom.Step{State: state, NoProgress: true}); err != nil {
			return contextCause(ctx, err)
		}
	}
	return again
}

// sendRefused is when a step is tried again whose timer the ledger refuses for a while.
const sendRefused = time.Minute

// concludePull commits what is known of a pull request with the message for the next look, and says it if it is new.
func concludePull(ctx context.Context, s mailroom.Session, p *entry.Pull, next time.Time) error {
	state, err := encode("the state of the pull request", p)
	if err != nil {
		return err
	}
	run := s.Run()
	before := entry.PullOf(map[string]json.RawMessage{reserved.Puller: s.State()})
	if run.Origin.Sender != reserved.Puller || before == nil || before.Summary() != p.Summary() {
		if err := s.Stream(ctx, p.Summary()); err != nil {
			return contextCause(ctx, err)
		}
	}
	st := mailroom.Step{State: state, Checkpoint: json.RawMessage(`{"done":true}`)}
	if !next.IsZero() {
		st.Sends = []mailroom.Send{{Name: "look", Thread: run.Thread, Agent: reserved.Puller,
			Parts: mailroom.Text("look"), NotBefore: next}}
	}
	err = s.Append(ctx, st)
	if err != nil && len(st.Sends) > 0 && refuses(err) {
		return &mailroom.Failure{Class: mailroom.ClassUnavailable, RetryAfter: sendRefused, Err: err}
	}
	if err != nil {
		return contextCause(ctx, err)
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
