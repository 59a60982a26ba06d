package main

import "slices"

// mutant is one source change that breaks a guarantee, and the test that must fail.
type mutant struct {
	breaks   string // what the changed program does wrong
	file     string // path from the root of the module, with slashes
	old, new string // old occurs once in the file
	pkg      string // folder of the test
	test     string // pattern, as go test -run takes it
}

func mutants() []mutant {
	return append(slices.Concat(fileMutants(), accountMutants(), rightsMutants(), sourceMutants(), storeMutants(), alertMutants(), digestMutants(),
		coreMutants(), accessMutants(), flowMutants(), programMutants(), worktreeMutants(), pullMutants(), boardMutants(),
		outsideMutants(), repositoryMutants(), setupMutants(), postgresMutants(), chatMutants(), reportMutants(),
		placeMutants(), damageMutants(), retryMutants(), ladderMutants(), trackerMutants(), joinMutants(),
		turnMutants(), waitMutants(), auditMutants(), labelMutants(), scheduleMutants(), scheduleFileMutants(),
		poolMutants(), budgetMutants(), limitMutants(), keyMutants(), priceMutants(), acpMutants(), bellMutants(), claimMutants(), storeRowMutants()), []mutant{
		{"a restart waits for the leases of the previous process", "app/node/prepare.go",
			"return n.ledger.Workers().EndLocalWorkers(ctx, uncharged)", "return nil",
			"cmd/mailroom", "^TestSessions$/^restart$"},
		{"text that is flushed after its message is stored", "thread/partials.go",
			`p.Message != "" && p.Message == r.LastMessage`, `false`,
			"thread", "^TestAMessageReplacesItsFlushedText$"},
		{"a server that lost a duty still writes", "ledger/op_duty.go",
			"w == nil || w.Dead || !slices.Contains(w.Duties, f.duty)", "w == nil",
			"ledger", "^TestADutyEndsWithTheLease$"},
		{"a server that is paused in a trip keeps its rows locked", "store/postgres/stalled.go",
			"{endStalled, []any{stalledTrips * s.options.IdleInTransaction.Milliseconds()}, nil},", "",
			"store/postgres", "^TestAStoreEndsATripOfAnotherThatArrivedInPart$"},
		{"a run starts on a server without its session", "thread/node.go",
			"DueAgent(agent, row.Nodes[agent])", `DueAgent(agent, "")`, "thread", "^TestTheRunsOfASessionAreDueOnItsServer$"},
		{"the first server after an outage takes the sessions of the others", "ledger/sweep_session.go",
			"watched && isGone", "(watched || true) && isGone", "ledger", "^TestTheGraceCountsOnlyWhileAServerWatches$"},
		{"a server that became read-only is used again", "store/postgres/postgres.go",
			"if isReadOnly(t.failed) {", "if false {", "store/postgres", "^TestAReadOnlyServerIsReplacedByThePrimary$"},
		{"views read an old primary", "store/postgres/view.go",
			"case r.epoch != s.epoch.Load():", "case false:", "store/postgres", "^TestAReadOnlyServerIsReplacedByThePrimary$"},
		{"a commit that no standby confirmed is acknowledged", "store/postgres/tx.go",
			"if w.warning != nil &&", "if false &&", "store/postgres", "^TestASynchronousStandbyHasEveryAcknowledgedCommit$"},
		{"rows of a lost primary are used", "ledger/batch.go",
			"epoch := c.store.Epoch(); epoch != c.epoch", "epoch := c.store.Epoch(); epoch < c.epoch", "ledger", "^TestRowsOfALostPrimaryAreNotUsed$"},
		{"a server starts on an unfinished copy", "store/postgres/migrate.go",
			"	case t.MinCode >= copyMark:\n		return ErrUnfinished\n", "",
			"store/postgres", "^TestNoHandleOpensACopyBeforeItIsFinished$"},
		{"a copied submit key is purged later than the original", "store/rows.go",
			"	case k.JoinedSeq != 0:\n		return k.JoinedSeq, true\n", "",
			"store/transfer", "^TestACopyHasEveryRowOfItsSource$"},
		{"two servers have one duty", "ledger/op_duty.go",
			"if holder := Holder(all, duty); holder != nil {", "if holder := Holder(all, duty); holder != nil && holder.ID == worker {",
			"ledger", "^TestADutyHasOneHolder$"},
		{"a stop of a run on another server is not passed on", "bus/relay.go",
			" || !local && forWorker(n.Entries)", "", "bus", "^TestStopsAndSteersReachTheServerOfTheWorker$"},
		{"due runs of another server are not noticed", "ledger/committer.go",
			"	for agent := range c.nudged {", "	for agent := range map[string]int{} {", "ledger", "^TestANudgeFindsWorkOfAnotherLedger$"},
		{"a failure after a partial reply is not reported", "thread/outbox.go",
			` || r.Status == mailroom.StatusFailed`, ``, "thread", "^TestAFailureAfterAStepWithAMessageIsReported$"},
		{"a file of the tracker is not synced", "issues/tracker/lock.go",
			"errors.Join(err, l.dir.sync(file), file.Close())", "errors.Join(err, file.Close())",
			"issues/tracker", "^TestAFileIsSyncedBeforeItHasItsNameAndTheFolderAfter$"},
		{"the folder of the tracker is not synced", "issues/tracker/dir.go",
			"errors.Join(d.sync(dir), dir.Close())", "dir.Close()",
			"issues/tracker", "^TestAFileIsSyncedBeforeItHasItsNameAndTheFolderAfter$"},
		{"a backup is not synced", "store/sqlite/backup.go",
			"err = f.sync(made)", "err = nil", "store/sqlite", "^TestABackupIsSyncedBeforeItHasItsName$"},
		{"the folder of a backup is not synced", "store/sqlite/backup.go",
			"errors.Join(f.sync(dir), dir.Close())", "dir.Close()", "store/sqlite", "^TestABackupIsSyncedBeforeItHasItsName$"},
		{"commits are not synced", "store/sqlite/open.go",
			`"synchronous(full)"`, `"synchronous(normal)"`, "store/sqlite", "^TestEachCommitIsSynced$"},
		{"a purge waits until nothing else is queued", "ledger/committer_queue.go",
			" || o.rank == rankPurge && now.Sub(o.queued) > purgePatience", "", "ledger", "^TestAPurgeThatHasWaitedHasItsTurn$"},
		{"a purge leaves unread notifications in the count", "ledger/op_purge.go",
			"tx.uncountUnread(t, told)", "tx.uncountUnread(t, told[:0])", "ledger", "^TestRandomHistoriesOfInboxes$"},
		{"a notification of the same batch is acknowledged without being counted", "ledger/op_unread.go",
			"found, add(p.Thread.Entries())", "found, nil", "ledger", "^TestOperationsOfOneBatchCountWhatIsUnreadOnce$"},
		{"an inbox is read completely in one transaction", "ledger/op_notification.go",
			"const maxUnread = 5000", "const maxUnread = 1 << 40", "ledger", "^TestAnInboxIsReadInPartsPastNotificationsForOthers$"},
		{"lost commits are not noticed", "store/sqlite/guard.go",
			"case known && commits < last.Commits:", "case false:", "store/sqlite", "^TestCommitsThatTheWALLostAreDetected$"},
		{"commits into a removed file are acknowledged", "store/sqlite/guard.go",
			"	err := s.guard.inPlace()\n	if err == nil &&", "	var err error\n	if err == nil &&",
			"store/sqlite", "^TestAStoreWhoseFilesAreGoneAcknowledgesNothing$"},
		{"a damaged file is not checked", "store/sqlite/sqlite.go",
			"	if unclean {", "	if false && unclean {", "store/sqlite", "^TestADamagedFileIsRefusedUnlessItWasClosedCleanly$"},
		{"an emptied store is accepted as a new one", "app/datadir/lock.go",
			"if err != nil || info.Size() == 0 {", "if false && (err != nil || info.Size() == 0) {", "app/datadir", "^TestAFolderThatHasLostItsStoreIsRefused$"},
		{"a second server starts where the lock file was removed", "app/datadir/lock.go",
			"		flock.New(string(f), flock.SetFlag(os.O_RDONLY)), // the lock file may be removed by hand\n", "",
			"app/datadir", "^TestAFolderWhoseLockFileWasRemovedIsStillLocked$"},
	}...)
}

