package main

import (
	"context"
	"fmt"
	"slices"

	"mailroom"
	"mailroom/api"
	"mailroom/client"
)

// decide decides the ticket id, or the open ticket of the run or thread id.
func (m *Main) decide(ctx context.Context, c *client.Client, id string, d api.Decision, output format) error {
	k, err := m.findTicket(ctx, c, id, d.Decision)
	if err != nil {
		return err
	}
	m.printTicketPrompt(k)
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
	m.infof("the run continues; show it with:\n  %s", m.commandLine("attach", k.Run))
	return nil
}

// findTicket finds a ticket by its id, or as the only ticket of a run or thread that is
// open for this decision.
func (m *Main) findTicket(ctx context.Context, c *client.Client, id string, v mailroom.Verdict) (api.Ticket, error) {
	k, err := c.Ticket(ctx, id)
	if mailroom.CodeOf(err) != mailroom.CodeNotFound {
		return k, err
	}
	for _, key := range []string{"run", "thread"} {
		all, err := client.Collect(ctx, c.Tickets, client.ListQuery{Q: fmt.Sprintf("state:open %s:%s", key, client.Quote(id)), Limit: 500})
		if err != nil {
			return k, err
		}
		open := slices.DeleteFunc(all, func(k api.Ticket) bool { return !acceptsVerdict(k, v) })
		switch len(open) {
		case 0:
		case 1:
			return open[0], nil
		default:
			for _, k := range open {
				m.printTicketPrompt(k)
			}
			return k, exitErrorf(exitUsage, "name one of these tickets", "%s %s has %d open tickets to %s", key, id, len(open), v)
		}
	}
	if _, err := findTarget(ctx, c, id, "0"); err != nil {
		return k, err
	}
	return k, exitErrorf(exitFailed, "", "%s has no open ticket to %s", id, v)
}

// acceptsVerdict reports whether a person can decide ticket k with v.
func acceptsVerdict(k api.Ticket, v mailroom.Verdict) bool {
	switch k.Kind {
	case mailroom.TicketApproval:
		return v != mailroom.VerdictAnswer || k.Answers
	case mailroom.TicketInput, mailroom.TicketEvent:
		return v == mailroom.VerdictAnswer
	}
	return false
}

// acceptedVerdicts returns the verdicts that a person can give on ticket k.
func acceptedVerdicts(k api.Ticket) []mailroom.Verdict {
	return slices.DeleteFunc([]mailroom.Verdict{mailroom.VerdictApprove, mailroom.VerdictDeny, mailroom.VerdictAnswer}, func(v mailroom.Verdict) bool { return !acceptsVerdict(k, v) })
}

// waitingError ends a command whose run waits for a decision. The commands that
// decide have been printed by then.
type waitingError struct{ run string }

func (e *waitingError) Error() string { return "run " + e.run + " waits for a decision" }

// reportWaiting prints how to decide what run, or a child that it waits for, waits for, and
// returns a [*waitingError]. It returns nil if no decision of a person is open.
func (m *Main) reportWaiting(ctx context.Context, c *client.Client, run string) error {
	open, err := client.Collect(ctx, c.Tickets, client.ListQuery{Q: "state:open run:" + client.Quote(run), Limit: 500})
	if err != nil {
		return err
	}
	mine := slices.DeleteFunc(slices.Clone(open), func(k api.Ticket) bool { return len(acceptedVerdicts(k)) == 0 || k.Holds })
	if len(mine) > 0 {
		m.infof("run %s waits for a decision:", run)
		for _, k := range mine {
			m.printDecisionCommands(k)
		}
		return &waitingError{run: run}
	}
	if !slices.ContainsFunc(open, func(k api.Ticket) bool { return k.Kind == mailroom.TicketChildren }) {
		return nil
	}
	for child, err := range client.Each(ctx, c.Runs, client.ListQuery{Q: "status:waiting parent:" + client.Quote(run), Limit: 500}) {
		if err != nil {
			return err
		}
		if err := m.reportWaiting(ctx, c, child.ID); err != nil {
			return err
		}
	}
	return nil
}

// printDecisionCommands prints a ticket and the commands that decide it.
func (m *Main) printDecisionCommands(k api.Ticket) {
	m.printTicketPrompt(k)
	for _, v := range acceptedVerdicts(k) {
		words := []string{string(v), k.ID, "--digest", k.Digest[:min(16, len(k.Digest))]}
		if v == mailroom.VerdictAnswer {
			words = append(words, "TEXT")
		}
		m.infof("  %s", m.commandLine(words...))
	}
}
