package main

// storeMutants break second conditions of what keeps a store, its files and its folder.
func storeMutants() []mutant {
	return []mutant{
		{"lost commits are not noticed without a revision file", "store/sqlite/guard.go",
			"case !known && open:", "case false && open:", "store/sqlite", "^TestACrashedStoreWithoutItsRevisionFileIsRefused$"},
		{"the mark of an open store is in the WAL only", "store/sqlite/guard.go",
			`{setMark, "PRAGMA wal_checkpoint(PASSIVE)"}`, `{setMark}`, "store/sqlite", "^TestACrashedStoreWithoutItsRevisionFileIsRefused$"},
		{"a backup has the mark of an open store", "store/sqlite/positions.go",
			"s.value(ctx, clearMark)", "s.value(ctx, readMark)", "store/sqlite", "^TestABackupOfAnOpenStoreNeedsNoRevisionFile$"},
		{"a removed revision file is not made again", "store/sqlite/guard.go",
			"if !g.revision.inPlace() {", "if false {", "store/sqlite", "^TestARevisionFileThatWasRemovedIsMadeAgain$"},
		{"an answer without a change is given from removed files", "store/sqlite/guard.go",
			"	if s.guard == nil {\n		return nil\n	}\n	err := s.guard.inPlace()", "	if s.guard == nil || t.given.revision == 0 {\n		return nil\n	}\n	err := s.guard.inPlace()",
			"store/sqlite", "^TestAStoreWhoseFilesAreGoneAnswersNothing$"},
		{"an idle server commits", "ledger/batch.go",
			"if b.changes.Empty() {", "if false {", "engine", "^TestAnIdleServerWritesNothingButRenewals$"},
		{"the folder of a restored store is not synced", "internal/datadir/restore.go",
			"return kept, h.disk.folder(string(h.Dir))", "return kept, nil",
			"internal/datadir", "^TestARestoredStoreIsSyncedBeforeItHasItsNameAndTheFoldersAfter$"},
		{"the folder of the replaced files is not synced", "internal/datadir/restore.go",
			"errors.Join(h.disk.folder(kept), h.disk.folder(string(h.Dir)))", "h.disk.folder(string(h.Dir))",
			"internal/datadir", "^TestARestoredStoreIsSyncedBeforeItHasItsNameAndTheFoldersAfter$"},
		{"the folder of a copied store is not synced", "internal/datadir/copy.go",
			"	return h.disk.folder(string(h.Dir))\n", "	return nil\n", "internal/datadir", "^TestACopiedStoreHasItsNameInASyncedFolder$"},
		{"the folder of a chat's file is not synced", "internal/datadir/files.go",
			"errors.Join(d.folder(dir), d.folder(string(f)))", "d.folder(string(f))",
			"internal/datadir", "^TestAChatsFileIsSyncedBeforeItHasItsNameAndItsFoldersAfter$"},
		{"a file that is saved again while it expires is lost", "internal/datadir/files.go",
			"	case info.ModTime().Before(before):", "	case info != nil:", "internal/datadir", "^TestAFileThatIsSavedAgainIsNotRemoved$"},
		{"a waiting run loses its attachment", "internal/node/openfiles.go",
			"return in.Keep(ctx, names, now.Add(-k.interval()))", "return nil", "internal/node", "^TestAFileStaysAsLongAsARunThatMayReadIt$"},
		{"a purge of young entries reads their runs", "ledger/purge.go",
			" || oldest.At.After(before)", " || oldest.At.IsZero()", "ledger", "^TestAPurgeOfNothingReadsAFewRows$"},
		{"a purge drops a run that ended just now", "ledger/purge.go",
			" || run.FinishedAt.After(before)", "", "ledger", "^TestAPurgeKeepsARunThatEndedJustNow$"},
	}
}
