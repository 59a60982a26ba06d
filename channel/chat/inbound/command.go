package inbound

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/store"
	"mailroom/thread"
)

// commands runs the commands of authorized users.
type commands struct {
	host          *channel.Host
	caps          chat.Capabilities
	agent         string
	answers       *answers
	conversations *conversations
	messages      *messages
	decisions     *decisions
}

// text returns a command as users of the channel type it.
func (c *commands) text(name string) string { return chat.CommandText(c.caps, name) }

// handle runs a command once.
func (c *commands) handle(ctx context.Context, e *event, p chat.ParsedText) error {
	if done, err := c.answers.skipSent(ctx, e); done || err != nil {
		return err
	}
	if e.tier < chat.RequiredTier(p.Command) {
		return c.answers.send(ctx, e, fmt.Sprintf("Only an admin may use %s. Ask the server's operator for access.",
			c.text(p.Command)), nil)
	}
	switch p.Command {
	case chat.CommandQueue, chat.CommandSteer:
		if p.Rest == "" && len(e.Files) == 0 {
			return c.answers.send(ctx, e, "Missing text. Usage: /"+p.Command+" TEXT", nil)
		}
		return c.messages.submit(ctx, e, p.Rest, mailroom.Mode(p.Command))
	case chat.CommandHelp, chat.CommandStart:
		return c.answers.send(ctx, e, chat.HelpText(e.tier, c.caps), nil)
	case chat.CommandNew:
		if err := c.conversations.start(ctx, &e.Event); err != nil {
			return err
		}
		return c.answers.send(ctx, e, "A new conversation begins. Replies of the old one still arrive here.", nil)
	case chat.CommandStop:
		return c.stop(ctx, e)
	case chat.CommandStatus:
		t, err := c.conversations.load(ctx, &e.Event)
		if err != nil {
			return err
		}
		words, err := c.statusText(ctx, c.conversations.thread(&e.Event, t.Since))
		if err != nil {
			return err
		}
		sending, err := c.findSending(ctx, c.answers.room(e), c.threads(e, t))
		if err != nil {
			return err
		}
		if sending != "" {
			words += "\nA reply is being sent. " + c.text(chat.CommandStop) + " ends it."
		}
		return c.answers.send(ctx, e, words, nil)
	case chat.CommandRemind:
		return c.remind(ctx, e, p.Rest)
	case chat.CommandSchedule:
		return c.repeat(ctx, e, p.Rest)
	case chat.CommandSchedules:
		return c.schedules(ctx, e, p.Rest)
	case chat.CommandApprove:
		return c.decisions.command(ctx, e, mailroom.VerdictApprove, p.Rest)
	default:
		return c.decisions.command(ctx, e, mailroom.VerdictDeny, p.Rest)
	}
}

// stop stops the runs of the room's conversations, as found when the command first arrived.
func (c *commands) stop(ctx context.Context, e *event) error {
	t, err := c.conversations.load(ctx, &e.Event)
	if err != nil {
		return err
	}
	found := pinnedCommand{Event: e.Key}
	for _, since := range t.all() {
		s, err := c.findStopTarget(ctx, c.conversations.thread(&e.Event, since))
		if err != nil {
			return err
		}
		if s != nil {
			found.Stop = append(found.Stop, *s)
		}
	}
	if found.Sending, err = c.findSending(ctx, c.answers.room(e), c.threads(e, t)); err != nil {
		return err
	}
	d, err := c.conversations.pin(ctx, &e.Event, found)
	if err != nil {
		return err
	}
	if d.Sending != "" {
		switch err := c.host.Cancel(ctx, d.Sending); mailroom.CodeOf(err) {
		case "", mailroom.CodeConflict, mailroom.CodeNotFound, mailroom.CodeGone: // the run has ended
		default:
			return err
		}
	}
	active, queued := 0, 0
	for _, s := range d.Stop {
		if _, err := c.host.Interrupt(ctx, s.Thread, s.Place); err != nil && mailroom.CodeOf(err) != mailroom.CodeNotFound {
			return err
		}
		if s.Active {
			active++
		}
		queued += s.Queued
	}
	words := "Nothing is running."
	switch {
	case active == 0 && queued == 0 && d.Sending != "":
		words = "The rest of the reply is not sent."
	case active > 0 && queued > 0:
		words = fmt.Sprintf("Stopping. Discarded from the queue: %s.", countMessages(queued))
	case active > 0:
		words = "Stopping."
	case queued > 0:
		words = fmt.Sprintf("Nothing is running. Discarded from the queue: %s.", countMessages(queued))
	}
	return c.answers.send(ctx, e, words, nil)
}

// threads returns the threads of a room's conversations.
func (c *commands) threads(e *event, t conversation) (all []string) {
	for _, since := range t.all() {
		all = append(all, c.conversations.thread(&e.Event, since))
	}
	return all
}

