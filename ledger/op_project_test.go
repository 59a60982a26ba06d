package ledger_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/entry"
	"mailroom/ledger"
	"mailroom/project"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/storetest"
)

func reserve(holder string, names ...string) project.Reserve {
	return project.Reserve{Project: "p", Names: names, Holder: holder, By: ann(), TTL: time.Minute}
}

func TestOneOfManyConcurrentRequestsGetsTheReservation(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	var wg sync.WaitGroup
	won := make(chan project.Reserved, 50)
	for i := range cap(won) {
		wg.Go(func() {
			out, err := d.Projects().Reserve(d.ctx, reserve(fmt.Sprint("agent", i), "src/**"))
			switch mailroom.CodeOf(err) {
			case "":
				won <- out
			case mailroom.CodeConflict:
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	close(won)
	winner, more := <-won, len(won)
	if more > 0 || len(winner.Granted) != 1 {
		t.Fatalf("%d more reservations succeeded; granted %+v", more, winner)
	}
	held, err := d.Projects().Reservations(d.ctx, "p", ann())
	if err != nil || len(held) != 1 || held[0] != winner.Granted[0] {
		t.Errorf("held: %+v, %v, want %+v", held, err, winner.Granted)
	}
	wantEqual(t, "log", d.kinds("project:p"), entry.KindReserved)
}

// A ledger caches the reservations of a project. Writes of another ledger invalidate the cache.
func TestTwoLedgersAgreeOnReservations(t *testing.T) {
	s := memory.New()
	d := open(t, s, ledger.Options{})
	other := open(t, s, ledger.Options{})
	for i := range 20 {
		one, two := d, other
		if i%2 == 1 {
			one, two = other, d
		}
		if _, err := one.Projects().Reserve(one.ctx, reserve("x", "src/**", fmt.Sprint("n", i))); err != nil {
			t.Fatal(err)
		}
		_, err := two.Projects().Reserve(two.ctx, reserve("y", "src/*.go"))
		wantCode(t, err, mailroom.CodeConflict)
		if ended, err := two.Projects().ReleaseNames(two.ctx, "p", "x", []string{"src/**"}, ann()); err != nil ||
			len(ended) != 1 {
			t.Fatalf("round %d: released %+v, %v", i, ended, err)
		}
		if _, err := one.Projects().Reserve(one.ctx, reserve("y", "src/*.go")); err != nil {
			t.Fatal(err)
		}
		if _, err := two.Projects().ReleaseNames(two.ctx, "p", "y", []string{"src/*.go"}, ann()); err != nil {
			t.Fatal(err)
		}
		if i == 10 { // another project gets the same id
			for n := range 11 {
				if _, err := one.Projects().ReleaseNames(one.ctx, "p", "x", []string{fmt.Sprint("n", n)}, ann()); err != nil {
					t.Fatal(err)
				}
			}
			if err := two.DeleteThread(two.ctx, "project:p", ann()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if held, err := d.Projects().Reservations(d.ctx, "p", ann()); err != nil || len(held) != 9 {
		t.Errorf("%d reservations, %v", len(held), err)
	}
}

func TestAReservationIsRenewedAndReleasedByItsID(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	out, err := d.Projects().Reserve(d.ctx, reserve("x", "a", "b"))
	if err != nil {
		t.Fatal(err)
	}
	a, b := out.Granted[0], out.Granted[1]
	renewed, err := d.Projects().RenewReservation(d.ctx, a.ID, ann(), time.Hour)
	if err != nil || !renewed.ExpiresAt.After(a.ExpiresAt) || renewed.Fence != a.Fence {
		t.Errorf("Renew() = %+v, %v", renewed, err)
	}
	if _, err := d.Projects().Release(d.ctx, b.ID, ann(), false); err != nil {
		t.Error(err)
	}
	_, err = d.Projects().Release(d.ctx, b.ID, ann(), false)
	wantCode(t, err, mailroom.CodeNotFound)
	ended, err := d.Projects().ReleaseNames(d.ctx, "p", "x", []string{"a", "b", "c"}, ann())
	if err != nil || len(ended) != 1 || ended[0].ID != a.ID {
		t.Errorf("released %+v, %v", ended, err)
	}
	held, err := d.Projects().Reservations(d.ctx, "", ann())
	if err != nil || len(held) != 0 {
		t.Errorf("reservations %+v, %v", held, err)
	}
	ended, err = d.Projects().ReleaseNames(d.ctx, "none", "x", []string{"a"}, ann())
	if err != nil || len(ended) != 0 || len(d.log("project:none")) != 0 {
		t.Errorf("without a project: %+v, %v", ended, err)
	}
}

func TestOtherTokensSeeNoReservations(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	if _, err := d.Projects().Reserve(d.ctx, reserve("x", "a")); err != nil {
		t.Fatal(err)
	}
	eve := &auth.Token{Name: "eve", Scopes: []auth.Permission{auth.PermissionSubmit, auth.PermissionRead}}
	held, err := d.Projects().Reservations(d.ctx, "", eve)
	if err != nil || len(held) != 0 {
		t.Errorf("reservations that another token sees: %+v, %v; want none", held, err)
	}
	for _, agent := range []string{"x", "new"} { // as of a project that does not exist
		if read, err := d.Projects().Inbox(d.ctx, ledger.InboxQuery{Project: "p", Agent: agent, By: eve,
			Limit: 1}); err != nil || len(read.Found) != 0 {
			t.Errorf("the inbox of %s: %+v, %v", agent, read, err)
		}
	}
	_, err = d.Projects().Inbox(d.ctx, ledger.InboxQuery{Project: "p", Agent: "x", By: eve, Limit: 1, Consume: true})
	wantCode(t, err, mailroom.CodeNotFound)
	_, err = d.Projects().Notify(d.ctx, project.Notify{Project: "p", By: eve,
		Notification: project.Notification{From: "eve", Event: "e"}})
	wantCode(t, err, mailroom.CodeNotFound)
	eve.Namespace = "project:p"
	if held, err := d.Projects().Reservations(d.ctx, "p", eve); err != nil || len(held) != 1 {
		t.Errorf("reservations that a token with the namespace sees: %+v, %v", held, err)
	}
	_, err = d.Projects().Inbox(d.ctx, ledger.InboxQuery{Project: "p", Agent: "x", By: eve, Limit: 1, Consume: true})
	wantCode(t, err, mailroom.CodeForbidden) // another token uses the agent's name
}

// inbox returns an agent's unread notifications as "seq event".
func (d *fixture) inbox(agent string, consume bool, limit int) []string {
	d.t.Helper()
	read, err := d.Projects().Inbox(d.ctx, ledger.InboxQuery{Project: "p", Agent: agent, By: ann(), Limit: limit,
		Consume: consume})
	if err != nil {
		d.t.Fatal(err)
	}
	var events []string
	for _, n := range read.Found {
		events = append(events, fmt.Sprintf("%d %s", n.Seq, n.Event))
	}
	return events
}

func (d *fixture) notify(from, event, key string, to ...string) ledger.Notified {
	d.t.Helper()
	out, err := d.Projects().Notify(d.ctx, project.Notify{
		Project: "p", By: ann(), Key: key, Notification: project.Notification{From: from, To: to, Event: event,
			Data: json.RawMessage(`{}`)},
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return out
}

func TestNotificationsReachEachInboxOnce(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	wantEqual(t, "inbox before anything", d.inbox("x", true, 9), nil)
	d.notify("y", "one", "k")
	out := d.notify("y", "one", "k") // a repeat
	wantEqual(t, "told", out, ledger.Notified{Seq: 1, To: []string{"x"}})
	wantEqual(t, "told", d.notify("x", "two", ""), ledger.Notified{Seq: 2, To: []string{"y"}})
	wantEqual(t, "told", d.notify("x", "for z", "", "z"), ledger.Notified{Seq: 3, To: []string{"z"}})
	if _, err := d.Projects().Reserve(d.ctx, reserve("w", "n")); err != nil { // creates an inbox
		t.Fatal(err)
	}
	wantEqual(t, "told", d.notify("y", "all", "").To, []string{"w", "x", "z"})

	for range 2 { // without Consume, nothing changes
		wantEqual(t, "inbox of x", d.inbox("x", false, 9), []string{"1 one", "5 all"})
	}
	wantEqual(t, "inbox of x", d.inbox("x", true, 1), []string{"1 one"})
	wantEqual(t, "inbox of x", d.inbox("x", true, 9), []string{"5 all"})
	wantEqual(t, "inbox of x", d.inbox("x", true, 9), nil)
	wantEqual(t, "inbox of y", d.inbox("y", true, 9), []string{"2 two"})
	wantEqual(t, "inbox of z", d.inbox("z", false, 9), []string{"3 for z", "5 all"})
	wantEqual(t, "inbox of w", d.inbox("w", false, 9), []string{"5 all"})

	acknowledge := func(seqs ...int64) error { return d.Projects().Acknowledge(d.ctx, "p", "z", ann(), seqs) }
	if err := acknowledge(5); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "inbox of z", d.inbox("z", false, 9), []string{"3 for z"})
	if err := acknowledge(3, 5); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "inbox of z", d.inbox("z", false, 9), nil)
	wantCode(t, acknowledge(6), mailroom.CodeInvalid)
	wantEqual(t, "inboxes", len(d.cursors()), 4)
}

func TestAnInboxIsReadToItsEnd(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.inbox("x", true, 1)
	var want []string
	for i := range 450 { // several pages
		d.notify(fmt.Sprint("y", i%2), fmt.Sprint("e", i), "")
		want = append(want, fmt.Sprintf("%d e%d", i+1, i))
	}
	wantEqual(t, "first", d.inbox("x", true, 300), want[:300])
	wantEqual(t, "rest", d.inbox("x", false, 300), want[300:])
	wantEqual(t, "rest", d.inbox("x", true, 300), want[300:])
}

func TestADeletedProjectLeavesNoRows(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	out, err := d.Projects().Reserve(d.ctx, reserve("x", "a"))
	if err != nil {
		t.Fatal(err)
	}
	d.notify("y", "one", "k")
	wantCode(t, d.DeleteThread(d.ctx, "project:p", ann()), mailroom.CodeConflict)
	if _, err := d.Projects().Release(d.ctx, out.Granted[0].ID, ann(), false); err != nil {
		t.Fatal(err)
	}
	if err := d.DeleteThread(d.ctx, "project:p", ann()); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "inboxes", len(d.cursors()), 0)
	wantEqual(t, "seq in the next one of the name", d.notify("y", "two", "k").Seq, 1)
}

func TestAPurgeKeepsYoungEntriesOfNoRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{})
		d.inbox("x", true, 1)
		for i := range 10 {
			d.notify("y", fmt.Sprint("e", i), "")
			<-time.After(time.Hour)
		}
		if err := d.Purge(d.ctx, "project:p", 3*time.Hour+time.Minute); err != nil {
			t.Fatal(err)
		}
		wantEqual(t, "inbox", d.inbox("x", true, 9), []string{"8 e7", "9 e8", "10 e9"})
		<-time.After(24 * time.Hour)
		if err := d.Purge(d.ctx, "project:p", time.Hour); err != nil {
			t.Fatal(err)
		}
		wantEqual(t, "entries", len(d.log("project:p")), 0)
		wantEqual(t, "seq", d.notify("y", "next", "").Seq, 11)
		wantEqual(t, "inbox", d.inbox("x", true, 9), []string{"11 next"})
	})
}

func TestAnAppendedEntryBelongsToNoRun(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	for i := range 2 {
		seq, err := d.AppendEntry(d.ctx, "channel:c", entry.KindChannel, json.RawMessage(`{"state":"connected"}`))
		if err != nil || seq != int64(i+1) {
			t.Errorf("got %d, %v", seq, err)
		}
	}
	log := d.log("channel:c")
	if len(log) != 2 || log[1].Kind != entry.KindChannel || log[1].Run != "" ||
		string(log[1].Body) != `{"state":"connected"}` {
		t.Errorf("log: %+v", log)
	}
	_, err := d.AppendEntry(d.ctx, "a/b", entry.KindChannel, nil)
	wantCode(t, err, mailroom.CodeInvalid)
	d.submit(text("channel:c", "and it is a thread like any other"))
	if kinds := d.log("channel:c"); !slices.ContainsFunc(kinds, func(e mailroom.Entry) bool {
		return e.Kind == entry.KindQueued
	}) {
		t.Error("a project's thread accepts messages")
	}
}

func TestAProjectWithManyAgentsCostsNoMore(t *testing.T) {
	s := &counting{Store: memory.New()}
	d := open(t, s, ledger.Options{})
	d.notify("a", "e", "", "b")
	thread, err := project.ThreadID("p")
	if err != nil {
		t.Fatal(err)
	}
	var many store.Changes
	for i := range 1500 {
		many.Cursors = append(many.Cursors, store.Cursor{Channel: thread, Identity: fmt.Sprintf("z%04d", i),
			Position: json.RawMessage(`{"owner":"ann","read":1}`)})
	}
	err = s.Update(d.ctx, func(tx store.Tx) error {
		_, rows, err := storetest.Lock(tx, nil, []string{thread})
		if err != nil {
			return err
		}
		rows[0].Inboxes += 1500
		many.Threads = rows
		return tx.Write(&many)
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]func() error{
		"reserve":     func() error { _, err := d.Projects().Reserve(d.ctx, reserve("a", "src/**")); return err },
		"notify some": func() error { d.notify("a", "e", "", "b", "z0007"); return nil },
		"look": func() error {
			_, err := d.Projects().Inbox(d.ctx, ledger.InboxQuery{Project: "p", Agent: "b", By: ann(), Limit: 9})
			return err
		},
		"take": func() error {
			_, err := d.Projects().Inbox(d.ctx, ledger.InboxQuery{Project: "p", Agent: "b", By: ann(), Limit: 9, Consume: true})
			return err
		},
		"acknowledge": func() error { return d.Projects().Acknowledge(d.ctx, "p", "b", ann(), []int64{1}) },
	} {
		s.reset()
		if err := f(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if rows := s.reset().Rows; rows > 20 {
			t.Errorf("%s reads %d rows of threads, runs and cursors", name, rows)
		}
	}
	if got := len(d.notify("a", "e", "").To); got != 1000 {
		t.Errorf("a notification to all returned %d names, want the first 1000", got)
	}
	got := must(d.Projects().Inbox(d.ctx, ledger.InboxQuery{Project: "p", Agent: "z1499", By: ann(), Limit: 9}))(t).Found
	if len(got) != 1 { // the others were to b and z0007
		t.Errorf("an agent beyond the first 1000 has %d notifications, want 1", len(got))
	}
}
