package ledger_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/auth"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/thread"
)

// cursors returns the stored positions, by channel and identity.
func (d *fixture) cursors() map[string]string {
	d.t.Helper()
	at := map[string]string{}
	var rows []store.Cursor
	d.view(func(r store.Reader) (err error) {
		rows, err = r.Cursors(store.CursorQuery{})
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

// received returns a submit of a platform's message, with the cursor behind it.
func received(thread, key, position string) thread.Submit {
	in := text(thread, "row "+key)
	in.Key, in.DeliverTo, in.DeliverAgent = key, "room:"+thread, "chat"
	in.Cursor = &store.Cursor{Channel: "chat", Identity: "bot", Position: json.RawMessage(position)}
	return in
}

func wantCursors(d *fixture, want map[string]string) {
	d.t.Helper()
	if diff := cmp.Diff(want, d.cursors()); diff != "" {
		d.t.Errorf("cursors (-want +got):\n%s", diff)
	}
}

func TestACursorMovesWithItsSubmit(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.submit(received("t", "a", "1"))
	wantCursors(d, map[string]string{"chat/bot": "1"})

	// A message before the cursor is not submitted again.
	out := d.submit(received("t", "a", "2"))
	wantEqual(t, "disposition", out.Disposition, store.DispositionDuplicate)
	wantCursors(d, map[string]string{"chat/bot": "2"})

	// A refused submit does not advance the cursor.
	other := received("t", "a", "3")
	other.Messages[0].Parts = mailroom.Text("something else")
	_, err := d.Submit(d.ctx, other)
	wantCode(t, err, mailroom.CodeConflict)
	wantCursors(d, map[string]string{"chat/bot": "2"})

	must(struct{}{}, d.MoveCursor(d.ctx, store.Cursor{Channel: "chat", Identity: "bot",
		Position: json.RawMessage(`4`)}))(t)
	must(struct{}{}, d.MoveCursor(d.ctx, store.Cursor{Channel: "chat", Identity: "other",
		Position: json.RawMessage(`1`)}))(t)
	wantCursors(d, map[string]string{"chat/bot": "4", "chat/other": "1"})
	wantCode(t, d.MoveCursor(d.ctx, store.Cursor{Channel: "chat"}), mailroom.CodeInvalid)
}

func TestASubmitCreatesItsDeliveryThread(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w", "chat")
	d.submit(received("t", "a", "1"))
	conversation, delivery := d.thread("t"), d.thread("room:t")
	if delivery == nil {
		t.Fatal("no delivery thread")
	}
	wantEqual(t, "delivers to", conversation.DeliverTo, "room:t")
	wantEqual(t, "agent of the delivery thread", delivery.Agent, "chat")
	wantEqual(t, "its owner", delivery.Owner, conversation.Owner)
	wantEqual(t, "its entries", delivery.LastSeq, int64(0))

	stranger := received("u", "a", "2")
	stranger.DeliverTo, stranger.By = "room:t", &auth.Token{Name: "bob", Scopes: []auth.Permission{auth.PermissionSubmit}}
	_, err := d.Submit(d.ctx, stranger)
	wantCode(t, err, mailroom.CodeNotFound)
	wantEqual(t, "a thread that delivers to a stranger's", d.thread("u") == nil, true)
}

func TestConcurrentChangesOfACursorAreAllApplied(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	count := func(at json.RawMessage, now time.Time) (json.RawMessage, error) {
		if now.IsZero() {
			t.Error("the callback got no time")
		}
		return json.RawMessage("1" + string(at)), nil
	}
	const many = 20
	answers := make(chan error)
	for range many {
		go func() { answers <- d.ChangeCursor(d.ctx, "kept", "", count) }()
	}
	for range many {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	want := map[string]string{"kept/": strings.Repeat("1", many)}
	wantCursors(d, want)

	refusal := mailroom.Errorf(mailroom.CodeConflict, "no")
	for _, f := range []func(json.RawMessage, time.Time) (json.RawMessage, error){
		func(json.RawMessage, time.Time) (json.RawMessage, error) { return nil, nil },
		func(json.RawMessage, time.Time) (json.RawMessage, error) { return json.RawMessage("2"), refusal },
		func(json.RawMessage, time.Time) (json.RawMessage, error) { return json.RawMessage("{"), nil },
	} {
		_ = d.ChangeCursor(d.ctx, "kept", "", f) // the next lines check the result
		wantCursors(d, want)
	}
	if err := d.ChangeCursor(d.ctx, "kept", "", func(json.RawMessage, time.Time) (json.RawMessage, error) {
		return nil, refusal
	}); err != refusal {
		t.Errorf("refused with %v, want %v", err, refusal)
	}
	d.view(func(r store.Reader) error {
		rows, err := r.Threads(store.ThreadQuery{})
		wantEqual(t, "threads that were made", len(rows), 0)
		return err
	})
}

func TestARepeatedInterruptStopsNoLaterRun(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	first := d.submit(text("t", "one"))
	work := d.claimIn("t")
	second := d.submit(text("t", "two"))
	before := d.thread("t").NextPlace
	third := d.submit(text("t", "three"))
	who := &auth.Token{Name: auth.Operator, Scopes: []auth.Permission{auth.PermissionAdmin}}
	for range 2 {
		if _, err := d.InterruptBefore(d.ctx, "t", before, who); err != nil {
			t.Fatal(err)
		}
	}
	wantEqual(t, "the current run's stop", d.run(first.Run).Stop, mailroom.ReasonInterrupted)
	wantEqual(t, "what waited", d.run(second.Run).Status, mailroom.StatusCancelled)
	wantEqual(t, "what came later", d.run(third.Run).Status, mailroom.StatusQueued)
	d.settle(thread.Settle{Claim: work.Claim, Number: 1, Outcome: thread.OutcomeComplete})
	work = d.claimIn("t")
	wantEqual(t, "what runs then", work.Run.ID, third.Run)
	if _, err := d.InterruptBefore(d.ctx, "t", before, who); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "its stop", d.run(third.Run).Stop, mailroom.Reason(""))
}
