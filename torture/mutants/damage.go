package main

// damageMutants break what keeps a tracker's issues where a file, or a copy of it, is damaged.
func damageMutants() []mutant {
	const pkg, session = "cmd/bd", "^TestSessions$/^damage$"
	return []mutant{
		{"a damaged copy removes all issues", "issues/bd/admin.go", "		err = tracker.CheckReadable(t, invalid, name)\n", "", pkg, session},
		{"an issue in a damaged line of theirs is removed", "issues/tracker/merge.go", "base != nil && !damaged(other)", "base != nil", pkg, session},
		{"an issue in a damaged line of ours is removed", "issues/tracker/merge.go", " && !damaged(t):", ":", pkg, session},
		{"a backup with replaced lines is deleted", "issues/tracker/past.go", "ours == nil && wasRemoved(t, theirs)", "ours == nil", pkg, session},
		{"a child gets an id that overflowed", "issues/tracker/id.go", " && len(number) <= digits", "", pkg, session},
		{"a line that stays is old", "issues/tracker/folder.go", "		if err == nil { // not before", "		if err == nil || true { // not before", "issues/tracker", "^TestAChangeThatIsNotWrittenMakesNoLineOld$"},
		{"an issue that was united is written back", "issues/tracker/separate.go", "if it = t.issues.get(it.ID); it != nil {", "if it != nil {", "issues/tracker", "^TestCopiesUnderTwoIDsAreUnited$"},
		{"an archive is a worktree of the user's repository", "issues/bd/locate.go", " || !sameFile(filepath.Dir(git), filepath.Join(common, \"worktrees\"))", "", pkg, "^TestSessions$/^places$"},
	}
}
