package thread

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/entry"
	"mailroom/internal/budget"
	"mailroom/internal/check"
	"mailroom/internal/digest"
	"mailroom/internal/reserved"
)

// A thread can have a budget of a day, of a month and of its whole life. They are in its row, which every transition of
// its runs has: so what a step uses is counted in its transaction, and a thread without budgets costs nothing.
//
// A thread whose budget is spent sleeps: it is due when the next period begins, or never. So no claim looks at it, and
// claims cost the same however many threads sleep. What raises or removes a budget makes the thread due in the same
// transaction. The step that spends a budget asks people, in its Outbox, once for each limit, also if no run waits yet.
//
// When a thread wakes follows from the row alone, not from the present time. So doctor can check it, and a thread of
// which an older server has lost the sleep goes to sleep again with the next claim.

// BudgetMeterPrefix begins the keys of the meters that list the threads with budgets. Their Count is 1.
const BudgetMeterPrefix = MeterPrefix + "budget:"

// poolOf returns a budget of a thread as a pool.
func poolOf(row *mailroom.Thread, b *mailroom.ThreadBudget) budget.Pool {
	return budget.Pool{Scope: budget.Scope{Kind: budget.Thread, Name: row.ID}, Period: budget.Period(b.Period),
		Begin: b.Begin, End: b.End, Budget: b.Limit, Used: b.Used, Raised: b.Raised}
}

// Pools returns the budgets of a thread in the periods that have begun at now.
func Pools(row *mailroom.Thread, now time.Time, zone *time.Location) (pools []budget.Pool) {
	for _, b := range row.Budgets {
		renew(&b, now, zone)
		pools = append(pools, poolOf(row, &b))
	}
	return pools
}

// renew begins a budget again if its period has ended.
func renew(b *mailroom.ThreadBudget, now time.Time, zone *time.Location) {
	if now.Before(b.End) {
		return
	}
	begin, end := budget.Period(b.Period).Bounds(now, zone)
	*b = mailroom.ThreadBudget{Period: b.Period, Limit: b.Limit, Begin: begin, End: end}
}

// changeBudgets replaces the budgets of the thread by changed copies, which have begun again if their period has ended.
func changeBudgets(t *State, now time.Time, change func(b *mailroom.ThreadBudget)) {
	t.Budgets = slices.Clone(t.Budgets)
	for i := range t.Budgets {
		renew(&t.Budgets[i], now, zoneOf(t))
		change(&t.Budgets[i])
	}
	t.Touch()
}

func zoneOf(t *State) *time.Location {
	if t.Zone == nil {
		return time.UTC
	}
	return t.Zone
}

// sleepsUntil returns when the periods of the spent budgets of a thread have ended, or zero.
func sleepsUntil(row *mailroom.Thread) (end time.Time) {
	for i := range row.Budgets {
		if p := poolOf(row, &row.Budgets[i]); p.State() == budget.Spent && p.End.After(end) {
			end = p.End
		}
	}
	return end
}

// asleep returns due as the budgets of the thread let it be. Only runs that wait for their start sleep: the ticket of a
// parked run expires at its time.
func asleep(t *State, due mailroom.Due) mailroom.Due {
	if len(t.Budgets) == 0 || due.At.IsZero() || due.Agent == "" {
		return due
	}
	if c := t.current(); c != nil && c.Status != mailroom.StatusQueued {
		return due
	}
	if end := sleepsUntil(&t.Thread); end.After(due.At) {
		due.At = end
	}
	return due
}

// spendThread counts the usage of a step for the budgets of the thread, and says when one is low. When one is spent, it
// asks people for a raise and the attempt to stop.
func spendThread(t *State, r *mailroom.Run, a *StepCommit, now time.Time) {
	if len(t.Budgets) == 0 {
		return
	}
	changeBudgets(t, now, func(b *mailroom.ThreadBudget) {
		p := poolOf(&t.Thread, b)
		p.Used = p.Used.Plus(p.UsedOf(a.Step.Usage, a.Unpriced))
		b.Used = p.Used
		if state := p.State(); state == budget.Low && !b.Low {
			b.Low = true
			t.Outbox.notice(t, &p)
		} else if state == budget.Spent {
			askAbout(t, b)
			stopForBudget(t, r, entry.BudgetState{Bound: p.Limit().Over(p.Used), Of: p.Text(), Budget: p.Limit(),
				Spent: p.Used}, now)
		}
	})
}

// askAboutBudgets asks people whether to raise the budgets for which a run sleeps, if the step that spent them did not:
// a budget that was lowered below what is used.
func askAboutBudgets(t *State) {
	t.Budgets = slices.Clone(t.Budgets)
	for i := range t.Budgets {
		askAbout(t, &t.Budgets[i])
	}
}

// askAbout asks people whether to raise a budget of t that is spent, once for each limit.
func askAbout(t *State, b *mailroom.ThreadBudget) {
	p := poolOf(&t.Thread, b)
	if limit := p.Limit().Amounts; p.State() == budget.Spent && b.Asked != limit {
		b.Asked = limit
		t.Outbox.notice(t, &p)
	}
}

