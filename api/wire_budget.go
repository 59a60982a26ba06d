package api

import (
	"time"

	"mailroom"
)

// Budget bounds what a run may use, with all that it sends.
type Budget struct {
	USD    float64    `json:"usd,omitempty" minimum:"0" example:"1.5" doc:"US dollars, exact to a millionth. Absent: no bound."`
	Tokens int64      `json:"tokens,omitempty" minimum:"0" doc:"Input and output tokens, from a cache or not. Absent: no bound."`
	Turns  int64      `json:"turns,omitempty" minimum:"0" doc:"Steps that report a usage, as of one call of a model. Absent: no bound."`
	Until  *time.Time `json:"until,omitempty" doc:"Nothing begins from then on. Absent: no bound."`
}

// RunBudget is the budget of a run, and what became of it.
type RunBudget struct {
	Limit Budget  `json:"limit" doc:"What the run may use, with what it lends and with what people added."`
	Spent Amounts `json:"spent" doc:"Used by the run, and by the runs that it sent and that have ended."`
	Lent  Amounts `json:"lent" doc:"To runs that it sent and that are open. What they leave comes back."`
	Left  Left    `json:"left" doc:"What is left of each bound; 0 or less: nothing."`
	// Unpriced is set for as long as the run is known.
	Unpriced bool `json:"unpriced,omitempty" doc:"It has used a model whose price is not known: spent and left lack those dollars."`
}

// Left is what is left of the bounds of a budget.
type Left struct {
	USD    *float64   `json:"usd,omitempty" doc:"US dollars. Absent: not bounded."`
	Tokens *int64     `json:"tokens,omitempty" doc:"Tokens. Absent: not bounded."`
	Turns  *int64     `json:"turns,omitempty" doc:"Turns. Absent: not bounded."`
	Until  *time.Time `json:"until,omitempty" doc:"Nothing begins from then on. Absent: not bounded."`
}

// FormatBudget converts a budget to its wire type, nil if it bounds nothing.
func FormatBudget(b mailroom.Budget) *Budget {
	if b.IsZero() {
		return nil
	}
	out := &Budget{USD: b.USD(), Tokens: b.Tokens, Turns: b.Turns}
	if !b.Until.IsZero() {
		out.Until = &b.Until
	}
	return out
}

// Read converts the budget from its wire type. at is the path of the field. An empty budget is refused.
func (b *Budget) Read(at string) (out mailroom.Budget, err error) {
	if b == nil {
		return out, nil
	}
	if b.USD > 1e9 || b.USD != b.USD || b.USD > 0 && b.USD < 1e-6 {
		return out, invalid(at+".usd", "must be from 0.000001 to 1000000000", b.USD)
	}
	out.Amounts = mailroom.Dollars(b.USD)
	out.Tokens, out.Turns = b.Tokens, b.Turns
	if b.Until != nil {
		out.Until = *b.Until
	}
	if err := out.Check(); err != nil {
		return out, invalid(at, err.Error(), nil)
	}
	return out, nil
}

// FormatRunBudget returns the budget of a run, nil if it has none.
func FormatRunBudget(r *mailroom.Run) *RunBudget {
	b := r.Budget
	if b == nil {
		return nil
	}
	limit := FormatBudget(b.Limit)
	if limit == nil {
		limit = &Budget{}
	}
	return &RunBudget{Limit: *limit, Spent: formatAmounts(r.UsedInAll()), Lent: formatAmounts(b.Lent),
		Left: *FormatLeft(b.Limit, r.BudgetLeft()), Unpriced: b.Unpriced || b.WasUnpriced}
}

// FormatLeft returns what is left of the bounds of a limit, nil if left is nil.
func FormatLeft(limit mailroom.Budget, left *mailroom.Budget) *Left {
	if left == nil {
		return nil
	}
	out := &Left{}
	if usd := left.USD(); limit.MicroUSD > 0 {
		out.USD = &usd
	}
	if limit.Tokens > 0 {
		out.Tokens = &left.Tokens
	}
	if limit.Turns > 0 {
		out.Turns = &left.Turns
	}
	if !limit.Until.IsZero() {
		out.Until = &limit.Until
	}
	return out
}

// Read converts what is left from its wire type, nil if l is nil.
func (l *Left) Read() *mailroom.Budget {
	if l == nil {
		return nil
	}
	out := &mailroom.Budget{}
	if l.USD != nil {
		out.Amounts = mailroom.Dollars(*l.USD)
	}
	if l.Tokens != nil {
		out.Tokens = *l.Tokens
	}
	if l.Turns != nil {
		out.Turns = *l.Turns
	}
	if l.Until != nil {
		out.Until = *l.Until
	}
	return out
}

func formatAmounts(a mailroom.Amounts) Amounts {
	return Amounts{USD: a.USD(), Tokens: a.Tokens, Turns: a.Turns}
}

func (a Amounts) read() mailroom.Amounts {
	out := mailroom.Dollars(a.USD)
	out.Tokens, out.Turns = a.Tokens, a.Turns
	return out
}

// read returns the budget of a run that a worker sees, whose other fields are set.
func (b *RunBudget) read(r *mailroom.Run) *mailroom.RunBudget {
	limit, err := b.Limit.Read("")
	if err != nil {
		return nil // a budget whose lender has taken it back has no bound
	}
	return &mailroom.RunBudget{Limit: limit, Lent: b.Lent.read(), Below: b.Spent.read().Minus(r.Used())}
}
