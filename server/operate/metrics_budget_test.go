package operate

import (
	"testing"

	"mailroom"
	"mailroom/internal/budget"
)

func TestTheLeftOfBudgetsIsBoundedByAgents(t *testing.T) {
	m := NewMetrics()
	amounts := func(usd float64, tokens int64) mailroom.Amounts {
		return mailroom.Amounts{MicroUSD: mailroom.Dollars(usd).MicroUSD, Tokens: tokens}
	}
	pool := func(kind, name string, p budget.Period, limit, used mailroom.Amounts) budget.Pool {
		return budget.Pool{Scope: budget.Scope{Kind: kind, Name: name}, Period: p, Budget: mailroom.Budget{Amounts: limit},
			Used: used}
	}
	raised := pool(budget.Agent, "coder", budget.Day, amounts(4, 1000), amounts(4.5, 100))
	raised.Raised = amounts(2, 0)
	m.budgets.set([]budget.Pool{
		raised, pool(budget.Agent, "coder", budget.Month, amounts(100, 0), amounts(120, 5)),
		pool(budget.Owner, "alice", budget.Day, amounts(0, 10), amounts(9, 7)),
		pool(budget.Owner, "bob", budget.Day, amounts(1, 0), amounts(0.25, 0)),
	})
	got := scrape(t, m)
	for name, want := range map[string]string{
		`mailroom_budget_left{agent="coder",bound="usd",period="day"}`:      "1.5",
		`mailroom_budget_left{agent="coder",bound="tokens",period="day"}`:   "900",
		`mailroom_budget_left{agent="coder",bound="turns",period="day"}`:    "",
		`mailroom_budget_left{agent="coder",bound="usd",period="month"}`:    "0", // and not below
		`mailroom_budget_left{agent="coder",bound="tokens",period="month"}`: "",
		`mailroom_budget_left{agent="alice",bound="tokens",period="day"}`:   "",
		`mailroom_budget_left_ratio{kind="agent",period="day"}`:             "0.25",
		`mailroom_budget_left_ratio{kind="agent",period="month"}`:           "0",
		`mailroom_budget_left_ratio{kind="owner",period="day"}`:             "0.3",
		`mailroom_budget_left_ratio{kind="owner",period="month"}`:           "1",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
}
