package outbound

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"mailroom"
	"mailroom/channel/chat"
	"mailroom/channel/chat/room"
	"mailroom/entry"
	"mailroom/store"
)

// maxSendTime bounds the sending time of one attempt. Another attempt sends the remaining text, so
// that a long text does not hold a slot for long.
const maxSendTime = 20 * time.Second

// continueDelay is the pause before the next attempt of a long delivery.
const continueDelay = 100 * time.Millisecond

// receipt is the result of a message's effect.
type receipt struct {
	ID  string `json:"id,omitempty"` // id of the message at the platform
	End int    `json:"end"`          // offset of the text, in bytes, at which the message ends
}

// sendText sends a text in as many messages as it needs, with the buttons under the last. Each
// receipt records where its message ends, so that a text that splits differently later, after an
// upgrade, is neither repeated nor cut.
func (x *attempt) sendText(ctx context.Context, text string, buttons []chat.Button) error {
	began := time.Now()
	rest := chat.SplitText(text, x.conn.caps, 0)
	for n := 1; len(rest) > 0; n++ {
		if time.Since(began) > maxSendTime {
			return &mailroom.Failure{Class: mailroom.ClassUnavailable, RetryAfter: continueDelay,
				Err: errors.New("the rest of a long text follows")}
		}
		cut := x.parts > 0 && n >= max(x.parts, 2) && len(rest) > 1 && x.delivery.Ticket == nil
		if cut {
			rest = []chat.Chunk{{Text: x.restText(len(rest)), End: rest[len(rest)-1].End}}
		}
		if n > 1 || x.session.Run().Attempt > 1 {
			if err := x.letPass(ctx, n); err != nil {
				return err
			}
		}
		m := outgoing{n: n, chunk: rest[0], priority: chat.PriorityMessage}
		m.Text, m.Notice = rest[0].Text, x.delivery.Origin != nil && x.delivery.Origin == x.delivery.Run
		if n == 1 {
			m.ReplyTo, m.replaces = x.replyTo, x.replacedMessage()
		}
		if x.delivery.Ticket != nil {
			m.priority = chat.PriorityQuestion
		}
		if cut {
			m.inFile = x.asFile(text)
		}
		last := len(rest) == 1
		if last {
			m.Buttons = buttons
		}
		got, err := x.sendMessage(ctx, m)
		if err != nil {
			return err
		}
		if last && x.delivery.Ticket != nil && !x.moved && x.conn.caps.Edits && got.ID != "" {
			x.saved.AddQuestion(room.Asked{Ticket: x.delivery.Ticket.ID, ID: got.ID})
		}
		if rest = rest[1:]; got.End != m.chunk.End {
			rest = chat.SplitText(text, x.conn.caps, got.End)
		}
	}
	if id := x.replacedMessage(); id != "" {
		x.saved.DropMessage(id)
	}
	return nil
}

// replacedMessage returns the id of the message that this delivery replaces, "" for none: the
// preview of its run, or the message whose button was pressed.
func (x *attempt) replacedMessage() string {
	switch {
	case !x.conn.caps.Edits || x.moved:
	case x.delivery.Origin != nil && x.delivery.Origin == x.delivery.Run &&
		x.delivery.Run.Metadata[chat.LabelRedraw] != "":
		return x.delivery.Run.Metadata[chat.LabelRedraw]
	default:
		return x.saved.PreviewMessage(x.delivery.Run.ID)
	}
	return ""
}

// outgoing is one message of a delivery.
type outgoing struct {
	chat.Message
	n        int
	chunk    chat.Chunk
	priority chat.Priority
	replaces string        // id of the message that it replaces
	inFile   *chat.Message // message with a file to send instead, unless the platform refuses it; nil: no such message
}

// name returns the name of a message's effect. A text that moves to the chat begins again there.
func (x *attempt) name(m outgoing) string {
	if x.moved {
		return fmt.Sprintf("%s%d", movedEffect, m.n)
	}
	return fmt.Sprintf("send:%d", m.n)
}

const movedEffect = "send-moved:"

