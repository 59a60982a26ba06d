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
			"store/sqlite", "^TestAStoreWhoseFilesAreGoneRefusesAnUpdateThatWritesNothing$"},
		{"an idle server commits", "ledger/batch.go",
			"if b.written.Empty() {", "if false {", "engine", "^TestAnIdleServerWritesNothingButRenewals$"},
		{"one transaction of a batch drops everything", "ledger/batch.go",
			"&& dropped <= dropBytes;", "&& (dropped <= dropBytes || true);", "ledger", "^TestOneTransactionOfABatchDropsABoundedPart$"},
		{"what a batch leaves for its next transaction is answered", "ledger/batch.go",
			"gathered{g.ops[:ops], g.claims[:n-ops]}", "gathered{g.ops, g.claims[:n-ops]}", "ledger",
			"^TestAFailureAfterAPartOfABatchConcernsTheOthersOnly$"},
		{"the folder of a restored store is not synced", "app/datadir/restore.go",
			"return kept, h.disk.folder(string(h.Dir))", "return kept, nil",
			"app/datadir", "^TestARestoredStoreIsSyncedBeforeItHasItsNameAndTheFoldersAfter$"},
		{"the folder of the replaced files is not synced", "app/datadir/restore.go",
			"errors.Join(h.disk.folder(kept), h.disk.folder(string(h.Dir)))", "h.disk.folder(string(h.Dir))",
			"app/datadir", "^TestARestoredStoreIsSyncedBeforeItHasItsNameAndTheFoldersAfter$"},
		{"the folder of a copied store is not synced", "app/datadir/copy.go",
			"	return h.disk.folder(string(h.Dir))\n", "	return nil\n", "app/datadir", "^TestACopiedStoreHasItsNameInASyncedFolder$"},
		{"the folder of a chat's file is not synced", "app/datadir/files.go",
			"errors.Join(d.folder(dir), d.folder(string(f)))", "d.folder(string(f))",
			"app/datadir", "^TestAChatsFileIsSyncedBeforeItHasItsNameAndItsFoldersAfter$"},
		{"a file that is saved again while it expires is lost", "app/datadir/files.go",
			"	case info.ModTime().Before(before):", "	case info != nil:", "app/datadir", "^TestAFileThatIsSavedAgainIsNotRemoved$"},
		{"a waiting run loses its attachment", "app/node/openfiles.go",
			"return in.Keep(ctx, names, now.Add(-k.interval()))", "return nil", "app/node", "^TestAFileStaysAsLongAsARunThatMayReadIt$"},
		{"a purge drops a run that ended just now", "ledger/op_purge.go",
			" || run.FinishedAt.After(before)", "", "ledger", "^TestAPurgeKeepsARunThatEndedJustNow$"},
		{"a lost store is not seen by its log", "app/datadir/lock.go",
			"h.Dir.Database() + \"-wal\", ", "", "app/datadir", "^TestAFolderThatHasLostItsStoreIsRefused$"},
		{"a lost store is not seen by its revision file", "app/datadir/lock.go",
			" h.Dir.Database() + revisionSuffix,", "", "app/datadir", "^TestAFolderThatHasLostItsStoreIsRefused$"},
		{"a lost store is not seen by its token", "app/datadir/lock.go",
			" h.Dir.TokenFile(),", "", "app/datadir", "^TestAFolderThatHasLostItsStoreIsRefused$"},
		{"a server starts on an unfinished copy of a file", "app/datadir/lock.go",
			"if _, err := os.Lstat(h.Dir.copyFile()); err == nil {", "if false {", "app/datadir", "^TestAFolderWithAnUnfinishedCopyIsRefusedUntilItIsRepeated$"},
		{"a command that ends removes the address of a server", "app/datadir/lock.go",
			"	if h.isServer {", "	if true {", "app/datadir", "^TestAFolderThatHasLostItsStoreIsRefused$"},
		{"a database that was changed while it was closed is not checked", "store/sqlite/guard.go",
			" && before.ModTime().UnixNano() == last.Modified", "", "store/sqlite", "^TestADamagedFileIsRefusedUnlessItWasClosedCleanly$"},
		{"a store that failed is closed as if in order", "store/sqlite/guard.go",
			"err != nil || !inOrder || exists", "err != nil || exists", "store/sqlite", "^TestAnUnfinishedCheckIsRepeated$"},
		{"a store is closed while another handle has it open", "store/sqlite/guard.go",
			" || exists(g.path+\"-wal\") {", " {", "store/sqlite", "^TestAStoreThatAnotherHandleHasOpenIsNotClosed$"},
		{"commits into a replaced file are acknowledged", "store/sqlite/guard.go",
			"		case !os.SameFile(f.info, now):", "		case !os.SameFile(f.info, now) && false:", "store/sqlite", "^TestAStoreWhoseFilesAreGoneAcknowledgesNothing$"},
		{"commits into a removed log are acknowledged", "store/sqlite/guard.go",
			"[...]string{\"\", \"-wal\", \"-shm\"}", "[...]string{\"\", \"-shm\"}", "store/sqlite", "^TestAStoreWhoseFilesAreGoneAcknowledgesNothing$"},
		{"the older record of the revision file is used", "store/sqlite/revision.go",
			"ok && s > serial {", "ok {", "store/sqlite", "^TestATornRecordOfTheRevisionFileIsIgnored$"},
		{"a torn record of the revision file is used", "store/sqlite/revision.go",
			"err != nil || uint32(want) != crc32.ChecksumIEEE([]byte(body))", "err != nil && uint32(want) == 0", "store/sqlite", "^TestATornRecordOfTheRevisionFileIsIgnored$"},
		{"a row is missing from a statement of several rows", "store/sqlite/inserts.go",
			"strings.Repeat(\", \"+row, rows-1)", "strings.Repeat(\", \"+row, rows-2)", "store/sqlite",
			"^TestStore$/^Write$/^writes_any_number_of_rows$"},
		{"the last row of a batch is not written", "store/sqlite/inserts.go",
			"for args := i.args; len(args) > 0;", "for args := i.args; len(args) > i.columns;", "store/sqlite",
			"^TestStore$/^Write$/^writes_any_number_of_rows$"},
		{"rows are written after the disk has ended their transaction", "store/sqlite/inserts.go",
			"!errors.As(err, &ofRow) {", "!errors.As(err, &ofRow) && false {", "store/sqlite", "^TestNothingIsWrittenAfterAnErrorOfTheDisk$"},
		{"a refused row is written with the next batch", "store/sqlite/write.go",
			"		t.store.newRows.drop()\n", "", "store/sqlite", "^TestARefusedRowOfSeveralRefusesThemAll$"},
		{"rows are written before they are encoded", "store/sqlite/encode.go",
			"	e.beside.Wait()\n	return e.failed", "	return e.failed", "store/sqlite", "^TestStore$/^Write$/^writes_any_number_of_rows$"},
	}
}

