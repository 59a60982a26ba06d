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
	"mailroom/internal/digest"
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
func budgetThread(p *budget.Pool) string { return reserved.Budget + p.Key() }

// notice starts the run that warns or asks about a pool that is low or spent. The key of its message makes it one run
// for each notice, on all servers and after a restart.
func notice(tx *transaction, p *budget.Pool) error {
	n, key, ok := p.Notice(tx.options.Budgets.zone())
	id := budgetThread(p)
	if ok = ok && tx.forecast.noticed[id+" "+key].IsZero(); !ok {
		return nil
	}
	data, err := json.Marshal(n)
	if err != nil {
		return abortBatch{err}
	}
	in := thread.Submit{
		Thread: id, Run: digest.ID(id, key), Key: key, Agent: reserved.Asker, Owner: auth.Operator, Sender: auth.Operator,
		ByServer: true, Origin: mailroom.Origin{Via: reserved.ViaBudget, Sender: reserved.ViaBudget},
		Messages: []thread.NewMessage{{Role: mailroom.RoleSystem, Parts: []mailroom.Part{{Type: "data", Data: data}}}},
	}
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
		t.State = map[string]json.RawMessage{reserved.Asker: data}
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
		if budgetThread(&p) == t.ID {
			raise(tx, &p, n.Raise)
		}
	}
	return nil
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
	Zone     string
	Question string // ticket that asks whether to raise it; "": none is open
}

// List returns the budgets of the configuration in their present periods, by scope and period.
func (bs PeriodBudgets) List(ctx context.Context) (all []PeriodBudget, err error) {
	err = bs.Ledger.View(ctx, func(r store.Reader) error {
		all, err = bs.read(r, bs.Ledger.options.Budgets.All(r.Now()))
		return err
	})
	return all, err
}

// Pools returns the budgets of the configuration and of tokens in their present periods, by scope and period, without
// their questions.
func (bs PeriodBudgets) Pools(ctx context.Context) (pools []budget.Pool, err error) {
	err = bs.Ledger.View(ctx, func(r store.Reader) error {
		pools = bs.Ledger.options.Budgets.All(r.Now())
		return ReadPools(r, pools)
	})
	return pools, err
}

// read returns pools with what was used of them, and their questions.
func (bs PeriodBudgets) read(r store.Reader, pools []budget.Pool) ([]PeriodBudget, error) {
	if err := ReadPools(r, pools); err != nil {
		return nil, err
	}
	var all []PeriodBudget
	var ids []string
	for i := range pools {
		all = append(all, PeriodBudget{Pool: pools[i], Zone: bs.Ledger.options.Budgets.zone().String()})
		ids = append(ids, budgetThread(&pools[i]))
	}
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := r.Threads(store.ThreadQuery{IDs: ids})
	if err != nil {
		return nil, err
	}
	for _, t := range rows {
		_, k, err := openQuestion(r, t)
		if err != nil {
			return nil, err
		}
		if i := slices.Index(ids, t.ID); k != nil {
			all[i].Question = k.ID
		}
	}
	return all, nil
}

// Raise adds amounts to the limit of a budget until the end of its present period, and returns it. Runs that wait for
// the budget start at once. An open question about it is withdrawn. Amounts without a bound in the budget are refused
// with CodeInvalid, a scope without a budget of the period with CodeNotFound.
func (bs PeriodBudgets) Raise(ctx context.Context, s budget.Scope, p budget.Period, by mailroom.Amounts) (PeriodBudget,
	error) {
	one := budget.Pool{Scope: s, Period: p}
	o := op{name: "raise_budget", rank: rankPlain, threads: []string{budgetThread(&one)}, queues: true, audits: true}
	_, err := run(ctx, bs.Ledger, o, func(tx *transaction) (struct{}, error) {
		pool, err := bs.find(tx.now(), s, p)
		if err != nil {
			return struct{}{}, err
		}
		if by != by.Positive() || by == (mailroom.Amounts{}) || by != pool.Budget.Of(by) {
			return struct{}{}, check.Invalid("by", "must be an amount of what the budget bounds, which is "+pool.Budget.String(),
				by.String())
		}
		t := tx.rows.thread(budgetThread(pool))
		if err := tx.rows.ensure(t, thread.ScopeHead); err != nil {
			return struct{}{}, err
		}
		raise(tx, pool, by)
		if r := t.Run(t.Current); r != nil && r.Status == mailroom.StatusWaiting {
			if _, err := t.Cancel(r.ID, auth.Operator, tx.now()); err != nil {
				return struct{}{}, abortBatch{err}
			}
		}
		return struct{}{}, appendAudit(tx, entry.Audit{Action: "budget.raise", ObjectKind: "budget", Object: pool.Key(),
			Detail: map[string]string{"by": by.String(), "until": pool.End.Format(time.RFC3339)}})
	})
	if err != nil {
		return PeriodBudget{}, err
	}
	onDecided(bs.Ledger, budgetThread(&one))
	var all []PeriodBudget
	err = bs.Ledger.View(ctx, func(r store.Reader) error {
		pool, err := bs.find(r.Now(), s, p)
		if err == nil {
			all, err = bs.read(r, []budget.Pool{*pool})
		}
		return err
	})
	if err != nil {
		return PeriodBudget{}, err
	}
	return all[0], nil
}

// find returns the pool of a scope in the period that has begun at now, with nothing used.
func (bs PeriodBudgets) find(now time.Time, s budget.Scope, p budget.Period) (*budget.Pool, error) {
	pools := bs.Ledger.options.Budgets.Of(s, now)
	i := slices.IndexFunc(pools, func(one budget.Pool) bool { return one.Period == p })
	if i < 0 {
		return nil, mailroom.Errorf(mailroom.CodeNotFound, "%s has no budget of a %s", s, p)
	}
	return &pools[i], nil
}
