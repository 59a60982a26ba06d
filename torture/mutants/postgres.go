package main

// postgresMutants break second conditions of the store that servers share.
func postgresMutants() []mutant {
	return []mutant{
		{"a server that is paused between trips keeps its rows locked", "store/postgres/config.go", "		\"idle_in_transaction_session_timeout\": milliseconds(o.IdleInTransaction),\n", "", "store/postgres", "^TestAPausedTransactionReleasesItsLocksAndRunsAgain$"},
		{"the name in a certificate is not checked", "store/postgres/config.go", "const mode = \"sslmode=verify-full\"", "const mode = \"sslmode=require\"", "store/postgres", "^TestACertificateThatIsNotValidForTheHostIsRefused$"},
		{"a second host of an address is not verified", "store/postgres/config.go", "	for _, f := range config.Fallbacks {\n		hosts = append(hosts, f.Host)\n	}\n", "", "store/postgres", "^TestConnectionsToOtherMachinesAreVerified$"},
		{"a password that looks like a setting ends the verification", "store/postgres/config.go", "at >= 0 && rest[at] == '@'", "false", "store/postgres", "^TestConnectionsToOtherMachinesAreVerified$"},
		{"a reader of all threads skips late commits", "store/postgres/positions.go", "AND position < ` + oldestRunning + `", "AND position < 9223372036854775807", "store/postgres", "^TestAReaderSkipsNoLateCommit$"},
		{"a commit whose answer was lost is made again", "store/postgres/postgres.go", "case last == lost && t.committing && !pgconn.SafeToRetry(t.failed), last == failed, last == exhausted:", "case last == failed, last == exhausted:", "store/postgres", "^TestALostConnectionNeverHidesAnOutcome$"},
		{"a connection that was lost before the commit is an unknown outcome", "store/postgres/postgres.go", "last == lost && t.committing && !pgconn.SafeToRetry(t.failed)", "last == lost", "store/postgres", "^TestALostConnectionNeverHidesAnOutcome$"},
		{"a standby that has the commit in memory only confirms it", "store/postgres/durable.go", "(commit == \"local\" || commit == \"remote_write\")", "commit == \"local\"", "store/postgres", "^TestServersThatMayLoseCommitsAreRefused$"},
		{"a commit that no standby waits for is durable", "store/postgres/durable.go", "(commit == \"local\" || commit == \"remote_write\")", "commit == \"remote_write\"", "store/postgres", "^TestServersThatMayLoseCommitsAreRefused$"},
		{"torn pages of the database are accepted", "store/postgres/durable.go", "[]string{\"fsync\", \"full_page_writes\"}", "[]string{\"fsync\"}", "store/postgres", "^TestServersThatMayLoseCommitsAreRefused$"},
		{"durable = sync without a standby", "store/postgres/durable.go", "case o.Durable == DurableSync && settings[\"synchronous_standby_names\"] == \"\":", "case false:", "store/postgres", "^TestServersThatMayLoseCommitsAreRefused$"},
		{"a role without synchronous commits is used", "store/postgres/postgres.go", "`SET synchronous_commit = on; SET plan", "`SET plan", "store/postgres", "^TestTheRoleIsCheckedAndItsPasswordIsReadAtEachConnection$"},
		{"the settings of a new primary are not checked", "store/postgres/postgres.go", "if err = s.options.checkServer(ctx, w.conn); err == nil {\n		_, err = w.conn", "if err == nil {\n		_, err = w.conn", "store/postgres", "^TestTheRoleIsCheckedAndItsPasswordIsReadAtEachConnection$"},
		{"a copy goes on over another connection", "store/postgres/postgres.go", "	if s.copying { // the connection", "	if false { // the connection", "store/postgres", "^TestACopyDoesNotReconnect$"},
		{"a write goes on beside the revocation of its token", "store/postgres/load.go", "		q.add(nil, holdTokens) //", "		//", "store/postgres", "^TestATransactionThatReadATokenCommitsBeforeTheTokenEndsOrNotAtAll$"},
		{"a revocation does not wait for the writes of its token", "store/postgres/write.go", "		t.pending.add(nil, endTokens)\n", "", "store/postgres", "^TestATransactionThatReadATokenCommitsBeforeTheTokenEndsOrNotAtAll$/^revoked$"},
		{"the end of a session does not wait for its writes", "store/postgres/tokens.go", "len(c.DropTokens) > 0 || slices", "slices", "store/postgres", "^TestATransactionThatReadATokenCommitsBeforeTheTokenEndsOrNotAtAll$/^dropped$"},
		{"a revocation ends no trip that arrived in part", "store/postgres/postgres.go", "t.waited || t.ending && outcomeOf(t.failed) == conflict", "t.waited", "store/postgres", "^TestATokenEndsBesideATripThatArrivedInPart$"},
		{"a late lock waits", "store/postgres/load.go", "		lock := lockThreads\n		if t.locked {", "		lock := lockThreads\n		if false {", "store/postgres", "^TestALoadAfterTheFirstDoesNotWaitForALock$"},
		{"a late lock of a worker waits", "store/postgres/load.go", "lockWorkers+wait", "lockWorkers+wait[:0]", "store/postgres", "^TestALoadAfterTheFirstDoesNotWaitForALock$"},
		{"a late topic waits", "store/postgres/load.go", "t.store.options.Schema, n.Topics, !t.locked)", "t.store.options.Schema, n.Topics, true)", "store/postgres", "^TestALoadAfterTheFirstDoesNotWaitForALock$"},
		{"a late lock of a meter waits", "store/postgres/meters.go", "lockMeters+wait", "lockMeters+wait[:0]", "store/postgres", "^TestALoadAfterTheFirstDoesNotWaitForALock$"},
		{"a meter is read without its lock", "store/postgres/meters.go", " ORDER BY key FOR NO KEY UPDATE\"", " ORDER BY key\"", "store/postgres", "^TestAMeterThatIsNeededLateIsLockedFirstByTheNextTry$"},
		{"a meter that another server has made is overwritten", "store/postgres/meters.go", "asked && !has {", "asked && !has && false {", "store/postgres", "^TestTwoHandlesAddToAMeterThatHadNoRow$"},
		{"a contraction ends newer servers", "store/postgres/locks.go", "AND classid::bigint >= $1 AND classid::bigint < $2\n", "AND classid::bigint >= $1 AND $2::bigint > 0 AND classid::bigint < $1 + 65536\n", "store/postgres", "^TestAContractionEndsConnectionsWithAnOldMark$"},
		{"a contraction ends servers of other schemas", "store/postgres/locks.go", " OR objsubid = 1 AND objid::bigint >> 16 = $4)`", " OR objsubid = 1 AND $4::bigint >= 0)`", "store/postgres", "^TestAContractionEndsConnectionsWithAnOldMark$"},
		{"a server takes its own hints", "store/postgres/wire.go", "		if sender == w.sender {", "		if sender == w.sender && false {", "store/postgres", "^TestAWireCarriesHintsBetweenServers$"},
		{"servers of two schemas take each other's hints", "store/postgres/wire.go", "hex.EncodeToString(digest[:8]),", "hex.EncodeToString(digest[:0]),", "store/postgres", "^TestAWireCarriesHintsBetweenServers$"},
		{"a refused LISTEN is tried without a pause", "store/postgres/wire.go", "	if worked && lived > maxWirePause {", "	if worked {", "store/postgres", "^TestThePauseOfAWireGrowsUntilAConnectionWorks$"},
	}
}
