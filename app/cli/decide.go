package cli

import (
	"context"
	"fmt"
	"slices"

	"mailroom"
	"mailroom/api"
	"mailroom/app/command"
	"mailroom/client"
)

// decide decides the ticket id, or the open ticket of the run or thread id.
func decide(
	ctx context.Context, con *command.Console, c *client.Client, id string, d api.Decision, output command.Format,
) error {
	k, err := findTicket(ctx, con, c, id, d.Decision)
	if err != nil {
		return err
	}
	printTicketPrompt(con, k)
	if d.Digest == "" {
		d.Digest = k.Digest
	}
	done, err := c.Decide(ctx, k.ID, d)
	if err != nil {
		return err
	}
	if err := printTicket(con, done, output); err != nil {
		return err
	}
	con.Infof("the run continues; show it with:\n  %s", con.CommandLine("attach", k.Run))
	return nil
}

// findTicket finds a ticket by its id, or as the only ticket of a run or thread that is
// open for this decision.
func findTicket(
	ctx context.Context, con *command.Console, c *client.Client, id string, v mailroom.Verdict,
) (api.Ticket, error) {
	k, err := c.Ticket(ctx, id)
	if mailroom.CodeOf(err) != mailroom.CodeNotFound {
		return k, err
	}
	whole, err := resolveTicket(ctx, c, id)
	if err != nil {
		return k, err
	}
	if whole != id {
		return c.Ticket(ctx, whole)
	}
	run, err := resolveRun(ctx, c, id)
	if err != nil {
		return k, err
	}
	thread, err := resolveThread(ctx, c, id)
	if err != nil {
		return k, err
	}
	for _, of := range [][2]string{{"run", run}, {"thread", thread}} {
		key, whole := of[0], of[1]
		all, err := client.Collect(ctx, c.Tickets,
			client.ListQuery{Q: fmt.Sprintf("state:open %s:%s", key, client.Quote(whole)), Limit: 500})
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
				printTicketPrompt(con, k)
			}
			return k, command.Errorf(command.ExitUsage, "name one of these tickets", "%s %s has %d open tickets to %s", key, id,
				len(open), v)
		}
	}
	if _, err := findTarget(ctx, c, id, "0"); err != nil {
		return k, err
	}
	return k, command.Errorf(command.ExitFailed, "", "%s has no open ticket to %s", id, v)
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
	return slices.DeleteFunc([]mailroom.Verdict{mailroom.VerdictApprove, mailroom.VerdictDeny, mailroom.VerdictAnswer},
		func(v mailroom.Verdict) bool { return !acceptsVerdict(k, v) })
}

// reportWaiting prints how to decide the tickets that run waits for, or that a child of run waits for, and returns an
// error with [command.ExitWaiting]. It returns nil if no decision of a person is open.
func reportWaiting(ctx context.Context, con *command.Console, c *client.Client, run string) error {
	open, err := client.Collect(ctx, c.Tickets, client.ListQuery{Q: "state:open run:" + client.Quote(run), Limit: 500})
	if err != nil {
		return err
	}
	mine := slices.DeleteFunc(slices.Clone(open),
		func(k api.Ticket) bool { return len(acceptedVerdicts(k)) == 0 || k.Holds })
	if len(mine) > 0 {
		con.Infof("run %s waits for a decision:", run)
		for _, k := range mine {
			printDecisionCommands(con, k)
		}
		return &command.PrintedError{Code: command.ExitWaiting, Reason: "run " + run + " waits for a decision"}
	}
	if !slices.ContainsFunc(open, func(k api.Ticket) bool { return k.Kind == mailroom.TicketChildren }) {
		return nil
	}
	for child, err := range client.Each(ctx, c.Runs,
		client.ListQuery{Q: "status:waiting parent:" + client.Quote(run), Limit: 500}) {
		if err != nil {
			return err
		}
		if err := reportWaiting(ctx, con, c, child.ID); err != nil {
			return err
		}
	}
	return nil
}

// printDecisionCommands prints a ticket and the commands that decide it.
func printDecisionCommands(con *command.Console, k api.Ticket) {
	printTicketPrompt(con, k)
	for _, v := range acceptedVerdicts(k) {
		words := []string{string(v), k.ID, "--digest", k.Digest[:min(16, len(k.Digest))]}
		if v == mailroom.VerdictAnswer {
			words = append(words, "TEXT")
		}
		con.Infof("  %s", con.CommandLine(words...))
	}
}
