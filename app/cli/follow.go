package cli

import (
	"context"
	"errors"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/app/command"
	"mailroom/client"
	"mailroom/entry"
)

// follow prints the events of q until all runs of q have ended or one waits for a decision. The parameter again is the
// command that resumes the output; follow prints it after Ctrl-C, or when the server is unavailable.
func follow(
	ctx context.Context, con *command.Console, c *client.Client, q client.FollowQuery, p *replyPrinter, again string,
) error {
	err := followUntilDone(ctx, con, c, q, p)
	if err != nil && (ctx.Err() != nil || mailroom.CodeOf(err) == mailroom.CodeUnavailable) {
		printDetached(con, again)
	}
	return err
}

func followUntilDone(
	ctx context.Context, con *command.Console, c *client.Client, q client.FollowQuery, p *replyPrinter,
) error {
	q.Until = client.UntilWaiting
	look := time.Second
	for {
		err := p.follow(ctx, c, q, func(client.Event) bool { return false })
		if err := errors.Join(err, p.close()); err != nil {
			return err
		}
		q.After = p.after(q.After)
		at, err := fetchFollowState(ctx, c, q)
		switch {
		case err != nil:
			return err
		case at.waiting != "":
			if err := reportWaiting(ctx, con, c, at.waiting); err != nil {
				return err
			}
			if err := followUntilResumed(ctx, c, q, p, look); err != nil {
				return err
			}
			q.After = p.after(q.After)
			look = min(2*look, 30*time.Second)
		case at.done && p.waiting:
			p.waiting = false // the wait ended in between: what followed it is not printed yet
		case at.done:
			return p.result(at.last)
		}
	}
}

// followState is the state of the followed thread or run.
type followState struct {
	waiting string // the waiting run, or ""
	done    bool   // no run is open any more
	last    mailroom.Status
}

func fetchFollowState(ctx context.Context, c *client.Client, q client.FollowQuery) (followState, error) {
	id := q.Run
	if id == "" {
		t, err := c.Thread(ctx, q.Thread)
		switch {
		case err != nil:
			return followState{}, err
		case t.WaitingRun != nil:
			return followState{waiting: *t.WaitingRun}, nil
		case t.Status != api.ThreadIdle:
			return followState{}, nil
		case t.LatestRun == nil:
			return followState{done: true}, nil
		}
		id = *t.LatestRun
	}
	r, err := c.Run(ctx, id)
	switch {
	case err != nil:
		return followState{}, err
	case r.Status == mailroom.StatusWaiting:
		return followState{waiting: r.ID}, nil
	}
	return followState{done: r.Status.Finished(), last: r.Status}, nil
}

// followUntilResumed prints events while the run waits for something other than a decision, such as a child run. It
// returns after the time look at the latest, so that the caller can check whether a child waits for a decision.
func followUntilResumed(
	ctx context.Context, c *client.Client, q client.FollowQuery, p *replyPrinter, look time.Duration,
) error {
	q.Until = client.UntilForever
	elapsed := errors.New("poll interval elapsed")
	ctx, cancel := context.WithTimeoutCause(ctx, look, elapsed)
	defer cancel()
	err := p.follow(ctx, c, q, func(ev client.Event) bool {
		if ev.Entry == nil {
			return false
		}
		switch ev.Entry.Kind {
		case entry.KindResumed, entry.KindCompleted, entry.KindFailed, entry.KindCancelled:
			return true
		}
		return false
	})
	if err == nil || errors.Is(err, elapsed) {
		return nil
	}
	return errors.Join(err, p.close())
}

// follow prints the events of q until the stream ends or last reports true.
func (p *replyPrinter) follow(
	ctx context.Context, c *client.Client, q client.FollowQuery, last func(client.Event) bool,
) error {
	for ev, err := range c.Follow(ctx, q) {
		if err != nil {
			return err
		}
		if err := p.printEvent(ev); err != nil {
			return err
		}
		if last(ev) {
			return nil
		}
	}
	return nil
}

// after returns the cursor after the last printed event, or from if none was printed.
func (p *replyPrinter) after(from string) string {
	if p.cursor == "" {
		return from
	}
	return p.cursor
}

// result returns the outcome as an error. last is the status of the latest run; it counts if the run's final entry
// was not printed.
func (p *replyPrinter) result(last mailroom.Status) error {
	if p.last != "" {
		last = p.last
	}
	if last == mailroom.StatusFailed || last == mailroom.StatusCancelled {
		return &command.PrintedError{Code: command.ExitFailed, Reason: "the run is " + string(last)}
	}
	return nil
}

func printDetached(con *command.Console, again string) {
	con.Infof("detached; nothing was cancelled. To show it again:\n  %s", again)
}
