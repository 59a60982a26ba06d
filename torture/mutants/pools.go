package main

// poolMutants let more be used than the budget of a day or a month, or ask too often or never.
func poolMutants() []mutant {
	const night, kills = "^TestANightOfRunsStopsAtItsBudgetAndAsksOnce$", "^TestABudgetHoldsDespiteAKillAtAnyWrite$"
	const refused, servers = "^TestARefusedRaiseWaitsForTheNextPeriod$", "^TestTwoServersSpendABudgetTogether$"
	const owner = "^TestASpentOwnerLeavesItsSlotsToOthers$"
	const inBatch = "^TestASubmitOfASpentOwnerStartsNothingInItsBatch$"
	return append(threadBudgetMutants(), []mutant{
		{"a spent budget stops nothing", "ledger/op_budget.go",
			"if p.State() != budget.Spent {", "if p.State() != budget.Spent || true {", "agent/builtin", night},
		{"a claim does not see what its batch used", "ledger/batch_budget.go",
			"	for _, row := range budgetChanges(tx) {", "	for _, row := range []store.Summary{} {", "ledger", "^TestAClaimSeesWhatItsBatchUsed$"},
		{"a step counts for no budget", "ledger/batch_transaction.go",
			", budgetChanges(tx)...)", ")", "agent/builtin", night},
		{"a question is asked with each claim", "thread/budget_thread.go",
			"Run: digest.ID(id, key), Key: key,", "Run: digest.ID(id, time.Now().String()),", "ledger", servers},
		{"a limit that was raised is not asked about again", "internal/budget/budget.go",
			"		key += \" \" + n.Limit.String()\n", "", "agent/builtin", "^TestABudgetIsRaisedOnceForEachLimit$"},
		{"a decision raises nothing", "ledger/op_ticket.go",
			"raiseDecided(tx, t, begin)", "raiseDecided(tx, t, len(t.Entries()))", "agent/builtin", night},
		{"a refusal raises a budget", "ledger/op_budget.go",
			"d.Decision != mailroom.VerdictApprove", "d.Decision == \"\"", "agent/builtin", refused},
		{"a question outlives its period", "agent/builtin/raise.go",
			"question.Expires = n.End\n", "question.Expires = n.End.AddDate(0, 0, 7)\n", "agent/builtin", refused},
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
	}...)
}

// threadBudgetMutants let a thread use more than its budget, or ask people too often, too late or in vain.
func threadBudgetMutants() []mutant {
	const night, long = "^TestANightOfAThreadStopsAtItsBudgetAndAsksOnce$", "^TestABudgetOfAThreadStopsALongRun$"
	const atOnce, life = "^TestABudgetThatIsSpentAsksAtOnce$", "^TestAThreadThatHasUsedItsLifeWaitsForARaise$"
	const ends = "^TestABudgetOfAThreadEndsWithTheThread$"
	return []mutant{
		{"a step counts for no budget of its thread", "thread/budget.go", "	spendThread(t, r, a, now)\n", "",
			"agent/builtin", night},
		{"a thread whose budget is spent does not sleep", "thread/budget_thread.go",
			"p.State() == budget.Spent && p.End.After(end) {", "p.State() == \"\" && p.End.After(end) {", "agent/builtin", night},
		{"a run at work goes on when the budget of its thread is spent", "thread/budget_thread.go",
			"} else if state == budget.Spent {", "} else if state == \"\" {", "agent/builtin", long},
		{"a limited token sets the budget of a thread", "thread/budget_thread.go",
			"p.By.Limited() || p.By.Terms.Kind == auth.KindLimited || ", "", "server",
			"^TestOnlyAnOwnerSetsTheBudgetOfItsThread$"},
		{"a thread is asked about when its next run waits", "thread/budget_thread.go", "			askAbout(t, b)\n", "", "agent/builtin",
			atOnce},
		{"a thread is asked about twice for a limit", "thread/budget_thread.go", " && b.Asked != limit {", " {", "ledger",
			"^TestTwoServersSpendTheBudgetOfAThread$"},
		{"a thread is asked about once in all its periods", "thread/budget_thread.go",
			"Limit: b.Limit, Begin: begin, End: end}\n}", "Limit: b.Limit, Begin: begin, End: end, Asked: b.Asked}\n}",
			"agent/builtin", atOnce},
		{"a budget of a thread never begins again", "thread/budget_thread.go", "	if now.Before(b.End) {",
			"	if now.Before(b.End) || !b.Begin.IsZero() {", "agent/builtin", atOnce},
		{"a warning about a thread comes with each step", "thread/budget_thread.go", "budget.Low && !b.Low {", "budget.Low {",
			"agent/builtin", night},
		{"a changed budget leaves the question about the old one", "ledger/op_edit.go", "if was[string(period)] == budgetTexts(&t.Thread)[string(period)] {",
			`if period != "" || was["day"] == "" {`, "agent/builtin", life},
		{"a deleted thread leaves the question about its budget", "ledger/op_delete.go", "range t.Budgets {", "range t.Budgets[:0] {", "agent/builtin", ends},
		{"a thread with a budget is not listed", "thread/gate.go",
			"places = append(slices.Clip(places), BudgetMeterPrefix+row.ID)", "places = slices.Clip(places)",
			"agent/builtin", ends},
		{"a raise leaves the thread asleep", "thread/budget_thread.go", "	t.promote(now)\n	t.schedule(now)\n	return raised",
			"	return raised", "agent/builtin", night},
		{"a raise of a run overflows", "internal/budget/budget.go", "	if n > 0 && times > MaxRaise/n {", "	if n < 0 {",
			"thread", "^TestARaiseOfARunIsReadAsItWasAsked$"},
		{"sums of amounts overflow", "budget.go", "min(max(n, -maxSum), maxSum)", "min(max(n, -maxSum), n)", ".",
			"^FuzzSumsOfAmounts$"},
		{"a finished turn that is stopped is repeated", "agent/exec/turn.go", " || l.isDone() && isStop(why) {",
			" || l.isDone() && false && isStop(why) {", "agent/exec", "^TestAStopLeavesAFinishedTurnItsReply$"},
		{"a failure for good asks for money", "engine/work.go", "case stopped && !forced && failureOf(err)",
			"case false && failureOf(err)", "engine", "^TestATurnThatSpendsTheBudgetEndsAsItsAgentSays$"},
	}
}
