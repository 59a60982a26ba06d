package builtin

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/internal/budget"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/storetest"
	"mailroom/thread"
)

// trip is a thread with colons, as the keys of budgets have.
const trip = "trip:2000:day"

// withThread has a thread with a budget of a period and n messages, whose runs use a cent each.
func withThread(t *testing.T, period budget.Period, limit string, n int, f func(h *fixture)) {
	withFixture(t, "1000usd", func(h *fixture) {
		h.send(1)
		h.rest(time.Hour) // used before the budget is set
		h.set(period, limit)
		h.send(n)
		f(h)
	})
}

// send sends n messages to the thread.
func (h *fixture) send(n int) {
	h.t.Helper()
	for range n {
		_, err := h.ledger.Submit(h.t.Context(), thread.Submit{
			Thread: trip, Agent: "coder", Sender: "admin", Owner: "admin",
			Messages: []thread.NewMessage{{Parts: mailroom.Text("go")}},
			Origin:   mailroom.Origin{Via: "user", Sender: "admin"},
		})
		h.must(err)
	}
}

// set sets the budget of the thread; "" removes it.
func (h *fixture) set(period budget.Period, limit string) {
	h.t.Helper()
	limits, err := thread.ReadBudgets(map[string]string{string(period): limit})
	h.must(err)
	_, err = h.ledger.PatchThread(h.t.Context(), trip, thread.Patch{Budgets: limits})
	h.must(err)
}

// questions returns all questions about the budget of the thread, oldest first.
func (h *fixture) questions(period budget.Period) []*mailroom.Ticket {
	h.t.Helper()
	p := budget.Pool{Scope: budget.Scope{Kind: budget.Thread, Name: trip}, Period: period}
	return h.ticketsOf(thread.BudgetThread(&p))
}

// wantRuns checks how many runs have completed in all, and how many questions there are.
func (h *fixture) wantRuns(period budget.Period, runs, questions int) {
	h.t.Helper()
	if got := h.done(); got != runs {
		h.t.Errorf("%d runs have completed, want %d", got, runs)
	}
	if got := len(h.questions(period)); got != questions {
		h.t.Errorf("%d questions, want %d", got, questions)
	}
}

// TestANightOfAThreadStopsAtItsBudgetAndAsksOnce has 50 runs in one thread under a budget of 20 cents a day.
func TestANightOfAThreadStopsAtItsBudgetAndAsksOnce(t *testing.T) {
	withThread(t, budget.Day, "0.20usd", 50, func(h *fixture) {
		h.rest(3 * time.Hour)
		h.wantRuns(budget.Day, 1+20, 1)
		question := h.questions(budget.Day)[0]
		want := "The budget of thread trip:2000:day is spent: 0.20 usd of 0.20 usd a day. What waits for it goes on at " +
			"00:00 UTC. Raise the budget of this day by 0.20 usd?"
		if question.Prompt != want {
			t.Errorf("it asks %q", question.Prompt)
		}
		want = "the budget of thread trip:2000:day, 0.20 usd a day: it is spent, and begins again at 00:00 UTC; ticket " +
			question.ID + " asks whether to raise it"
		if got := h.waitsInTheEnd(); got != want {
			t.Errorf("the next run waits for %q", got)
		}
		h.submit(1) // of another thread
		h.rest(time.Minute)
		h.wantRuns(budget.Day, 1+20+1, 1)
		h.decideOne(question, mailroom.VerdictApprove)
		h.rest(2 * time.Second)
		if h.done() < 1+20+1+2 {
			t.Errorf("%d runs completed 2 s after the approval", h.done())
		}
		h.rest(3 * time.Hour)
		h.wantRuns(budget.Day, 1+40+1, 2)
		h.rest(24 * time.Hour)
		h.wantRuns(budget.Day, 1+50+1, 2)
		if n := h.lowOf(budget.Day); n != 1 {
			t.Errorf("%d warnings, want 1", n)
		}
		t.Logf("50 runs: 20, after the raise 20, on the next day 10; questions: %d", len(h.questions(budget.Day)))
	})
}

// waitsInTheEnd returns what the queued runs of the thread wait for, behind each other.
func (h *fixture) waitsInTheEnd() (text string) {
	h.t.Helper()
	h.must(h.store.View(h.t.Context(), func(r store.Reader) error {
		rows, err := r.Runs(store.RunQuery{Thread: trip, Set: store.RunsQueued, Limit: 1})
		if err != nil || len(rows) == 0 {
			return err
		}
		all, err := ledger.WaitsFor(r, r.Now(), rows, nil)
		if of := all[rows[0].ID]; len(of) > 0 {
			text = of[len(of)-1].Text()
		}
		return err
	}))
	return text
}

// lowOf returns how many warnings about the budget of the thread there are.
func (h *fixture) lowOf(period budget.Period) int {
	p := budget.Pool{Scope: budget.Scope{Kind: budget.Thread, Name: trip}, Period: period}
	return h.kindsOf(thread.BudgetThread(&p), budget.KindLow)
}