// storeRowMutants break how rows of SQLite are tied together.
func storeRowMutants() []mutant { return append(chainMutants(), useMutants()...) }

// chainMutants break the chains of a thread's entries in SQLite.
func chainMutants() []mutant {
	const file, pkg, older = "store/sqlite/chain.go", "store/sqlite", "^TestLogsOfAnOlderVersionGoOnAsChains$"
	return []mutant{
		{"a read does not go on in rows of an older version", file,
			"coalesce(c.previous, (SELECT rowid FROM entry\n", "coalesce(c.previous, (SELECT 0 FROM entry\n", pkg, older},
		{"a read forward ends before the row that it began at", file,
			"if more = row != c.Int64(); ", "if more = row == 0 && c.Int64() == 0; ", pkg, older},
		{"a read of some entries begins too early", file, "to = after + left", "to = after", pkg, older},
		{"a row does not name the row before it", "store/sqlite/entries.go",
			"	w.end = logEnd{t.given.entryRow, last}\n", "", pkg, older},
		{"an entry is written twice", "store/sqlite/entries.go", "if first <= w.end.seq {", "if false {", pkg, "^TestStore$"},
		{"a thread keeps its end after new entries", "store/sqlite/threads.go",
			"		last, seq = intValue(w.last.row), intValue(w.last.seq)\n", "", pkg, older},
		{"the index of entries has each row", "store/sqlite/schema.sql",
			"previous IS NULL OR last_seq / 32 > (first_seq - 1) / 32", "previous IS NULL OR last_seq / 1 > (first_seq - 1) / 1",
			pkg, "^TestTheIndexOfEntriesHasARowForEach32$"},
		{"an entry that is removed gets into the index of messages", file, "first_seq <= ?2 AND last_seq >= ?2", "first_seq <= ?2",
			pkg, "^TestStore$"},
	}
}

