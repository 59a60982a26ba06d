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
			`	case m != MarkWorking && (it.State == StateClosed || !c.accepts(it)):`, `	case m == MarkNone:`, pkg,
			"^TestARunIsCancelledBeforeItsStartOnly$"},
		{"an issue that stays open is done again", "issues/board/work.go", ` && shown(it) != h.mark.Shown`, ``, pkg,
			"^TestAnIssueWhoseRunWasCancelledIsNotSubmittedAgainUnchanged$"},
		{"issues of others take the room of a board's own", "issues/board/poll.go",
			`	case !claimed && !r.keeps(it):`, `	case !claimed && it.State == StateClosed:`, pkg, "^TestIssuesOfOthersTakeNoRoom$"},
		{"issues of a repository that was renamed are gone", "issues/board/github/github.go", `			return lost`,
			`			return err`, calls, "^TestARepositoryThatCannotBeReadHasLostNoIssue$"},
		{"an issue without the label is done", "issues/board/watch.go",
			`if !slices.Contains(it.Labels, strings.ToLower(label)) {`, `if label == "" {`, calls,
			"^TestIssuesOfGitHubAreDoneAndClosed$"},
		{"calls go on during a limit", "issues/board/limits.go", `until.After(l.until) {`, `until.IsZero() {`, calls,
			"^TestALimitStopsAllCallsUntilItEnds$"},
		{"each signature of a board's webhook is right", "channel/httpcall/sign.go",
			`return err == nil && hmac.Equal(got, h.Sum(nil))`, `return err == nil && len(got) > 0`, "cmd/mailroom",
			"^TestAWebhookOfABoardOnlyStartsAPoll$"},
		{"an outage of a board is not told", "app/node/alerts.go", `append(c.ChannelNames(), c.BoardNames()...)`,
			`c.ChannelNames()`, "app/node", "^TestABoardIsAChannelOfTheServer$"},
	}
}

// outsideMutants break the board of Linear, the import of boards and the prompts of their issues.
func outsideMutants() []mutant {
	const linear, list = "issues/board/linear", "issues/board/linear/list.go"
	return []mutant{
		{"a comment of Linear that arrived is a failure", "issues/board/linear/write.go", `lookup == nil && found {`,
			`lookup != nil && found {`, linear, "^TestACommentOfLinearWhoseAnswerIsLostIsWrittenOnce$"},
		{"an assignee that cannot be read is none", list, `		case !slices.Contains(unread, r.ID):`, `		default:`, linear,
			"^TestAnIssueOfWhichAFieldCannotBeReadIsReadAgain$"},
		{"an issue that a person took over is taken back", "issues/board/linear/write.go", `return of.ID == b.viewer.ID`,
			`return true`, linear, "^TestAMarkMovesAnIssueByTheTypeOfItsStates$"},
		{"an issue of another project is one of the board", list, `case !b.isHere(*answer.Issue) || `, `case `, linear,
			"^TestIssuesOfLinearAreReadAsTheBoardShowsThem$"},
		{"polls exceed the limit of Linear", list, `	pageSize   = 20`, `	pageSize   = 50`, linear, "^TestAPollCostsLittle$"},
		{"a token goes to any host", "issues/board/github/export.go", `!strings.EqualFold(u.Host, "github.com")`,
			`u.Host == ""`, "issues/board/github", "^TestPlacesOfGitHub$"},
		{"an import of a board undoes edits", "issues/bd/import.go", `base, _ = tracker.Parse(past)`, `_ = past`, "cmd/bd",
			"^TestSessionsWithBoards$"},
		{"an import after a change of the prefix doubles issues", "issues/tracker/outside.go", `pairs = append(pairs,`,
			`_ = append(pairs,`, "issues/tracker", "^TestIssuesOfABoardKeepTheirIDs$"},
		{"a file that an editor truncates is the template", "issues/workflow/file.go", `len(text) == 0 {`, `text == nil {`,
			"issues/workflow", "^TestAFaultyChangeLeavesTheLastGoodFile$"},
	}
}
