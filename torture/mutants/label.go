package main

// labelMutants miscount the sums by the value of a label.
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
	}
}
