package main

// labelMutants miscount the sums by the value of a label, and the sums that a store keeps.
func labelMutants() []mutant {
	return []mutant{
		{"the values of a label grow without a limit", "ledger/labels.go",
			"	case len(l.keys) < store.MaxLabelValues:\n", "	case true:\n", "ledger", "^TestValuesOfALabelAreBounded$"},
		{"a restart forgets the values of a label", "ledger/labels.go",
			"		l.keys[key] = true\n	}\n	l.loaded", "		_ = key\n	}\n	l.loaded", "ledger", "^TestValuesOfALabelAreBounded$"},
		{"a run keeps the label of an end that another server counted", "thread/finish.go",
			"	r.Labelled = mailroom.Labelled{}\n", "", "ledger", "^TestARetriedRunIsCountedForTheLabelOfEachEnd$"},
		{"the values of a label are counted as agents", "store/summary.go",
			"key.Step == StepLabelDay {", "false {", "store/memory", "^TestStore$"},
		{"the doctor does not add up the days of a label", "doctor/summary.go",
			"if ever[key] != added[key] {", "if false {", "doctor", "^TestASummaryThatDiffersIsFound$"},
		{"kept sums stay after a commit of another handle", "store/sqlite/sumcache.go",
			"	if before != c.last {", "	if false {", "store/sqlite", "^TestKeptSumsAreThoseOfTheSnapshot$"},
		{"kept sums are given to an older snapshot", "store/sqlite/sumcache.go",
			"min(e.revision, revision), max(e.revision, revision)", "e.revision, max(e.revision, revision)",
			"store/sqlite", "^TestKeptSumsAreThoseOfTheSnapshot$"},
		{"kept sums stay after an end of an old period", "store/sqlite/sumcache.go",
			"		w.older = revision\n", "", "store/sqlite", "^TestKeptSumsAreThoseOfTheSnapshot$"},
		{"kept sums stay after a drop of their rows", "store/sqlite/sumcache.go",
			"	if r.from < w.dropped {", "	if false {", "store/sqlite", "^TestKeptSumsAreThoseOfTheSnapshot$"},
	}
}