func TestAThreadThatHasUsedItsLifeWaitsForARaise(t *testing.T) {
	withThread(t, budget.Life, "0.05usd", 20, func(h *fixture) {
		h.rest(40 * 24 * time.Hour)
		h.wantRuns(budget.Life, 1+5, 1)
		question := h.questions(budget.Life)[0]
		want := "the budget of thread trip:2000:day, 0.05 usd in its life: it is spent; ticket " + question.ID +
			" asks whether to raise it"
		if got := h.waitsInTheEnd(); got != want {
			t.Errorf("the next run waits for %q", got)
		}
		h.decideOne(question, mailroom.VerdictDeny)
		h.rest(24 * time.Hour)
		h.wantRuns(budget.Life, 1+5, 1)
		by, s := mailroom.Dollars(0.03), budget.Scope{Kind: budget.Thread, Name: trip}
		raised, err := ledger.PeriodBudgets{Ledger: h.ledger}.Raise(h.t.Context(), s, budget.Life, by)
		h.must(err)
		if raised.State() == budget.Spent || raised.Raised != by {
			t.Errorf("raised: %+v", raised)
		}
		h.rest(time.Hour)
		h.wantRuns(budget.Life, 1+8, 2)
		h.set(budget.Life, "0.10usd") // with the raise, 5 cents are left
		h.rest(time.Hour)
		h.wantRuns(budget.Life, 1+13, 3)
		if k := h.questions(budget.Life)[1]; k.State == mailroom.TicketOpen {
			t.Errorf("the question about the old budget is %s", k.State)
		}
		h.set(budget.Life, "")
		h.rest(time.Hour)
		h.wantRuns(budget.Life, 1+20, 3)
		_, err = ledger.PeriodBudgets{Ledger: h.ledger}.Raise(h.t.Context(), s, budget.Life, by)
		if mailroom.CodeOf(err) != mailroom.CodeNotFound {
			t.Errorf("a raise of a budget that was removed: %v", err)
		}
		if listed := h.listed(); len(listed) != 0 {
			t.Errorf("listed: %+v", listed)
		}
	})
}

// listed returns the listed budgets of threads.
func (h *fixture) listed() (all []ledger.PeriodBudget) {
	h.t.Helper()
	found, err := ledger.PeriodBudgets{Ledger: h.ledger}.List(h.t.Context())
	h.must(err)
	for _, b := range found {
		if b.Thread != nil {
			all = append(all, b)
		}
	}
	return all
}

func TestABudgetOfAThreadEndsWithTheThread(t *testing.T) {
	withThread(t, budget.Day, "0.02usd", 2, func(h *fixture) {
		h.rest(time.Minute)
		h.send(1)
		h.rest(time.Minute)
		h.wantRuns(budget.Day, 1+2, 1)
		if all := h.listed(); len(all) != 1 || all[0].Question != h.questions(budget.Day)[0].ID {
			t.Errorf("listed: %+v", all)
		}
		old := h.questions(budget.Day)[0]
		h.cancelAll()
		h.must(h.ledger.DeleteThread(h.t.Context(), trip, nil))
		if k := h.questions(budget.Day)[0]; k.State == mailroom.TicketOpen {
			t.Errorf("the question about a deleted thread is %s", k.State)
		}
		if all := h.listed(); len(all) != 0 {
			t.Errorf("listed: %+v", all)
		}
		h.send(4) // a new thread with the same id
		h.rest(time.Hour)
		h.set(budget.Day, "0.02usd")
		h.send(4)
		h.rest(time.Hour)
		if open := h.questions(budget.Day); len(open) != 2 || open[1].ID == old.ID {
			t.Errorf("%d questions", len(open))
		}
	})
}

// cancelAll cancels the queued runs of the thread.
func (h *fixture) cancelAll() {
	h.t.Helper()
	var rows []*mailroom.Run
	h.must(h.store.View(h.t.Context(), func(r store.Reader) (err error) {
		rows, err = r.Runs(store.RunQuery{Thread: trip, Statuses: []mailroom.Status{mailroom.StatusQueued}, Limit: 100})
		return err
	}))
	for _, r := range rows {
		_, err := h.ledger.Cancel(h.t.Context(), r.ID, "ann")
		h.must(err)
	}
}

