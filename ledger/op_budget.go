package ledger

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/entry"
	"mailroom/internal/budget"
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
