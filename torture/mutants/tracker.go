package main

// trackerMutants break what keeps the issues and the lines of a tracker's file.
func trackerMutants() []mutant {
	const pkg, origin, identity = "issues/tracker", "^TestCopiesOfOneIssueHaveOneOrigin$", "issues/tracker/identity.go"
	const reused = "^TestWhatDependsOnAnIDThatIsUsedAgainIsUnchanged$"
	const versions = "^TestVersionsOfTheIssueOfTheBaseAreOneIssue$"
	const threeway = "issues/tracker/threeway.go"
	const clones, separate = "^TestRandomClonesLoseNothing$", "issues/tracker/separate.go"
	const line, layout = "^TestAChangeOfOneIssueChangesOneLine$", "issues/tracker/layout.go"
	return []mutant{
		{"issues of two actors are one", identity, `sameActor := a.CreatedBy == "" || b.CreatedBy == "" || a.CreatedBy == b.CreatedBy`, "sameActor := true", pkg, origin},
		{"issues with one title are one", identity, " && a.Description == b.Description //", " //", pkg, origin},
		{"a time that was cut is another time", identity, "apart == 0 || apart < unit", "apart == 0", pkg, origin},
		{"a tombstone without its issue is another issue", identity, " || a.isPlaceholder() || b.isPlaceholder()", "", pkg, origin},
		{"issues of one second are one, although none was edited", identity, " || a.wasEdited() || b.wasEdited()", " || true", pkg, origin},
		{"each clone keeps its own issue of an id", separate, "if compareOrigins(our, their) <= 0 {", "if true {", pkg, "^TestAThreeWayMergeIsSymmetricAndIdempotent$"},
		{"references stay with the id", separate, "to(it.ID, reference{}), to))", "to(it.ID, reference{}), func(on string, _ reference) string { return on }))", pkg, clones},
		{"a copy from before a merge keeps the old id", separate, "	followMoves(sides)\n", "", pkg, clones},
		{"an id that is used again takes the children of the old issue", separate, "unlinkIssues(side, again[i])", "unlinkIssues(side, again[i][:0])", pkg, "^TestAnIDThatIsUsedAgainIsAnotherIssue$"},
		{"an issue that one side removed returns when its id is used again", separate, "side.Line(it) == base.Line(was)", "false", pkg, "^TestAnIDThatIsUsedAgainIsAnotherIssue$"},
		{"a split keeps an issue that the merge removes", separate, "maxRounds = 50", "maxRounds = 1", pkg, reused},
		{"two versions of a base are two issues", identity, "	if base == nil || base", "	if true || base", pkg, versions},
		{"a merge takes the time of an import", threeway, "name == memberCreated &&", "false &&", pkg, versions},
		{"references stay with the id in a union merge", "issues/tracker/copies.go", "	redirectByTime(t, splits)\n", "", "cmd/bd", "^TestTwoClonesThatChooseOneIDKeepBothIssues$"},
		{"an unsure reference is not said", "issues/tracker/copies.go", "return one, false", "return one, true", pkg, "^TestASplitNamesTheReferencesThatMayMeanEitherIssue$"},
		{"an id is split without a bound", "issues/tracker/copies.go", "len(group) > maxOrigins", "false", pkg, "^TestAnIDIsSplitIntoABoundedNumberOfIssues$"},
		{"an old copy is an edit", "issues/tracker/past.go", "return t.past.replaced != nil && t.past.replaced(line)", "return false", "cmd/bd", "^TestAMergeDoesNotTakeAnOldCopyForAnEdit$"},
		{"replaced lines are forgotten", "issues/tracker/folder.go", "		remember(dir, lock, t)\n", "", "cmd/bd", "^TestAMergeDoesNotTakeAnOldCopyForAnEdit$"},
		{"the number of a dropped child is used again", "issues/tracker/id.go", "most = max(most, n)", "most = max(most, 0*n)", pkg, "^TestANewChildDoesNotGetTheNumberOfARemovedOne$"},
		{"a file is sorted by its first change", layout, "return sortedByLine(t.issues.order)", "return t.issues.order", "cmd/bd", line},
		{"a new line ends as on another system", layout, " || issues[i].number == 0 && t.layout.crlf)", ")", "cmd/bd", line},
		{"a byte order mark is lost", layout, "if len(lines) > 0 && t.layout.bom &&", "if false &&", "cmd/bd", line},
		{"a record with an id is an issue", "issues/tracker/record.go", `kind != "" && kind != "issue"`, `kind == "memory"`, "cmd/bd", line},
		{"a removed record returns", "issues/tracker/record.go", "hadBefore && !stays && old.text == o.text", `hadBefore && !stays && old.text == o.text && o.text == ""`, "cmd/bd", "^TestRecordsOfOtherTypesTravel$"},
		{"a file that is mostly unreadable is written", "issues/tracker/folder.go", "len(invalid)*2 > all", "false", "cmd/bd", "^TestAFileThatIsMostlyUnreadableIsNotWritten$"},
		{"UTF-16 is written", "issues/tracker/folder.go", "if t.layout.utf16 {", "if false {", "cmd/bd", "^TestAFileThatIsMostlyUnreadableIsNotWritten$"},
		{"a line that is left in quarantine is lost", "issues/tracker/restore.go", "left = append(append(left, q.raw...), '\\n')", "left = append(left, q.raw[:0]...)", "cmd/bd", "^TestLinesOfAQuarantineComeBack$"},
	}
}
