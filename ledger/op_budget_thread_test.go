package ledger_test

import (
	"fmt"
	"testing"

	"mailroom"
	"mailroom/internal/budget"
	"mailroom/internal/pgtest"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/postgres"
	"mailroom/thread"
)

// TestTwoServersSpendTheBudgetOfAThread has a run on each of two servers with one database: what the one spends counts
// for the other, and a raise at the other wakes the thread at the one.
func TestTwoServersSpendTheBudgetOfAThread(t *testing.T) {
	t.Parallel()
	cluster := pgtest.Shared(t)
	schema := cluster.Schema(t)
	var both [2]*fixture
	for i := range both {
		s := openPostgres(t, postgres.Options{URL: cluster.URL(), Schema: schema, Node: fmt.Sprint("node-", i)})
		both[i] = open(t, s, ledger.Options{})
		must(both[i].Register(t.Context(), store.Worker{ID: fmt.Sprint("w", i), Agents: []string{"echo"}}))(t)
	}
	for range 4 {
		both[0].submit(text("trip", "hello"))
	}
	limits := map[budget.Period]mailroom.Budget{budget.Life: {Amounts: mailroom.Dollars(0.02)}}
	must(both[1].PatchThread(t.Context(), "trip", thread.Patch{Budgets: limits}))(t)
	round := [2]int64{}
	turn := func(server int, want bool) mailroom.Reason {
		t.Helper()
		round[server]++
		work := must(both[server].Claim(t.Context(), thread.ClaimRequest{Worker: fmt.Sprint("w", server),
			Round: round[server], Slots: 1, Agents: map[string]int{"echo": 1}}))(t)
		if got := len(work) > 0; got != want {
			t.Fatalf("server %d starts a run: %v, want %v", server, got, want)
		}
		if !want {
			return ""
		}
		c := work[0].Claim
		step := mailroom.Step{Name: "turn", Usage: mailroom.Usage{CostUSD: 0.01}}
		done := must(both[server].Append(t.Context(), thread.StepCommit{Claim: c, Number: 1, Step: step}))(t)
		must(both[server].Settle(t.Context(), thread.Settle{Claim: c, Number: 2, Outcome: thread.OutcomeComplete}))(t)
		return done.Stop
	}
	wantEqual(t, "the stop after half of the budget", turn(0, true), mailroom.Reason(""))
	wantEqual(t, "the stop after all of it", turn(1, true), mailroom.ReasonBudget)
	turn(0, false)
	turn(1, false)
	raised := must(ledger.PeriodBudgets{Ledger: both[1].Ledger}.Raise(t.Context(),
		budget.Scope{Kind: budget.Thread, Name: "trip"}, budget.Life, mailroom.Dollars(0.02)))(t)
	wantEqual(t, "used", raised.Used, mailroom.Amounts{MicroUSD: 20_000, Turns: 2})
	wantEqual(t, "the stop after the raise", turn(0, true), mailroom.Reason(""))
	wantEqual(t, "the stop after the raised budget", turn(0, true), mailroom.ReasonBudget)
	questions := 0
	for _, e := range both[0].log(thread.BudgetThread(&raised.Pool)) {
		if e.Kind == "message" {
			questions++
		}
	}
	wantEqual(t, "questions and warnings", questions, 2)
}
