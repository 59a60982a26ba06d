package main

import (
	"context"
	"fmt"
	"slices"

	"mailroom"
	"mailroom/api"
	"mailroom/client"
)

// decide makes a decision on the ticket that id names, or that the run or the
// thread of that name waits for.
func (m *Main) decide(ctx context.Context, c *client.Client, id string, d api.Decision, output format) error {
	k, err := m.toDecide(ctx, c, id, d.Decision)
	if err != nil {
		return err
	}
	m.printAsked(k)
	if d.Digest == "" {
		d.Digest = k.Digest
	}
	done, err := c.Decide(ctx, k.ID, d)
	if err != nil {
		return err
	}
	if err := m.printTicket(done, output); err != nil {
		return err
	}
	m.say("the run goes on; show it with:\n  %s", m.again("attach", k.Run))
	return nil
}

// toDecide finds a ticket by its id, or as the one that is open for this
// decision in a run or a thread.
func (m *Main) toDecide(ctx context.Context, c *client.Client, id string, v mailroom.Verdict) (api.Ticket, error) {
	k, err := c.Ticket(ctx, id)
	if mailroom.CodeOf(err) != mailroom.CodeNotFound {
		return k, err
	}
	for _, key := range []string{"run", "thread"} {
		all, err := client.Collect(ctx, c.Tickets, client.ListQuery{Q: fmt.Sprintf("state:open %s:%s", key, client.Quote(id)), Limit: 500})
		if err != nil {
			return k, err
		}
		open := slices.DeleteFunc(all, func(k api.Ticket) bool { return !takes(k, v) })
		switch len(open) {
		case 0:
		case 1:
			return open[0], nil
		default:
			for _, k := range open {
				m.printAsked(k)
			}
			return k, refusal(exitUsage, "name one of them", "%s %s has %d open tickets to %s", key, id, len(open), v)
		}
	}
	if _, err := toFollow(ctx, c, id, "0"); err != nil {
		return k, err
	}
	return k, refusal(exitFailed, "", "%s has no open ticket to %s", id, v)
}

// takes says whether a person can decide a ticket so.
func takes(k api.Ticket, v mailroom.Verdict) bool {
	switch k.Kind {
	case mailroom.TicketApproval:
		return v != mailroom.VerdictAnswer || k.Answers
	case mailroom.TicketInput, mailroom.TicketEvent:
		return v == mailroom.VerdictAnswer
	}
	return false
}

// verdicts are the decisions that a ticket takes.
func verdicts(k api.Ticket) []mailroom.Verdict {
	return slices.DeleteFunc([]mailroom.Verdict{mailroom.VerdictApprove, mailroom.VerdictDeny, mailroom.VerdictAnswer}, func(v mailroom.Verdict) bool { return !takes(k, v) })
}

// waitsError ends a command whose run waits for a decision. How to give it has
// been said by then.
type waitsError struct{ run string }

func (e *waitsError) Error() string { return "run " + e.run + " waits for a decision" }

// undecided returns the error that says that a run waits for somebody, after it
// has said how to decide; nil if nobody can do anything for the run, or for the
// runs that it waits for.
func (m *Main) undecided(ctx context.Context, c *client.Client, run string) error {
	open, err := client.Collect(ctx, c.Tickets, client.ListQuery{Q: "state:open run:" + client.Quote(run), Limit: 500})
	if err != nil {
		return err
	}
	mine := slices.DeleteFunc(slices.Clone(open), func(k api.Ticket) bool { return len(verdicts(k)) == 0 || k.Holds })
	if len(mine) > 0 {
		m.say("run %s waits for a decision:", run)
		for _, k := range mine {
			m.printUndecided(k)
		}
		return &waitsError{run: run}
	}
	if !slices.ContainsFunc(open, func(k api.Ticket) bool { return k.Kind == mailroom.TicketChildren }) {
		return nil
	}
	for child, err := range client.Each(ctx, c.Runs, client.ListQuery{Q: "status:waiting parent:" + client.Quote(run), Limit: 500}) {
		if err != nil {
			return err
		}
		if err := m.undecided(ctx, c, child.ID); err != nil {
			return err
		}
	}
	return nil
}

// printUndecided shows what is asked, and the commands that decide it.
func (m *Main) printUndecided(k api.Ticket) {
	m.printAsked(k)
	for _, v := range verdicts(k) {
		words := []string{string(v), k.ID, "--digest", k.Digest[:min(16, len(k.Digest))]}
		if v == mailroom.VerdictAnswer {
			words = append(words, "TEXT")
		}
		m.say("  %s", m.again(words...))
	}
}
