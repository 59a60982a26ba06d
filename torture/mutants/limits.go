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
		{"a claim does not lock the meter of its agent", "store/postgres/meters.go", "ORDER BY key FOR NO KEY UPDATE",
			"ORDER BY key FOR KEY SHARE", "ledger", servers},
		{"owners behind one at its limit get nothing", "ledger/op_claim_limits.go", "		s.Held[owner] = s.Most\n", "		_ = owner\n",
			"ledger", owner},
		{"claims of full owners do not rest", "ledger/op_claim_limits.go", "		tx.full[owner] = true\n", "", "ledger",
			"^TestClaimsOfAnOwnerAtItsLimitRest$"},
		{"a freed place is found by the next poll only", "ledger/batch_meters.go", "		clear(tx.forecast.idle) //", "		//",
			"ledger", "^TestAFreedPlaceOfAnOwnerIsFoundAtOnce$"},
		{"an idle rate saves up starts", "thread/rate.go", "	if used.Before(now) {\n		return now\n	}\n", "", "thread",
			"^TestAnIdleRateSavesNoMoreThanItsBurst$"},
		{"a rate starts its burst again and again", "thread/rate.go", ".Add(r.each()).Truncate", ".Add(r.each() / 2).Truncate", "thread", rate},
		{"a clock that stepped back blocks starts", "thread/rate.go", "used.After(latest) {", "used.After(latest) && false {", "thread",
			"^TestATimeFarAheadDelaysNoLongerThanTheRateItself$"},
		{"a rate that a clock has moved ahead stays there", "ledger/sweep_limits.go", "		m.At = tx.options.cut(m.Meter, tx.now())\n", "", "ledger",
			"^TestAClockThatWentBackDelaysStartsByABurst$"},
		{"a run at its limit is said to wait for a slot", "thread/waitsfor.go", "		if b := s.bounded(); b != nil {", "		if b := s.bounded(); b != nil && false {",
			"thread", "^TestARunWaitsForWhatComesFirst$"},
		{"the doctor does not count what limits count", "doctor/use.go", "	case says.places != is.places:", "	case says.places != is.places && false:", "doctor",
			"^TestEachViolationIsFound$"},
	}
}

// keyMutants let more runs of a concurrency key start than its limit allows, or leave threads at its gate.
func keyMutants() []mutant {
	const leaves = "^TestAThreadThatGoesGivesUpItsPlaceOfAKey$"
	return []mutant{
		{"a full key admits runs", "ledger/op_claim_keys.go", "if kept || tx.rows", "if true || tx.rows", "ledger",
			"^TestAKeyHasNoMoreRunningRunsThanItsLimit$"},
		{"a freed place of a key is given to no thread", "ledger/batch_meters.go", "	return openGates(tx)\n", "	return nil\n",
			"ledger", "^TestAFreedPlaceOfAKeyIsFoundAtOnce$"},
		{"a place that is kept counts for nothing", "thread/gate.go", "		places = []string{GateMeter(row.Gate)}\n", "",
			"ledger", leaves},
		{"a thread keeps the place of a run that is gone", "thread/gate.go", "t.Gate != next || at.After(now)", "at.After(now)",
			"ledger", leaves},
		{"a key counts for all owners", "thread/gate.go", "[]byte(owner + \"\\x00\" + key)", "[]byte(key)", "ledger",
			"^TestAKeyOfOneOwnerBlocksNoOtherOwner$"},
		{"an urgent run waits for the key of the run behind it", "thread/queue.go", "return q.head, gateOf(row, q.newHead)",
			"return q.head, row.Gate", "ledger", "^TestAnUrgentRunPassesTheGateOfItsThread$"},
		{"threads behind those at a gate wait for the next claim", "ledger/op_claim.go", "r.looks == 0 || r.gated > 0", "r.looks == 0",
			"ledger", "^TestAKeyHasNoMoreRunningRunsThanItsLimit$"},
		{"a removed limit keeps threads waiting", "ledger/op_claim_keys.go", "o.Limits(agent).Key > 0 {\n\t\tn =", "true {\n\t\tn =",
			"ledger", "^TestAChangedLimitOfKeysLetsWaitingThreadsOut$"},
		{"a raised limit is seen at the end of a run only", "ledger/sweep_limits.go", "ofKey && o", "false && ofKey && o",
			"ledger", "^TestAChangedLimitOfKeysLetsWaitingThreadsOut$"},
		{"rates of owners that never return stay", "ledger/sweep_limits.go", "m.At = time.Time{} //", "//", "ledger",
			"^TestMetersOfOwnersThatNeverReturnAreDropped$"},
		{"a look at each agent reads all gates", "store/sqlite/due.go", "found, from = found[:n], store.AfterGates", "_ = n",
			"store/sqlite", "^TestStore$"},
		{"the waits of all keys have the name of one", "server/operate/waits.go", "last.Bound.Key != \"\"}", "false}",
			"server/operate", "^TestWaitsOfAKeyAreNotThoseOfTheAgent$"},
		{"threads at gates are due in SQLite", "store/sqlite/count.go", "strings.HasPrefix(agent, store.GatePrefix)", "strings.HasPrefix(agent, \"no gate\")",
			"store/sqlite", "^TestStore$"},
		{"threads at gates are due in memory", "store/memory/read.go", "&& !atGate &&", "&& (true || atGate) &&",
			"store/memory", "^TestStore$"},
		{"threads at gates are due in PostgreSQL", "store/postgres/count.go", " AND (e.agent < '#' OR e.agent >= '$')`", "`",
			"store/postgres", "^TestStore$"},
		{"a long value of the metadata is cut", "thread/submission.go", "\"…\" + digest.Short(text)", "\"…\" + digest.Short(\"\")",
			"ledger", "^TestAKeyIsReadFromTheMetadataThatTheAgentNames$"},
		{"the doctor does not see that a thread waits for nothing", "doctor/use.go", "case is.waits > 0 && is.places == 0:",
			"case false:", "doctor", "^TestEachViolationIsFound$"},
		{"the doctor does not count waiting threads", "doctor/use.go", "case says.waits != is.waits:", "case false:", "doctor",
			"^TestEachViolationIsFound$"},
	}
}
