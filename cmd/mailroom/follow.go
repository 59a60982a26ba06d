package main

import (
	"context"
	"errors"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/client"
)

// follow prints what q names until nothing is left to be done, or until it waits
// for somebody's decision. again is the command that shows the rest of it after
// Ctrl-C.
func (m *Main) follow(ctx context.Context, c *client.Client, q client.FollowQuery, p *replyPrinter, again string) error {
	err := m.followUntilDone(ctx, c, q, p)
	if err != nil && (ctx.Err() != nil || mailroom.CodeOf(err) == mailroom.CodeUnavailable) {
		m.printDetached(again)
	}
	return err
}

func (m *Main) followUntilDone(ctx context.Context, c *client.Client, q client.FollowQuery, p *replyPrinter) error {
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
			if err := m.reportWaiting(ctx, c, at.waiting); err != nil {
				return err
			}
			if err := followUntilResumed(ctx, c, q, p, look); err != nil {
				return err
			}
			q.After = p.after(q.After)
			look = min(2*look, 30*time.Second)
		case at.done:
			return p.result(at.last)
		}
	}
}

// followState is how what is followed stands.
type followState struct {
	waiting string // the run that waits, or ""
	done    bool   // nothing is left to be done
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

// followUntilResumed prints what comes while the run waits for what nobody decides,
// such as the end of another run. It returns in time to look whether that one
// has a question by now.
func followUntilResumed(ctx context.Context, c *client.Client, q client.FollowQuery, p *replyPrinter, look time.Duration) error {
	q.Until = client.UntilForever
	enough := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(ctx, look, enough)
	defer cancel()
	err := p.follow(ctx, c, q, func(ev client.Event) bool {
		if ev.Entry == nil {
			return false
		}
		switch ev.Entry.Kind {
		case mailroom.KindResumed, mailroom.KindCompleted, mailroom.KindFailed, mailroom.KindCancelled:
			return true
		}
		return false
	})
	if err == nil || errors.Is(err, enough) {
		return nil
	}
	return errors.Join(err, p.close())
}

// follow prints the events of q until the stream or last ends it.
func (p *replyPrinter) follow(ctx context.Context, c *client.Client, q client.FollowQuery, last func(client.Event) bool) error {
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

// after is the place behind what was printed last, or from if nothing was.
func (p *replyPrinter) after(from string) string {
	if p.cursor == "" {
		return from
	}
	return p.cursor
}

// result is the outcome of what was followed to its end. last is how the latest run
// of it stands, in case that no end was seen.
func (p *replyPrinter) result(last mailroom.Status) error {
	if p.last != "" {
		last = p.last
	}
	if last == mailroom.StatusFailed || last == mailroom.StatusCancelled {
		return &unsuccessfulError{status: last}
	}
	return nil
}
