package ledger_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/ledger"
)

// cursors are the positions that are kept, by channel and identity.
func (d *desk) cursors() map[string]string {
	d.t.Helper()
	at := map[string]string{}
	var rows []mailroom.Cursor
	d.view(func(r mailroom.Reader) (err error) {
		rows, err = r.Cursors()
		return err
	})
	for _, c := range rows {
		at[c.Channel+"/"+c.Identity] = string(c.Position)
		if c.MovedAt.IsZero() {
			d.t.Errorf("cursor %s has no time", c.Channel)
		}
	}
	return at
}

// received is a row of a platform: a submit with the cursor behind it.
func received(thread, key, position string) mailroom.Submit {
	in := text(thread, "row "+key)
	in.Key, in.DeliverTo, in.DeliverAgent = key, "out:"+thread, "chat"
	in.Cursor = &mailroom.Cursor{Channel: "chat", Identity: "bot", Position: json.RawMessage(position)}
	return in
}

func wantCursors(d *desk, want map[string]string) {
	d.t.Helper()
	if diff := cmp.Diff(want, d.cursors()); diff != "" {
		d.t.Errorf("cursors (-want +got):\n%s", diff)
	}
}

func TestACursorMovesWithItsSubmit(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.submit(received("t", "a", "1"))
	wantCursors(d, map[string]string{"chat/bot": "1"})

	// What was seen before is not submitted again, and is behind the cursor.
	out := d.submit(received("t", "a", "2"))
	wantEqual(t, "disposition", out.Disposition, mailroom.WasDuplicate)
	wantCursors(d, map[string]string{"chat/bot": "2"})

	// What is refused is not behind it.
	other := received("t", "a", "3")
	other.Messages[0].Parts = mailroom.Text("something else")
	_, err := d.Submit(d.ctx, other)
	wantCode(t, err, mailroom.Conflict)
	wantCursors(d, map[string]string{"chat/bot": "2"})

	must(struct{}{}, d.MoveCursor(d.ctx, mailroom.Cursor{Channel: "chat", Identity: "bot", Position: json.RawMessage(`4`)}))(t)
	must(struct{}{}, d.MoveCursor(d.ctx, mailroom.Cursor{Channel: "chat", Identity: "other", Position: json.RawMessage(`1`)}))(t)
	wantCursors(d, map[string]string{"chat/bot": "4", "chat/other": "1"})
	wantCode(t, d.MoveCursor(d.ctx, mailroom.Cursor{Channel: "chat"}), mailroom.Invalid)
}

func TestASubmitMakesTheThreadItDeliversTo(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w", "chat")
	d.submit(received("t", "a", "1"))
	conversation, delivery := d.thread("t"), d.thread("out:t")
	if delivery == nil {
		t.Fatal("there is no delivery thread")
	}
	wantEqual(t, "delivers to", conversation.DeliverTo, "out:t")
	wantEqual(t, "agent of the delivery thread", delivery.Agent, "chat")
	wantEqual(t, "its owner", delivery.Owner, conversation.Owner)
	wantEqual(t, "its entries", delivery.LastSeq, int64(0))

	stranger := received("u", "a", "2")
	stranger.DeliverTo, stranger.By = "out:t", &mailroom.Token{Name: "bob", Scopes: []mailroom.Permission{mailroom.MaySubmit}}
	_, err := d.Submit(d.ctx, stranger)
	wantCode(t, err, mailroom.NotFound)
	wantEqual(t, "a thread that delivers to a stranger's", d.thread("u") == nil, true)
}
