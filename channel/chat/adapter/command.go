package adapter

import (
	"context"
	"fmt"
	"strings"

	"mailroom"
	"mailroom/channel/chat"
	"mailroom/channel/chat/command"
	"mailroom/channel/chat/question"
	"mailroom/store"
)

// runCommand runs a command of an authorized user that was not answered before.
func (in *inbound) runCommand(ctx context.Context, e *chat.Event, p command.Parsed, tier chat.Tier) error {
	switch p.Command {
	case command.Queue, command.Steer:
		if p.Rest == "" && len(e.Files) == 0 {
			return in.answer(ctx, e, "Missing text. Usage: /"+p.Command+" TEXT", nil)
		}
		return in.submitText(ctx, e, p.Rest, mailroom.Mode(p.Command))
	case command.Help, command.Start:
		return in.answer(ctx, e, command.HelpText(tier, in.caps), nil)
	}
	c, err := in.loadConversation(ctx, e)
	if err != nil {
		return err
	}
	switch p.Command {
	case command.New:
		if err := in.startConversation(ctx, c, e); err != nil {
			return err
		}
		return in.answer(ctx, e, "A new conversation begins. Replies of the old one still arrive here.", nil)
	case command.Stop:
		return in.handleStop(ctx, e, c)
	case command.Status:
		words, err := in.statusText(ctx, in.threadID(e, c.state.Since))
		if err != nil {
			return err
		}
		return in.answer(ctx, e, words, nil)
	case command.Approve:
		return in.handleDecision(ctx, e, c, mailroom.VerdictApprove, p.Rest)
	default:
		return in.handleDecision(ctx, e, c, mailroom.VerdictDeny, p.Rest)
	}
}

// handleStop stops the runs of the room's conversations, as found when the command first arrived.
func (in *inbound) handleStop(ctx context.Context, e *chat.Event, c *conversation) error {
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
				lines = append(lines, "It asks: "+question.Summary(k)+" – "+command.Text(in.caps, command.Approve)+" "+question.Word(k)+" or "+command.Text(in.caps, command.Deny)+" "+question.Word(k))
			case mailroom.TicketInput:
				lines = append(lines, "It asks: "+question.Summary(k)+" – your next message is the answer.")
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