// fileMutants break what keeps the file of a store right.
func fileMutants() []mutant {
	return []mutant{
		{"the log is written after it was synced", "store/sqlite/vfs_linux.go",
			"	f := valueAt[vfsFile](p)\n	if rc := vfsFlush(f); rc != sqlite3.SQLITE_OK {\n		return rc\n	}\n	if f.unix.FctrlFlags", "	f := valueAt[vfsFile](p)\n	if f.unix.FctrlFlags",
			"store/sqlite", "^TestConnectionsThatShareAWALReadEachOthersCommits$"},
		{"a commit is answered before it is synced", "store/sqlite/vfs_linux.go",
			"switch err := syscall.Fdatasync(int(f.unix.Fh)); err {", "switch err := error(nil); err {",
			"store/sqlite", "^TestACommitWhoseLogCannotBeSyncedFails$"},
		{"views see commits that are not synced", "store/sqlite/open.go",
			`"synchronous(full)"`, `"synchronous(normal)"`, "store/sqlite/powercut", "^TestAViewSeesACommitOnlyOnceItIsSynced$"},
		{"a transaction may write to the log before it commits", "store/sqlite/open.go",
			`"cache_spill(false)"`, `"cache_spill(true)"`, "store/sqlite", "^TestNothingIsWrittenToTheLogBeforeACommit$"},
		{"a row has the value of the row before in place of NULL", "store/sqlite/stmt.go",
			"rc = sqlite3.Xsqlite3_bind_null(tls, s.handle, at)", "", "store/sqlite", "^TestARowHasNothingOfTheRowBefore$"},
		{"the values of a row overwrite each other", "store/sqlite/stmt.go",
			"used += copy(buffer[used:], arg.text)", "copy(buffer[used:], arg.text)", "store/sqlite", "^TestARowHasNothingOfTheRowBefore$"},
		{"the code of an error is lost", "store/sqlite/driver.go",
			"return failed.code, true", "return 0 * failed.code, true", "store/sqlite", "^TestAFullDiskEndsWritingUntilTheStoreIsOpenedAgain$"},
		{"an interrupt before a statement begins is lost", "store/sqlite/conn.go",
			"for i.interrupt(tls) {", "if i.interrupt(tls) {", "store/sqlite", "^TestAStatementEndsWithItsContext$"},
		{"a handle does not notice commits of others", "store/sqlite/memo.go",
			"version != s.memo.version", "version == 0", "store/sqlite", "^TestAHandleSeesWhatAnotherHandleHasWritten$"},
		{"a handle remembers what was rolled back", "store/sqlite/sqlite.go",
			"			s.memo = memo{}\n", "", "store/sqlite", "^TestAHandleForgetsWhatARolledBackTransactionWrote$"},
		{"an id is not restored in the entries of a row", "store/internal/format/shrink.go",
			"s.texts[tokenThread+i] = text; len", "s.texts[tokenRun] = text; len", "store/internal/format", "^TestAShrunkRowHasTheSameLines$"},
	}
}

