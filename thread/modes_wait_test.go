package thread_test

import (
	"testing"
	"time"

	"mailroom"
	"mailroom/store"
)

// The columns of the table of modes in api.md where the current run "x" is
// parked; "a" and "b" are queued behind it.
func waitStates() map[string][]mailroom.Ask {
	return map[string][]mailroom.Ask{
		"input":    {ask("q", mailroom.TicketInput), ask("later", mailroom.TicketTimer)},
		"approval": {ask("ok", mailroom.TicketApproval), ask("later", mailroom.TicketTimer)},
		"event":    {ask("hook", mailroom.TicketEvent), ask("later", mailroom.TicketTimer)},
	}
}

func waitCells() []cell {
	const (
		queued, resumed, steered = store.DispositionQueued, store.DispositionResumed, store.DispositionSteered
		behind                   = "message n, run.queued n"
		answered                 = "message x, ticket.decided x"
		superseded               = ", run.cancelled a, run.cancelled b"
		first                    = "run.cancelled a, run.cancelled b, "
		unasked                  = "message x"
		ends                     = behind + superseded + ", run.cancelled x"
	)
	ab := []string{"a", "b"}
	return []cell{
		{mode: "queue", state: "input", became: resumed, entries: answered, queue: "a b", due: now},
		{mode: "steer", state: "input", became: resumed, entries: answered, queue: "a b", due: now},
		{mode: "interrupt", state: "input", became: queued, entries: ends, queue: "n", superseded: ab, due: now},
		{mode: "latest", state: "input", became: resumed, entries: first + answered, superseded: ab, due: now},
		{mode: "collect", state: "input", became: resumed, entries: answered, queue: "a b", due: now},
		{mode: "reject", state: "input", became: resumed, entries: answered, queue: "a b", due: now},

		{mode: "queue", state: "approval", became: queued, entries: behind, queue: "a b n", due: before},
		{mode: "steer", state: "approval", became: steered, entries: unasked, queue: "a b", due: before},
		{mode: "interrupt", state: "approval", became: queued, entries: ends, queue: "n", superseded: ab, due: now},
		{mode: "latest", state: "approval", became: queued, entries: behind + superseded, queue: "n", superseded: ab, due: before},
		{mode: "collect", state: "approval", became: store.DispositionCollected, entries: "message b", queue: "a b", due: before},
		{mode: "reject", state: "approval", busy: true},

		{mode: "queue", state: "event", became: resumed, entries: unasked, queue: "a b", due: now},
		{mode: "steer", state: "event", became: resumed, entries: unasked, queue: "a b", due: now},
		{mode: "interrupt", state: "event", became: queued, entries: ends, queue: "n", superseded: ab, due: now},
		{mode: "latest", state: "event", became: resumed, entries: first + unasked, superseded: ab, due: now},
		{mode: "collect", state: "event", became: resumed, entries: unasked, queue: "a b", due: now},
		{mode: "reject", state: "event", busy: true},
	}
}

func TestEveryModeInEveryWait(t *testing.T) {
	for _, c := range waitCells() {
		t.Run(string(c.mode)+"/"+c.state, func(t *testing.T) {
			w := newFixture(t)
			w.park(true, waitStates()[c.state]...)
			// Queued by a run of another thread, so it answers no question.
			for _, id := range []string{"a", "b"} {
				w.queueBehind(id)
			}
			w.wait(time.Minute)
			was := w.row
			out, err := w.submit(in(c.mode, "n"))
			if c.busy {
				wantCode(t, err, mailroom.CodeBusy)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			w.wantSince(was.LastSeq, c.entries)
			wantEqual(t, "queue", w.queue(), c.queue)
			if c.superseded == nil {
				c.superseded = []string{}
			}
			wantEqual(t, "superseded", out.Superseded, c.superseded)
			wantEqual(t, "disposition", out.Disposition, c.became)
			if out.Stopping != nil {
				t.Errorf("got stopping %s; nothing runs", *out.Stopping)
			}
			wantDue(w, was, c.due)
			w.wantTickets(c)
		})
	}
}

// wantTickets: an interrupt voids them, a message answers a question, and else
// they stay open.
func (w *fixture) wantTickets(c cell) {
	w.t.Helper()
	for _, a := range waitStates()[c.state] {
		want := mailroom.TicketOpen
		switch {
		case c.mode == mailroom.ModeInterrupt:
			want = mailroom.TicketVoid
		case a.Kind == mailroom.TicketInput:
			want = mailroom.TicketDecided
		}
		wantTicket(w.t, w.ticket(a.Name), want)
	}
	want := "waiting"
	switch c.became {
	case store.DispositionResumed:
		want = "queued"
	}
	if c.mode == mailroom.ModeInterrupt {
		want = "cancelled/interrupted"
	}
	wantEqual(w.t, "run x", w.state("x"), want)
}

// queueBehind queues a run whatever the current one waits for: it is of another
// agent.
func (w *fixture) queueBehind(id string) {
	w.t.Helper()
	s := in("", id)
	s.Agent = "other"
	w.must(s)
	r := w.runs[id]
	r.Agent = "echo"
	w.row.Agent = "echo"
}
