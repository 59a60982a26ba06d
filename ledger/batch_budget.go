package ledger

import (
	"maps"
	"slices"
	"time"

	"mailroom"
	"mailroom/internal/budget"
	"mailroom/internal/reserved"
	"mailroom/store"
)

// The use of a budget is summed up in rows of the summary (store.StepBudgetDay). The transaction of a step adds what
// the step used, so a row is neither late nor wrong after a crash, and additions of several servers do not wait for
// each other. A claim reads the rows of the agents that it asks for, in its transaction, and leaves out the agents
// whose budget is spent. So once a budget is spent, no run starts, except those that another server claims at the same
// moment. Runs that wait cost nothing: they have no state of their own, and start when the next period begins.

// Budgets are the budgets that the configuration sets for days and months.
type Budgets struct {
	Zone  *time.Location // in which days and months begin; nil: UTC
	Agent map[string]budget.Limits
	// Reread is after what time a batch reads the budgets of tokens again, which another server may have changed.
	// 0: five polls.
	Reread time.Duration

	owners *ownerBudgets // set by New
}

// zone returns the zone of the periods.
func (b *Budgets) zone() *time.Location {
	if b.Zone == nil {
		return time.UTC
	}
	return b.Zone
}

// Of returns the pools of a scope at now, with nothing used.
func (b *Budgets) Of(s budget.Scope, now time.Time) []budget.Pool {
	if s.Kind == budget.Agent {
		return budget.PoolsOf(s, b.Agent[s.Name], now, b.zone())
	}
	return budget.PoolsOf(s, b.owners.get()[s.Name], now, b.zone())
}

// ofRun returns the budget of each run of an agent in a thread of an owner: the smaller one of their amounts. Parts of
// the server have none.
func (b *Budgets) ofRun(agent, owner string) mailroom.Budget {
	if reserved.IsAgent(agent) {
		return mailroom.Budget{}
	}
	return budget.Smaller(b.Agent[agent].Run, b.owners.get()[owner].Run)
}

// All returns all pools at now, with nothing used: by agent and period, then by owner and period.
func (b *Budgets) All(now time.Time) (pools []budget.Pool) {
	for _, agent := range slices.Sorted(maps.Keys(b.Agent)) {
		pools = append(pools, b.Of(budget.Scope{Kind: budget.Agent, Name: agent}, now)...)
	}
	for _, owner := range slices.Sorted(maps.Keys(b.owners.get())) {
		pools = append(pools, b.Of(budget.Scope{Kind: budget.Owner, Name: owner}, now)...)
	}
	return pools
}

// ReadPools fills in what was used of pools and added to them.
func ReadPools(r store.Reader, pools []budget.Pool) error {
	for _, p := range budget.Periods() {
		var keys []string
		var begin time.Time
		for i := range pools {
			if pools[i].Period == p {
				keys, begin = append(keys, pools[i].Key()), pools[i].Begin // all are of one moment and one zone
			}
		}
		used, raised, err := store.BudgetUse(r, stepOf(p), begin, keys)
		if err != nil {
			return err
		}
		for i := range pools {
			if one := &pools[i]; one.Period == p {
				one.Used, one.Raised = used[one.Key()], raised[one.Key()]
			}
		}
	}
	return nil
}

// stepOf returns the step of the rows of a period.
func stepOf(p budget.Period) time.Duration {
	if p == budget.Day {
		return store.StepBudgetDay
	}
	return store.StepBudgetMonth
}

// readPools is ReadPools with the changes of this batch.
func readPools(tx *transaction, pools []budget.Pool) error {
	if err := ReadPools(tx.rows.stored, pools); err != nil {
		return err
	}
	for _, row := range budgetChanges(tx) {
		key, raised := store.ParseBudgetKey(row.Key.Agent)
		for i := range pools {
			p := &pools[i]
			if row.Key.Step != stepOf(p.Period) || key != p.Key() || !row.Key.At.Equal(p.Begin) {
				continue
			}
			if raised {
				p.Raised = p.Raised.Plus(store.AmountsOf(row.Sums))
			} else {
				p.Used = p.Used.Plus(store.AmountsOf(row.Sums))
			}
		}
	}
	return nil
}

// budgetChanges returns what this batch adds to the rows of budgets: the use of steps, and what people added.
func budgetChanges(tx *transaction) []store.Summary {
	all := slices.Clone(tx.changes.raised)
	budgets := &tx.options.Budgets
	if len(budgets.Agent)+len(budgets.owners.get()) == 0 {
		return all
	}
	for _, t := range tx.rows.order {
		for _, u := range t.Attempts.Used {
			if budget.UsedBy(u.Usage) == (mailroom.Amounts{}) {
				continue
			}
			pools := budgets.Of(budget.Scope{Kind: budget.Agent, Name: u.Agent}, tx.now())
			pools = append(pools, budgets.Of(budget.Scope{Kind: budget.Owner, Name: t.Owner}, tx.now())...)
			for _, p := range pools {
				all = append(all, store.BudgetAmounts(stepOf(p.Period), p.Key(), p.Begin, p.UsedOf(u.Usage, u.Unpriced)))
			}
		}
	}
	return store.AddUp(all)
}
