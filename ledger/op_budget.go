package ledger

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/entry"
	"mailroom/internal/budget"
	"mailroom/internal/check"
	"mailroom/internal/reserved"
	"mailroom/store"
	"mailroom/thread"
)

// withoutSpent returns a request without the agents whose budget is spent. Claims look for their due runs again with
// the next poll, or when the next period begins. withoutSpent also starts the run of each notice, once.
//
// A claim does this and not the step that spends the budget: of two steps that spend it together, on two servers,
// neither sees the other.
func withoutSpent(tx *transaction, c *thread.ClaimRequest) (*thread.ClaimRequest, error) {
	var pools []budget.Pool
	for _, agent := range slices.Sorted(maps.Keys(c.Agents)) {
		if c.Agents[agent] > 0 && (c.Slots > 0 || c.FairSlots > 0) {
			pools = append(pools, tx.options.Budgets.Of(budget.Scope{Kind: budget.Agent, Name: agent}, tx.now())...)
		}
	}
	if len(pools) == 0 {
		return c, nil
	}
	if err := readPools(tx, pools); err != nil {
		return nil, err
	}
	open, spent := *c, *c
	open.Agents, spent.Agents = map[string]int{}, map[string]int{}
	again := tx.now().Add(tx.options.Poll)
	for i := range pools {
		p := &pools[i]
		if err := notice(tx, p); err != nil {
			return nil, err
		}
		if p.State() != budget.Spent {
			continue
		}
		spent.Agents[p.Scope.Name] = c.Agents[p.Scope.Name]
		if p.End.Before(again) {
			again = p.End
		}
	}
	if len(spent.Agents) == 0 {
		return c, nil
	}
	for agent, most := range c.Agents {
		if _, is := spent.Agents[agent]; !is {
			open.Agents[agent] = most
		}
	}
	leaveOut(tx, &spent, again)
	return &open, nil
}

// budgetThread returns the id of the thread with the warnings and questions about a pool.
func budgetThread(p *budget.Pool) string { return thread.BudgetThread(p) }

// notice starts the run that warns or asks about a pool that is low or spent.
func notice(tx *transaction, p *budget.Pool) error {
	n, key, ok := p.Notice(tx.options.Budgets.zone())
	id := budgetThread(p)
	if ok = ok && tx.forecast.noticed[id+" "+key].IsZero(); !ok {
		return nil
	}
	in := thread.NoticeOf(&n, p, key)
	t, err := tx.rows.lock(id)
	if err != nil {
		return abortBatch{err}
	}
	if err := in.Check(); err != nil {
		return abortBatch{err}
	}
	switch _, err := tx.submit(in, false); {
	case err != nil && !isRefusal(err):
		return abortBatch{err}
	case err != nil: // the budget holds all the same
		tx.options.Log.Warn("question about a budget not asked: its thread takes no message", "budget", p.Key(),
			"state", n.State, "error", err)
	default: // see spentBudgets
		t.State = map[string]json.RawMessage{reserved.Asker: in.Messages[0].Parts[0].Data}
		t.Touch()
	}
	for old, end := range tx.forecast.noticed {
		if !end.After(tx.now()) {
			delete(tx.forecast.noticed, old)
		}
	}
	if tx.forecast.noticed == nil {
		tx.forecast.noticed = map[string]time.Time{}
	}
	tx.forecast.noticed[id+" "+key] = p.End
	return nil
}

// raise adds amounts to the limit of a pool for its period.
func raise(tx *transaction, p *budget.Pool, by mailroom.Amounts) {
	row := store.BudgetAmounts(stepOf(p.Period), store.BudgetRaised(p.Key()), p.Begin, by)
	tx.changes.raised = append(tx.changes.raised, row)
	clear(tx.forecast.idle) // runs that waited are due
}

// raiseDecided raises the budgets that people have just decided to raise: the entries of t from begin on have the
// decisions. The limit is raised in the transaction of the decision, by the amount that the ticket shows.
func raiseDecided(tx *transaction, t *thread.State, begin int) error {
	if reserved.Prefix(t.ID) != reserved.Budget {
		return nil
	}
	for _, e := range t.Entries()[begin:] {
		if e.Kind != entry.KindTicketDecided {
			continue
		}
		var d entry.TicketDecision
		if err := e.Decode(&d); err != nil {
			return abortBatch{err}
		}
		k := t.Tickets.Find(d.Ticket)
		if k == nil || d.Decision != mailroom.VerdictApprove {
			continue
		}
		var n budget.Notice
		if err := json.Unmarshal(k.Arguments, &n); err != nil {
			return abortBatch{err}
		}
		p := budget.Pool{Scope: n.Scope(), Period: n.Period, Begin: n.Begin, End: n.End}
		switch {
		case budgetThread(&p) != t.ID:
		case p.Scope.Kind == budget.Thread:
			if _, err := raiseThread(tx, &p, n.Raise); err != nil {
				return abortBatch{err}
			}
		default:
			raise(tx, &p, n.Raise)
		}
	}
	return nil
}

