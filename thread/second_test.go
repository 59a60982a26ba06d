package thread_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/thread"
)

func TestADecisionIsKeptWhileItsRunWaitsForOthers(t *testing.T) {
	w := newFixture(t)
	first, second := ask("first", mailroom.TicketApproval), ask("second", mailroom.TicketApproval)
	first.After, second.After = time.Hour, 2*time.Hour
	w.park(false, first, second)
	w.mustDecide("first", mailroom.VerdictApprove)
	w.wait(2 * time.Hour) // its time, too, is over
	w.mustStart("x")
	wantTicket(t, w.ticket("first"), mailroom.TicketDecided)
	wantTicket(t, w.ticket("second"), mailroom.TicketExpired)
	w.end(completed("done"))
	wantTicket(t, w.ticket("first"), mailroom.TicketDecided)
	wantTicket(t, w.ticket("second"), mailroom.TicketExpired)
}

func TestARunThatWasAskedToStopDoesNotWait(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "x"))
	w.mustStart("x")
	if _, err := w.cancel("x"); err != nil {
		t.Fatal(err)
	}
	w.end(parked(false, ask("ok", mailroom.TicketApproval)))
	wantEqual(t, "state", w.state("x"), "cancelled/cancelled")
	wantEqual(t, "tickets", len(w.asks), 0)
}

// Nothing can decide the tickets that a fresh retry forgot.
func TestARunDoesNotWaitForAVoidTicket(t *testing.T) {
	w := newFixture(t)
	w.park(false, ask("ok", mailroom.TicketApproval))
	if _, err := w.cancel("x"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.retry(thread.Retry{Run: "x", Fresh: true}); err != nil {
		t.Fatal(err)
	}
	w.mustStart("x")
	_, err := w.settle(thread.Settle{Outcome: thread.OutcomePark, Wait: &mailroom.Wait{Names: []string{"ok"}}})
	wantCode(t, err, mailroom.CodeInvalid)
	w.end(parked(false, ask("ok", mailroom.TicketApproval))) // asked again, it is open again
	wantTicket(t, w.ticket("ok"), mailroom.TicketOpen)
}

func TestTheEndOfAChildDecidesNoVoidTicket(t *testing.T) {
	w := newFixture(t)
	w.park(false, ask("child", mailroom.TicketEvent))
	if _, err := w.cancel("x"); err != nil {
		t.Fatal(err)
	}
	seq := w.row.LastSeq
	if err := w.do(thread.ScopeHead, []string{"x"}, func(l *thread.State) error {
		l.OnChildEnd(thread.ChildEnd{Thread: "t", Run: "x", Name: "child", Child: "c", Answer: json.RawMessage(`{}`)}, w.now)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	wantTicket(t, w.ticket("child"), mailroom.TicketVoid)
	wantEqual(t, "entries", w.row.LastSeq-seq, 0)
}

// The threads of others do not exist for the caller, also as the ends of a delivery.
func TestADeliveryNamesNoThreadOfOthers(t *testing.T) {
	ann := &auth.Token{Name: "ann", Scopes: []auth.Permission{auth.PermissionSubmit}}
	others := mailroom.Thread{ID: "hidden", Owner: "bob", CreatedAt: time.Unix(1, 0), DeliverTo: "deeper"}
	for name, tc := range map[string]struct {
		to     string
		patch  thread.Patch
		code   mailroom.Code
		secret string
	}{
		"to it":   {"hidden", thread.Patch{Target: &others}, mailroom.CodeNotFound, "deeper"},
		"from it": {"new", thread.Patch{Source: &others}, mailroom.CodeConflict, "hidden"},
	} {
		w := newFixture(t)
		hers := text("a", "hello")
		hers.Owner = "ann"
		w.must(hers)
		p := tc.patch
		p.By, p.DeliverTo = ann, &tc.to
		err := w.do(thread.ScopeRow, nil, func(l *thread.State) error { return l.Patch(p, w.now) })
		wantCode(t, err, tc.code)
		if err != nil && strings.Contains(err.Error(), tc.secret) {
			t.Errorf("%s: %v names what ann does not see", name, err)
		}
	}
}