// useMutants break the use of tokens in SQLite, which is not in their rows.
func useMutants() []mutant {
	return []mutant{
		{"a migration forgets the use of tokens", "store/sqlite/migrations/00034_use.sql",
			"threads, bytes, workers, notifications FROM token", "0, 0, 0, 0 FROM token",
			"store/sqlite", "^TestMigrationKeepsTheUseOfTokens$"},
		{"a new token has the use of a dropped one", "store/sqlite/tokens.go",
			"	if err := t.run(dropUse, name); err != nil {\n		return err\n	}\n", "",
			"store/sqlite", "^TestMigrationKeepsTheUseOfTokens$"},
	}
}

// claimMutants break the index of due threads in SQLite, which has the claims.
func claimMutants() []mutant {
	return []mutant{
		{"the index does not follow a claim to another worker", "store/sqlite/threads.go",
			"old.worker != t.Worker || old.due != t.Due", "old.due != t.Due",
			"store/sqlite", "^TestColumnsFollowEveryChangeOfTheBody$"},
		{"the index does not follow the end of a claim", "store/sqlite/threads.go",
			"old.worker != t.Worker || old.due != t.Due", "old.worker != t.Worker",
			"store/sqlite", "^TestColumnsFollowEveryChangeOfTheBody$"},
		{"a lost claim keeps its entry of the index", "store/sqlite/threads.go",
			`	case t.Worker != "":`, `	case t.Worker != "" || t.Round > 0:`, "store/storetest", "^TestStoresAgree$"},
		{"only the first worker's claims end", "store/sqlite/claims.go",
			"ready = append(ready, own...)", "return own, ends, nil", "store/sqlite", "^TestStore$"},
		{"claims without an end are overdue", "store/sqlite/claims.go", "		return noEnd\n", "		return 0\n",
			"store/sqlite", "^TestStore$"},
		{"a list of an agent has one owner", "store/sqlite/groups.go",
			"	owners, err := steps(r, nextOwnerOfRuns)\n",
			"	owners, err := steps(r, nextOwnerOfRuns)\n	owners = owners[:1]\n",
			"store/storetest", "^TestStoresAgree$"},
		{"a list of an owner has one agent", "store/sqlite/groups.go",
			"		found = append(found, group{owner, agent})\n	}\n	return found, err\n}\n\n// steps",
			"		found = append(found[:0], group{owner, agent})\n	}\n	return found, err\n}\n\n// steps",
			"store/storetest", "^TestStoresAgree$"},
		{"a list of an owner lacks runs that are older than the index", "store/sqlite/groups.go",
			"older, err := groupsOf(r, nextAgentOfRuns, nil)", "older, err := []group(nil), error(nil)",
			"store/sqlite", "^TestRunsWrittenBeforeTheOwnerMigrationAreFound$"},
		{"a list of threads has deleted ones", "store/sqlite/groups.go",
			`		s.Cond("deleted IS NULL")` + "\n", "		_ = s\n", "store/storetest", "^TestStoresAgree$"},
		{"a migration forgets the claims", "store/sqlite/migrate_claims.go",
			"range ends {", "range map[int64]int64{} {", "store/sqlite", "^TestMigrationIndexesClaimsWithDueThreads$"},
	}
}