// raiseThread adds amounts to the budget of a thread for its period. It returns false if the thread has none any more.
func raiseThread(tx *transaction, p *budget.Pool, by mailroom.Amounts) (raised bool, err error) {
	t, err := tx.rows.lock(p.Scope.Name)
	if err == nil {
		err = tx.rows.ensure(t, thread.ScopeHead)
	}
	if err != nil {
		return false, err
	}
	return thread.RaiseBudget(t, p.Period, p.Begin, by, tx.now()), nil
}

// onDecided wakes the claims after a decision in a thread, if it may have raised a budget.
func onDecided(l *Ledger, thread string) {
	rest, ok := strings.CutPrefix(thread, reserved.Budget)
	if s, _, known := budget.ParseKey(rest); ok && known {
		l.onResumed(s.Name)
	}
}

// PeriodBudgets are the operations on budgets of days and months.
type PeriodBudgets struct{ Ledger *Ledger }

// PeriodBudget is a budget in its present period.
type PeriodBudget struct {
	budget.Pool
	Thread   *mailroom.Thread // that has it; nil: an agent or an owner has it
	Zone     string
	Question string // ticket that asks whether to raise it; "": none is open
}

// maxThreadBudgets bounds the threads with budgets that are listed.
const maxThreadBudgets = 1000

// List returns the budgets of the configuration, and then of the first 1,000 threads by id, in their present
// periods, by scope and period.
func (bs PeriodBudgets) List(ctx context.Context) (all []PeriodBudget, err error) {
	err = bs.Ledger.View(ctx, func(r store.Reader) error {
		if all, err = bs.read(r, bs.Ledger.options.Budgets.All(r.Now())); err != nil {
			return err
		}
		rows, err := withBudgets(r)
		if err != nil {
			return err
		}
		more, err := bs.ofThreads(r, rows)
		all = append(all, more...)
		return err
	})
	return all, err
}

// withBudgets returns the threads that have budgets, by id, at most maxThreadBudgets.
func withBudgets(r store.Reader) ([]*mailroom.Thread, error) {
	found, err := r.Count(store.CountQuery{Meters: &store.MeterQuery{Prefix: thread.BudgetMeterPrefix,
		Limit: maxThreadBudgets}})
	var ids []string
	for _, m := range found.Meters {
		ids = append(ids, strings.TrimPrefix(m.Key, thread.BudgetMeterPrefix))
	}
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	rows, err := r.Threads(store.ThreadQuery{IDs: ids})
	slices.SortFunc(rows, func(a, b *mailroom.Thread) int { return strings.Compare(a.ID, b.ID) })
	return rows, err
}

// ofThreads returns the budgets of threads with their questions.
func (bs PeriodBudgets) ofThreads(r store.Reader, rows []*mailroom.Thread) (all []PeriodBudget, err error) {
	zone := bs.Ledger.options.Budgets.zone()
	for _, t := range rows {
		for _, p := range thread.Pools(t, r.Now(), zone) {
			all = append(all, PeriodBudget{Pool: p, Thread: t, Zone: zone.String()})
		}
	}
	return all, readQuestions(r, all)
}

// Pools returns the budgets of List without their questions.
func (bs PeriodBudgets) Pools(ctx context.Context) (pools []budget.Pool, err error) {
	err = bs.Ledger.View(ctx, func(r store.Reader) error {
		pools = bs.Ledger.options.Budgets.All(r.Now())
		if err = ReadPools(r, pools); err != nil {
			return err
		}
		rows, err := withBudgets(r)
		for _, t := range rows {
			pools = append(pools, thread.Pools(t, r.Now(), bs.Ledger.options.Budgets.zone())...)
		}
		return err
	})
	return pools, err
}

// read returns pools with what was used of them, and their questions.
func (bs PeriodBudgets) read(r store.Reader, pools []budget.Pool) ([]PeriodBudget, error) {
	if err := ReadPools(r, pools); err != nil {
		return nil, err
	}
	var all []PeriodBudget
	for i := range pools {
		all = append(all, PeriodBudget{Pool: pools[i], Zone: bs.Ledger.options.Budgets.zone().String()})
	}
	return all, readQuestions(r, all)
}

