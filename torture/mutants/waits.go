package main

// waitMutants make a run name another cause than the one that keeps it.
func waitMutants() []mutant {
	const rule, turn = "^TestARunWaitsForWhatComesFirst$", "^TestTheRunWhoseTurnItIs$"
	const secret = "^TestWhatARunWaitsForNamesNoRunThatItsReaderDoesNotSee$"
	return []mutant{
		{"a scheduled run is behind another one", "thread/waitsfor.go",
			"case r.ID != s.Thread.Current && r.Scheduled && r.NotBefore.After(s.Now):", "case false:", "thread", rule},
		{"a paused agent has a free slot", "thread/waitsfor.go",
			"func(p store.Pause) bool { return p.Agent == agent })", "func(p store.Pause) bool { return false })", "thread", rule},
		{"a worker whose lease has ended serves", "thread/waitsfor.go", "!w.Live(s.Now) || ", "", "thread", rule},
		{"a pause on a worker is no reason", "thread/waitsfor.go", "		case !paused:\n			serving++", "		case true:\n			serving++", "thread", rule},
		{"every server has the session", "thread/waitsfor.go", ` || node != "" && w.Node != node`, "", "thread", rule},
		{"a run waits for a question that has expired", "thread/waitsfor.go",
			"if !isOpen(k, now) || slices", "if k == nil || slices", "thread", rule},
		{"a program is asked before a person", "thread/waitsfor.go",
			"[]Cause{CauseDecision, CauseChild, CauseEvent}", "[]Cause{CauseChild, CauseEvent, CauseDecision}", "thread", rule},
		{"a wait for an event ends with its question", "thread/waitsfor.go",
			"if endless && !r.Wait.Any {", "if endless && false {", "thread", rule},
		{"a wait for all ends with the first", "thread/waitsfor.go",
			"r.Wait.Any == at.Before(b.Until)", "at.Before(b.Until)", "thread", rule},
		{"a retry is due at once", "thread/waitsfor.go", "case r.AvailableAt.After(s.Now):", "case false:", "thread", rule},
		{"an urgent run whose time has come is behind the others", "thread/waitsfor.go",
			"r.Priority < next.Priority", "false", "thread", turn},
		{"a run that took in messages loses its place", "thread/waitsfor.go",
			"at < place", "place < at", "thread", turn},
		{"a run names another run to a token for one run", "server/internal/request/view.go",
			`(who.Terms.Run == "" || who.Terms.Run == r.ID) && `, "", "server", secret},
		{"a sum leaves out what the run before waits for", "ledger/waitsfor.go",
			"		if run = one.Run; run == \"\" {", "		if run == \"\" || true {", "server",
			"^TestQueuedRunsAreSummedUpByWhatTheyWaitFor$"},
	}
}
