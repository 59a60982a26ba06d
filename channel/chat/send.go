package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"mailroom"
)

// atOnce is for how long one attempt sends pieces. What is left then is sent by
// another, so that one long text does not keep others from going out.
const atOnce = 20 * time.Second

// receipt is the value of the effect of one message.
type receipt struct {
	ID  string `json:"id,omitempty"` // the platform's
	End int    `json:"end"`          // bytes of the text that are said with it
}

// say sends a text in as many messages as it takes, the buttons with the last one.
// Where one ends is in its receipt, so that a text that is cut otherwise later, after
// an upgrade, is neither said twice nor lost.
func (x *sending) say(ctx context.Context, text string, buttons []Button) error {
	began := time.Now()
	rest := pieces(text, x.traits, 0)
	for n := 1; len(rest) > 0; n++ {
		if time.Since(began) > atOnce {
			return &mailroom.Failure{Class: mailroom.ClassUnavailable, RetryAfter: soon, Err: errors.New("the rest of a long text comes next")}
		}
		m := message{n: n, piece: rest[0], rank: saying}
		m.Text, m.Notice = rest[0].text, x.of.Origin != nil && x.of.Origin == x.of.Run
		if n == 1 {
			m.ReplyTo, m.over = x.reply, x.over()
		}
		if x.of.Ticket != nil {
			m.rank = asking
		}
		last := len(rest) == 1
		if last {
			m.Buttons = buttons
		}
		got, err := x.message(ctx, m)
		if err != nil {
			return err
		}
		if last && x.of.Ticket != nil && x.traits.Edits && got.ID != "" {
			x.kept.ask(asked{Ticket: x.of.Ticket.ID, ID: got.ID})
		}
		if rest = rest[1:]; got.End != m.piece.end {
			rest = pieces(text, x.traits, got.End)
		}
	}
	if id := x.over(); id != "" {
		x.kept.forget(id)
	}
	return nil
}

// over is the id of the message that the delivery takes the place of, "" if there is
// none: the preview of what its run was writing, or the one whose button was pressed.
func (x *sending) over() string {
	switch {
	case !x.traits.Edits:
	case x.of.Origin != nil && x.of.Origin == x.of.Run && x.of.Run.Metadata[labelRedraw] != "":
		return x.of.Run.Metadata[labelRedraw]
	default:
		return x.kept.preview(x.of.Run.ID)
	}
	return ""
}

// message is one of a delivery's.
type message struct {
	Message
	n     int
	piece piece
	rank  rank
	over  string // id of the message whose place it takes
}

func (m message) name() string { return fmt.Sprintf("send:%d", m.n) }

// message sends one, once. The gate is passed before anything is begun, so that who
// waits there leaves no doubt behind.
func (x *sending) message(ctx context.Context, m message) (got receipt, err error) {
	if got, sent := x.receipts[m.name()]; sent {
		return got, nil
	}
	marked := false
	effect := mailroom.Effect{Name: m.name()}
	effect.Reconcile = func(ctx context.Context, key string) (json.RawMessage, bool, error) {
		id, known, err := x.find(ctx, m, key)
		if err != nil || known {
			return x.receipt(id, m), id != "", err
		}
		marked, err = x.mayRepeat(ctx, m.name())
		if err == nil && marked && m.over == "" {
			err = x.repeats(ctx, m)
		}
		return nil, false, err
	}
	var value json.RawMessage
	err = x.gates.pass(ctx, x.at, x.traits, m.rank, func(ctx context.Context) (err error) {
		x.shared.drop(x.of.Run.ID) // no edit of a preview comes after this
		value, err = x.session.Do(ctx, effect, func(ctx context.Context, key string) (json.RawMessage, error) {
			if m.over != "" {
				err := x.platform.Edit(ctx, x.at, m.over, m.Message)
				if err == nil || !refused(err) {
					return x.receipt(m.over, m), sendFailure(err)
				}
				x.link.Log().Debug("a message cannot be edited, and another one is sent", "error", err)
				if marked {
					if err := x.repeats(ctx, m); err != nil {
						return nil, err
					}
				}
			}
			id, err := x.platform.Send(ctx, x.at, m.Message, key)
			return x.receipt(id, m), sendFailure(err)
		})
		return err
	})
	if err != nil {
		return got, err
	}
	x.link.Sent()
	return readReceipt(value)
}

func (x *sending) receipt(id string, m message) json.RawMessage {
	raw, err := json.Marshal(receipt{ID: id, End: m.piece.end})
	if err != nil {
		panic(err) // a text and a number
	}
	return raw
}

