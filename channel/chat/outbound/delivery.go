package outbound

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/chat/room"
	"mailroom/channel/markdown"
	"mailroom/entry"
	"mailroom/internal/display"
	"mailroom/store"
)

// Kinds of entries that a delivery writes besides the entries of its effects.
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

// attempt is one attempt of a delivery run.
type attempt struct {
	// Set by Deliver.
	conn     *connection
	command  string // how the operator calls this program
	url      string // address of the server's pages; "": unknown
	parts    int    // most messages; 0: no limit
	session  mailroom.Session
	delivery channel.Delivery
	room     chat.Room
	replyTo  string // id of the message that it replies to
	moved    bool   // the message goes to the chat, because its topic is gone

	saved    room.Saved         // the room's state
	stored   string             // the same as it is stored
	receipts map[string]receipt // receipts of earlier attempts, by effect
}

// view updates the view of the room.
func (x *attempt) view(f func(v *room.State)) { x.conn.rooms.update(x.room, f) }

// errGone fails a delivery to a room that is known to be gone.
var errGone = fmt.Errorf("not sent: %w", chat.ErrGone)

// Deliver sends the content of a delivery run. Each message is an effect named by its number, so
// that a sent message is not sent again. If the outcome of a send is unknown, Deliver looks for
// the message at the platform or sends it again with the same key.
func (o *Outbound) Deliver(ctx context.Context, d channel.Delivery, s mailroom.Session) error {
	x := &attempt{conn: o.conn, command: o.command, url: o.url, parts: o.parts, session: s, delivery: d,
		stored: string(s.State())}
	var err error
	if x.saved, err = room.Decode(s.State()); err != nil {
		return permanent(err)
	}
	if x.conn.caps.SendDisabled != "" {
		return x.endUnsent(ctx, x.conn.caps.SendDisabled)
	}
	known := false
	if x.room, x.replyTo, known = o.conn.destination(d, s.Run().Thread); !known {
		return x.endUnsent(ctx, "no chat is known for it")
	}
	if d.Run.ID != s.Run().ID || d.Run.Metadata[labelAlert] == "" { // the operator chose an alert's chat
		if barred, err := x.conn.barred(ctx, x.room); err != nil {
			return err
		} else if barred {
			return x.endUnsent(ctx, "the user of this chat was unpaired")
		}
	}
	if d.Origin != nil && d.Origin.Metadata[labelPreview] != "" {
		return x.sendPreview(ctx, d.Origin.Metadata[labelPreview])
	}
	if d.Origin != nil && d.Origin.Metadata[labelDecided] != "" {
		return x.finish(ctx)
	}
	gone, err := x.isRoomGone(ctx)
	if err != nil {
		return err
	}
	if x.view(func(v *room.State) { v.SetGone(gone) }); gone {
		return permanent(errGone)
	}
	if err := x.loadReceipts(ctx); err != nil {
		return err
	}
	err = x.send(ctx)
	if errors.Is(err, chat.ErrGone) {
		return x.markGone(ctx, err)
	}
	if err != nil && x.conn.caps.RefusalGrace > 0 && mailroom.AsFailure(err).Class == mailroom.ClassPermanent {
		return x.conn.host.HandleRefusal(ctx, x.session, KindRefused, x.conn.caps.RefusalGrace, err)
	}
	if err != nil {
		return err
	}
	return x.finish(ctx)
}

// send sends the content of the delivery.
func (x *attempt) send(ctx context.Context) error {
	for _, label := range []string{labelLate, labelPaused} {
		if x.delivery.Run.ID == x.session.Run().ID && x.delivery.Run.Metadata[label] != "" {
			return x.sendLate(ctx, label)
		}
	}
	text, buttons, why, err := x.compose(ctx)
	switch {
	case err != nil:
		return err
	case why != "":
		return x.endUnsent(ctx, why)
	}
	return x.sendInPlace(ctx, text, buttons)
}

// finish redraws decided questions of the room and saves the room's state.
func (x *attempt) finish(ctx context.Context) error {
	later := x.redraw(ctx)
	if err := x.saveState(ctx); err != nil {
		return err
	}
	if k := x.delivery.Ticket; k != nil && x.conn.caps.Edits && !x.moved {
		x.conn.rooms.ask(x.room, k.ID, k.Thread)
	}
	return later
}

// destination returns the room of a delivery thread, and in a group the id of the message to
// reply to. The message may come from another room, such as one where an agent asked this one;
// then there is no reply id.
func (c *connection) destination(d channel.Delivery, thread string) (at chat.Room, reply string, ok bool) {
	if d.Origin != nil {
		labels := d.Origin.Metadata
		at, ok = chat.RoomOf(labels)
		if ok && at.DeliveryThread(c.host.Name(), c.caps.BotID) == thread {
			if at.Group {
				reply = labels[chat.LabelReply]
			}
			return at, reply, true
		}
	}
	at, ok = chat.RoomOfThread(c.host.Name(), c.caps.BotID, thread)
	return at, "", ok
}

// permanent returns err with the class permanent, or err itself if it has that class.
func permanent(err error) error {
	if f, ok := errors.AsType[*mailroom.Failure](err); ok && f.Class == mailroom.ClassPermanent {
		return err
	}
	return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: err}
}

