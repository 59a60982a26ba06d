package ledger_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/thread"
)

// TestADutyHasOneHolder lets workers of two servers race for duties on every store.
func TestADutyHasOneHolder(t *testing.T) {
	for _, kind := range []*side{onMemory(), onFile(t.TempDir()), onPostgres(t)} {
		t.Run(kind.name, func(t *testing.T) {
			var both [2]*fixture
			for i := range both {
				s, err := kind.open()
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				})
				both[i] = open(t, s, ledger.Options{})
				both[i].register(fmt.Sprint("w", i))
			}
			const duties, each = 8, 4
			holders := make([]string, duties*len(both)*each)
			concurrently(len(holders), func(i int) {
				holders[i] = retryBusy(t, func() (string, error) {
					w, err := both[i%2].Duties().Take(t.Context(), fmt.Sprint("w", i%2), fmt.Sprint("d", i%duties/2))
					if err != nil {
						return "", err
					}
					return w.ID, nil
				})
			})
			for i, h := range holders {
				wantEqual(t, fmt.Sprint("holder of ", i), h, holders[i%duties/2*2])
			}
			wantEqual(t, "duties of both", len(both[0].worker("w0").Duties)+len(both[1].worker("w1").Duties), duties/2)
		})
	}
}

// A follower that goes on after a crash tells the same event with other words, such as a count.
func TestASubmitWithAKnownKeyIsLeftOut(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	send := func(words, position string) {
		t.Helper()
		one := text("t", words)
		one.Key, one.Run = "event 1", "run of the event"
		must(0, d.Duties().SubmitAll(d.ctx, []thread.Submit{one},
			store.Cursor{Channel: "c", Identity: "bot", Position: json.RawMessage(position)}))(t)
	}
	send("1 failure", "1")
	send("2 failures", "2")
	wantEqual(t, "position", d.position("c"), "2")
	wantEqual(t, "log", d.kinds("t"), "message, run.queued")
}

// TestADutyEndsWithTheLease has a paused server find that another one took its duty.
func TestADutyEndsWithTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, memory.New(), ledger.Options{})
		d.register("w", "other")
		d.take("w", "channel:c", "w")
		d.take("w", "channel:c", "w") // again, as after an unknown outcome
		d.take("other", "channel:c", "w")
		d.take("other", "channel:e", "other")
		mine := d.OnDuty("channel:c", func() string { return "w" })
		move := func(n int) error {
			return mine.MoveCursor(d.ctx, store.Cursor{Channel: "c", Identity: "bot", Position: json.RawMessage(fmt.Sprint(n))})
		}
		send := text("t", "hello")
		send.Key, send.Cursor = "1", &store.Cursor{Channel: "c", Identity: "bot", Position: json.RawMessage("2")}
		must(0, move(1))(t)
		must(mine.Submit(d.ctx, send))(t)

		<-time.After(d.LeaseTime() + time.Second)
		must(d.Register(d.ctx, store.Worker{ID: "next"}))(t)
		d.take("next", "channel:c", "w") // its lease has ended, but no sweep has noticed
		must(0, move(3))(t)
		must(0, d.Sweep(d.ctx, ""))(t)
		d.take("next", "channel:c", "next")

		send.Key, send.Cursor.Position = "2", json.RawMessage("4")
		_, err := mine.Submit(d.ctx, send)
		wantEqual(t, "code of a submit", mailroom.CodeOf(err), mailroom.CodeLeaseLost)
		wantEqual(t, "code of a cursor", mailroom.CodeOf(move(5)), mailroom.CodeLeaseLost)
		wantEqual(t, "position", d.position("c"), "3")
		wantEqual(t, "log", d.kinds("t"), "message, run.queued")
		_, err = d.Duties().Take(d.ctx, "w", "channel:c")
		wantEqual(t, "code of a dead worker", mailroom.CodeOf(err), mailroom.CodeLeaseLost)

		theirs := d.OnDuty("channel:c", func() string { return "next" })
		at := store.Cursor{Channel: "c", Identity: "bot", Position: json.RawMessage("6")}
		must(0, theirs.MoveCursor(d.ctx, at))(t)
		must(0, d.Duties().Release(d.ctx, "next", "channel:c"))(t)
		wantEqual(t, "code of a worker that gave it up", mailroom.CodeOf(theirs.MoveCursor(d.ctx, at)),
			mailroom.CodeLeaseLost)
		must(0, d.Duties().Release(d.ctx, "next", "channel:c"))(t)
		must(0, d.Duties().Release(d.ctx, "unknown", "channel:c"))(t)
		must(d.Register(d.ctx, store.Worker{ID: "last"}))(t)
		d.take("last", "channel:c", "last")
		off := d.OnDuty("channel:c", func() string { return "" })
		_, err = off.Submit(d.ctx, send)
		wantEqual(t, "code without a worker", mailroom.CodeOf(err), mailroom.CodeLeaseLost)
	})
}

// take takes a duty and checks who holds it then.
func (d *fixture) take(worker, duty, holder string) {
	d.t.Helper()
	w := must(d.Duties().Take(d.ctx, worker, duty))(d.t)
	wantEqual(d.t, "holder of "+duty, w.ID, holder)
}

func (d *fixture) worker(id string) *store.Worker {
	d.t.Helper()
	var found *store.Worker
	d.view(func(r store.Reader) error {
		all, err := r.Workers()
		for _, w := range all {
			if w.ID == id {
				found = w
			}
		}
		return err
	})
	if found == nil {
		d.t.Fatalf("no worker %s", id)
	}
	return found
}

func (d *fixture) position(channel string) string {
	d.t.Helper()
	var rows []store.Cursor
	d.view(func(r store.Reader) (err error) {
		rows, err = r.Cursors(store.CursorQuery{Channel: channel})
		return err
	})
	if len(rows) != 1 {
		d.t.Fatalf("%d cursors of %s, want 1", len(rows), channel)
	}
	return string(rows[0].Position)
}
