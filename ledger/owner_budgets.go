package ledger

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"mailroom/auth"
	"mailroom/internal/budget"
	"mailroom/store"
)

// ownerBudgets are the budgets of tokens, as owners of threads. Transactions read them here, because few tokens have
// one, and a step or a claim should not read a row of each owner. Another server that makes a token with a budget is
// noticed by the first batch after Budgets.Reread; what its runs use until then is not counted.
type ownerBudgets struct {
	mu   sync.Mutex
	all  map[string]budget.Limits // guarded by mu; replaced, never changed
	last time.Time                // guarded by mu: when they were read
}

// get returns the budgets by owner. The caller must not change them.
func (o *ownerBudgets) get() map[string]budget.Limits {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all
}

// refresh reads the budgets of tokens, unless they were read within the time of every.
func (o *ownerBudgets) refresh(r store.Reader, every time.Duration) error {
	now := time.Now()
	o.mu.Lock()
	before := o.last
	o.mu.Unlock()
	if now.Sub(before) < every {
		return nil
	}
	rows, err := r.Tokens()
	if err != nil {
		return err
	}
	all := map[string]budget.Limits{}
	for _, t := range rows {
		if t.Terms.Kind == auth.KindToken && !t.Terms.Budget.IsZero() {
			all[t.Name] = t.Terms.Budget
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if every == 0 || o.last.Equal(before) { // else a read after a change has newer rows
		o.all, o.last = all, now
	}
	return nil
}

// read reads the budgets of tokens now.
func (o *ownerBudgets) read(ctx context.Context, s store.Store) error {
	return s.View(ctx, func(r store.Reader) error { return o.refresh(r, 0) })
}

// spentOwners returns the owners whose budget is spent, and starts the runs of notices. It reads the rows of all owners
// with a budget, in one query for each period.
func spentOwners(tx *transaction) (map[string]bool, error) {
	var pools []budget.Pool
	limits := tx.options.Budgets.owners.get()
	for _, owner := range slices.Sorted(maps.Keys(limits)) {
		pools = append(pools, tx.options.Budgets.Of(budget.Scope{Kind: budget.Owner, Name: owner}, tx.now())...)
	}
	if len(pools) == 0 {
		return nil, nil
	}
	if err := readPools(tx, pools); err != nil {
		return nil, err
	}
	spent := map[string]bool{}
	for i := range pools {
		p := &pools[i]
		if err := notice(tx, p); err != nil {
			return nil, err
		}
		if p.State() == budget.Spent {
			spent[p.Scope.Name] = true
		}
	}
	return spent, nil
}
