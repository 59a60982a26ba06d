package main

// boardMutants do an issue of a board outside twice, write a comment twice, or undo what a person did.
func boardMutants() []mutant {
	const pkg, calls = "issues/board", "issues/board/github"
	return []mutant{
		{"a comment whose answer was lost is written again", "issues/board/github/comment.go",
			`				return true, nil`, `				return false, nil`, "cmd/mailroom",
			"^TestAServerThatIsKilledDoesEachIssueOfABoardOnce$"},
		{"the comment of another account counts", "issues/board/github/comment.go",
			`if (me == "" || r.User`, `if (me != "" || r.User`, calls, "^TestACommentIsLookedUpByItsKeyAndAccount$"},
		{"an issue that a person took over is closed", "issues/board/deliver.go",
			`	case m != MarkWorking && (it.State == StateClosed || !c.unassigned(it)):`, `	case m == MarkNone:`, pkg,
			"^TestARunIsCancelledBeforeItsStartOnly$"},
		{"an issue that stays open is done again", "issues/board/work.go", ` && shown(it) != h.mark.Shown`, ``, pkg,
			"^TestAnIssueWhoseRunWasCancelledIsNotSubmittedAgainUnchanged$"},
		{"an issue without the label is done", "issues/board/watch.go",
			`if !slices.Contains(it.Labels, strings.ToLower(label)) {`, `if label == "" {`, calls,
			"^TestIssuesOfGitHubAreDoneAndClosed$"},
		{"calls go on during a limit", "issues/board/github/call.go", `until.After(l.until) {`, `until.IsZero() {`, calls,
			"^TestALimitStopsAllCallsUntilItEnds$"},
		{"an outage of a board is not told", "app/node/alerts.go", `append(c.ChannelNames(), c.BoardNames()...)`,
			`c.ChannelNames()`, "app/node", "^TestABoardIsAChannelOfTheServer$"},
	}
}
