package thread_test

import (
	"encoding/json"
	"testing"
	"time"

	"mailroom"
	"mailroom/thread"
)

// The operations of tickets over a fixture, with what tests do not care about.

func ask(name string, kind mailroom.TicketKind) mailroom.Ask {
	a := mailroom.Ask{Name: name, Kind: kind, Prompt: "what about " + name + "?"}
	if kind == mailroom.TicketTimer {
		a.After = time.Hour
	}
	return a
}

func parked(any bool, asks ...mailroom.Ask) thread.Settle {
	s := thread.Settle{Outcome: thread.OutcomePark, Wait: &mailroom.Wait{Any: any}, Asks: asks}
	for _, a := range asks {
		s.Wait.Names = append(s.Wait.Names, a.Name)
	}
	return s
}

// park has run "x" started and parked on what it asks.
func (w *fixture) park(any bool, asks ...mailroom.Ask) {
	w.t.Helper()
	w.must(in("", "x"))
	w.mustStart("x")
	w.end(parked(any, asks...))
}

// ticket is run x's of that name.
func (w *fixture) ticket(name string) *mailroom.Ticket {
	w.t.Helper()
	k := w.asks[thread.TicketID("x", name)]
	if k == nil {
		w.t.Fatalf("run x has no ticket %q", name)
	}
	return k
}

func (w *fixture) decision(name string, v mailroom.Verdict) thread.Decision {
	w.t.Helper()
	k := w.ticket(name)
	d := thread.Decision{Ticket: k.ID, Verdict: v, Digest: k.Digest, By: "ann"}
	if v == mailroom.VerdictAnswer {
		d.Answer = json.RawMessage(`"yes"`)
	}
	return d
}

func (w *fixture) decide(d thread.Decision) (k *mailroom.Ticket, err error) {
	w.t.Helper()
	var runs []string
	if asked := w.asks[d.Ticket]; asked != nil {
		runs = append(runs, asked.Run)
	}
	err = w.do(thread.ScopeHead, runs, func(l *thread.State) error {
		k, err = l.Decide(d, w.now)
		return err
	})
	return k, err
}

func (w *fixture) mustDecide(name string, v mailroom.Verdict) {
	w.t.Helper()
	if _, err := w.decide(w.decision(name, v)); err != nil {
		w.t.Fatalf("decide: %v", err)
	}
}

func wantTicket(t *testing.T, k *mailroom.Ticket, want mailroom.TicketState) {
	t.Helper()
	if k.State != want {
		t.Errorf("ticket %q: got %s, want %s", k.Name, k.State, want)
	}
}
