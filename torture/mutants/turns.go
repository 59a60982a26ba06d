package main

// turnMutants break second conditions of the parts of a turn.
func turnMutants() []mutant {
	const pkg, parts, ends = "stream/turn", "^TestEachKindOfEntryIsItsParts$", "^TestEachEndOfAnAttemptIsShown$"
	const live, cursor = "^TestLiveTextIsReplacedByItsEntry$", "^TestEveryNumberIsACursor$"
	return []mutant{
		{"an entry is applied twice", "stream/turn/state.go", "	if e.Seq <= s.seq {\n", "	if e.Seq < s.seq {\n", pkg, "^TestAnEntryIsAppliedOnce$"},
		{"a reader that continues gets text twice", "stream/turn/state.go", "s.resumed, s.live.shown = true, shownAt(s.after)", "s.resumed, s.live.shown = true, 0", pkg, cursor},
		{"a reader has the events before its number again", "stream/turn/event.go", "if !e.live && n <= s.after {", "if !e.live && n < s.after {", pkg, cursor},
		{"the rest of a text that was shown in part has no number of its own", "stream/turn/message.go", "s.textFirst = l.shown > 0 && len(texts) > 0;", "s.textFirst = false;", pkg, cursor},
		{"thinking is a cursor", "stream/turn/event.go", "e.Cursor = !e.live && n > s.at", "e.Cursor = true", pkg, live},
		{"text of an attempt that broke off is part of the reply", "stream/turn/runs.go", "			p.Superseded = true\n", "", pkg, ends},
		{"a reply before a lost attempt is superseded", "stream/turn/runs.go", "p.Partial && !p.Superseded && ", "!p.Superseded && ", pkg, ends},
		{"text of an earlier attempt is shown", "stream/turn/live.go", "d.Attempt == t.Attempt && t.Status == StatusRunning", "d.Attempt <= t.Attempt && t.Status == StatusRunning", pkg, live},
		{"text of a turn that has ended is shown", "stream/turn/live.go", "d.Attempt == t.Attempt && t.Status == StatusRunning", "d.Attempt == t.Attempt", pkg, live},
		{"text after a hole is shown", "stream/turn/live.go", "		if s.fits(&d) {", "		if s.fits(&d) || true {", pkg, live},
		{"text that no entry has stays", "stream/turn/runs.go", "	s.dropLiveOf(t, e.Attempt+1) //", "	s.dropLiveOf(t, 0) //", pkg, live},
		{"text before the entry of the message before is taken for it", "stream/turn/live.go", "	return n - t.written - 1\n", "	return 0\n", "stream", "^TestTheTurnsOfAThreadOutliveEveryLostConnection$"},
		{"an open call of a turn that ended stays open", "stream/turn/runs.go", "			p.Progress = ProgressVoid\n			s.push(PartEnded, t, p)\n		}\n	}\n	t.Status", "			s.push(PartEnded, t, p)\n		}\n	}\n	t.Status", pkg, parts},
		{"a child that failed is done", "stream/turn/acts.go", "end.Status == mailroom.StatusFailed || ", "", pkg, parts},
		{"a decision is taken for the end of a child", "stream/turn/acts.go", "strings.HasPrefix(body.DecidedBy, \"run:\")", "strings.HasPrefix(body.DecidedBy, \"\")", pkg, "^TestAnAnswerOfAPersonDoesNotSetTheStatusOfAChild$"},
		{"a long turn drops an open call", "stream/turn/bounds.go", "return p.Progress != ProgressOpen })", "return p != nil })", pkg, "^TestATurnIsBounded$"},
		{"the output of a call counts for nothing", "stream/turn/bounds.go", "	s.grow(t, p.size()-before)\n	s.trim(t)\n", "_ = before\n", pkg, "^TestTheOutputsOfManyOpenCallsAreBounded$"},
		{"a thread of long turns is kept whole", "stream/turn/bounds.go", " || s.bytes > MaxBytes)", ")", pkg, "^TestLongTurnsAreDroppedOnceTheyHaveEnded$"},
		{"live arguments have no bound", "stream/turn/live.go", "max(0, mailroom.MaxText-l.beside())", "mailroom.MaxText", pkg, "^TestLiveTextIsBounded$"},
		{"a turn whose end is no longer kept goes on", "stream/turn/state.go", "			s.end(t, StatusLost)\n", "", pkg, "^TestTurnsWhoseEndIsNoLongerKeptAreLost$"},
	}
}
