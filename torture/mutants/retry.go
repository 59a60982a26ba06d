package main

// retryMutants break who says how a failed run is retried.
func retryMutants() []mutant {
	const pkg = "thread"
	return []mutant{
		{"a worker ignores the deadline of the server", "engine/work.go", "s.engine.options.Deadline, s.claimed.Limit, time.Hour", "s.engine.options.Deadline, time.Hour", "engine", "^TestARemoteWorkerEndsAnAttemptAtTheServersDeadline$"},
		{"a worker stops a run for any time", "internal/retry/retry.go", "	named = min(named, MaxNamed)\n", "", "thread", "^TestATimeThatAFailureNamesIsBounded$"},
		{"runs that got one time return together", "internal/retry/retry.go", "jitter*float64(min(named/5, maxSpread))", "0*jitter", "internal/retry", "^TestRunsThatWereToldOneTimeDoNotComeBackTogether$"},
		{"a submit says nothing about delays", "thread/retry.go", "		p = own.Over(p)\n", "		_ = own\n", pkg, "^TestASubmitSaysHowLongAnOutageMayLast$"},
		{"the length of an outage is fixed", "thread/retry.go", "now.Sub(r.OutageSince) >= p.Outage {", "now.Sub(r.OutageSince) >= 24*time.Hour {", pkg, "^TestASubmitSaysHowLongAnOutageMayLast$"},
		{"the growth of delays is fixed", "internal/retry/retry.go", "math.Pow(p.Factor,", "math.Pow(2,", "internal/retry", "^TestDelaysGrowFromFirstToMost$"},
		{"a claim does not say how its attempt is retried", "thread/claim.go", "	setRetry(r, by.Retry.Over(retry.Default()))\n", "	_ = retry.Default\n", pkg, "^TestAnOverdueClaimIsRetriedByThePolicyOfItsWorker$"},
		{"a claim replaces the number of the submit", "thread/retry.go", "	if r.AgentAttempts {", "	if true {", pkg, "^TestAFailureIsRetriedByThePolicyOfItsClaim$"},
		{"a claim replaces the number of a run of an older version", "thread/retry.go", "	if r.AgentAttempts {", "	if true {", pkg, "^TestARunOfAnOlderVersionKeepsItsNumberOfAttempts$"},
		{"a run is claimed beyond its number of failures", "thread/retry.go", "max(p.Attempts, r.Failures+1)", "p.Attempts", pkg, "^TestALowerNumberOfAttemptsStillAllowsTheOneThatBegins$"},
		{"the delays of an earlier claim stay", "thread/retry.go", "	r.RetryFirst, r.RetryMost, r.RetryFactor,", "	_, _, r.RetryFactor,", pkg, "^TestAFailureIsRetriedByThePolicyOfItsClaim$"},
		{"an outage is retried no slower than a failure", "thread/retry.go", "p.InOutage().Delay", "p.Delay", pkg, "^TestAnOutageBeginsWithTheFirstDelayAndEndsAfterADay$"},
		{"a worker has no say", "ledger/sweep_overrun.go", "r.Retry.Over(o.Retry(agent))", "o.Retry(agent)", "ledger", "^TestTheNearestLevelSaysHowARunIsRetried$"},
		{"a delay of one level crosses that of another", "internal/retry/retry.go", "	case out.First <= out.Most:\n", "	case true:\n", "internal/retry", "^TestFirstNeverExceedsMostInACombinedPolicy$"},
		{"replies are retried as agents are", "app/node/agents.go", "	if reserved.IsAgent(agent) {", "	if false && reserved.IsAgent(agent) {", "app/node", "^TestTheRetriesOfAgentsAreNotThoseOfRepliesAndAlerts$"},
		{"a full machine uses up the attempts of a command", "agent/exec/outcome.go", "		class = mailroom.ClassUnavailable\n	}\n	for _, wrong", "	}\n	for _, wrong", "agent/exec", "^TestAMachineWithoutRoomForAProcessIsAnOutage$"},
		{"a shim loses the limit that it met", "internal/proc/shim_linux.go", "	return r.Errno\n", "	return nil\n", "internal/proc", "^TestALimitThatAShimMetIsKnownToItsParent$"},
		{"delays of one table cross", "app/config/retry.go", "set[first] && set[most] && p.First > p.Most", "set[first] && set[most] && false", "app/config", "^TestBadRetriesAreRefused$"},
		{"runs of an agent that is served elsewhere fail", "engine/sweep.go", "slices.Concat(e.agentNames(), e.options.Elsewhere)", "slices.Concat(e.agentNames())", "engine", "^TestRunsOfAnAgentThatIsServedElsewhereWaitForAWorker$"},
	}
}