func readReceipt(value json.RawMessage) (got receipt, err error) {
	if err := json.Unmarshal(value, &got); err != nil {
		return got, permanent(fmt.Errorf("read the receipt of a message: %w", err))
	}
	return got, nil
}

// recall reads what earlier attempts have sent.
func (x *sending) recall(ctx context.Context) error {
	x.receipts = map[string]receipt{}
	run := x.session.Run()
	if run.Attempt == 1 {
		return nil
	}
	entries, err := x.entries(ctx, mailroom.KindRetried, mailroom.KindEffectIntended, mailroom.KindEffectUnknown, mailroom.KindEffectSettled)
	if err != nil {
		return err
	}
	states, err := mailroom.FoldEffects(entries)
	if err != nil {
		return err
	}
	for name, s := range states {
		if s.Last == mailroom.KindEffectSettled && !s.Failed() {
			if x.receipts[name], err = readReceipt(s.Result); err != nil {
				return err
			}
		}
	}
	return nil
}

// entries are those of the delivery's run, of some kinds.
func (x *sending) entries(ctx context.Context, kinds ...string) (found []mailroom.Entry, err error) {
	run := x.session.Run()
	err = x.link.View(ctx, func(r mailroom.Reader) (err error) {
		found, err = r.Entries(mailroom.EntryQuery{Thread: run.Thread, Run: run.ID, After: run.FirstSeq - 1, Kinds: kinds})
		return err
	})
	return found, err
}

// refused reports whether a platform will not edit a message, which another one may
// take the place of.
func refused(err error) bool {
	if err == nil || errors.Is(err, ErrGone) || errors.Is(err, mailroom.ErrUnknown) {
		return false
	}
	return mailroom.AsFailure(err).Class == mailroom.ClassPermanent
}

// sendFailure gives an error of a send the class that it means for the run. One that
// a platform gave none is no reason to give the message up.
func sendFailure(err error) error {
	_, classed := errors.AsType[*mailroom.Failure](err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrGone):
		return permanent(err)
	case classed:
		return err
	case errors.Is(err, mailroom.ErrUnknown):
		return fmt.Errorf("%w: %w", mailroom.ErrUnknown, &mailroom.Failure{Class: mailroom.ClassUnavailable, Err: err})
	}
	return &mailroom.Failure{Class: mailroom.ClassUnavailable, Err: err}
}

// find looks for a message that may have been sent. known says that the platform can
// tell; then it was not sent if there is no id of it.
func (x *sending) find(ctx context.Context, m message, key string) (id string, known bool, err error) {
	id, found, err := x.platform.Find(ctx, x.at, key, m.Message)
	switch {
	case errors.Is(err, ErrNoHistory):
		return "", false, nil
	case err != nil:
		return "", false, sendFailure(err)
	case found:
		return id, true, nil
	}
	return "", true, nil
}

// mayRepeat reports whether the message of an effect, which may have been sent and
// cannot be found, would be there twice if it is sent again.
func (x *sending) mayRepeat(ctx context.Context, effect string) (bool, error) {
	entries, err := x.entries(ctx, mailroom.KindEffectIntended, mailroom.KindEffectSettled, KindRepeated)
	if err != nil {
		return false, err
	}
	first, err := firstDoubt(entries, effect)
	return !first.IsZero() && time.Since(first) >= x.traits.DedupWindow-knownMargin, err
}

// knownMargin is how long before the platform forgets a key it is not relied on.
const knownMargin = 5 * time.Second

// firstDoubt is when an effect was begun first of which nobody knows whether it
// happened; zero if that was told already.
func firstDoubt(entries []mailroom.Entry, name string) (first time.Time, err error) {
	var begun time.Time // the last one; it has not failed yet
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
		var body mailroom.EffectEntry
		if err := e.Decode(&body); err != nil {
			return first, err
		}
		switch {
		case body.Name != name:
		case e.Kind == mailroom.KindEffectSettled: // with an error: it did not happen
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

// repeats tells that a message may be there twice.
func (x *sending) repeats(ctx context.Context, m message) error {
	const why = "an attempt to send it broke off, and nobody knows whether it arrived"
	x.link.Log().Warn("a message is sent again, and may be there twice", "run", x.of.Run.ID, "message", m.n)
	return x.note(ctx, KindRepeated, DeliveryNote{Effect: m.name(), Reason: why})
}
