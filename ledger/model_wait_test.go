package ledger_test

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"mailroom"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/thread"
)

// asks draws asks. A name may repeat, with the same question or another one.
func asks(t *rapid.T, most int) []mailroom.Ask {
	var all []mailroom.Ask
	for range number(t, 0, most, "asks") {
		a := mailroom.Ask{
			Name: one(t, []string{"q1", "q2", "q3"}, "ticket"),
			Kind: one(t, []mailroom.TicketKind{
				mailroom.TicketApproval, mailroom.TicketApproval, mailroom.TicketInput, mailroom.TicketInput, mailroom.TicketEvent,
				mailroom.TicketTimer,
			}, "kind"),
		}
		if a.Kind == mailroom.TicketTimer || chance(t, 30, "expires") {
			a.After = time.Duration(number(t, 1, 20, "after")) * time.Second
		}
		if a.Kind == mailroom.TicketApproval && chance(t, 20, "answers") {
			a.Answers, a.Arguments = true, json.RawMessage(`{"to": "<b>"}`)
		}
		all = append(all, a)
	}
	return all
}

// ask opens tickets, and sends to children with an answer mode.
func (m *model) ask(t *rapid.T) {
	c := pick(t, m.liveClaims(), "claim")
	a := thread.StepCommit{Claim: c, Number: m.run(c.Run).Step + 1, Covers: m.handed[c]}
	a.Step.Tickets = asks(t, 2)
	for _, name := range []string{"c1", "c2"} {
		if chance(t, 40, "child "+name) {
			a.Step.Sends = append(a.Step.Sends, mailroom.Send{
				Name: name, Thread: drawThread(t, "to"), Parts: mailroom.Text("do"),
				Answer: one(t, []mailroom.AnswerMode{mailroom.AnswerWait, mailroom.AnswerWait, mailroom.AnswerWake}, "answer"),
			})
		}
	}
	m.write(t, "ask", a)
}

// ticketsOf returns the tickets of a run, by id.
func (m *model) ticketsOf(run string) []*mailroom.Ticket {
	var of []*mailroom.Ticket
	for _, id := range slices.Sorted(maps.Keys(m.after.Tickets)) {
		if k := m.after.Tickets[id]; k.Run == run {
			of = append(of, k)
		}
	}
	return of
}

// park ends an attempt that waits for existing and new tickets.
func (m *model) park(t *rapid.T) {
	c := pick(t, m.liveClaims(), "claim")
	s := thread.Settle{
		Claim: c, Number: m.run(c.Run).Step + 1, Outcome: thread.OutcomePark,
		Wait: &mailroom.Wait{Any: rapid.Bool().Draw(t, "any")}, Asks: asks(t, 2),
	}
	for _, k := range m.ticketsOf(c.Run) {
		if k.State != mailroom.TicketVoid && chance(t, 70, "waited for") {
			s.Wait.Names = append(s.Wait.Names, k.Name)
		}
	}
	for _, a := range s.Asks {
		s.Wait.Names = append(s.Wait.Names, a.Name)
	}
	_, _ = onBoth(t, m.twin, "park", func(l *ledger.Ledger) (*mailroom.Run, error) { return l.Workers().Settle(m.ctx, s) })
}

func (m *model) decision(t *rapid.T) thread.Decision {
	ids := slices.Sorted(maps.Keys(m.after.Tickets))
	if open := slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		return m.after.Tickets[id].State != mailroom.TicketOpen
	}); len(open) > 0 && chance(t, 70, "open") {
		ids = open
	}
	id := pick(t, ids, "ticket")
	k := m.after.Tickets[id]
	d := thread.Decision{
		Ticket: id, By: "ann", Digest: k.Digest[:16],
		Verdict: one(t, []mailroom.Verdict{mailroom.VerdictApprove, mailroom.VerdictDeny}, "verdict"),
	}
	if k.Kind != mailroom.TicketApproval || chance(t, 20, "answer") {
		d.Verdict, d.Answer = mailroom.VerdictAnswer, json.RawMessage(one(t, []string{`1`, `{"a": "<b>"}`}, "says"))
	}
	if chance(t, 10, "another digest") {
		d.Digest = "0123456789abcdef"
	}
	return d
}

