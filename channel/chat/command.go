package chat

import (
	"context"
	"fmt"
	"strings"
	"time"

	"mailroom"
	"mailroom/internal/display"
	"mailroom/store"
)

// runCommand runs a command of an authorized user that was not answered before.
func (in *inbound) runCommand(ctx context.Context, e *Event, p parsedText, tier Tier) error {
	switch p.command {
	case cmdQueue, cmdSteer:
		if p.rest == "" && len(e.Files) == 0 {
			return in.answer(ctx, e, "Missing text. Usage: /"+p.command+" TEXT", nil)
		}
		return in.submitText(ctx, e, p.rest, mailroom.Mode(p.command))
	case cmdHelp, cmdStart:
		return in.answer(ctx, e, helpText(tier, in.caps), nil)
	}
	c, err := in.loadConversation(ctx, e)
	if err != nil {
		return err
	}
	switch p.command {
	case cmdNew:
		if err := in.startConversation(ctx, c, e); err != nil {
			return err
		}
		return in.answer(ctx, e, "A new conversation begins. Replies of the old one still arrive here.", nil)
	case cmdStop:
		return in.handleStop(ctx, e, c)
	case cmdStatus:
		words, err := in.statusText(ctx, in.threadID(e, c.state.Since))
		if err != nil {
			return err
		}
		return in.answer(ctx, e, words, nil)
	case cmdApprove:
		return in.handleDecision(ctx, e, c, mailroom.VerdictApprove, p.rest)
	default:
		return in.handleDecision(ctx, e, c, mailroom.VerdictDeny, p.rest)
	}
}

// handleStop stops the runs of the room's conversations, as found when the command first arrived.
func (in *inbound) handleStop(ctx context.Context, e *Event, c *conversation) error {
	found := pinnedCommand{Event: e.Key}
	for _, since := range append([]string{c.state.Since}, c.state.Earlier...) {
		s, err := in.findStopTarget(ctx, in.threadID(e, since))
		if err != nil {
			return err
		}
		if s != nil {
			found.Stop = append(found.Stop, *s)
		}
	}
	d, err := in.pinCommand(ctx, c, found)
	if err != nil {
		return err
	}
	active, queued := 0, 0
	for _, s := range d.Stop {
		if _, err := in.host.Interrupt(ctx, s.Thread, s.Place); err != nil && mailroom.CodeOf(err) != mailroom.CodeNotFound {
			return err
		}
		if s.Active {
			active++
		}
		queued += s.Queued
	}
	words := "Nothing is running."
	switch {
	case active > 0 && queued > 0:
		words = fmt.Sprintf("Stopping. Discarded from the queue: %s.", countMessages(queued))
	case active > 0:
		words = "Stopping."
	case queued > 0:
		words = fmt.Sprintf("Nothing is running. Discarded from the queue: %s.", countMessages(queued))
	}
	return in.answer(ctx, e, words, nil)
}

func countMessages(n int) string {
	if n == 1 {
		return "1 message"
	}
	return fmt.Sprintf("%d messages", n)
}

// findStopTarget returns what /stop would stop in a thread, nil if there is nothing.
func (in *inbound) findStopTarget(ctx context.Context, thread string) (s *stopTarget, err error) {
	err = in.host.View(ctx, func(r store.Reader) error {
		rows, err := r.Threads(store.ThreadQuery{IDs: []string{thread}})
		if err != nil || len(rows) == 0 {
			return err
		}
		counts, err := r.Count(store.CountQuery{Thread: thread, Set: store.RunsQueued})
		queued := counts.Sum()
		if rows[0].Current != "" || queued > 0 {
			s = &stopTarget{Thread: thread, Place: rows[0].NextPlace, Active: rows[0].Current != "", Queued: queued}
		}
		return err
	})
	return s, err
}

// statusText describes what a conversation is doing.
func (in *inbound) statusText(ctx context.Context, thread string) (string, error) {
	var lines []string
	err := in.host.View(ctx, func(r store.Reader) error {
		lines = nil
		rows, err := r.Threads(store.ThreadQuery{IDs: []string{thread}})
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			lines = []string{in.options.Agent + " is ready. This conversation has no messages yet."}
			return nil
		}
		t := rows[0]
		state := t.Agent + " is idle."
		if t.Current != "" {
			runs, err := r.Runs(store.RunQuery{IDs: []string{t.Current}})
			if err != nil {
				return err
			}
			for _, run := range runs {
				state = t.Agent + " " + runStatus(run)
			}
		}
		lines = append(lines, state)
		counts, err := r.Count(store.CountQuery{Thread: thread, Set: store.RunsQueued})
		queued := counts.Sum()
		if err != nil {
			return err
		}
		if queued > 0 {
			lines = append(lines, countMessages(queued)+" waiting.")
		}
		open, err := r.Tickets(store.TicketQuery{Thread: thread, States: []mailroom.TicketState{mailroom.TicketOpen}, Limit: 10})
		for _, k := range open {
			switch k.Kind {
			case mailroom.TicketApproval:
				lines = append(lines, "It asks: "+ticketSummary(k)+" – "+in.caps.commandText(cmdApprove)+" "+ticketWord(k)+" or "+in.caps.commandText(cmdDeny)+" "+ticketWord(k))
			case mailroom.TicketInput:
				lines = append(lines, "It asks: "+ticketSummary(k)+" – your next message is the answer.")
			}
		}
		return err
	})
	return strings.Join(lines, "\n"), err
}

// runStatus describes the current run of an agent.
func runStatus(run *mailroom.Run) string {
	since := "since " + run.StartedAt.UTC().Format("15:04:05 MST")
	switch {
	case run.Stop != "":
		return "is stopping."
	case run.Status == mailroom.StatusRunning:
		return "is running, " + since + "."
	case run.Status == mailroom.StatusWaiting:
		return "waits for an answer, running " + since + "."
	}
	return "will resume, running " + since + "."
}

// maxSummary bounds a ticket's summary, in characters.
const maxSummary = 200

// ticketSummary returns a ticket's question in one line.
func ticketSummary(k *mailroom.Ticket) string {
	return display.Cut(display.Line(strings.Join(strings.Fields(k.Prompt+" "+k.Action), " ")), maxSummary)
}

// decisionText describes the decision of a ticket, from its row alone.
func decisionText(k *mailroom.Ticket, who func(by string) string) string {
	switch k.State {
	case mailroom.TicketDecided:
		word := map[mailroom.Verdict]string{mailroom.VerdictApprove: "Approved", mailroom.VerdictDeny: "Denied", mailroom.VerdictAnswer: "Answered"}[k.Decision]
		words := word + " by " + display.Line(who(k.DecidedBy)) + ": " + ticketSummary(k)
		if k.Reason != "" {
			words += "\nReason: " + display.Line(display.Cut(k.Reason, maxShown))
		}
		return words
	case mailroom.TicketExpired:
		at := ""
		if k.ExpiresAt != nil {
			at = " at " + k.ExpiresAt.UTC().Format(time.DateTime+" MST")
		}
		return "Too late: it expired" + at + ", which counts as denied. Nothing was allowed: " + ticketSummary(k)
	case mailroom.TicketVoid:
		return "Too late: the run that asked has ended. Nothing was allowed: " + ticketSummary(k)
	}
	return "Not decided, still open: " + ticketSummary(k)
}
