package store

import (
	"slices"
	"strings"
	"time"

	"mailroom"
)

// The steps of the use of budgets. A row has the key of a budget as Agent and the begin of a period as At, and counts
// what was used in it: Runs are turns, InputTokens all tokens, and Cost is the money. What a person added is in another
// row, see BudgetRaised.
//
// They are rows of the summary because they need the same: additions of several servers that commute and wait for each
// other nowhere, one row for a period however much happens, and a drop by time. A version that knows no budgets, on the
// same store, neither lists them as agents nor adds them to the sums of agents.
const (
	StepBudgetDay   = StepDay + 3*time.Microsecond
	StepBudgetMonth = StepDay + 4*time.Microsecond
)

// raisedMark ends the key of what was added to a budget.
const raisedMark = " raised"

// BudgetRaised returns the Agent in the key of the row of what was added to a budget.
func BudgetRaised(key string) string { return key + raisedMark }

// ParseBudgetKey returns the key of a budget of the Agent in the key of a row, and whether the row has what was added.
func ParseBudgetKey(agent string) (key string, raised bool) {
	return strings.CutSuffix(agent, raisedMark)
}

// BudgetAmounts returns a row that adds amounts to a budget.
func BudgetAmounts(step time.Duration, key string, begin time.Time, a mailroom.Amounts) Summary {
	return Summary{
		Key:  SummaryKey{Step: step, At: begin, Agent: key, Status: mailroom.StatusCompleted},
		Sums: Sums{Runs: bounded(a.Turns), InputTokens: bounded(a.Tokens), Cost: bounded(a.MicroUSD) * 1000},
	}
}

// AmountsOf returns what a row of BudgetAmounts has.
func AmountsOf(s Sums) mailroom.Amounts {
	a := mailroom.Amounts{MicroUSD: s.Cost / 1000, Tokens: s.InputTokens, Turns: s.Runs}
	return a.Plus(mailroom.Amounts{}) // within the bounds of sums
}

// BudgetUse returns what was used of budgets in the period that begins then, and what was added, by key.
func BudgetUse(r Reader, step time.Duration, begin time.Time, keys []string) (used, raised map[string]mailroom.Amounts,
	err error) {
	used, raised = map[string]mailroom.Amounts{}, map[string]mailroom.Amounts{}
	q := SummaryQuery{Step: step, From: begin, To: begin.Add(time.Microsecond)}
	for _, key := range keys {
		q.Of = append(q.Of, key, BudgetRaised(key))
	}
	slices.Sort(q.Of)
	q.Of = slices.Compact(q.Of)
	if len(q.Of) == 0 {
		return used, raised, nil
	}
	rows, err := r.Count(CountQuery{Summaries: &q})
	for _, row := range rows.Summaries {
		if row.Key.Status != "" {
			continue // the number of runs by status
		}
		if key, added := ParseBudgetKey(row.Key.Agent); added {
			raised[key] = AmountsOf(row.Sums)
		} else {
			used[key] = AmountsOf(row.Sums)
		}
	}
	return used, raised, err
}

// KeepBudgets returns how long the rows of a step of budgets are kept after the begin of their period at least.
func KeepBudgets(step time.Duration) time.Duration {
	if step == StepBudgetMonth {
		return 400 * StepDay
	}
	return 40 * StepDay
}
