package chat

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"mailroom"
	"mailroom/internal/display"
)

// mostTries bounds the attempts to learn what became of a preview. The text that
// waits behind it is worth more.
const mostTries = 3

// preview sends the message that shows what a run is writing. It goes out in the
// order of the room's deliveries, and is never what fails: a text that cannot be
// shown while it is written comes when it is finished.
func (x *sending) preview(ctx context.Context, run string) error {
	if x.kept.Gone != nil || !x.traits.Edits {
		return nil
	}
	if id := x.kept.preview(run); id != "" { // it shows an earlier attempt
		x.change(run, func(l *live) { l.preview = id })
		return nil
	}
	m, doubt := message{rank: editing}, false
	tries := x.session.Run().Attempt
	if tries > 1 { // it may be there, and is to be found
		m.rank = saying
	}
	effect := mailroom.Effect{Name: "preview", Reconcile: func(ctx context.Context, key string) (json.RawMessage, bool, error) {
		id, known, err := x.find(ctx, m, key)
		if err != nil || known {
			return x.receipt(id, m), known, err
		}
		doubt = true
		lost, err := x.mayRepeat(ctx, "preview")
		return x.receipt("", m), lost, err
	}}
	var value json.RawMessage
	err := x.gates.pass(ctx, x.at, x.traits, m.rank, func(ctx context.Context) (err error) {
		value, err = x.session.Do(ctx, effect, func(ctx context.Context, key string) (json.RawMessage, error) {
			if m.Text = x.previewText(ctx, run, doubt); m.Text == "" {
				return x.receipt("", m), nil
			}
			id, err := x.platform.Send(ctx, x.at, m.Message, key)
			return x.receipt(id, m), sendFailure(err)
		})
		return err
	})
	const lost = "nobody knows whether a preview of the text is there"
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return err
	case tries == 1 && !errors.Is(err, mailroom.ErrUnknown):
		x.link.Log().Debug("what is written is not shown", "run", run, "error", err)
		return nil
	case tries >= mostTries:
		return x.note(ctx, KindUnsent, DeliveryNote{Effect: effect.Name, Reason: lost})
	default:
		return sendFailure(err)
	}
	got, err := readReceipt(value)
	switch {
	case err != nil:
		return err
	case got.ID == "" && doubt:
		return x.note(ctx, KindUnsent, DeliveryNote{Effect: effect.Name, Reason: lost})
	case got.ID == "":
		return nil
	}
	x.kept.show(preview{Run: run, ID: got.ID})
	if err := x.save(ctx); err != nil {
		return err
	}
	x.change(run, func(l *live) { l.preview, l.shown = got.ID, m.Text })
	return nil
}

// previewText is what a preview begins with, "" if there is to be none any more. One
// that may be there already is sent again, whatever it says, to learn its id.
func (x *sending) previewText(ctx context.Context, run string, doubt bool) string {
	if doubt {
		return strings.TrimSpace(unfinished)
	}
	writing, over := x.of.Run.Metadata[labelWrites], false
	err := x.link.View(ctx, func(r mailroom.Reader) error {
		rows, err := r.Runs(mailroom.RunQuery{IDs: []string{run}})
		if err != nil || len(rows) == 0 || rows[0].Status != mailroom.StatusRunning {
			over = true
			return err
		}
		said, err := r.Entries(mailroom.EntryQuery{
			Thread: rows[0].Thread, Run: run, After: rows[0].FirstSeq - 1, Kinds: []string{mailroom.KindMessage}, Backward: true, Limit: 20,
		})
		for _, e := range said {
			var m mailroom.Message
			if err := e.Decode(&m); err != nil {
				return err
			}
			over = over || m.ID == writing
		}
		return err
	})
	if err != nil || over {
		return ""
	}
	return head(display.Text(x.showing(run).text), x.traits, unfinished)
}
