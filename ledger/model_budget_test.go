package ledger_test

import (
	"time"

	"pgregory.net/rapid"

	"mailroom"
)

// budgets follows what trees of runs spend. A tree begins with a run that no other one lends to.
type budgets struct {
	root  map[string]string           // by run, also of runs that are gone
	trees map[string]*budgetTree      // by root
	used  map[string]mailroom.Amounts // by run, as of the last step that was compared
	parts map[string]*mailroom.RunBudget
}

type budgetTree struct {
	most   mailroom.Budget  // of the root at first
	raised mailroom.Amounts // in the whole tree
	used   mailroom.Amounts // by the runs of the tree, also by those that are gone
	open   int
	peak   int // most open runs at one time
}

func newBudgets() *budgets {
	return &budgets{root: map[string]string{}, trees: map[string]*budgetTree{}, used: map[string]mailroom.Amounts{},
		parts: map[string]*mailroom.RunBudget{}}
}

// mostUsage is the largest usage of a step of the histories.
func mostUsage() mailroom.Amounts { return mailroom.Amounts{MicroUSD: 300_000, Tokens: 900, Turns: 1} }

// drawUsage returns what a step reports. An attempt that was asked to stop for its budget calls no model.
//
// It draws nothing: the histories of a seed stay as they are.
func (m *model) drawUsage(c mailroom.Claim) mailroom.Usage {
	if m.n%3 == 0 || m.run(c.Run).Stop == mailroom.ReasonBudget {
		return mailroom.Usage{}
	}
	return mailroom.Usage{InputTokens: int64(m.n%7) * 100, OutputTokens: int64(m.n % 300),
		CostUSD: float64(m.n%4) / 10}
}

// drawBudget returns the budget of a submit or a send, or none.
func (m *model) drawBudget() (b mailroom.Budget) {
	switch m.n % 5 {
	case 0:
		b.MicroUSD = int64(m.n%9+1) * 100_000
	case 1:
		b.Turns = int64(m.n%6 + 1)
	case 2:
		b.Amounts = mailroom.Amounts{Tokens: int64(m.n%11+1) * 200, Turns: 8}
	}
	if b.Turns > 0 && m.n%4 == 0 {
		b.Until = m.clock.read().Add(time.Duration(m.n%50+1) * time.Second)
	}
	return b
}

// checkBudgets checks that no tree of runs has used more than the budget of its root, what people have added, and one
// call of a model for each run that was open at the same time; and that each part comes back once, with the end of its
// run.
func (m *model) checkBudgets(t *rapid.T) {
	m.checkThreadBudgets(t)
	b := m.budgets
	lent := map[string]mailroom.Amounts{}
	for _, tree := range b.trees {
		tree.open = 0
	}
	for _, id := range m.runs() {
		r := m.run(id)
		if r.Budget == nil {
			continue
		}
		if _, known := b.root[id]; !known {
			b.add(r)
		}
		tree := b.trees[b.root[id]]
		if b.parts[id] == nil || m.before.Runs[id] == nil { // a deleted run that was sent again is a new one
			b.used[id], b.parts[id] = mailroom.Amounts{}, &mailroom.RunBudget{}
		}
		tree.used = tree.used.Plus(r.Used().Minus(b.used[id]))
		tree.raised = tree.raised.Plus(r.Budget.Raised.Minus(b.parts[id].Raised))
		b.used[id], b.parts[id] = r.Used(), r.Budget
		if !r.Status.Finished() {
			tree.open++
		}
		if r.Budget.Lender != "" {
			lent[r.Budget.Lender] = lent[r.Budget.Lender].Plus(r.Budget.Part)
			m.coverage["lent"]++
		}
		if r.Budget.Lender != "" && r.Status.Finished() {
			t.Fatalf("run %s has ended and kept its part of the budget of run %s", id, r.Budget.Lender)
		}
		if r.Budget.Lent != r.Budget.Lent.Positive() {
			t.Fatalf("more came back to run %s than it has lent: %v", id, r.Budget.Lent)
		}
	}
	for _, id := range m.runs() {
		if r := m.run(id); r.Budget != nil && r.Budget.Lent != lent[id] {
			t.Fatalf("run %s has lent %v, its open runs have %v", id, r.Budget.Lent, lent[id])
		}
	}
	for root, tree := range b.trees {
		tree.peak = max(tree.peak, tree.open)
		turn := mostUsage()
		n := int64(tree.peak)
		most := tree.most
		most.Amounts = most.Plus(tree.raised).Plus(mailroom.Amounts{MicroUSD: turn.MicroUSD * n, Tokens: turn.Tokens * n,
			Turns: turn.Turns * n})
		over := tree.most.Of(tree.used).Minus(tree.most.Of(most.Amounts)).Positive()
		if over != (mailroom.Amounts{}) {
			t.Fatalf("the tree of run %s used %v, its budget is %v, %v were added, %d runs were open at once", root, tree.used,
				tree.most, tree.raised, tree.peak)
		}
	}
}

// add adds a new run to the tree of its lender, or begins a tree with it.
func (b *budgets) add(r *mailroom.Run) {
	if root := b.root[r.Budget.Lender]; r.Budget.Lender != "" && root != "" {
		b.root[r.ID] = root
		return
	}
	b.root[r.ID] = r.ID
	tree := &budgetTree{most: r.Budget.Limit}
	if r.Budget.Closed {
		tree.most.Amounts = tree.most.Minus(tree.most.Amounts)
	}
	b.trees[r.ID] = tree
}

// endedUnraised reports whether the last operation ended a run because the question to raise its budget has expired.
func (m *model) endedUnraised(run string) bool {
	r := m.after.Runs[run]
	return r != nil && r.Reason == mailroom.ReasonBudget && !m.before.Runs[run].Status.Finished()
}
