package mailroom

import "time"

// RunBudget is the budget of a run, and what became of it. A budget is leased down the tree of runs: what a run lends
// to a run that it sends is taken from what it has left, and comes back with the end of that run.
type RunBudget struct {
	Limit Budget // what the run may use, with what it lends
	Grant Budget // Limit at first; a raise adds it again
	// Raised is the part of Limit that people have added. No lender gets it back, and none is charged for it.
	Raised Amounts `json:",omitzero"`
	Lent   Amounts `json:",omitzero"` // to runs that are open
	Below  Amounts `json:",omitzero"` // used by runs that it sent and that have ended, with what they had lent then
	// Lender is the run that lent Part, until the run ends, and LenderThread its thread. "": the submit gave the budget.
	Lender       string  `json:",omitempty"`
	LenderThread string  `json:",omitempty"`
	Part         Amounts `json:",omitzero"`
	Low          bool    `json:",omitempty"` // the log says that it is low
	// Closed reports that nothing is left, whatever Limit says, because what was left went back to the lender.
	Closed bool `json:",omitempty"`
	Asks   int  `json:",omitempty"` // number of questions whether to raise it
	// Unpriced reports that the run has used a model whose price is not known since people last raised its budget, which
	// counts dollars. So it asks, and what it has used of its dollars is not known.
	Unpriced bool `json:",omitempty"`
	// WasUnpriced reports the same of the time before: nothing of the lender's dollars comes back.
	WasUnpriced bool `json:",omitempty"`
}

// Used returns what the run itself has used, without the runs that it sent.
func (r *Run) Used() Amounts {
	used := Dollars(r.Usage.CostUSD)
	used.Tokens, used.Turns = r.Usage.InputTokens+r.Usage.OutputTokens, r.Turns
	return used
}

// UsedInAll returns what the run has used, with the runs that it sent and that have ended.
func (r *Run) UsedInAll() Amounts {
	if r.Budget == nil {
		return r.Used()
	}
	return r.Used().Plus(r.Budget.Below)
}

// BudgetLeft returns what the run may still use and lend, for each bound of its budget: 0 or less means nothing. It
// returns nil if the run has no budget.
func (r *Run) BudgetLeft() *Budget {
	b := r.Budget
	if b == nil {
		return nil
	}
	left := b.Limit.Left(r.UsedInAll().Plus(b.Lent))
	if b.Closed {
		left = Amounts{}
	}
	return &Budget{Amounts: left, Until: b.Limit.Until}
}

// OverBudget returns the bound of its budget that the run has reached at now, by what it spent and what it lends: usd,
// tokens, turns, until, or "lease" if its budget went back to its lender. It returns "" if the run may go on.
func (r *Run) OverBudget(now time.Time) string {
	b := r.Budget
	switch {
	case b == nil:
		return ""
	case b.Closed:
		return "lease"
	case !b.Limit.Until.IsZero() && !b.Limit.Until.After(now):
		return "until"
	case b.Unpriced:
		return "usd"
	}
	return b.Limit.Over(r.UsedInAll().Plus(b.Lent))
}
