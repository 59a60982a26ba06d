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
	return &outbound{adapter: a, shared: s, watches: make(chan watch, maxWatches)}
}

// attempt is one attempt of a delivery.
type attempt struct {
	// Set by deliver.
	*outbound
	session  mailroom.Session
	delivery channel.Delivery
	room     Room
	replyTo  string // id of the message that it answers

	state      roomState
	savedState string             // kept, as it is in the store
	receipts   map[string]receipt // of messages that earlier attempts have sent, by effect
}

// errGone is how a delivery ends to a room where nobody is, without asking the
// platform again.
var errGone = fmt.Errorf("not sent: %w", ErrGone)

// deliver sends what a run of a delivery thread brings. Each message is an effect,
// named by its number: what was sent is not sent again. One of which nobody knows
// whether it arrived is looked for, or sent again with the same key.
func (o *outbound) deliver(ctx context.Context, d channel.Delivery, s mailroom.Session) error {
	x := &attempt{outbound: o, session: s, delivery: d, savedState: string(s.State())}
	var err error
	if x.state, err = decodeRoomState(s.State()); err != nil {
		return permanent(err)
	}
	if x.caps.SendDisabled != "" {
		return x.endUnsent(ctx, x.caps.SendDisabled)
	}
	known := false
	if x.room, x.replyTo, known = o.destination(d, s.Run().Thread); !known {
		return x.endUnsent(ctx, "nothing says in which chat it is to be said")
	}
	if d.Origin != nil && d.Origin.Metadata[labelPreview] != "" {
		return x.sendPreview(ctx, d.Origin.Metadata[labelPreview])
	}
	if d.Origin != nil && d.Origin.Metadata[labelDecided] != "" {
		return x.finish(ctx)
	}
	if dead, err := x.isRoomGone(ctx); err != nil {
		return err
	} else if dead {
		return permanent(errGone)
	}
	if err := x.loadReceipts(ctx); err != nil {
		return err
	}
	text, buttons, why, err := x.compose(ctx)
	switch {
	case err != nil:
		return err
	case why != "":
		err = x.endUnsent(ctx, why)
	default:
		err = x.sendText(ctx, text, buttons)
	}
	if errors.Is(err, ErrGone) {
		return x.markGone(ctx, err)
	}
	if err != nil && x.caps.RefusalGrace > 0 && mailroom.AsFailure(err).Class == mailroom.ClassPermanent {
		return x.host.HandleRefusal(ctx, x.session, KindRefused, x.caps.RefusalGrace, err)
	}
	if err != nil {
		return err
	}
	return x.finish(ctx)
}

// finish redraws questions of the room, and keeps what is known of it.
func (x *attempt) finish(ctx context.Context) error {
	later := x.redraw(ctx)
	if err := x.saveState(ctx); err != nil {
		return err
	}
	if k := x.delivery.Ticket; k != nil && x.caps.Edits {
		x.watchQuestion(question{ticket: k.ID, room: x.room})
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
		if ok && channel.DeliveryThreadID(channel.ThreadID(o.host.Name(), at.words(o.caps.BotID)...)) == thread {
			if at.Group {
				reply = labels[labelReply]
			}
			return at, reply, true
		}
	}
	at, ok = roomOfThread(o.host.Name(), o.caps.BotID, thread)
	return at, "", ok
}

func permanent(err error) error { return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: err} }

// compose says what is to be said, or why nothing is.
func (x *attempt) compose(ctx context.Context) (text string, buttons []Button, why string, err error) {
	d := x.delivery
	switch {
	case d.Ended:
		said, err := x.partialText(ctx)
		return display.Text(x.renderEnding(d.Run, said)), nil, "", err
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
	text, buttons = x.renderTicket(d, x.room)
	return text, buttons, "", nil
}

// partialText are what a run said before its last attempt broke off.
func (x *attempt) partialText(ctx context.Context) (said string, err error) {
	run := x.delivery.Run
	var entries []mailroom.Entry
	err = x.host.View(ctx, func(r mailroom.Reader) (err error) {
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

func (x *attempt) tickets(ctx context.Context, ids ...string) (rows []*mailroom.Ticket, err error) {
	err = x.host.View(ctx, func(r mailroom.Reader) (err error) {
		rows, err = r.Tickets(mailroom.TicketQuery{IDs: ids})
		return err
	})
	return rows, err
}

// isRoomGone reports whether nobody was there when something was sent last, and nothing
// has arrived since.
func (x *attempt) isRoomGone(ctx context.Context) (bool, error) {
	if x.state.Gone == nil {
		return false, nil
	}
	since := func(r *mailroom.Run) bool {
		return r != nil && r.Key > x.state.Gone.Key && r.Origin.Via == channel.Via(x.host.Name())
	}
	back := since(x.delivery.Origin)
	if !back {
		err := x.host.View(ctx, func(r mailroom.Reader) error {
			rows, err := r.Runs(mailroom.RunQuery{Thread: x.delivery.Run.Thread, Limit: 50})
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
		x.state.Gone = nil
	}
	return !back, nil
}

// markGone notes that nobody is there, and has the delivery be a dead letter.
func (x *attempt) markGone(ctx context.Context, cause error) error {
	err := x.host.View(ctx, func(r mailroom.Reader) error {
		rows, err := r.Runs(mailroom.RunQuery{Limit: 1})
		for _, row := range rows {
			x.state.Gone = &goneRoom{Key: row.Key}
		}
		return err
	})
	if err == nil {
		x.state.Previews, x.state.Asked = nil, nil
		x.shared.dropPreview(x.delivery.Run.ID)
		err = x.saveState(ctx)
	}
	if err != nil {
		return err // it comes again, and is told the same
	}
	x.host.Log().Warn("nobody is there any more: nothing is sent until something arrives", "chat", x.room.Chat)
	return permanent(cause)
}

// endUnsent ends a delivery that sends nothing, and says why.
func (x *attempt) endUnsent(ctx context.Context, why string) error {
	x.host.Log().Info("nothing is sent", "run", x.delivery.Run.ID, "reason", why)
	return x.appendNote(ctx, KindUnsent, DeliveryNote{Reason: why})
}

func (x *attempt) appendNote(ctx context.Context, kind string, n DeliveryNote) error {
	body, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("encode %s: %w", kind, err)
	}
	return x.session.Append(ctx, mailroom.Step{Entries: []mailroom.AgentEntry{{Kind: kind, Body: body}}, NoProgress: true})
}