// findSending returns the id of the delivery that the delivery thread of a room is sending, "" if it sends none of
// the given conversations.
func (c *commands) findSending(ctx context.Context, room string, conversations []string) (id string, err error) {
	err = c.host.View(ctx, func(r store.Reader) error {
		rows, err := r.Threads(store.ThreadQuery{IDs: []string{room}})
		if err != nil || len(rows) == 0 {
			return err
		}
		// A reply that let another message pass is the first one in the queue that has begun.
		runs, err := r.Runs(store.RunQuery{Thread: room, Set: store.RunsQueued, Limit: 50})
		if err == nil && rows[0].Current != "" {
			var current []*mailroom.Run
			current, err = r.Runs(store.RunQuery{IDs: []string{rows[0].Current}})
			runs = append(current, runs...)
		}
		for _, run := range runs {
			begun := run.Status != mailroom.StatusQueued || run.Attempt > 0
			if n := len(run.Lineage); id == "" && begun && thread.IsDelivery(run.View()) && n > 0 &&
				slices.Contains(conversations, run.Lineage[n-1]) {
				id = run.ID
			}
		}
		return err
	})
	return id, err
}

func countMessages(n int) string {
	if n == 1 {
		return "1 message"
	}
	return fmt.Sprintf("%d messages", n)
}

// countWaiting returns the number of messages that no run has read: of runs in the queue, and of runs that wait for
// a time, which /stop discards too. Of a long queue, all but the first runs count as one message each.
func countWaiting(r store.Reader, thread string) (n int, err error) {
	const most = 100
	for _, set := range []store.RunSet{store.RunsQueued, store.RunsScheduled} {
		counts, err := r.Count(store.CountQuery{Thread: thread, Set: set})
		if err != nil {
			return 0, err
		}
		runs, err := r.Runs(store.RunQuery{Thread: thread, Set: set, Limit: most})
		if err != nil {
			return 0, err
		}
		n += counts.Sum() - len(runs)
		for _, run := range runs {
			for _, in := range run.Inputs {
				if !in.Retracted {
					n++
				}
			}
		}
	}
	return n, nil
}

// findStopTarget returns what /stop would stop in a thread, nil if there is nothing.
func (c *commands) findStopTarget(ctx context.Context, thread string) (s *stopTarget, err error) {
	err = c.host.View(ctx, func(r store.Reader) error {
		rows, err := r.Threads(store.ThreadQuery{IDs: []string{thread}})
		if err != nil || len(rows) == 0 {
			return err
		}
		queued, err := countWaiting(r, thread)
		if rows[0].Current != "" || queued > 0 {
			s = &stopTarget{Thread: thread, Place: rows[0].NextPlace, Active: rows[0].Current != "", Queued: queued}
		}
		return err
	})
	return s, err
}

// statusText describes what a conversation is doing.
func (c *commands) statusText(ctx context.Context, thread string) (string, error) {
	var lines []string
	err := c.host.View(ctx, func(r store.Reader) error {
		lines = nil
		rows, err := r.Threads(store.ThreadQuery{IDs: []string{thread}})
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			lines = []string{c.agent + " is ready. This conversation has no messages yet."}
			return nil
		}
		row := rows[0]
		state := row.Agent + " is idle."
		if row.Current != "" {
			runs, err := r.Runs(store.RunQuery{IDs: []string{row.Current}})
			if err != nil {
				return err
			}
			for _, run := range runs {
				what, err := chat.DescribeRun(r, run, time.Now())
				if err != nil {
					return err
				}
				state = row.Agent + " " + what
			}
		} else if paused, err := chat.PauseOf(r, row.Agent); err != nil {
			return err
		} else if paused != nil {
			state = row.Agent + " " + chat.DescribePause(*paused)
		}
		lines = append(lines, state)
		queued, err := countWaiting(r, thread)
		if err != nil {
			return err
		}
		if queued > 0 {
			lines = append(lines, countMessages(queued)+" waiting.")
		}
		open, err := r.Tickets(store.TicketQuery{Thread: thread, States: []mailroom.TicketState{mailroom.TicketOpen},
			Limit: 10})
		for _, k := range open {
			switch k.Kind {
			case mailroom.TicketApproval:
				word := chat.TicketWord(k)
				choice := c.text(chat.CommandApprove) + " " + word + " or " + c.text(chat.CommandDeny) + " " + word
				lines = append(lines, "It asks: "+chat.TicketSummary(k)+" – "+choice)
			case mailroom.TicketInput:
				lines = append(lines, "It asks: "+chat.TicketSummary(k)+" – your next message is the answer.")
			}
		}
		return err
	})
	return strings.Join(lines, "\n"), err
}
