package builtin

import (
	"fmt"
	"testing"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/internal/budget"
	"mailroom/store/storetest"
)

// TestANightOfRunsStopsAtItsBudgetAndAsksOnce has 500 runs for one budget of 3 USD, which 300 of them spend.
func TestANightOfRunsStopsAtItsBudgetAndAsksOnce(t *testing.T) {
	withFixture(t, "3usd", func(h *fixture) {
		h.submit(500)
		h.rest(3 * time.Hour)
		h.wantSpent(300, 1)
		if p := h.pool(); p.State() != budget.Spent {
			t.Errorf("the budget is %s: %+v", p.State(), p)
		}
		if n := h.kinds(budget.KindLow); n != 1 {
			t.Errorf("%d warnings, want 1", n)
		}
		question := h.tickets()[0]
		want := "The budget of agent coder is spent: 3.00 usd of 3.00 usd a day. What waits for it goes on at 00:00 UTC. "
		want += "Raise the budget of this day by 3.00 usd?"
		if p := h.pool(); p.Used.MicroUSD == 3_000_000 && question.Prompt != want {
			t.Errorf("it asks %q", question.Prompt)
		}
		h.decide(mailroom.VerdictApprove)
		h.rest(2 * time.Second)
		if h.done() < 302 {
			t.Errorf("%d runs completed 2 s after the approval", h.done())
		}
		h.rest(3 * time.Hour)
		if h.done() != 500 || len(h.tickets()) != 1 {
			t.Errorf("%d runs completed with %d questions", h.done(), len(h.tickets()))
		}
		if n := h.kinds(budget.KindLow); n != 1 {
			t.Errorf("%d warnings, want 1", n)
		}
	})
}

// wantSpent checks that the budget of the day is spent, with the turns that were under way then, and how many questions
// there are.
func (h *fixture) wantSpent(turns, questions int) {
	h.t.Helper()
	if got := int(h.pool().Used.MicroUSD / 10_000); got < turns || got >= turns+slots {
		h.t.Errorf("%d turns of a cent, want %d, and less than %d more", got, turns, slots)
	}
	if got := len(h.tickets()); got != questions {
		h.t.Errorf("%d questions, want %d", got, questions)
	}
}

func TestARefusedRaiseWaitsForTheNextPeriod(t *testing.T) {
	withFixture(t, "0.10usd", func(h *fixture) {
		h.stop()
		h.zone = "Europe/Berlin" // midnight is at 23:00 UTC
		h.serve(h.store)
		h.submit(50)
		h.rest(time.Hour)
		h.wantSpent(10, 1)
		h.decide(mailroom.VerdictDeny)
		h.rest(21*time.Hour + 50*time.Minute)
		h.wantSpent(10, 1)
		h.rest(15 * time.Minute)
		h.wantSpent(10, 2) // of the next day
		h.rest(24 * time.Hour)
		h.wantSpent(10, 3)
		if k := h.tickets()[1]; k.State != mailroom.TicketExpired {
			t.Errorf("the question of the second day is %s", k.State)
		}
	})
}

// TestABudgetIsRaisedOnceForEachLimit has three approvals: each question is about the limit that was spent.
func TestABudgetIsRaisedOnceForEachLimit(t *testing.T) {
	withFixture(t, "0.10usd, 100k tokens", func(h *fixture) {
		h.submit(100)
		for n := 1; n <= 3; n++ {
			h.rest(time.Hour)
			h.wantSpent(10*n, n)
			h.decide(mailroom.VerdictApprove)
		}
		h.rest(time.Hour)
		if p := h.pool(); p.Raised != mailroom.Dollars(0.30) || p.State() != budget.Spent {
			t.Errorf("raised by %s, %s", p.Raised, p.State())
		}
	})
}

// TestADayAndAMonthHoldTogether has a month that ends after a day and a half of work.
func TestADayAndAMonthHoldTogether(t *testing.T) {
	withFixture(t, "0.10usd", func(h *fixture) {
		h.stop()
		h.must(h.limits.Set(string(budget.Month), "0.15usd"))
		h.serve(h.store)
		h.submit(40)
		for range 5 {
			h.rest(24 * time.Hour)
		}
		if n := h.usedEver().MicroUSD / 10_000; n < 15 || n >= 15+slots {
			t.Errorf("%d turns of a cent in five days, want 15, and less than %d more", n, slots)
		}
		h.rest(26 * 24 * time.Hour) // 1 February
		if n := h.usedEver().MicroUSD / 10_000; n < 25 || n >= 25+3*slots {
			t.Errorf("%d turns of a cent on the first day of February, want 25", n)
		}
	})
}

// TestABudgetHoldsDespiteAKillAtAnyWrite kills the server before or after a write, from the first message to the
// question. In the days after it no turn is counted twice, and none is left out.
func TestABudgetHoldsDespiteAKillAtAnyWrite(t *testing.T) {
	for _, after := range []bool{false, true} {
		for n := 1; ; n += 3 {
			died := false
			t.Run(fmt.Sprint(n, after), func(t *testing.T) {
				withFixture(t, "0.05usd", func(h *fixture) {
					h.submit(20)
					h.stop()
					m := &storetest.Killable{Store: h.store, N: n, After: after}
					h.serve(m)
					h.rest(time.Hour)
					died = m.IsDead()
					h.stop()
					h.serve(h.store)
					h.rest(time.Hour)
					h.wantSpent(5, 1)
					h.decide(mailroom.VerdictApprove)
					h.rest(time.Hour)
					h.wantSpent(10, 2) // the raised budget is spent too
					if got := h.kinds(entry.KindTicketOpened); got != 2 {
						t.Errorf("%d questions in the log", got)
					}
					for range 4 {
						h.rest(24 * time.Hour)
					}
					if want := mailroom.Dollars(0.20); h.done() != 20 || h.usedEver().MicroUSD != want.MicroUSD {
						t.Errorf("%d runs completed, %s used in all", h.done(), h.usedEver())
					}
				})
			})
			if !died || t.Failed() {
				break
			}
		}
	}
}

// TestARunSaysThatItsBudgetIsSpent also has a person who does not see the question, because it is the operator's.
func TestARunSaysThatItsBudgetIsSpent(t *testing.T) {
	withFixture(t, "0.10usd", func(h *fixture) {
		h.submit(20)
		h.rest(time.Hour)
		const said = "the budget of agent coder, 0.10 usd a day: it is spent, and begins again at 00:00 UTC"
		asked := "; ticket " + h.tickets()[0].ID + " asks whether to raise it"
		if got := h.waits(nil); got != said+asked {
			t.Errorf("it waits for %q", got)
		}
		if got := h.waits(func(_ *mailroom.Run, at *mailroom.Thread) bool { return at.ID != asking }); got != said {
			t.Errorf("to others it waits for %q", got)
		}
		h.decide(mailroom.VerdictDeny)
		h.rest(time.Minute)
		if got := h.waits(nil); got != said {
			t.Errorf("after the refusal it waits for %q", got)
		}
		h.rest(23 * time.Hour)
		if got := h.waits(nil); got != "" {
			t.Errorf("on the next day it waits for %q", got)
		}
	})
}
