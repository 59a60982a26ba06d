package doctor

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/internal/budget"
	"mailroom/internal/reserved"
	"mailroom/store"
)

// periodUse is what the log of a budget's thread says of one period, at least.
type periodUse struct {
	notice budget.Notice // a notice of the period
	used   mailroom.Amounts
	// Two sums of what was added: of the approvals, and what a notice knew.
	approved, raised mailroom.Amounts
}

// checkPeriods checks the sums of a budget of days or months against the log of its thread: a period has used what a
// notice said, and was raised by what people approved. A sum is never lowered, and rises in the transaction of the
// decision. It may have more: what was used after the last notice, and raises by hand, which leave no entry here.
func checkPeriods(p *checker) error {
	if reserved.Prefix(p.t.ID) != reserved.Budget {
		return nil
	}
	periods, err := readPeriods(p)
	if err != nil {
		return err
	}
	used := func(n *budget.Notice) (used, raised mailroom.Amounts, kept bool, err error) {
		pool := n.Pool()
		if pool.Scope.Kind == budget.Thread {
			return threadUse(p, n)
		}
		step := store.StepBudgetDay
		if n.Period == budget.Month {
			step = store.StepBudgetMonth
		}
		if p.r.Now().Sub(n.Begin) >= store.KeepBudgets(step) {
			return used, raised, false, nil // its rows may be dropped
		}
		all, added, err := store.BudgetUse(p.r, step, n.Begin, []string{pool.Key()})
		return all[pool.Key()], added[pool.Key()], true, err
	}
	for _, begin := range slices.SortedFunc(maps.Keys(periods), time.Time.Compare) {
		u := periods[begin]
		pool := u.notice.Pool()
		used, raised, kept, err := used(&u.notice)
		if err != nil {
			return err
		}
		if !kept {
			continue
		}
		sum := func(what string, got, least mailroom.Amounts) {
			if more := got.Minus(least); more != more.Positive() {
				p.bad(Budget, "%s has %s %s in the %s from %s, by its log at least %s", pool.Scope, what, got, pool.Period,
					at(begin), least)
			}
		}
		sum("used", used, u.used)
		sum("been raised by", raised, u.least(pool.Scope.Kind))
	}
	return nil
}

// least returns by how much the period was raised at least. A thread's budget may be lowered or removed, and a later
// approval of a question then raises nothing.
func (u *periodUse) least(kind string) mailroom.Amounts {
	if kind == budget.Thread {
		return u.raised
	}
	return most(u.approved, u.raised)
}

// threadUse returns what the row of the thread of a notice says of its period. kept is false if it has another one now,
// or if its budget is not the one of the notice.
func threadUse(p *checker, n *budget.Notice) (used, raised mailroom.Amounts, kept bool, err error) {
	rows, err := p.r.Threads(store.ThreadQuery{IDs: []string{n.Name}})
	if err != nil || len(rows) == 0 || rows[0].CreatedAt.After(n.Begin) {
		return used, raised, false, err
	}
	for _, b := range rows[0].Budgets {
		if b.Period == string(n.Period) && b.Begin.Equal(n.Begin) && b.Limit.Amounts == n.Budget {
			return b.Used, b.Raised, true, nil
		}
	}
	return used, raised, false, nil
}

// readPeriods reads the notices and the approvals in the log of a budget's thread, by the begin of their period.
func readPeriods(p *checker) (map[time.Time]*periodUse, error) {
	periods, questions := map[time.Time]*periodUse{}, map[string]budget.Notice{}
	q := store.EntryQuery{Thread: p.t.ID, Limit: batch,
		Kinds: []string{entry.KindMessage, entry.KindTicketOpened, entry.KindTicketDecided}}
	for {
		page, err := p.r.Entries(q)
		if err != nil || len(page) == 0 {
			return periods, err
		}
		for _, e := range page {
			q.After = e.Seq
			readPeriod(e, periods, questions)
		}
	}
}

// readPeriod reads one entry. What a newer version wrote says nothing.
func readPeriod(e mailroom.Entry, periods map[time.Time]*periodUse, questions map[string]budget.Notice) {
	switch e.Kind {
	case entry.KindMessage:
		var m mailroom.Message
		if e.Decode(&m) != nil || m.Role != mailroom.RoleSystem {
			return
		}
		for _, part := range m.Parts {
			var n budget.Notice
			if part.Type != mailroom.PartData || json.Unmarshal(part.Data, &n) != nil || n.Begin.IsZero() {
				continue
			}
			u := periodOf(periods, n)
			u.used, u.raised = most(u.used, n.Used), most(u.raised, n.Limit.Minus(n.Budget).Positive())
		}
	case entry.KindTicketOpened:
		var k mailroom.Ticket
		var n budget.Notice
		if e.Decode(&k) == nil && json.Unmarshal(k.Arguments, &n) == nil && !n.Begin.IsZero() {
			questions[k.ID] = n
		}
	case entry.KindTicketDecided:
		var d entry.TicketDecision
		if e.Decode(&d) != nil || d.Decision != mailroom.VerdictApprove {
			return
		}
		if n, ok := questions[d.Ticket]; ok {
			u := periodOf(periods, n)
			u.approved = u.approved.Plus(n.Raise)
		}
	}
}

func periodOf(periods map[time.Time]*periodUse, n budget.Notice) *periodUse {
	begin := n.Begin.UTC()
	if periods[begin] == nil {
		periods[begin] = &periodUse{notice: n}
	}
	return periods[begin]
}

// most returns the larger one of each amount.
func most(a, b mailroom.Amounts) mailroom.Amounts {
	return mailroom.Amounts{MicroUSD: max(a.MicroUSD, b.MicroUSD), Tokens: max(a.Tokens, b.Tokens),
		Turns: max(a.Turns, b.Turns)}
}
