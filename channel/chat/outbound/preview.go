package outbound

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"mailroom"
	"mailroom/channel/chat"
	"mailroom/channel/chat/room"
	"mailroom/internal/reserved"
	"mailroom/store"
)

// maxPreviewTries bounds the attempts to learn the outcome of a preview, because the reply waits
// behind it.
const maxPreviewTries = 3

// sendPreview sends the message that shows an unfinished reply. It keeps the order of the room's
// deliveries. It does not fail the delivery: without a preview, the reply arrives when it is
// finished.
func (x *attempt) sendPreview(ctx context.Context, run string) error {
	if x.saved.Gone != nil || !x.conn.caps.Edits {
		return nil
	}
	if id := x.saved.PreviewMessage(run); id != "" { // the preview of an earlier attempt
		x.view(func(v *room.State) { v.PreviewSent(run, id, "") })
		return nil
	}
	m, doubt := outgoing{priority: chat.PriorityEdit}, false
	tries := x.session.Run().Attempt
	if tries > 1 { // an earlier attempt may have sent the preview
		m.priority = chat.PriorityMessage
	}
	effect := mailroom.Effect{Name: "preview", Reconcile: func(ctx context.Context, key string) (json.RawMessage,
		bool, error) {
		id, known, err := x.findSent(ctx, m, key)
		if err != nil || known {
			return x.receipt(id, m), known, err
		}
		doubt = true
		lost, err := x.mayRepeat(ctx, "preview")
		return x.receipt("", m), lost, err
	}}
	var value json.RawMessage
	err := x.conn.do(ctx, x.room, m.priority, func(ctx context.Context) (err error) {
		value, err = x.session.Do(ctx, effect, func(ctx context.Context, key string) (json.RawMessage, error) {
			if m.Text = x.previewText(ctx, run, doubt); m.Text == "" {
				return x.receipt("", m), nil
			}
			id, err := x.conn.platform.Send(ctx, x.room, m.Message, key)
			return x.receipt(id, m), sendFailure(err)
		})
		return err
	})
	const lost = "a preview was sent with unknown outcome"
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return err
	case tries == 1 && !errors.Is(err, mailroom.ErrUnknown):
		x.conn.host.Log().Debug("could not send preview", "run", run, "error", err)
		return nil
	case tries >= maxPreviewTries:
		return x.appendNote(ctx, KindUnsent, DeliveryNote{Effect: effect.Name, Reason: lost})
	default:
		return sendFailure(err)
	}
	got, err := readReceipt(value)
	switch {
	case err != nil:
		return err
	case got.ID == "" && doubt:
		return x.appendNote(ctx, KindUnsent, DeliveryNote{Effect: effect.Name, Reason: lost})
	case got.ID == "":
		return nil
	}
	x.saved.AddPreview(room.Preview{Run: run, ID: got.ID})
	if err := x.saveState(ctx); err != nil {
		return err
	}
	x.view(func(v *room.State) { v.PreviewSent(run, got.ID, m.Text) })
	return nil
}

// previewText returns the first text of a preview, "" if the message needs none any more. If a
// preview may have been sent, it is sent again, with any text, to learn its id.
func (x *attempt) previewText(ctx context.Context, run string, doubt bool) (text string) {
	if doubt {
		return strings.TrimSpace(room.UnfinishedMark)
	}
	writing, over := x.delivery.Run.Metadata[labelPreviewMessage], false
	err := x.conn.host.View(ctx, func(r store.Reader) error {
		rows, err := r.Runs(store.RunQuery{IDs: []string{run}})
		if err != nil || len(rows) == 0 || rows[0].Status != mailroom.StatusRunning ||
			rows[0].Metadata[reserved.SilentWord] != "" { // its text may become the word that no chat gets
			over = true
			return err
		}
		return findMessage(r, rows[0], func(m *mailroom.Message, _ int) bool {
			over = over || m.ID == writing
			return over
		})
	})
	if err != nil || over {
		x.view(func(v *room.State) { v.DropPreview(run) })
		return ""
	}
	x.view(func(v *room.State) { text = v.PreviewText(run, &x.conn.caps) })
	return text
}