// compose returns the text to send, or the reason why there is nothing to send.
func (x *attempt) compose(ctx context.Context) (text string, buttons []chat.Button, why string, err error) {
	d := x.delivery
	switch {
	case d.Ended:
		partial, err := x.partialText(ctx)
		if err != nil {
			return "", nil, "", err
		}
		paused, err := x.unknownPause(ctx)
		return display.Text(renderEnding(d.Run, partial, x.command)) + paused, nil, "", err
	case d.Ticket == nil:
		return textOf(d, x.conn.caps), nil, "", nil
	case d.Ticket.Kind != mailroom.TicketApproval && d.Ticket.Kind != mailroom.TicketInput:
		return "", nil, "the run waits for no person", nil
	}
	now, err := x.conn.tickets(ctx, d.Ticket.ID)
	if err != nil {
		return "", nil, "", err
	}
	if len(x.receipts) == 0 && (len(now) == 0 || now[0].State != mailroom.TicketOpen) {
		return "", nil, "decided before it was asked", nil
	}
	q := chat.Question{Ticket: d.Ticket, Agent: d.Run.Agent, Room: x.room, Caps: x.conn.caps, Command: x.command}
	text, buttons = q.Render()
	return text, buttons, "", nil
}

// textOf returns the text of a reply. What is verbatim stands in a code block, or in lines that begin with a
// bar on a platform without blocks, so that it neither has markup nor looks like words of the bot.
func textOf(d channel.Delivery, on chat.Capabilities) string {
	text := display.Text(d.Text)
	if d.Verbatim == "" {
		return text
	}
	shown := display.Text(d.Verbatim)
	if on.SingleLine {
		shown = "| " + strings.ReplaceAll(shown, "\n", "\n| ")
	} else {
		shown = markdown.Fence(shown)
	}
	return strings.TrimSuffix(shown+"\n"+text, "\n")
}

// partialText returns the unfinished reply of a run's last attempt.
func (x *attempt) partialText(ctx context.Context) (partial string, err error) {
	run := x.delivery.Run
	err = x.conn.host.View(ctx, func(r store.Reader) error {
		return findMessage(r, run, func(m *mailroom.Message, attempt int) bool {
			found := attempt == run.Attempt && m.Role == mailroom.RoleAssistant && m.Partial
			if found {
				partial = m.Text
			}
			return found
		})
	})
	return partial, err
}

// findMessage calls f with the newest messages of a run and their attempts, until f returns true.
func findMessage(r store.Reader, run *mailroom.Run, f func(m *mailroom.Message, attempt int) bool) error {
	entries, err := r.Entries(store.EntryQuery{
		Thread: run.Thread, Run: run.ID, After: run.FirstSeq - 1, Backward: true, Limit: 20,
		Kinds: []string{entry.KindMessage},
	})
	for _, e := range entries {
		var m mailroom.Message
		if err := e.Decode(&m); err != nil {
			return err
		}
		if f(&m, e.Attempt) {
			break
		}
	}
	return err
}

// isRoomGone reports whether the last delivery found that the room is gone, and no message has arrived from it since.
func (x *attempt) isRoomGone(ctx context.Context) (bool, error) {
	if x.saved.Gone == nil {
		return false, nil
	}
	retried, err := x.entries(ctx, entry.KindRetried)
	if err != nil || len(retried) > 0 { // an operator retried the delivery, to learn whether the room is back
		x.saved.Gone = nil
		return false, err
	}
	since := func(r *mailroom.Run) bool {
		return r != nil && r.Key > x.saved.Gone.Key && r.Origin.Via == channel.Via(x.conn.host.Name())
	}
	back := since(x.delivery.Origin)
	if !back {
		err := x.conn.host.View(ctx, func(r store.Reader) error {
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
		x.saved.Gone = nil
	}
	return !back, nil
}

// markGone records that the room is gone. The delivery becomes a dead letter.
func (x *attempt) markGone(ctx context.Context, cause error) error {
	err := x.conn.host.View(ctx, func(r store.Reader) error {
		rows, err := r.Runs(store.RunQuery{Limit: 1})
		for _, row := range rows {
			x.saved.Gone = &room.Gone{Key: row.Key}
		}
		return err
	})
	if err == nil {
		x.saved.Previews, x.saved.Asked = nil, nil
		x.view(func(v *room.State) { v.SetGone(true) })
		err = x.saveState(ctx)
	}
	if err != nil {
		return err // the next attempt sends again, and gets ErrGone again
	}
	x.conn.host.ReportError(fmt.Errorf("reply not sent; the chat %s gets no reply until its next message or a retry: %w",
		x.room.Chat, cause))
	return permanent(cause)
}

// endUnsent completes a delivery without sending, and records why.
func (x *attempt) endUnsent(ctx context.Context, why string) error {
	x.conn.host.Log().Info("reply not sent", "run", x.delivery.Run.ID, "reason", why)
	return x.appendNote(ctx, KindUnsent, DeliveryNote{Reason: why})
}

func (x *attempt) appendNote(ctx context.Context, kind string, n DeliveryNote) error {
	body, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("encode %s: %w", kind, err)
	}
	return x.session.Append(ctx, mailroom.Step{Entries: []mailroom.AgentEntry{{Kind: kind, Body: body}}, NoProgress: true})
}

// saveState saves the room's state if it changed.
func (x *attempt) saveState(ctx context.Context) error {
	raw, err := json.Marshal(x.saved)
	if err != nil {
		return fmt.Errorf("encode room state: %w", err)
	}
	if string(raw) == x.stored || x.stored == "" && string(raw) == "{}" {
		return nil
	}
	if err := x.session.Append(ctx, mailroom.Step{State: raw, NoProgress: true}); err != nil {
		return err
	}
	x.stored = string(raw)
	return nil
}
