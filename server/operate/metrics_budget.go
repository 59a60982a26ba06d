package operate

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"mailroom/internal/budget"
)

// Budgets is the part of a ledger with the budgets of days and months.
type Budgets interface {
	// Pools returns all budgets in their present periods.
	Pools(ctx context.Context) ([]budget.Pool, error)
}

// budgetMetrics are the gauges of budgets of days and months. An agent has its own, as its configuration
// sets them. A token or a thread has none, because any number of them may have a budget.
type budgetMetrics struct {
	left  *prometheus.GaugeVec // of each agent
	ratio *prometheus.GaugeVec
}

func newBudgetMetrics(r *prometheus.Registry) budgetMetrics {
	m := budgetMetrics{
		left: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: namespace, Name: "budget_left",
			Help: "What is left of a bound of the budget of an agent in its day or month: usd, tokens or turns.",
		}, []string{"agent", "period", "bound"}),
		ratio: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: namespace, Name: "budget_left_ratio",
			Help: "Left by limit of the bound that is nearest to its end, of all budgets of agents, of owners, " +
				"which are tokens, or of threads; 1 without budgets.",
		}, []string{"kind", "period"}),
	}
	r.MustRegister(m.left, m.ratio)
	return m
}

// set brings the gauges up to date; a scrape calls it.
func (m *budgetMetrics) set(pools []budget.Pool) {
	type place struct{ kind, period string }
	least := map[place]float64{}
	for _, p := range budget.ThreadPeriods() {
		for _, kind := range []string{budget.Agent, budget.Owner, budget.Thread} {
			if kind == budget.Thread || p != budget.Life {
				least[place{kind, string(p)}] = 1
			}
		}
	}
	for i := range pools {
		p := &pools[i]
		limit, left := p.Limit(), p.Left()
		at := place{p.Scope.Kind, string(p.Period)}
		for _, b := range []struct {
			name        string
			limit, left int64
			unit        float64
		}{{"usd", limit.MicroUSD, left.MicroUSD, 1e-6}, {"tokens", limit.Tokens, left.Tokens, 1},
			{"turns", limit.Turns, left.Turns, 1}} {
			if b.limit == 0 {
				continue
			}
			least[at] = min(least[at], float64(b.left)/float64(b.limit))
			if p.Scope.Kind == budget.Agent {
				m.left.WithLabelValues(p.Scope.Name, string(p.Period), b.name).Set(float64(b.left) * b.unit)
			}
		}
	}
	for at, ratio := range least {
		m.ratio.WithLabelValues(at.kind, at.period).Set(ratio)
	}
}
