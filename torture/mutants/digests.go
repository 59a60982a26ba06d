package main

// digestMutants break the periods of digests.
func digestMutants() []mutant {
	return []mutant{
		{"a digest of minutes leaves out the minutes before its first hour", "alert/digest.go",
			"		{Step: store.StepMinute, From: s.From, To: first},\n", "",
			"alert", "^TestDigestsOfAPeriodCountEachRunOnceThroughAnOutage$"},
		{"a digest of minutes leaves out the minutes after its last hour", "alert/digest.go",
			"		{Step: store.StepMinute, From: last, To: s.Until},\n", "",
			"alert", "^TestDigestsOfAPeriodCountEachRunOnceThroughAnOutage$"},
		{"each period adds a digest while its target is down", "alert/period.go",
			"(m.held || s.isQuiet(s.now))", "s.isQuiet(s.now)",
			"alert", "^TestDigestsOfAPeriodCountEachRunOnceThroughAnOutage$"},
		{"each period of quiet hours has a digest", "alert/period.go",
			"(m.held || s.isQuiet(s.now))", "m.held",
			"alert", "^TestADigestOfAPeriodStretchesOverQuietHours$"},
		{"a digest is due in quiet hours that begin before it", "alert/period.go",
			"s.rule.Quiet.End(due.In(s.rule.Zone)); !end", "s.quietEnd(); !end",
			"alert", "^TestADigestOfAMinuteIsNotDueInQuietHours$"},
		{"a period is not longer when the clock is changed", "alert/period.go",
			"at.Add(time.Duration(is-was) * time.Second)", "at.Add(0 * time.Duration(is-was))",
			"alert", "^TestPeriodsOfDigestsFollowTheClock$"},
		{"a digest counts minutes again after its period has changed", "alert/period.go",
			"	if from.IsZero() {", "	if true {",
			"alert", "^TestPeriodsOfDigestsFollowEachOther$"},
		{"a combined message covers a reminder that is due later", "alert/flood.go",
			"	if what.Reminder > 0 && run.NotBefore.After(madeAt) {", "	if false {",
			"alert", "^TestAMessageThatCombinesAlertsCoversNoLaterReminder$"},
	}
}