// sendInPlace sends a text to its room, or to the chat if the room's topic was deleted: the chat still exists, and a
// question from the topic still needs its answer. Later texts try the topic first, which may be back.
func (x *attempt) sendInPlace(ctx context.Context, text string, buttons []chat.Button) error {
	at := x.room
	defer func() { x.room = at }() // the state of this room is saved
	move := func() error {
		x.moved, x.replyTo, x.room.Topic = true, "", ""
		return x.sendText(ctx, x.movedText(text), nil)
	}
	for name := range x.receipts {
		if strings.HasPrefix(name, movedEffect) { // an earlier attempt has begun there
			return move()
		}
	}
	err := x.sendText(ctx, text, buttons)
	if x.room.Topic == "" || !errors.Is(err, chat.ErrTopicGone) {
		return err
	}
	x.conn.host.ReportError(fmt.Errorf("topic %s is gone; its answer goes to the chat: %w", x.room.Topic, err))
	return move()
}

// movedText returns the text of a deleted topic as the chat gets it. A question cannot be answered there: its
// answer must come from the room that was asked.
func (x *attempt) movedText(text string) string {
	if k := x.delivery.Ticket; k != nil {
		return "The agent asked something in a topic that was deleted. Only the server's operator can answer it now: " +
			chat.TicketSummary(k)
	}
	return "The answer of a deleted topic:\n" + text
}

// sendMessage sends a message once. It waits for the limiter before the effect begins, so that a
// wait leaves no unknown outcome behind.
func (x *attempt) sendMessage(ctx context.Context, m outgoing) (got receipt, err error) {
	if got, sent := x.receipts[x.name(m)]; sent {
		return got, nil
	}
	marked := false
	effect := mailroom.Effect{Name: x.name(m)}
	effect.Reconcile = func(ctx context.Context, key string) (json.RawMessage, bool, error) {
		id, known, err := x.findSent(ctx, m, key)
		if err != nil || known {
			return x.receipt(id, m), id != "", err
		}
		marked, err = x.mayRepeat(ctx, x.name(m))
		if err == nil && marked && m.replaces == "" {
			err = x.recordRepeat(ctx, m)
		}
		return nil, false, err
	}
	var value json.RawMessage
	err = x.conn.do(ctx, x.room, m.priority, func(ctx context.Context) (err error) {
		x.view(func(v *room.State) { v.DropPreview(x.delivery.Run.ID) }) // after this message no edit of a preview may follow
		value, err = x.session.Do(ctx, effect, func(ctx context.Context, key string) (json.RawMessage, error) {
			if m.replaces != "" {
				err := x.conn.platform.Edit(ctx, x.room, m.replaces, m.Message)
				if err == nil || !isRefused(err) {
					return x.receipt(m.replaces, m), sendFailure(err)
				}
				x.conn.host.Log().Debug("edit refused; sending a new message", "error", err)
				if marked {
					if err := x.recordRepeat(ctx, m); err != nil {
						return nil, err
					}
				}
			}
			id, err := x.sendFirst(ctx, m, key)
			return x.receipt(id, m), sendFailure(err)
		})
		return err
	})
	if err != nil {
		return got, err
	}
	x.conn.host.Sent()
	return readReceipt(value)
}

func (x *attempt) receipt(id string, m outgoing) json.RawMessage {
	raw, err := json.Marshal(receipt{ID: id, End: m.chunk.End})
	if err != nil {
		panic(err) // a string and a number always encode
	}
	return raw
}

func readReceipt(value json.RawMessage) (got receipt, err error) {
	if err := json.Unmarshal(value, &got); err != nil {
		return got, permanent(fmt.Errorf("decode message receipt: %w", err))
	}
	return got, nil
}

// loadReceipts loads the receipts of earlier attempts.
func (x *attempt) loadReceipts(ctx context.Context) error {
	x.receipts = map[string]receipt{}
	run := x.session.Run()
	if run.Attempt == 1 {
		return nil
	}
	entries, err := x.entries(ctx, entry.KindRetried, entry.KindEffectIntended, entry.KindEffectUnknown,
		entry.KindEffectSettled)
	if err != nil {
		return err
	}
	states, err := entry.FoldEffects(entries)
	if err != nil {
		return err
	}
	for name, s := range states {
		if s.Last == entry.KindEffectSettled && !s.Failed() {
			if x.receipts[name], err = readReceipt(s.Result); err != nil {
				return err
			}
		}
	}
	return nil
}

