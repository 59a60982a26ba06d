package main

// budgetMutants make a tree of runs spend more than its budget, or lose a part of it.
func budgetMutants() []mutant {
	const once, again = "^TestAPartOfABudgetIsLentOnceAndComesBackOnce$", "^TestARepeatedSendLendsNothingMore$"
	const asks, keeps = "^TestASpentBudgetStopsTheAttemptAndAsksForARaise$", "^TestARetriedChildHasNothingLeftUntilItIsRaised$"
	const late = "^TestTheTimeOfABudgetEndsTheRunLikeItsAmount$"
	const each = "^TestARunHasTheBudgetThatItsAgentAndItsOwnerGiveEachRun$"
	return []mutant{
		{"a send takes nothing from what is left", "thread/step.go", "	lent(t, r, sent)\n", "", "ledger", once},
		{"a part does not come back", "thread/finish.go", "	returnLease(t, r)\n", "", "ledger", once},
		{"a part comes back whole", "thread/budget.go", "b.Lent.Minus(e.Part), b.Below.Plus(e.Used)",
			"b.Lent.Minus(e.Part), b.Below", "ledger", once},
		{"a repeated send takes its part again", "ledger/op_submit.go", "known[i] = joined || tx", "known[i] = joined && tx",
			"ledger", again},
		{"a child that is retried has its part again", "thread/budget.go", "mailroom.Amounts{}, true\n",
			"mailroom.Amounts{}, false\n", "ledger", keeps},
		{"a step that spends the budget stops nothing", "thread/budget.go", "	r.Stop = mailroom.ReasonBudget\n", "",
			"ledger", asks},
		{"a raise that does not suffice is asked for", "thread/budget.go", "x[0]/x[1]+1)", "1)", "ledger", asks},
		{"the lender pays a raise of its child", "thread/budget.go", ".Minus(b.Raised).Positive()", ".Positive()", "ledger",
			"^TestALenderDoesNotPayWhatPeopleAdded$"},
		{"a run starts after the time of its budget", "thread/claim.go", `	if r.OverBudget(now) != "" {`, "	if false {",
			"ledger", late},
		{"a budget does not bound the claim", "thread/claim.go", "	boundClaim(r)\n", "", "ledger", late},
		{"the budget of each run counts for none", "ledger/op_submit.go", "		found.Budget = tx.options", "		_ = tx.options", "ledger",
			each},
		{"the budget of each run is the agent's alone", "ledger/batch_budget.go", "b.owners.get()[owner].Run)",
			"mailroom.Budget{})", "ledger", each},
		{"the larger one of two budgets bounds a run", "internal/budget/budget.go", "b > 0 && b < a {", "b > a {", "ledger", each},
		{"an agent opens the server's question", "thread/ask.go",
			"if isBudgetTicket(&mailroom.Ticket{Name: asks[i].Name}) {", "if false {", "ledger",
			"^TestAnAgentCannotAskInPlaceOfTheServer$"},
		{"a run that was stopped for its budget is not cancelled", "thread/stop.go",
			`if r.Stop == "" || r.Stop == mailroom.ReasonBudget {`, `if r.Stop == "" {`, "ledger",
			"^TestACancelEndsARunThatWasStoppedForItsBudget$"},
	}
}
