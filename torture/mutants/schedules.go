package main

// scheduleMutants make a schedule lose, double or misplace a time, or outlive its rights.
func scheduleMutants() []mutant {
	const times, clocks = "^TestTimesWhereClocksChange$", "^TestTimesAreThoseOfTheClock$"
	const history = "^TestEachOccurrenceIsSentOnceOrSkippedWithAReason$"
	return []mutant{
		{"a time that comes twice fires twice", "schedule/plan/cron.go",
			"for _, at := range []time.Time{early, late} {", "for _, at := range []time.Time{late, early} {", "schedule/plan", times},
		{"each time of day goes on in real time", "schedule/plan/cron.go",
			"	if c.runsHourly {\n", "	if c.runsHourly || true {\n", "schedule/plan", times},
		{"the end of an offset is looked at twice", "schedule/plan/cron.go",
			"wallOf(end, c.zone).Add(-time.Second)", "wallOf(end, c.zone)", "schedule/plan", clocks},
		{"a grid before its anchor is off by one", "schedule/plan/cron.go",
			"		n--\n", "", "schedule/plan", "^TestAnIntervalIsAGrid$"},
		{"what is superseded is lost", "schedule/plan/plan.go",
			"			m.skip(Skip{Reason: skipSuperseded, First: all[0], Last: all[0], Count: 1})\n", "", "schedule/plan", history},
		{"a schedule forgets its next message", "schedule/plan/plan.go",
			"	return Moves{Tick: at}", "	return m", "schedule/plan", history},
		{"a change loses what jitter has put off", "schedule/plan/state.go",
			"		s.Spec.Jitter = 0 // what is due is not put off: the new spec does not know it\n", "", "schedule/plan", history},
		{"a change after the clock went back sends again", "schedule/plan/state.go",
			"source, spec, later(s.Since, now), 0", "source, spec, now, 0", "schedule/plan", history},
		{"a resumed schedule sends what fell into the pause", "schedule/plan/state.go",
			"	s.Since = later(s.Since, now)\n", "", "schedule/plan", history},
		{"a schedule survives its token", "schedule/agent.go",
			"row.ID() == s.Source && ", "", "schedule", "^TestAScheduleEndsWithTheTokenThatMadeIt$"},
		{"anybody commands a schedule", "schedule/agent.go",
			"run.Origin.Via != reserved.ViaSchedule {", "false && run.Origin.Via != reserved.ViaSchedule {", "schedule",
			"^TestOnlyTheServerSendsCommands$"},
		{"a chain of messages to itself ends a schedule", "thread/step.go",
			"		lineage = r.Lineage // the timer", "		_ = r.Lineage // the timer", "schedule",
			"^TestAScheduleGoesOnForLongerThanAChainOfThreads$"},
		{"a repeated attempt plans again", "schedule/agent.go",
			"	if s.Run().Checkpoint == nil {", "	if true {", "schedule",
			"^TestACommandIsCarriedOutOnceDespiteAKillAtAnyWrite$"},
		{"a skip of a busy thread is a failure", "schedule/agent.go",
			"		reason = plan.SkipBusy\n", "", "schedule", "^TestABusyThreadIsNotDisturbed$"},
	}
}
