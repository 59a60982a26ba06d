package main

// damageMutants break what keeps a tracker's issues where a file, or a copy of it, is damaged.
func damageMutants() []mutant {
	const pkg, session = "cmd/bd", "^TestSessions$/^damage$"
	const contest, contests = "issues/tracker/contest.go", "^TestSessions$/^contests$"
	return []mutant{
		{"a damaged copy removes all issues", "issues/bd/admin.go", "		err = tracker.CheckReadable(t, invalid, name)\n", "", pkg, session},
		{"an issue in a damaged line is removed", "issues/tracker/merge.go", "if damaged(lacks) {", "if false {", pkg, session},
		{"a dependency on a removed issue goes to the next one with its id", "issues/tracker/merge.go", "return dangled[[2]string{it.ID, on}] })", "return len(dangled) >= 0 })", "issues/tracker", "^TestAMergeDropsDependenciesOnARemovedIssue$"},
		{"a merge with an unchanged side changes something", "issues/tracker/merge.go", "return dangled[[2]string{it.ID, on}] })", "return len(dangled) < 0 })", "issues/tracker", "^TestAMergeDropsDependenciesOnARemovedIssue$"},
		{"a backup with replaced lines is deleted", "issues/tracker/past.go", "case wasRemoved(t, theirs) && movedCopy(t, theirs) == nil:", "case movedCopy(t, theirs) == nil:", pkg, session},
		{"a child gets an id that overflowed", "issues/tracker/id.go", " && len(number) <= digits", "", pkg, session},
		{"a line that stays is old", "issues/tracker/folder.go", "		if err == nil { // not before", "		if err == nil || true { // not before", "issues/tracker", "^TestAChangeThatIsNotWrittenMakesNoLineOld$"},
		{"an issue that was united is written back", "issues/tracker/separate.go", "if it = t.issues.get(it.ID); it != nil {", "if it != nil {", "issues/tracker", "^TestCopiesUnderTwoIDsAreUnited$"},
		{"an archive is a worktree of the user's repository", "issues/bd/locate.go", "!sameFile(filepath.Dir(git), filepath.Join(common, \"worktrees\"))", "false", pkg, "^TestSessions$/^places$"},
		{"a merge without a base drops a value without a word", contest, "base == nil && !(ours.wasEdited() && theirs.wasEdited())", "base == nil", pkg, "^TestSessions$/^contests$"},
		{"a deletion wins over a change without a word", contest, "		contestDeletion(t, base, ours, theirs)\n", "", pkg, contests},
		{"a copy that was never edited is a contest", contest, "!(ours.wasEdited() && theirs.wasEdited())", "false", pkg, "^TestSessions$/^contests$"},
		{"a file from a backup goes back to an older copy", "issues/tracker/past.go", "		one = false\n", "", pkg, "^TestSessions$/^contests$"},
		{"a finding is reported at every poll", "issues/feed/report.go", "f.told[text] = true; known[text]", "f.told[text] = true; false", "issues/feed", "^TestFindingsOfAMergeAreLoggedOnce$"},
		{"git runs a program of a hostile repository", "issues/tracker/git.go", "\"-c\", \"core.fsmonitor=false\", ", "", pkg, "^TestNoCommandRunsWhatARepositoryConfigures$"},
		{"a rename leaves references behind", "issues/tracker/rename.go", "redirectMember(f.raw, r.id)", "f.raw", "issues/tracker", "^TestARenameFollowsEachMentionOfAnIssue$"},
		{"a rename changes words that are no ids", "issues/tracker/rename.go", "begin > 0 && (isWord(text[begin-1]) || text[begin-1] == '/' || text[begin-1] == '.')", "false", "issues/tracker", "^TestARenameFollowsEachMentionOfAnIssue$"},
		{"a backup loses its tables", "issues/bd/backup.go", "err != nil || !found", "err != nil || !found || true", pkg, "^TestSessions$/^backup$"},
		{"a row of a backup is left out without a word", "issues/bd/backup.go", "		m.out.logf(\"Warning: left out: %s\", row)\n", "_ = row\n", pkg, "^TestSessions$/^backup$"},
		{"a named pipe blocks a command", "internal/setting/file.go",
			"	case mode&fs.ModeNamedPipe != 0:\n		kind", "	case mode&fs.ModeNamedPipe != 0 && false:\n		kind",
			"internal/setting", "^TestFilesThatBlockOrNeverEndAreRefused$"},
		{"the output of a command is refused", "internal/setting/file.go",
			"mode.IsRegular() || isDescriptor(name)", "mode.IsRegular()",
			"internal/setting", "^TestADescriptorOfTheCallerIsRead$"},
		{"a long id fills the disk with spaces", "issues/bd/table.go", "n <= widest", "true", "issues/bd", "^TestALongCellWidensNoColumn$"},
		{"two prefixes of one issue are not named", "issues/tracker/maintain.go", "	found = append(found, renamedCopies(t)...)\n", "", pkg, session},
		{"a tracker of another user is used", "issues/bd/locate.go", "ok && (isAdministrator(owner) || isUser(owner) || known && owner == here)", "ok && (known || owner != here)", pkg, "^TestATrackerOfAnotherUserAboveIsNotUsed$"},
	}
}
