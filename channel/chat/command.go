package chat

import (
	"context"
	"fmt"
	"strings"
	"time"

	"mailroom"
	"mailroom/internal/display"
)

// command does what somebody who may asks for. It was not answered yet.
func (in *inbound) command(ctx context.Context, e *Event, p phrase, tier Tier) error {
	switch p.command {
	case cmdQueue, cmdSteer:
		if p.rest == "" && len(e.Files) == 0 {
			return in.answer(ctx, e, "Say what: /"+p.command+" TEXT", nil)
		}
		return in.talk(ctx, e, p.rest, mailroom.Mode(p.command))
	case cmdHelp, cmdStart:
		return in.answer(ctx, e, helpText(tier, in.traits), nil)
	}
	c, err := in.conversation(ctx, e)
	if err != nil {
		return err
	}
	switch p.command {
	case cmdNew:
		if err := in.renew(ctx, c, e); err != nil {
			return err
		}
		return in.answer(ctx, e, "A new conversation begins. What still runs in the old one is answered here.", nil)
	case cmdStop:
		return in.stop(ctx, e, c)
	case cmdStatus:
		words, err := in.status(ctx, in.thread(e, c.kept.Since))
		if err != nil {
			return err
		}
		return in.answer(ctx, e, words, nil)
	case cmdApprove:
		return in.decide(ctx, e, c, mailroom.VerdictApprove, p.rest)
	default:
		return in.decide(ctx, e, c, mailroom.VerdictDeny, p.rest)
	}
}

// stop ends what there is when the command comes first, in the present conversation
// and in the ones before.
func (in *inbound) stop(ctx context.Context, e *Event, c *talking) error {
	found := doing{Event: e.Key}
	for _, since := range append([]string{c.kept.Since}, c.kept.Before...) {
		s, err := in.unfinished(ctx, in.thread(e, since))
		if err != nil {
			return err
		}
		if s != nil {
			found.Stop = append(found.Stop, *s)
		}
	}
	d, err := in.pin(ctx, c, found)
	if err != nil {
		return err
	}
	active, queued := 0, 0
	for _, s := range d.Stop {
		if _, err := in.link.Interrupt(ctx, s.Thread, s.Place); err != nil && mailroom.CodeOf(err) != mailroom.CodeNotFound {
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
		words = fmt.Sprintf("Stopping. What waited is forgotten: %s.", messages(queued))
	case active > 0:
		words = "Stopping."
	case queued > 0:
		words = fmt.Sprintf("Nothing is running. What waited is forgotten: %s.", messages(queued))
	}
	return in.answer(ctx, e, words, nil)
}

func messages(n int) string {
	if n == 1 {
		return "1 message"
	}
	return fmt.Sprintf("%d messages", n)
}

// unfinished is what of a thread could be stopped; nil if there is nothing.
func (in *inbound) unfinished(ctx context.Context, thread string) (s *stopping, err error) {
	err = in.link.View(ctx, func(r mailroom.Reader) error {
		rows, err := r.Threads(mailroom.ThreadQuery{IDs: []string{thread}})
		if err != nil || len(rows) == 0 {
			return err
		}
		counts, err := r.Count(mailroom.CountQuery{Thread: thread, Set: mailroom.RunsQueued})
		queued := counts.Sum()
		if rows[0].Current != "" || queued > 0 {
			s = &stopping{Thread: thread, Place: rows[0].NextPlace, Active: rows[0].Current != "", Queued: queued}
		}
		return err
	})
	return s, err
}

// status says what a conversation does.
func (in *inbound) status(ctx context.Context, thread string) (string, error) {
	var lines []string
	err := in.link.View(ctx, func(r mailroom.Reader) error {
		lines = nil
		rows, err := r.Threads(mailroom.ThreadQuery{IDs: []string{thread}})
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			lines = []string{in.options.Agent + " is here. Nothing was said in this conversation yet."}
			return nil
		}
		t := rows[0]
		state := t.Agent + " has nothing to do."
		if t.Current != "" {
			runs, err := r.Runs(mailroom.RunQuery{IDs: []string{t.Current}})
			if err != nil {
				return err
			}
			for _, run := range runs {
				state = t.Agent + " " + doingNow(run)
			}
		}
		lines = append(lines, state)
		counts, err := r.Count(mailroom.CountQuery{Thread: thread, Set: mailroom.RunsQueued})
		queued := counts.Sum()
		if err != nil {
			return err
		}
		if queued > 0 {
			lines = append(lines, messages(queued)+" waiting.")
		}
		open, err := r.Tickets(mailroom.TicketQuery{Thread: thread, States: []mailroom.TicketState{mailroom.TicketOpen}, Limit: 10})
		for _, k := range open {
			switch k.Kind {
			case mailroom.TicketApproval:
				lines = append(lines, "It asks: "+summary(k)+" – "+in.traits.command(cmdApprove)+" "+ticketWord(k)+" or "+in.traits.command(cmdDeny)+" "+ticketWord(k))
			case mailroom.TicketInput:
				lines = append(lines, "It asks: "+summary(k)+" – your next message is the answer.")
			}
		}
		return err
	})
	return strings.Join(lines, "\n"), err
}

// doingNow says what the current run of an agent does.
func doingNow(run *mailroom.Run) string {
	since := "since " + run.StartedAt.UTC().Format("15:04:05 MST")
	switch {
	case run.Stop != "":
		return "is stopping."
	case run.Status == mailroom.StatusRunning:
		return "works, " + since + "."
	case run.Status == mailroom.StatusWaiting:
		return "waits for an answer, and works " + since + "."
	}
	return "is to go on, and works " + since + "."
}

// maxSummary bounds what is said of a question in a line, in characters.
const maxSummary = 200

// summary is what a ticket asks, in one line.
func summary(k *mailroom.Ticket) string {
	return display.Cut(display.Line(strings.Join(strings.Fields(k.Prompt+" "+k.Action), " ")), maxSummary)
}

// decided says what was decided of a ticket, whoever asks: never more than its row.
func decided(k *mailroom.Ticket, who func(by string) string) string {
	switch k.State {
	case mailroom.TicketDecided:
		word := map[mailroom.Verdict]string{mailroom.VerdictApprove: "Approved", mailroom.VerdictDeny: "Denied", mailroom.VerdictAnswer: "Answered"}[k.Decision]
		words := word + " by " + display.Line(who(k.DecidedBy)) + ": " + summary(k)
		if k.Reason != "" {
			words += "\nReason: " + display.Line(display.Cut(k.Reason, mostShown))
		}
		return words
	case mailroom.TicketExpired:
		at := ""
		if k.ExpiresAt != nil {
			at = " at " + k.ExpiresAt.UTC().Format(time.DateTime+" MST")
		}
		return "Too late: it expired" + at + ", which counts as denied. Nothing was allowed: " + summary(k)
	case mailroom.TicketVoid:
		return "Too late: the run that asked has ended. Nothing was allowed: " + summary(k)
	}
	return "Nothing was decided, and it still waits: " + summary(k)
}
