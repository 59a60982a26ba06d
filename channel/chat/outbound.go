package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"mailroom"
	"mailroom/channel"
	"mailroom/internal/display"
)

// Kinds of the entries that a delivery writes beside those of its effects.
const (
	// KindRepeated: a message may have been sent before, and is sent again.
	KindRepeated = "x.chat.repeated"
	// KindUnsent: there was nothing to send, or nowhere to send it.
	KindUnsent = "x.chat.unsent"
	// KindRefused: the platform has refused a message for the first time.
	KindRefused = "x.chat.refused"
)

// DeliveryNote is the body of these entries.
type DeliveryNote struct {
	Effect string `json:"effect,omitempty"`
	Reason string `json:"reason"`
}

// outbound is what of a connection sends.
type outbound struct {
	// Set by newOutbound.
	*adapter
	*shared
	watches chan watch
}

func newOutbound(a *adapter, s *shared) *outbound {
	return &outbound{adapter: a, shared: s, watches: make(chan watch, mostWatched)}
}

// sending is one attempt of a delivery.
type sending struct {
	// Set by deliver.
	*outbound
	session mailroom.Session
	of      channel.Delivery
	at      Room
	reply   string // id of the message that it answers

	kept     kept
	saved    string             // kept, as it is in the store
	receipts map[string]receipt // of messages that earlier attempts have sent, by effect
}

// errGone is how a delivery ends to a room where nobody is, without asking the
// platform again.
var errGone = fmt.Errorf("not sent: %w", ErrGone)

// deliver sends what a run of a delivery thread brings. Each message is an effect,
// named by its number: what was sent is not sent again. One of which nobody knows
// whether it arrived is looked for, or sent again with the same key.
func (o *outbound) deliver(ctx context.Context, d channel.Delivery, s mailroom.Session) error {
	x := &sending{outbound: o, session: s, of: d, saved: string(s.State())}
	var err error
	if x.kept, err = readKept(s.State()); err != nil {
		return permanent(err)
	}
	if x.traits.SendDisabled != "" {
		return x.unsent(ctx, x.traits.SendDisabled)
	}
	known := false
	if x.at, x.reply, known = o.destination(d, s.Run().Thread); !known {
		return x.unsent(ctx, "nothing says in which chat it is to be said")
	}
	if d.Origin != nil && d.Origin.Metadata[labelPreview] != "" {
		return x.preview(ctx, d.Origin.Metadata[labelPreview])
	}
	if d.Origin != nil && d.Origin.Metadata[labelDecided] != "" {
		return x.finish(ctx)
	}
	if dead, err := x.dead(ctx); err != nil {
		return err
	} else if dead {
		return permanent(errGone)
	}
	if err := x.recall(ctx); err != nil {
		return err
	}
	text, buttons, why, err := x.compose(ctx)
	switch {
	case err != nil:
		return err
	case why != "":
		err = x.unsent(ctx, why)
	default:
		err = x.say(ctx, text, buttons)
	}
	if errors.Is(err, ErrGone) {
		return x.bury(ctx, err)
	}
	if err != nil && x.traits.RefusalGrace > 0 && mailroom.AsFailure(err).Class == mailroom.ClassPermanent {
		return x.link.HandleRefusal(ctx, x.session, KindRefused, x.traits.RefusalGrace, err)
	}
	if err != nil {
		return err
	}
	return x.finish(ctx)
}

// finish redraws questions of the room, and keeps what is known of it.
func (x *sending) finish(ctx context.Context) error {
	later := x.redraw(ctx)
	if err := x.save(ctx); err != nil {
		return err
	}
	if k := x.of.Ticket; k != nil && x.traits.Edits {
		x.await(question{ticket: k.ID, at: x.at})
	}
	return later
}

// destination is the room of a delivery thread, and the message there that is
// answered, if people are to see which. What is answered may have been said
// elsewhere, such as to an agent that asked this one: the thread decides.
func (o *outbound) destination(d channel.Delivery, thread string) (at Room, reply string, ok bool) {
	if d.Origin != nil {
		labels := d.Origin.Metadata
		at, ok = roomOf(labels)
		if ok && channel.DeliveryThreadID(channel.ThreadID(o.link.Name(), at.words(o.traits.BotID)...)) == thread {
			if at.Group {
				reply = labels[labelReply]
			}
			return at, reply, true
		}
	}
	at, ok = roomOfThread(o.link.Name(), o.traits.BotID, thread)
	return at, "", ok
}

