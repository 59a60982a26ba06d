package ledger

import (
	"encoding/json"

	"mailroom"
	"mailroom/internal/budget"
	"mailroom/internal/reserved"
	"mailroom/store"
	"mailroom/thread"
)

// budgets reads the budgets that keep runs from starting. What is spent is known from the notices in the threads of
// budgets and from the rows of sums, so the reader needs no configuration.
func (w *waits) budgets(open []*mailroom.Run) error {
	var ids []string
	for _, r := range open {
		scopes := []budget.Scope{{Kind: budget.Agent, Name: r.Agent}, {Kind: budget.Owner, Name: w.threads[r.Thread].Owner}}
		for _, s := range scopes {
			if s.Name == "" || w.asked[s] {
				continue
			}
			w.asked[s] = true
			for _, p := range budget.Periods() {
				ids = append(ids, budgetThread(&budget.Pool{Scope: s, Period: p}))
			}
		}
	}
	found, err := spentBudgets(w.rd, ids)
	if err != nil {
		return err
	}
	ofThreads, err := w.threadBudgets(open)
	for _, b := range append(found, ofThreads...) {
		if q := b.Question; q != nil && w.sees != nil && !w.sees(b.run, b.thread) {
			b.Question = nil
		}
		w.spent = append(w.spent, b.SpentBudget)
	}
	return err
}

// threadBudgets returns the budgets of the threads of runs that are spent. The rows of the threads have them.
func (w *waits) threadBudgets(open []*mailroom.Run) (all []spentBudget, err error) {
	of := map[string]int{} // by the thread of its questions
	var ids []string
	zone := w.options.Budgets.zone()
	for _, r := range open {
		t := w.threads[r.Thread]
		scope := budget.Scope{Kind: budget.Thread, Name: t.ID}
		if w.asked[scope] {
			continue
		}
		w.asked[scope] = true
		for _, p := range thread.Pools(t, w.now, zone) {
			if p.State() != budget.Spent {
				continue
			}
			id := thread.BudgetThread(&p)
			of[id] = len(all)
			ids = append(ids, id)
			all = append(all, spentBudget{SpentBudget: thread.SpentBudget{Pool: p, Zone: zone.String()}})
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := w.rd.Threads(store.ThreadQuery{IDs: ids})
	if err != nil {
		return nil, err
	}
	for _, t := range rows {
		b := &all[of[t.ID]]
		b.thread = t
		if b.run, b.Question, err = openQuestion(w.rd, t); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// spentBudget is a budget that is spent, with the rows of its question.
type spentBudget struct {
	thread.SpentBudget
	run    *mailroom.Run
	thread *mailroom.Thread
}

// spentBudgets returns the budgets that are spent now, by the ids of their threads.
func spentBudgets(rd store.Reader, ids []string) (all []spentBudget, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := rd.Threads(store.ThreadQuery{IDs: ids})
	if err != nil {
		return nil, err
	}
	var pools []budget.Pool
	for _, t := range rows {
		var n budget.Notice
		if raw := t.State[reserved.Asker]; raw == nil || json.Unmarshal(raw, &n) != nil {
			continue // a newer version wrote it
		}
		if p := n.Pool(); !rd.Now().Before(p.Begin) && rd.Now().Before(p.End) {
			pools = append(pools, p)
			all = append(all, spentBudget{SpentBudget: thread.SpentBudget{Zone: n.Zone}, thread: t})
		}
	}
	if err := ReadPools(rd, pools); err != nil {
		return nil, err
	}
	kept := all[:0]
	for i, b := range all {
		if b.Pool = pools[i]; b.Pool.State() != budget.Spent {
			continue
		}
		if b.run, b.Question, err = openQuestion(rd, b.thread); err != nil {
			return nil, err
		}
		kept = append(kept, b)
	}
	return kept, nil
}

// openQuestion returns the open question of a budget's thread with its run, or nil.
func openQuestion(rd store.Reader, t *mailroom.Thread) (*mailroom.Run, *mailroom.Ticket, error) {
	if t.Current == "" {
		return nil, nil, nil
	}
	runs, err := rd.Runs(store.RunQuery{IDs: []string{t.Current}})
	if err != nil || len(runs) == 0 {
		return nil, nil, err
	}
	tickets, err := rd.Tickets(store.TicketQuery{Runs: []string{t.Current}})
	for _, k := range tickets {
		if k.StateAt(rd.Now()) == mailroom.TicketOpen {
			return runs[0], k, err
		}
	}
	return nil, nil, err
}
