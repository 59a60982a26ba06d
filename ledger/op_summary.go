package ledger

import (
	"context"
	"time"

	"mailroom/store"
)

// DropOldSummaries drops the minutes and the hours of the summary of ended runs that
// [store.KeepSummaries] allows at now: whole hours of minutes and whole days of hours, one in each
// transaction.
func (l *Ledger) DropOldSummaries(ctx context.Context, now time.Time) error {
	steps := store.Steps()
	for i, step := range steps[:len(steps)-1] {
		whole := steps[i+1]
		keep := now.Add(-store.KeepSummaries(step)).Truncate(whole)
		for {
			first, err := l.firstSummary(ctx, step)
			if err != nil {
				return err
			}
			if first.IsZero() || !first.Before(keep) {
				break
			}
			if err := dropSummaries(ctx, l, step, first.Truncate(whole).Add(whole)); err != nil {
				return err
			}
		}
	}
	for _, step := range [2]time.Duration{store.StepBudgetDay, store.StepBudgetMonth} { // few rows: a budget has one a day
		q := store.SummaryQuery{Step: step, To: now.Add(-store.KeepBudgets(step)), Limit: 1, Keys: true}
		var old store.Counts
		err := l.View(ctx, func(r store.Reader) (err error) {
			old, err = r.Count(store.CountQuery{Summaries: &q})
			return err
		})
		if err == nil && len(old.Summaries) > 0 {
			err = dropSummaries(ctx, l, step, q.To)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// dropSummaries drops the rows of a step before a time.
func dropSummaries(ctx context.Context, l *Ledger, step time.Duration, before time.Time) error {
	old := store.SummariesBefore{Step: step, At: before}
	return perform(ctx, l, op{name: "drop_summaries", rank: rankPlain}, func(tx *transaction) error {
		tx.changes.dropSummaries(old)
		return nil
	})
}

// firstSummary returns the first period that the summary has, or zero.
func (l *Ledger) firstSummary(ctx context.Context, step time.Duration) (first time.Time, err error) {
	all := ""
	err = l.View(ctx, func(r store.Reader) error {
		rows, err := r.Count(store.CountQuery{Summaries: &store.SummaryQuery{Step: step, Agent: &all, Limit: 1}})
		if len(rows.Summaries) > 0 {
			first = rows.Summaries[0].Key.At
		}
		return err
	})
	return first, err
}
