package main

// poolMutants let more be used than the budget of a day or a month, or ask too often or never.
func poolMutants() []mutant {
	const night, kills = "^TestANightOfRunsStopsAtItsBudgetAndAsksOnce$", "^TestABudgetHoldsDespiteAKillAtAnyWrite$"
	const refused, servers = "^TestARefusedRaiseWaitsForTheNextPeriod$", "^TestTwoServersSpendABudgetTogether$"
	const owner = "^TestASpentOwnerLeavesItsSlotsToOthers$"
	const inBatch = "^TestASubmitOfASpentOwnerStartsNothingInItsBatch$"
	return []mutant{
		{"a spent budget stops nothing", "ledger/op_budget.go",
			"if p.State() != budget.Spent {", "if p.State() != budget.Spent || true {", "agent/builtin", night},
		{"a claim does not see what its batch used", "ledger/batch_budget.go",
			"	for _, row := range budgetChanges(tx) {", "	for _, row := range []store.Summary{} {", "ledger", "^TestAClaimSeesWhatItsBatchUsed$"},
		{"a step counts for no budget", "ledger/batch_transaction.go",
			", budgetChanges(tx)...)", ")", "agent/builtin", night},
		{"a question is asked with each claim", "ledger/op_budget.go",
			"Run: digest.ID(id, key), Key: key,", "Run: digest.ID(id, NewID()),", "ledger", servers},
		{"a limit that was raised is not asked about again", "internal/budget/budget.go",
			"		key += \" \" + n.Limit.String()\n", "", "agent/builtin", "^TestABudgetIsRaisedOnceForEachLimit$"},
		{"a decision raises nothing", "ledger/op_ticket.go",
			"raiseDecided(tx, t, begin)", "raiseDecided(tx, t, len(t.Entries()))", "agent/builtin", night},
		{"a refusal raises a budget", "ledger/op_budget.go",
			"d.Decision != mailroom.VerdictApprove", "d.Decision == \"\"", "agent/builtin", refused},
		{"a question outlives its period", "agent/builtin/raise.go",
			"Expires: n.End,", "Expires: n.End.AddDate(0, 0, 7),", "agent/builtin", refused},
		{"a period begins where the zone does not", "internal/budget/budget.go",
			"p.Bounds(now, zone)", "p.Bounds(now, time.UTC)", "agent/builtin", refused},
		{"a claim waits for the poll of an hour after the period has begun", "ledger/op_budget.go",
			"		if p.End.Before(again) {", "		if false {", "ledger", "^TestRunsStartWhenThePeriodBegins$"},
		{"a midnight that comes twice begins two days", "internal/budget/period.go",
			"if last := change.Add(-1); !wall(last).Before(date) {", "if last := change.Add(-1); false {", "internal/budget",
			"^TestEachMomentIsInOnePeriod$"},
		{"a day without a midnight begins an hour late or early", "internal/budget/period.go",
			"shown.Before(date) {", "false && shown.Before(date) {", "internal/budget", "^TestEachMomentIsInOnePeriod$"},
		{"the hour before midnight comes twice in two days", "internal/budget/period.go",
			"	for !at(n + 1).After(now) {", "	for false {", "internal/budget", "^TestEachMomentIsInOnePeriod$"},
		{"old periods are kept for ever", "ledger/op_summary.go",
			"		if err == nil && len(old.Summaries) > 0 {", "		if err == nil && len(old.Summaries) > 9 {", "ledger", "^TestOldPeriodsOfBudgetsAreDropped$"},
		{"a spent owner keeps the slots", "ledger/op_claim_share.go",
			"return s.spent[owner] || s.held[owner] >= s.limit()", "return s.held[owner] >= s.limit()", "ledger",
			inBatch},
		{"what a spent owner left starts last", "ledger/op_claim.go",
			"tx.start(r, passed, r.shares.barred)", "tx.start(r, passed, nil)", "ledger", inBatch},
		{"a spent owner gets slots beyond the worker's", "ledger/op_claim.go",
			"r.shares.held[owner] > 0 || r.shares.barred(owner)", "r.shares.held[owner] > 0", "ledger", inBatch},
		{"a new token's budget is not known", "ledger/op_token.go",
			"		_ = as.ledger.options.Budgets.owners.read(", "		_ = new(ownerBudgets).read(", "ledger", owner},
		{"a server does not learn of budgets that others made", "ledger/owner_budgets.go",
			"	if now.Sub(before) < every {", "	if !before.IsZero() && every > 0 {", "ledger", "^TestABudgetOfATokenHoldsOnOtherServers$"},
		{"doctor believes a sum that its log contradicts", "doctor/period.go", "if more := got.Minus(least); more != more.Positive() {",
			"if more := got.Minus(least); more == (mailroom.Amounts{MicroUSD: -1e15}) {", "agent/builtin", "^TestASumThatItsLogContradictsIsFound$"},
		{"doctor does not add up approvals", "doctor/period.go", "			u.approved = u.approved.Plus(n.Raise)\n",
			"			_ = u\n", "agent/builtin", "^TestASumThatItsLogContradictsIsFound$"},
		{"an agent forges the warning of a budget", "alert/logged.go",
			"e.Kind == budget.KindLow && reserved.Prefix(e.Thread) == reserved.Budget:", "e.Kind == budget.KindLow:", "alert",
			"^TestOnlyTheServerWarnsAboutABudget$"},
	}
}