// notice sends the message from which people learn that a budget of t is low or spent.
func (o *Outbox) notice(t *State, p *budget.Pool) {
	n, key, ok := p.Notice(zoneOf(t))
	if !ok {
		return
	}
	// The row says what was asked, so each notice is a new one, also of a later thread with the same id.
	key += fmt.Sprintf(" %d %d", t.CreatedAt.UnixMicro(), t.Revision)
	o.submits = append(o.submits, NoticeOf(&n, p, key))
}

// BudgetThread returns the id of the thread with the warnings and questions about a pool.
func BudgetThread(p *budget.Pool) string { return reserved.Budget + p.Key() }

// NoticeOf returns the submit that starts the run which warns or asks about a pool. The key makes it one run for each
// notice, on all servers and after a restart.
func NoticeOf(n *budget.Notice, p *budget.Pool, key string) Submit {
	data, err := json.Marshal(n)
	if err != nil {
		panic(err) // texts, numbers and times of stores
	}
	id := BudgetThread(p)
	return Submit{
		Thread: id, Run: digest.ID(id, key), Key: key, Agent: reserved.Asker, Owner: auth.Operator, Sender: auth.Operator,
		ByServer: true, Origin: mailroom.Origin{Via: reserved.ViaBudget, Sender: reserved.ViaBudget},
		Messages: []NewMessage{{Role: mailroom.RoleSystem, Parts: []mailroom.Part{{Type: mailroom.PartData, Data: data}}}},
	}
}

// RaiseBudget adds amounts to the budget of the thread of a period that began then, and makes its runs due. It returns
// false if the budget was removed or has begun again. The head of the queue must be loaded.
func RaiseBudget(t *State, period budget.Period, begin time.Time, by mailroom.Amounts, now time.Time) (raised bool) {
	if !t.Exists() || !t.DeletedAt.IsZero() {
		return false
	}
	changeBudgets(t, now, func(b *mailroom.ThreadBudget) {
		if b.Period == string(period) && b.Begin.Equal(begin) {
			b.Raised = b.Raised.Plus(by)
			raised = true
		}
	})
	t.promote(now)
	t.schedule(now)
	return raised
}

// checkBudgets refuses budgets of a thread which the caller may not set: its owner and the operator may, but no program
// that acts for them with a part of their rights, as the thread's own run does.
func (p *Patch) checkBudgets(t *State) error {
	switch {
	case len(p.Budgets) == 0:
		return nil
	case reserved.ForServer(t.ID):
		return mailroom.Errorf(mailroom.CodeForbidden, "thread %q belongs to the server; its budget is not set", t.ID)
	case p.By != nil && (p.By.Limited() || p.By.Terms.Kind == auth.KindLimited || p.By.ID() == ""):
		return mailroom.Errorf(mailroom.CodeForbidden, "a limited token cannot set the budget of thread %q: "+
			"use the one of its owner or of the operator", t.ID)
	}
	return nil
}

// setBudgets changes the budgets of the thread. What was used of a period is kept.
func setBudgets(t *State, limits map[budget.Period]mailroom.Budget, now time.Time) {
	if len(limits) == 0 {
		return
	}
	var all []mailroom.ThreadBudget
	for _, p := range budget.ThreadPeriods() {
		i := slices.IndexFunc(t.Budgets, func(b mailroom.ThreadBudget) bool { return b.Period == string(p) })
		limit, changed := limits[p]
		switch {
		case changed && limit.IsZero() || !changed && i < 0:
			continue
		case i >= 0:
			b := t.Budgets[i]
			renew(&b, now, zoneOf(t))
			if changed && limit != b.Limit {
				b.Limit, b.Low, b.Asked = limit, false, mailroom.Amounts{}
			}
			all = append(all, b)
		default:
			begin, end := p.Bounds(now, zoneOf(t))
			all = append(all, mailroom.ThreadBudget{Period: string(p), Limit: limit, Begin: begin, End: end})
		}
	}
	t.Budgets = all
	t.promote(now)
	t.schedule(now)
}

// ReadBudgets reads budgets of a thread as people write them, by period: "" removes one. Its errors have CodeInvalid.
func ReadBudgets(texts map[string]string) (map[budget.Period]mailroom.Budget, error) {
	out := map[budget.Period]mailroom.Budget{}
	for name, text := range texts {
		p := budget.Period(name)
		if !slices.Contains(budget.ThreadPeriods(), p) {
			why := fmt.Sprintf("has the unknown period %q; use day, month or life", name)
			return nil, check.Invalid("budget", why, text)
		}
		if text == "" {
			out[p] = mailroom.Budget{}
			continue
		}
		b, err := mailroom.ParseBudget(text)
		if err != nil {
			return nil, check.Invalid("budget", err.Error(), text)
		}
		if !b.Until.IsZero() {
			return nil, check.Invalid("budget",
				"has a time; leave it out: a budget of a thread lasts a day, a month or its life", text)
		}
		out[p] = b
	}
	return out, nil
}

// restartBudgets begins the budgets again whose period began after now, because the clock stepped back. A life goes on.
func restartBudgets(t *State, now time.Time) {
	isAhead := func(b mailroom.ThreadBudget) bool {
		return b.Period != string(budget.Life) && b.Begin.After(now.Add(ClockSlack))
	}
	if !slices.ContainsFunc(t.Budgets, isAhead) {
		return
	}
	changeBudgets(t, now, func(b *mailroom.ThreadBudget) {
		if isAhead(*b) {
			b.End = now
			renew(b, now, zoneOf(t))
		}
	})
}
