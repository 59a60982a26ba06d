package main

// priceMutants let a model cost less than it does, or hide that its price is not known.
func priceMutants() []mutant {
	const exact, kept, cost = "^TestNoCostIsTooLow$", "^TestAReportedCostIsKept$", "^TestTokensCostWhatTheirModelCosts$"
	const asks, part = "^TestAModelWithoutAPriceAsksAfterEachStep$", "^TestAPartOfAnUnknownCostDoesNotComeBack$"
	const day, found = "^TestAModelWithoutAPriceSpendsTheBudgetOfADay$", "^TestAPriceIsFoundByTheNameThatTheProviderUses$"
	const refused = "^TestABudgetThatAnAgentNeverReachesIsRefusedInTheFile$"
	return []mutant{
		{"a cost is rounded down", "internal/price/price.go", "big.NewInt(million - 1)", "big.NewInt(0)", "internal/price",
			exact},
		{"cached input costs twice", "internal/price/price.go", "{in - read - write, p.Input}", "{in, p.Input}",
			"internal/price", exact},
		{"more is read from the cache than there is input", "internal/price/price.go", "tokens(u.CacheReadTokens, in)",
			"tokens(u.CacheReadTokens, math.MaxInt64)", "internal/price", "^TestACostIsExactAndRoundedUp$"},
		{"a reported cost is replaced", "internal/price/price.go", "u.CostUSD != 0 ||", "", "internal/price", kept},
		{"an agent says what was computed", "internal/price/price.go", "	u.ComputedUSD = 0 // an agent computes nothing\n", "",
			"internal/price", kept},
		{"a model without a price is free", "internal/price/price.go", "	return u, ok\n", "	return u, true\n",
			"internal/price", kept},
		{"a step without a model has no price", "internal/price/price.go", "cmp.Or(u.Model, before)", `cmp.Or(u.Model, "")`,
			"internal/price", kept},
		{"the table counts before the configuration", "internal/price/price.go", "	for model, p := range own {",
			"	for model, p := range map[string]Price{} {", "internal/price", found},
		{"a date hides the price of a version", "internal/price/price.go", "{model, undated(model)}",
			"{undated(model), model}", "internal/price", found},
		{"tokens cost nothing", "ledger/op_submit.go", "	if seq, err = t.Append(&priced, sent,", "	if seq, err = t.Append(a, sent,",
			"ledger", cost},
		{"an unknown price stops nothing", "thread/budget.go", "if a.Unpriced && r.Budget != nil", "if false && r.Budget != nil",
			"ledger", asks},
		{"an unknown price stops a run without a bound in dollars", "thread/budget.go",
			"if a.Unpriced && r.Budget != nil && r.Budget.Limit.MicroUSD > 0 {", "if a.Unpriced && r.Budget != nil {", "ledger",
			"^TestAnAgentThatNamesNoModelAsks$"},
		{"an unknown price asks for nothing", "thread/budget.go", "		times = max(times, 1)\n", "", "ledger", asks},
		{"an unknown price asks for ever", "thread/budget.go", "b.Low, b.Closed, b.Unpriced = false, false, false",
			"b.Low, b.Closed = false, false", "ledger", asks},
		{"dollars of an unknown price come back", "thread/budget.go",
			"		used.MicroUSD = max(used.MicroUSD, b.Part.MicroUSD)\n", "", "ledger", part},
		{"a raise makes an unknown price known", "thread/budget.go", "if b.Unpriced || b.WasUnpriced {", "if b.Unpriced {",
			"ledger", part},
		{"an unknown price spends nothing of a day", "ledger/batch_budget.go", "p.UsedOf(u.Usage, u.Unpriced)",
			"p.UsedOf(u.Usage, false)", "ledger", day},
		{"each step logs that its model has no price", "ledger/committer_observe.go", "	c.unpriced[of] = true\n", "", "ledger",
			"^TestAModelWithoutAPriceIsLoggedOnce$"},
		{"codex without a model is bounded in dollars", "app/config/price.go", `	case model == "":`, `	case model == "" && false:`,
			"app/config", refused},
		{"a bound in dollars needs no price", "app/config/price.go", "b.MicroUSD == 0 || known:", "known || true:", "app/config", refused},
		{"a budget without a bound in an amount is full", "server/operate/metrics_budget.go", "			if b.limit == 0 {\n",
			"			if false {\n", "server/operate", "^TestTheLeftOfBudgetsIsBoundedByAgents$"},
		{"each token has a metric", "server/operate/metrics_budget.go", "if p.Scope.Kind == budget.Agent {", "if true {",
			"server/operate", "^TestTheLeftOfBudgetsIsBoundedByAgents$"},
		{"codex does not tell its model", "agent/exec/program.go",
			"		used.Model = cmp.Or(used.Model, t.model, t.agent.turn.Model)\n", "", "agent/exec", "^TestTheUsageOfCodexNamesItsModel$"},
	}
}
