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

// reportMutants break what keeps a report, and the digest of a day, to what its reader may see, and cheap.
func reportMutants() []mutant {
	const night, shown = "^TestAReportOfANightSaysWhatItsHistoriesSay$/^memory$", "^TestReportsShowVisibleRows$"
	return []mutant{
		{"a report has runs of threads that its reader may not see", "alert/report.go",
			"= b.query.See == nil || b.query.See(t)", "= true", "alert", night},
		{"a report has runs of deleted threads", "alert/report.go",
			"bool { return seen[id] }", "bool { return b.query.All || seen[id] }",
			"alert", "^TestAReportLeavesOutWhatIsDeletedOrPurged$/^memory$"},
		{"a report has questions of threads that its reader may not see", "alert/report_parts.go",
			"err == nil && see(k.Thread) &&", "err == nil && (true || see(k.Thread)) &&", "alert", night},
		{"a report says who paused agents of others", "alert/report.go",
			" || b.agents[name] != nil", " || true", "server", shown},
		{"a pull request is a script", "alert/report_parts.go",
			`u.Scheme != "https" && u.Scheme != "http" || `, "", "alert", "^TestAReportShowsTextsOfOthersInOneSafeLine$"},
		{"a report looks for decided questions in the whole history", "alert/report_parts.go",
			"	q.From = b.query.BeforeTicket\n", "	q.Kinds = questionKinds()\n",
			"alert", "^TestAReportOnEachStoreReadsItsPeriod$/^memory$"},
		{"a report reads the whole history", "alert/report.go",
			"		if last.Before(first) {\n			return nil\n", "		if last.IsZero() || first.IsZero() {\n			return nil\n",
			"alert", "^TestAReportOnEachStoreReadsItsPeriod$/^memory$"},
		{"a digest of a minute reads a report", "alert/digest.go",
			"if s.Until.Sub(s.From) >= branchesPeriod {", "if true {", "alert", "^TestAShortDigestReadsNoReport$"},
	}
}
