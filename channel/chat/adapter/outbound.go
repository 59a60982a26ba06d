package adapter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/chat/question"
	"mailroom/entry"
	"mailroom/internal/display"
	"mailroom/store"
)

// Kinds of entries that a delivery writes besides those of its effects.
const (
	// KindRepeated: a message that may have been sent before is sent again.
	KindRepeated = "x.chat.repeated"
	// KindUnsent: nothing was sent, and Reason says why.
	KindUnsent = "x.chat.unsent"
	// KindRefused: the platform refused a message for the first time.
	KindRefused = "x.chat.refused"
)

// DeliveryNote is the body of KindRepeated and KindUnsent entries.
type DeliveryNote struct {
	Effect string `json:"effect,omitempty"`
	Reason string `json:"reason"`
}

// outbound is the sending half of a connection.
type outbound struct {
	// Set by newOutbound.
	*adapter
	*shared
	watches chan watch
}

func newOutbound(a *adapter, s *shared) *outbound {
	return &outbound{adapter: a, shared: s, watches: make(chan watch, maxWatches)}
}

// attempt is one attempt of a delivery run.
type attempt struct {
	// Set by deliver.
	*outbound
	session  mailroom.Session
	delivery channel.Delivery
	room     chat.Room
	replyTo  string // id of the message that it replies to

	state      roomState
	savedState string             // the encoded state in the store
	receipts   map[string]receipt // of earlier attempts, by effect
}

// errGone fails a delivery to a room that is known to be gone.
var errGone = fmt.Errorf("not sent: %w", chat.ErrGone)

// deliver sends the content of a delivery run. Each message is an effect named by its number, so
// that a sent message is not sent again. If the outcome of a send is unknown, deliver looks for
// the message at the platform or sends it again with the same key.
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
		return x.endUnsent(ctx, "no chat is known for it")
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
	if errors.Is(err, chat.ErrGone) {
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

// finish redraws decided questions of the room and saves the room's state.
func (x *attempt) finish(ctx context.Context) error {
	later := x.redraw(ctx)
	if err := x.saveState(ctx); err != nil {
		return err
	}
	if k := x.delivery.Ticket; k != nil && x.caps.Edits {
		x.watchQuestion(watchedQuestion{ticket: k.ID, thread: k.Thread, room: x.room})
	}
	return later
}

// destination returns the room of a delivery thread, and in a group the id of the message to
// reply to. The message may come from another room, such as one where an agent asked this one;
// then there is no reply id.
func (o *outbound) destination(d channel.Delivery, thread string) (at chat.Room, reply string, ok bool) {
	if d.Origin != nil {
		labels := d.Origin.Metadata
		at, ok = chat.RoomOf(labels)
		if ok && channel.DeliveryThreadID(channel.ThreadID(o.host.Name(), at.Words(o.caps.BotID)...)) == thread {
			if at.Group {
				reply = labels[chat.LabelReply]
			}
			return at, reply, true
		}
	}
	at, ok = chat.RoomOfThread(o.host.Name(), o.caps.BotID, thread)
	return at, "", ok
}

func permanent(err error) error { return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: err} }

// compose returns the text to send, or the reason why there is nothing to send.
func (x *attempt) compose(ctx context.Context) (text string, buttons []chat.Button, why string, err error) {
	d := x.delivery
	switch {
	case d.Ended:
		partial, err := x.partialText(ctx)
		return display.Text(x.renderEnding(d.Run, partial)), nil, "", err
	case d.Ticket == nil:
		return display.Text(d.Text), nil, "", nil
	case d.Ticket.Kind != mailroom.TicketApproval && d.Ticket.Kind != mailroom.TicketInput:
		return "", nil, "the run waits for no person", nil
	}
	now, err := x.tickets(ctx, d.Ticket.ID)
	if err != nil {
		return "", nil, "", err
	}
	if len(x.receipts) == 0 && (len(now) == 0 || now[0].State != mailroom.TicketOpen) {
		return "", nil, "decided before it was asked", nil
	}
	text, buttons = question.Question{Ticket: d.Ticket, Agent: d.Run.Agent, Room: x.room, Caps: x.caps, Command: x.options.Command}.Render()
	return text, buttons, "", nil
}

// partialText returns the unfinished reply of a run's last attempt.
func (x *attempt) partialText(ctx context.Context) (partial string, err error) {
	run := x.delivery.Run
	var entries []mailroom.Entry
	err = x.host.View(ctx, func(r store.Reader) (err error) {
		entries, err = r.Entries(store.EntryQuery{
			Thread: run.Thread, Run: run.ID, After: run.FirstSeq - 1, Backward: true, Limit: 20,
			Kinds: []string{entry.KindMessage},
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
	err = x.host.View(ctx, func(r store.Reader) (err error) {
		rows, err = r.Tickets(store.TicketQuery{IDs: ids})
		return err
	})
	return rows, err
}

// isRoomGone reports whether the last delivery found the room gone and nothing has arrived since.
func (x *attempt) isRoomGone(ctx context.Context) (bool, error) {
	if x.state.Gone == nil {
		return false, nil
	}
	since := func(r *mailroom.Run) bool {
		return r != nil && r.Key > x.state.Gone.Key && r.Origin.Via == channel.Via(x.host.Name())
	}
	back := since(x.delivery.Origin)
	if !back {
		err := x.host.View(ctx, func(r store.Reader) error {
			rows, err := r.Runs(store.RunQuery{Thread: x.delivery.Run.Thread, Limit: 50})
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

// markGone records that the room is gone. The delivery becomes a dead letter.
func (x *attempt) markGone(ctx context.Context, cause error) error {
	err := x.host.View(ctx, func(r store.Reader) error {
		rows, err := r.Runs(store.RunQuery{Limit: 1})
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
		return err // the next attempt gets the same answer
	}
	x.host.Log().Warn("recipient gone; sending paused until the next inbound message", "chat", x.room.Chat)
	return permanent(cause)
}

// endUnsent completes a delivery without sending, and records why.
func (x *attempt) endUnsent(ctx context.Context, why string) error {
	x.host.Log().Info("reply not sent", "run", x.delivery.Run.ID, "reason", why)
	return x.appendNote(ctx, KindUnsent, DeliveryNote{Reason: why})
}

func (x *attempt) appendNote(ctx context.Context, kind string, n DeliveryNote) error {
	body, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("encode %s: %w", kind, err)
	}
	return x.session.Append(ctx, mailroom.Step{Entries: []mailroom.AgentEntry{{Kind: kind, Body: body}}, NoProgress: true})
}