// TestABudgetThatIsSpentAsksAtOnce has runs that use all of a budget, each with its only step, and nothing that waits.
func TestABudgetThatIsSpentAsksAtOnce(t *testing.T) {
	withThread(t, budget.Day, "0.01usd", 1, func(h *fixture) {
		h.rest(time.Minute)
		h.wantRuns(budget.Day, 1+1, 1)
		h.send(1)
		h.rest(time.Minute)
		h.wantRuns(budget.Day, 1+1, 1)
		h.decideOne(h.questions(budget.Day)[0], mailroom.VerdictApprove)
		h.rest(time.Minute)
		h.wantRuns(budget.Day, 1+2, 2) // the raised budget is spent too
		h.rest(24 * time.Hour)
		h.wantRuns(budget.Day, 1+2, 2)
		h.send(1)
		h.rest(time.Minute)
		h.wantRuns(budget.Day, 1+3, 3) // of the next day
		h.rest(24 * time.Hour)
		h.send(1)
		h.rest(time.Minute)
		h.wantRuns(budget.Day, 1+4, 4) // with the same limit
		h.set(budget.Day, "0.02usd")
		h.rest(time.Minute)
		if k := h.questions(budget.Day)[3]; k.State == mailroom.TicketOpen {
			t.Errorf("the question about the old budget is %s", k.State)
		}
	})
}

// TestABudgetOfAThreadStopsALongRun has an agent that would call its model a hundred times.
func TestABudgetOfAThreadStopsALongRun(t *testing.T) {
	withFixture(t, "1000usd", func(h *fixture) {
		h.turns = 100
		h.stop()
		h.serve(h.store)
		h.send(1)
		h.set(budget.Day, "0.10usd")
		h.rest(time.Hour)
		h.wantRuns(budget.Day, 0, 1)
		if got := h.usedByRuns(); got != 10 {
			t.Errorf("%d calls of a model, want 10", got)
		}
		h.decideOne(h.questions(budget.Day)[0], mailroom.VerdictApprove)
		h.rest(time.Hour)
		if got := h.usedByRuns(); got != 20 {
			t.Errorf("%d calls of a model after the raise, want 20", got)
		}
		h.set(budget.Day, "")
		h.rest(time.Hour)
		h.wantRuns(budget.Day, 1, 2)
		if got := h.usedByRuns(); got != 100 {
			t.Errorf("%d calls of a model in all", got)
		}
	})
}

// usedByRuns returns the number of turns of the runs of the thread.
func (h *fixture) usedByRuns() (n int64) {
	h.t.Helper()
	h.must(h.store.View(h.t.Context(), func(r store.Reader) error {
		rows, err := r.Runs(store.RunQuery{Thread: trip, Limit: 100})
		for _, run := range rows {
			n += run.Turns
		}
		return err
	}))
	return n
}

func TestBudgetsOfThreadsAreReadOrRefusedWithTheRightForm(t *testing.T) {
	for _, test := range []struct{ period, text, want string }{
		{"day", "1 dollar", ""},
		{"life", "5usd, 2m tokens", ""},
		{"week", "1usd", `unknown period "week"; use day, month or life`},
		{"day", "1 eur", "write 1usd"},
		{"day", "1", "1 has no unit; write 1usd"},
		{"month", "1usd until 2030-01-01T00:00:00Z", "has a time; leave it out"},
	} {
		_, err := thread.ReadBudgets(map[string]string{test.period: test.text})
		if got := fmt.Sprint(err); (err == nil) != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s %s: %v", test.period, test.text, err)
		}
	}
}

// TestABudgetOfAThreadHoldsDespiteAKillAtAnyWrite has 8 runs under a budget for 3 of them.
func TestABudgetOfAThreadHoldsDespiteAKillAtAnyWrite(t *testing.T) {
	for _, after := range []bool{false, true} {
		for n := 1; ; n++ {
			died := false
			t.Run(fmt.Sprint(n, after), func(t *testing.T) {
				withFixture(t, "1000usd", func(h *fixture) {
					h.send(1)
					h.set(budget.Life, "0.03usd")
					h.rest(time.Minute)
					h.send(7)
					h.stop()
					m := &storetest.Killable{Store: h.store, N: n, After: after}
					h.serve(m)
					h.rest(time.Hour)
					died = m.IsDead()
					h.stop()
					h.serve(h.store)
					h.rest(time.Hour)
					if b := h.listed(); len(b) != 1 || b[0].Used.MicroUSD != 30_000 {
						t.Errorf("listed: %+v", b)
					}
					// A run that was killed after its turn has not completed: it waits, too.
					if done, asked := h.done(), len(h.questions(budget.Life)); done < 2 || done > 3 || asked != 1 {
						t.Errorf("%d runs have completed, with %d questions", done, asked)
					}
					h.decideOne(h.questions(budget.Life)[0], mailroom.VerdictApprove)
					h.rest(time.Hour)
					if used := h.listed()[0].Used; used.MicroUSD != 60_000 {
						t.Errorf("%s are used after a raise to 6 cents", used)
					}
					h.decideOne(h.questions(budget.Life)[1], mailroom.VerdictApprove)
					h.rest(time.Hour)
					h.wantRuns(budget.Life, 8, 2)
					if used := h.listed()[0].Used; used.MicroUSD != 80_000 {
						t.Errorf("%s are used by 8 runs", used)
					}
				})
			})
			if !died || t.Failed() {
				break
			}
		}
	}
}