func permanent(err error) error { return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: err} }

// compose says what is to be said, or why nothing is.
func (x *sending) compose(ctx context.Context) (text string, buttons []Button, why string, err error) {
	d := x.of
	switch {
	case d.Ended:
		said, err := x.lastWords(ctx)
		return display.Text(x.ending(d.Run, said)), nil, "", err
	case d.Ticket == nil:
		return display.Text(d.Text), nil, "", nil
	case d.Ticket.Kind != mailroom.TicketApproval && d.Ticket.Kind != mailroom.TicketInput:
		return "", nil, "it waits for something that nobody decides", nil
	}
	now, err := x.tickets(ctx, d.Ticket.ID)
	if err != nil {
		return "", nil, "", err
	}
	if len(x.receipts) == 0 && (len(now) == 0 || now[0].State != mailroom.TicketOpen) {
		return "", nil, "it was decided before it could be asked", nil
	}
	text, buttons = x.question(d, x.at)
	return text, buttons, "", nil
}

// lastWords are what a run said before its last attempt broke off.
func (x *sending) lastWords(ctx context.Context) (said string, err error) {
	run := x.of.Run
	var entries []mailroom.Entry
	err = x.link.View(ctx, func(r mailroom.Reader) (err error) {
		entries, err = r.Entries(mailroom.EntryQuery{
			Thread: run.Thread, Run: run.ID, After: run.FirstSeq - 1, Backward: true, Limit: 20,
			Kinds: []string{mailroom.KindMessage},
		})
		return err
	})
	for _, e := range entries {
		var m mailroom.Message
		if err := e.Decode(&m); err != nil {
			return "", err
		}
		if e.Attempt == run.Attempt && m.Role == mailroom.RoleAssistant && m.Partial {
			return m.Text, nil
		}
	}
	return "", err
}

func (x *sending) tickets(ctx context.Context, ids ...string) (rows []*mailroom.Ticket, err error) {
	err = x.link.View(ctx, func(r mailroom.Reader) (err error) {
		rows, err = r.Tickets(mailroom.TicketQuery{IDs: ids})
		return err
	})
	return rows, err
}

// dead reports whether nobody was there when something was sent last, and nothing
// has arrived since.
func (x *sending) dead(ctx context.Context) (bool, error) {
	if x.kept.Gone == nil {
		return false, nil
	}
	since := func(r *mailroom.Run) bool {
		return r != nil && r.Key > x.kept.Gone.Key && r.Origin.Via == channel.Via(x.link.Name())
	}
	back := since(x.of.Origin)
	if !back {
		err := x.link.View(ctx, func(r mailroom.Reader) error {
			rows, err := r.Runs(mailroom.RunQuery{Thread: x.of.Run.Thread, Limit: 50})
			for _, row := range rows {
				back = back || since(row)
			}
			return err
		})
		if err != nil {
			return false, err
		}
	}
	if back {
		x.kept.Gone = nil
	}
	return !back, nil
}

// bury notes that nobody is there, and has the delivery be a dead letter.
func (x *sending) bury(ctx context.Context, cause error) error {
	err := x.link.View(ctx, func(r mailroom.Reader) error {
		rows, err := r.Runs(mailroom.RunQuery{Limit: 1})
		for _, row := range rows {
			x.kept.Gone = &gone{Key: row.Key}
		}
		return err
	})
	if err == nil {
		x.kept.Previews, x.kept.Asked = nil, nil
		x.shared.drop(x.of.Run.ID)
		err = x.save(ctx)
	}
	if err != nil {
		return err // it comes again, and is told the same
	}
	x.link.Log().Warn("nobody is there any more: nothing is sent until something arrives", "chat", x.at.Chat)
	return permanent(cause)
}

// unsent ends a delivery that sends nothing, and says why.
func (x *sending) unsent(ctx context.Context, why string) error {
	x.link.Log().Info("nothing is sent", "run", x.of.Run.ID, "reason", why)
	return x.note(ctx, KindUnsent, DeliveryNote{Reason: why})
}

func (x *sending) note(ctx context.Context, kind string, n DeliveryNote) error {
	body, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("encode %s: %w", kind, err)
	}
	return x.session.Append(ctx, mailroom.Step{Entries: []mailroom.AgentEntry{{Kind: kind, Body: body}}, NoProgress: true})
}