// entries returns the run's entries of some kinds.
func (x *attempt) entries(ctx context.Context, kinds ...string) (found []mailroom.Entry, err error) {
	run := x.session.Run()
	err = x.conn.host.View(ctx, func(r store.Reader) (err error) {
		found, err = r.Entries(store.EntryQuery{Thread: run.Thread, Run: run.ID, After: run.FirstSeq - 1, Kinds: kinds})
		return err
	})
	return found, err
}

// isRefused reports whether the platform refuses an edit for good, so that a new message can
// replace it.
func isRefused(err error) bool {
	if err == nil || errors.Is(err, chat.ErrGone) || errors.Is(err, chat.ErrTopicGone) ||
		errors.Is(err, mailroom.ErrUnknown) {
		return false
	}
	return mailroom.AsFailure(err).Class == mailroom.ClassPermanent
}

// sendFailure classifies an error of a send. An error without a class is an outage and no reason
// to give up.
func sendFailure(err error) error {
	_, classed := errors.AsType[*mailroom.Failure](err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, chat.ErrGone), errors.Is(err, chat.ErrTopicGone):
		return permanent(err)
	case classed:
		return err
	case errors.Is(err, mailroom.ErrUnknown):
		return fmt.Errorf("%w: %w", mailroom.ErrUnknown, &mailroom.Failure{Class: mailroom.ClassUnavailable, Err: err})
	}
	return &mailroom.Failure{Class: mailroom.ClassUnavailable, Err: err}
}

// findSent looks for a message that may have been sent. known reports whether the platform's
// history was searched; then an empty id means that it was not sent.
func (x *attempt) findSent(ctx context.Context, m outgoing, key string) (id string, known bool, err error) {
	sought := m.Message
	if m.inFile != nil {
		sought = *m.inFile
	}
	id, found, err := x.conn.platform.Find(ctx, x.room, key, sought)
	switch {
	case errors.Is(err, chat.ErrNoHistory):
		return "", false, nil
	case err != nil:
		return "", false, sendFailure(err)
	case found:
		return id, true, nil
	}
	return "", true, nil
}

// mayRepeat reports whether sending a message of unknown outcome again could show it twice.
func (x *attempt) mayRepeat(ctx context.Context, effect string) (bool, error) {
	entries, err := x.entries(ctx, entry.KindEffectIntended, entry.KindEffectSettled, KindRepeated)
	if err != nil {
		return false, err
	}
	first, err := firstUnknown(entries, effect)
	return !first.IsZero() && time.Since(first) >= x.conn.caps.DedupWindow-dedupMargin, err
}

// dedupMargin is the last part of a platform's DedupWindow, which is not relied on.
const dedupMargin = 5 * time.Second

// firstUnknown returns when an effect began whose outcome is unknown. It returns zero if a repeat
// was recorded already.
func firstUnknown(entries []mailroom.Entry, name string) (first time.Time, err error) {
	var begun time.Time // the latest begin without a failure
	for _, e := range entries {
		if e.Kind == KindRepeated {
			var n DeliveryNote
			if err := e.Decode(&n); err != nil {
				return first, err
			}
			if n.Effect == name {
				return time.Time{}, nil
			}
			continue
		}
		var body entry.EffectEntry
		if err := e.Decode(&body); err != nil {
			return first, err
		}
		switch {
		case body.Name != name:
		case e.Kind == entry.KindEffectSettled: // with an error: it did not happen
			begun = time.Time{}
		default:
			if first.IsZero() {
				first = begun
			}
			begun = e.At
		}
	}
	if first.IsZero() {
		first = begun
	}
	return first, nil
}

// recordRepeat records that a message may be shown twice.
func (x *attempt) recordRepeat(ctx context.Context, m outgoing) error {
	const why = "an earlier attempt was interrupted with unknown outcome"
	x.conn.host.Log().Warn("message sent again; it may appear twice", "run", x.delivery.Run.ID, "message", m.n)
	return x.appendNote(ctx, KindRepeated, DeliveryNote{Effect: x.name(m), Reason: why})
}
