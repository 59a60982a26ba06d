package main

// limitMutants let more runs start than a limit allows, or fewer.
func limitMutants() []mutant {
	const servers, owner = "^TestThreeServersTogetherNeverExceedALimit$", "^TestAnOwnerAtItsLimitIsPassedByOthers$"
	const rate = "^TestARateIsNeverExceededInAnyWindow$"
	return []mutant{
		{"a limit counts no running runs", "ledger/batch_meters.go", "tx.rows.meter(key).Count++", "tx.rows.meter(key).Count += 0",
			"ledger", "^TestAnAgentStartsNoMoreRunsAtOnceThanItsLimit$"},
		{"a lost claim keeps its place", "thread/finish.go", "t.Worker, t.Round, t.Meters = \"\", 0, nil",
			"t.Worker, t.Round = \"\", 0", "ledger", "^TestALostClaimFreesItsPlace$"},
		{"a claim does not lock the meter of its agent", "ledger/batch_meters.go", "return r.load(store.Need{Meters: slices.Compact(missing)})",
			"for _, key := range missing {\n\t\tr.meters[key] = &meter{}\n\t}\n\treturn nil", "ledger", servers},
		{"owners behind one at its limit get nothing", "ledger/op_claim_limits.go", "		s.Held[owner] = s.Most\n", "		_ = owner\n",
			"ledger", owner},
		{"claims of full owners do not rest", "ledger/op_claim_limits.go", "		tx.full[owner] = true\n", "", "ledger",
			"^TestClaimsOfAnOwnerAtItsLimitRest$"},
		{"a freed place is found by the next poll only", "ledger/batch_meters.go", "			clear(tx.forecast.idle) //", "			//",
			"ledger", "^TestAFreedPlaceOfAnOwnerIsFoundAtOnce$"},
		{"an idle rate saves up starts", "thread/rate.go", "	case used.Before(now):\n		return now\n", "", "thread",
			"^TestAnIdleRateSavesNoMoreThanItsBurst$"},
		{"a rate starts its burst again and again", "thread/rate.go", ".Add(r.each()).Truncate", ".Add(r.each() / 2).Truncate", "thread", rate},
		{"a clock that stepped back blocks starts", "thread/rate.go", "	case used.After(latest):\n		return latest\n", "", "thread",
			"^TestATimeFarAheadDelaysNoLongerThanTheRateItself$"},
		{"a run at its limit is said to wait for a slot", "thread/waitsfor.go", "		if b := s.bounded(); b != nil {", "		if b := s.bounded(); b != nil && false {",
			"thread", "^TestARunWaitsForWhatComesFirst$"},
		{"the doctor does not count what limits count", "doctor/use.go", "	if says != runs {", "	if says != runs && false {", "doctor",
			"^TestEachViolationIsFound$"},
	}
}