// accountMutants break what tokens, sessions and pauses promise.
func accountMutants() []mutant {
	return []mutant{
		{"a pause does not wait for claims that are under way", "ledger/op_pause.go",
			"topics: []string{topicAgents}, workers: workers,", "topics: []string{topicAgents},", "ledger", "^TestNothingStartsAfterAPauseWasAnswered$"},
		{"a claim ignores pauses", "ledger/op_claim.go",
			"	c = tx.withoutPaused(c)\n", "", "ledger", "^TestAPausedAgentStartsNothingUntilItIsResumed$"},
		{"a link works twice", "ledger/op_token_derived.go",
			"		tx.dropToken(spent.Name) // last: a refusal undoes nothing\n", "", "ledger", "^TestOfSeveralBrowsersOneSpendsALink$"},
		{"a token never expires", "auth/terms.go",
			"return !t.Terms.ExpiresAt.IsZero() && !t.Terms.ExpiresAt.After(now)", "return false", "ledger", "^TestExpiredTokensAreRefusedAndDropped$"},
		{"a token for some threads lists all", "server/middleware.go",
			"if err := checkTerms(q.who, q.route); err != nil {", "if err := checkTerms(q.who, q.route); false {", "server", "^TestATokenForSomeThreadsReachesNoOther$"},
		{"a token for some threads sees others", "auth/token.go",
			" || !t.mayUse(thread.ID)", "", "server", "^TestATokenForSomeThreadsReachesNoOther$"},
		{"a token for a run sees others", "server/internal/request/visible.go",
			`if len(rows) == 1 && (who.Terms.Run == "" || who.Terms.Run == id) {`, "if len(rows) == 1 {", "server", "^TestATokenForARunReachesNoOther$"},
	}
}
