package ledger_test

import (
	"context"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"mailroom"
	"mailroom/internal/budget"
	"mailroom/internal/reserved"
	"mailroom/ledger"
	"mailroom/thread"
)

// setThreadBudget sets, changes, raises or removes a budget of a thread, in histories under limits.
//
// It draws nothing, as drawBudget.
func (m *model) setThreadBudget(t *rapid.T, threadID string) {
	period := budget.ThreadPeriods()[m.n%3]
	limit := mailroom.Budget{Amounts: mailroom.Amounts{MicroUSD: int64(m.n%2+1) * 100_000}}
	switch m.n % 5 {
	case 0:
		limit = mailroom.Budget{}
	case 1, 2:
		limit.Amounts = mailroom.Amounts{Turns: 1}
	}
	_, _ = onBoth(t, m.twin, "patch", func(l *ledger.Ledger) (*mailroom.Thread, error) {
		return l.PatchThread(m.ctx, threadID, thread.Patch{Budgets: map[budget.Period]mailroom.Budget{period: limit}})
	})
	if m.n%4 == 0 {
		by := mailroom.Amounts{Turns: 1}
		if limit.Turns == 0 {
			by = mailroom.Dollars(0.2)
		}
		of := budget.Scope{Kind: budget.Thread, Name: threadID}
		_, _ = onBoth(t, m.twin, "raise budget", func(l *ledger.Ledger) (mailroom.Amounts, error) {
			b, err := ledger.PeriodBudgets{Ledger: l}.Raise(m.ctx, of, period, by)
			return b.Raised, err
		})
	}
}

// checkThreadBudgets checks that the budgets of threads count each step of their runs once, and that no run starts
// while one is spent.
func (m *model) checkThreadBudgets(t *rapid.T) {
	if !m.limited {
		return
	}
	used := map[string]mailroom.Amounts{} // by thread, since the state before
	for id, r := range m.after.Runs {
		was := m.before.Runs[id]
		if was == nil {
			was = &mailroom.Run{}
		}
		used[r.Thread] = used[r.Thread].Plus(r.Used().Minus(was.Used()))
	}
	for id, row := range m.after.Threads {
		was := m.before.Threads[id]
		if was == nil || was.Key != row.Key {
			continue
		}
		for _, b := range row.Budgets {
			i := slices.IndexFunc(was.Budgets, func(x mailroom.ThreadBudget) bool { return x.Period == b.Period })
			if i < 0 {
				continue
			}
			before := was.Budgets[i]
			if !before.Begin.Equal(b.Begin) {
				before.Used = mailroom.Amounts{}
				m.coverage["thread budget begins again"]++
			}
			if got := b.Used.Minus(before.Used); got != used[id] {
				t.Fatalf("thread %s: its budget of a %s counts %v, its runs have used %v", id, b.Period, got, used[id])
			}
		}
		now := m.clock.read()
		for _, p := range thread.Pools(row, now, time.UTC) {
			if p.State() != budget.Spent {
				continue
			}
			m.coverage["spent thread"]++
			if row.Worker == "" && row.Due.Agent != "" && row.Current == "" && row.Due.At.Before(p.End) {
				t.Fatalf("thread %s is due at %s, its budget %s is spent until %s", id, row.Due.At, p.Text(), p.End)
			}
			if row.Due.At.Equal(p.End) {
				m.coverage["asleep"]++
			}
		}
		wasSpent := slices.ContainsFunc(thread.Pools(was, now, time.UTC),
			func(p budget.Pool) bool { return p.State() == budget.Spent })
		if wasSpent && was.Worker == "" && row.Worker != "" && len(row.Budgets) > 0 && sameLimits(was, row) {
			t.Fatalf("a run of thread %s has started, its budgets are %+v", id, was.Budgets)
		}
	}
}

// sameLimits reports whether the budgets of a thread were neither set nor raised.
func sameLimits(a, b *mailroom.Thread) bool {
	return slices.EqualFunc(a.Budgets, b.Budgets, func(x, y mailroom.ThreadBudget) bool {
		return x.Limit == y.Limit && x.Raised == y.Raised
	})
}

// endThreadBudgets removes all budgets of threads, and cancels the questions about them, for which the histories have
// no agent.
func (m *model) endThreadBudgets(t *rapid.T) {
	if !m.limited {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(m.after.Threads)) {
		if len(m.after.Threads[id].Budgets) == 0 {
			continue
		}
		limits := map[budget.Period]mailroom.Budget{}
		for _, b := range m.after.Threads[id].Budgets {
			limits[budget.Period(b.Period)] = mailroom.Budget{}
		}
		_, _ = onBoth(t, m.twin, "patch", func(l *ledger.Ledger) (*mailroom.Thread, error) {
			return l.PatchThread(m.ctx, id, thread.Patch{Budgets: limits})
		})
	}
	for _, id := range m.runs() {
		if r := m.run(id); r.Agent == reserved.Asker && !r.Status.Finished() {
			m.coverage["question about a thread"]++
			_, _ = onBoth(t, m.twin, "cancel", func(l *ledger.Ledger) (*mailroom.Run, error) {
				return l.Cancel(context.WithoutCancel(m.ctx), id, "ann")
			})
		}
	}
}
