package main

// ladderMutants break conditions of the watch over programs: silence, sessions, limits and faults of an agent.
func ladderMutants() []mutant {
	return []mutant{
		{"an open call is idle", "internal/proc/silence.go", "	case s.limits.Working():\n", "	case s.limits.Working() && false:\n", "internal/proc", "^TestAChildThatWaitsOrWorksIsNotIdle$"},
		{"a silent tree counts as working", "internal/proc/silence.go", "case s.used()-s.sample < s.window()/workingShare:", "case s.used()-s.sample < 0:", "internal/proc", "^TestAChildThatWaitsOrWorksIsNotIdle$"},
		{"a call that reached its limit counts as silence", "internal/proc/silence.go", "			return ErrBusy", "			return ErrIdle", "internal/proc", "^TestAChildThatWaitsOrWorksIsNotIdle$"},
		{"a failed start costs the session", "agent/exec/ladder.go", "	if t.state.Doubts < maxDoubts || !l.plan.resume {", "	if t.state.Doubts == 0 || !l.plan.resume {", "agent/exec", "^TestAFailedStartDoesNotCostTheSession$"},
		{"a doubt ends with its run", "agent/exec/program.go", " || t.state.Doubts != t.doubts ||\n", " ||\n", "agent/exec", "^TestASessionThatFailsWithoutRepeatsIsReplaced$"},
		{"a busy file is a doubt", "agent/exec/program/judge.go", "	case !e.Worked && containsAny(e.Stderr, busyMachineWords()):", "	case !e.Worked && false:", "agent/exec", "^TestAFailedStartDoesNotCostTheSession$"},
		{"a turn that was refused counts as begun", "agent/exec/program.go", "last.Session != \"\" && !last.NotBegun", "last.Session != \"\"", "agent/exec", "^TestAMessageThatNoTurnBeganIsSentPlainly$"},
		{"a conversation fills sessions for ever", "agent/exec/ladder.go", "	case l.verdict.Stuck && c.Replaced > maxReplaced:", "	case l.verdict.Stuck && c.Replaced > 2*maxReplaced:", "agent/exec", "^TestAConversationThatIsFullContinuesInAnother$"},
		{"an overload waits for a limit of use", "agent/exec/program/judge.go", " && status != 529 && ", " && ", "agent/exec/program", "^TestJudgeRetriesWhenAUsageLimitEnds$"},
		{"a limit of use that is not reached is waited for", "agent/exec/program/claude.go", "if l.Limit.Status == \"rejected\" && ", "if ", "agent/exec/program", "^TestJudgeRetriesWhenAUsageLimitEnds$"},
		{"a session is dropped under a turn", "thread/patch.go", "	if p.DropSession && t.Worker != \"\" {", "	if p.DropSession && false {", "agent/exec", "^TestADroppedSessionIsReplaced$"},
		{"a fault of the agent overrides the pause of a person", "ledger/op_probe.go", "	case paused && p.Probe.IsZero():\n", "	case false:\n", "ledger", "^TestAPersonDecidesAboutThePauseOfAnAgent$"},
		{"all runs of a paused agent probe it", "ledger/op_pause.go", "open.Agents[agent] = min(most, 1)", "open.Agents[agent] = most", "ledger", "^TestAFaultOfTheAgentPausesItOnce$"},
		{"a probe follows at once on another", "ledger/op_probe.go", "p.Probe = tx.now().Add(probeTime)", "p.Probe = tx.now()", "ledger", "^TestAProbeThatWorksForLongLetsOthersFollow$"},
		{"a fault of one worker pauses all", "ledger/op_probe.go", "		if elsewhere {\n", "		if elsewhere && false {\n", "ledger", "^TestAFaultOfOneWorkerKeepsNoRunFromTheOthers$"},
		{"a fault of the last worker pauses that worker", "ledger/op_probe.go", "slices.Contains(w.Agents, agent) && !paused", "slices.Contains(w.Agents, agent) && (!paused || true)", "ledger", "^TestTheLastWorkerWithAFaultPausesTheAgent$"},
		{"a success on one worker ends the faults of others", "ledger/op_probe.go", "store.PauseOn(agent, worker)} {", "store.PauseOn(agent, worker), store.PauseOn(agent, \"one\")} {", "ledger", "^TestTheLastWorkerWithAFaultPausesTheAgent$"},
		{"a pause outlives its worker", "ledger/op_lease.go", "worker != \"\" && slices.Contains(some, worker)", "worker == \"\"", "ledger", "^TestAPauseOnAWorkerEndsWithTheWorker$"},
		{"a pause is an alert of an outage too", "alert/follow.go", "e.Kind == KindOutage && !e.Ended && at.Paused[e.Agent]", "false && at.Paused[e.Agent]", "alert", "^TestAFaultOfAnAgentIsOneAlert$"},
		{"a run that must not be repeated waits for its agent", "thread/retry.go", "	case f.Agent && !r.NoRetry && ", "	case f.Agent && ", "thread", "^TestAFaultOfTheAgentKeepsTheRun$"},
		{"a run waits for ever for the times of a provider", "thread/retry.go", " && now.Sub(r.StartedAt) < maxNamed {", " {", "thread", "^TestALimitThatEndsLaterThanARunGivesUpIsWaitedFor$"},
		{"programs that change one folder run at once", "app/config/config.go", "	if a.Edits() {\n		return 1", "	if a.Edits() {\n		return c.Runs", "app/config", "^TestProgramsThatChangeFilesRunOneAtATime$"},
	}
}
