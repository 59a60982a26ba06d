package builtin

import (
	"context"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/doctor"
	"mailroom/store"
)

// lowered shows a store whose sums of budgets of days are lower by some amounts than they are.
type lowered struct {
	store.Store
	raised bool // what was added, else what was used
	by     mailroom.Amounts
}

func (l *lowered) View(ctx context.Context, f func(store.Reader) error) error {
	return l.Store.View(ctx, func(r store.Reader) error { return f(&loweredReader{r, l}) })
}

type loweredReader struct {
	store.Reader
	of *lowered
}

func (r *loweredReader) Count(q store.CountQuery) (store.Counts, error) {
	c, err := r.Reader.Count(q)
	if q.Summaries != nil && q.Summaries.Step == store.StepBudgetDay {
		for i, row := range c.Summaries {
			if _, raised := store.ParseBudgetKey(row.Key.Agent); raised == r.of.raised {
				less := store.AmountsOf(row.Sums).Minus(r.of.by)
				c.Summaries[i].Sums = store.BudgetAmounts(row.Key.Step, row.Key.Agent, row.Key.At, less).Sums
			}
		}
	}
	return c, err
}

// TestASumThatItsLogContradictsIsFound looks at a budget of a dollar that was spent, and raised by a dollar; half of
// the raise is used.
func TestASumThatItsLogContradictsIsFound(t *testing.T) {
	withFixture(t, "1usd", func(h *fixture) {
		h.submit(150)
		h.rest(time.Hour)
		h.decide(mailroom.VerdictApprove)
		h.rest(time.Hour)
		for _, test := range []struct {
			raised bool
			less   mailroom.Amounts
			want   string
		}{
			{false, mailroom.Dollars(0.40), ""}, // what was used after the last notice is in no log
			{false, mailroom.Dollars(0.55), `agent coder has used `},
			{false, mailroom.Amounts{Turns: 100}, ""}, // no bound
			{true, mailroom.Amounts{MicroUSD: 1}, `agent coder has been raised by 0.999999 usd in the day from `},
		} {
			report, err := doctor.Check(h.t.Context(), &lowered{h.store, test.raised, test.less})
			h.must(err)
			var texts []string
			for _, f := range report.Findings {
				texts = append(texts, string(f.Invariant)+": "+f.Text)
			}
			all := strings.Join(texts, "\n")
			if (all == "") != (test.want == "") || !strings.Contains(all, test.want) || len(texts) > 1 {
				t.Errorf("less by %s: got %q, want %q", test.less, all, test.want)
			}
		}
	})
}