// decide checks that a ticket accepts one decision, and its repeat.
func (m *model) decide(t *rapid.T) {
	d := m.decision(t)
	was := m.after.Tickets[d.Ticket]
	k, err := onBoth(t, m.twin, "decide", func(l *ledger.Ledger) (*mailroom.Ticket, error) { return l.Decide(m.ctx, d) })
	if err != nil {
		return
	}
	if k.Decision != d.Verdict || d.Digest != k.Digest[:16] {
		t.Fatalf("decided %s with digest %s: got %+v", d.Verdict, d.Digest, k)
	}
	m.decided[k.ID] = k
	late := was.ExpiresAt != nil && !was.ExpiresAt.After(m.clock.read())
	if was.State != mailroom.TicketOpen && was.State != mailroom.TicketDecided ||
		was.State == mailroom.TicketOpen && late {
		t.Fatalf("ticket %s was %s, expires at %v, and accepted a decision", k.ID, was.State, was.ExpiresAt)
	}
}

func (m *model) submitDecisions(t *rapid.T) {
	d := m.decision(t)
	in := thread.Submit{
		Thread: m.after.Tickets[d.Ticket].Thread, Run: m.name("r"), Owner: "ann", Sender: "ann",
		Origin: mailroom.Origin{Via: "user", Sender: "ann"}, Decisions: []thread.Decision{d},
	}
	if chance(t, 30, "another") {
		in.Decisions = append(in.Decisions, m.decision(t))
	}
	if chance(t, 50, "and a message") {
		in.Messages = []thread.NewMessage{{Parts: mailroom.Text("with it")}}
	}
	out, err := onBoth(t, m.twin, "submit decisions", func(l *ledger.Ledger) (store.Submitted, error) {
		return l.Submit(m.ctx, in)
	})
	if err != nil {
		return
	}
	for _, d := range in.Decisions {
		m.decided[d.Ticket] = m.after.Tickets[d.Ticket]
	}
	if len(in.Messages) > 0 {
		m.recordSubmit(t, m.twin, in, out)
	}
}

func (m *model) deliver(t *rapid.T) {
	threadID := drawThread(t, "thread")
	to := one(t, []string{"d", "d", ""}, "to")
	_, _ = onBoth(t, m.twin, "deliver", func(l *ledger.Ledger) (*mailroom.Thread, error) {
		return l.PatchThread(m.ctx, threadID, thread.Patch{DeliverTo: &to})
	})
}

func (m *model) cancelTree(t *rapid.T) {
	run := pick(t, m.runs(), "run")
	if _, err := onBoth(t, m.twin, "cancel tree", func(l *ledger.Ledger) (*mailroom.Run, error) {
		return l.CancelTree(m.ctx, run, ann())
	}); err != nil {
		return
	}
	for _, r := range m.after.Runs {
		if r.Parent == run && !thread.IsDelivery(r.View()) && !r.Status.Finished() && r.Stop == "" {
			t.Fatalf("run %s was cancelled with its children, but %s is %s", run, r.ID, r.Status)
		}
	}
}

// checkTickets checks that decided and expired tickets stay so unless a fresh retry voids them, that a
// decision never changes, and that no ticket is dropped.
func (m *model) checkTickets(t *rapid.T) {
	for id, was := range m.before.Tickets {
		is := m.after.Tickets[id]
		if is == nil {
			if m.after.Runs[was.Run] != nil {
				t.Fatalf("ticket %s was dropped", id)
			}
			continue
		}
		final := was.State == mailroom.TicketDecided || was.State == mailroom.TicketExpired
		if final && is.State != mailroom.TicketVoid && (is.State != was.State || is.Decision != was.Decision ||
			string(is.Answer) != string(was.Answer)) {
			t.Fatalf("ticket %s changed from %s %s to %s %s", id, was.State, was.Decision, is.State, is.Decision)
		}
		if is.State == mailroom.TicketExpired && is.Decision != "" {
			t.Fatalf("expired ticket %s has the decision %s", id, is.Decision)
		}
	}
}

// wasDead reports whether the lease of a worker had ended before the last operation, as at a restart of its process.
// The sweep then ends its claims.
func (m *model) wasDead(worker string) bool {
	return slices.ContainsFunc(m.before.Workers, func(w *store.Worker) bool { return w.ID == worker && w.Dead })
}