// readQuestions fills in the open questions about budgets.
func readQuestions(r store.Reader, all []PeriodBudget) error {
	of := map[string]int{}
	var ids []string
	for i := range all {
		ids = append(ids, budgetThread(&all[i].Pool))
		of[ids[i]] = i
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := r.Threads(store.ThreadQuery{IDs: ids})
	if err != nil {
		return err
	}
	for _, t := range rows {
		_, k, err := openQuestion(r, t)
		if err != nil {
			return err
		}
		if k != nil {
			all[of[t.ID]].Question = k.ID
		}
	}
	return nil
}

// Raise adds amounts to the limit of a budget until the end of its present period, and returns it. Runs that wait for
// the budget start at once. An open question about it is withdrawn. Amounts without a bound in the budget are refused
// with CodeInvalid, a scope without a budget of the period with CodeNotFound.
func (bs PeriodBudgets) Raise(ctx context.Context, s budget.Scope, p budget.Period, by mailroom.Amounts) (PeriodBudget,
	error) {
	one := budget.Pool{Scope: s, Period: p}
	o := op{name: "raise_budget", rank: rankPlain, threads: []string{budgetThread(&one)}, queues: true, audits: true}
	err := perform(ctx, bs.Ledger, o, func(tx *transaction) error { return bs.raise(tx, &one, by) })
	if err != nil {
		return PeriodBudget{}, err
	}
	onDecided(bs.Ledger, budgetThread(&one))
	var all []PeriodBudget
	err = bs.Ledger.View(ctx, func(r store.Reader) error {
		if s.Kind == budget.Thread {
			rows, err := r.Threads(store.ThreadQuery{IDs: []string{s.Name}})
			if err == nil {
				all, err = bs.ofThreads(r, rows)
			}
			all = slices.DeleteFunc(all, func(b PeriodBudget) bool { return b.Period != p })
			return err
		}
		pool, err := bs.find(r.Now(), s, p)
		if err == nil {
			all, err = bs.read(r, []budget.Pool{*pool})
		}
		return err
	})
	if err == nil && len(all) == 0 {
		err = noBudget(s, p) // it was removed since
	}
	if err != nil {
		return PeriodBudget{}, err
	}
	return all[0], nil
}

// raise raises a budget in the transaction.
func (bs PeriodBudgets) raise(tx *transaction, one *budget.Pool, by mailroom.Amounts) error {
	pool, err := bs.findIn(tx, one.Scope, one.Period)
	if err != nil {
		return err
	}
	if by != by.Positive() || by == (mailroom.Amounts{}) || by != pool.Budget.Of(by) {
		return check.Invalid("by", "must be an amount of what the budget bounds, which is "+pool.Budget.String(),
			by.String())
	}
	if max(by.MicroUSD, by.Tokens, by.Turns) > budget.MaxRaise {
		return check.Invalid("by", "must be at most "+budget.MaxRaiseText+" at once", by.String())
	}
	t := tx.rows.thread(budgetThread(pool))
	if err := tx.rows.ensure(t, thread.ScopeHead); err != nil {
		return err
	}
	if pool.Scope.Kind == budget.Thread {
		if _, err := raiseThread(tx, pool, by); err != nil {
			return err
		}
	} else {
		raise(tx, pool, by)
	}
	if r := t.Run(t.Current); r != nil && r.Status == mailroom.StatusWaiting {
		if _, err := t.Cancel(r.ID, auth.Operator, tx.now()); err != nil {
			return abortBatch{err}
		}
	}
	return appendAudit(tx, entry.Audit{Action: "budget.raise", ObjectKind: "budget", Object: pool.Key(),
		Detail: map[string]string{"of": pool.Scope.String(), "by": by.String(), "until": pool.End.Format(time.RFC3339)}})
}

// findIn is find in a transaction, which also knows the budgets of threads.
func (bs PeriodBudgets) findIn(tx *transaction, s budget.Scope, p budget.Period) (*budget.Pool, error) {
	if s.Kind != budget.Thread {
		return bs.find(tx.now(), s, p)
	}
	t, err := tx.rows.lock(s.Name)
	if err != nil {
		return nil, err
	}
	pools := thread.Pools(&t.Thread, tx.now(), bs.Ledger.options.Budgets.zone())
	i := slices.IndexFunc(pools, func(one budget.Pool) bool { return one.Period == p })
	if i < 0 || !t.DeletedAt.IsZero() {
		return nil, noBudget(s, p)
	}
	return &pools[i], nil
}

func noBudget(s budget.Scope, p budget.Period) error {
	return mailroom.Errorf(mailroom.CodeNotFound, "%s has no budget of a %s", s, p)
}

// find returns the pool of a scope in the period that has begun at now, with nothing used.
func (bs PeriodBudgets) find(now time.Time, s budget.Scope, p budget.Period) (*budget.Pool, error) {
	pools := bs.Ledger.options.Budgets.Of(s, now)
	i := slices.IndexFunc(pools, func(one budget.Pool) bool { return one.Period == p })
	if i < 0 {
		return nil, noBudget(s, p)
	}
	return &pools[i], nil
}
