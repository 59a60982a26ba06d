package main

// joinMutants break what holds for the messages of a chat that are joined to one run.
func joinMutants() []mutant {
	const file, pkg = "thread/join.go", "thread"
	return []mutant{
		{"a message of another sender joins", file, " && r.Origin.Sender == in.Origin.Sender &&", " &&", pkg, "^TestOnlyMoreOfTheSameSenderJoins$"},
		{"a message of another channel joins", file, "r.Origin.Via == in.Origin.Via && ", "", pkg, "^TestOnlyMoreOfTheSameSenderJoins$"},
		{"a message for another agent joins", file, "r.Agent == s.found.Agent && ", "", pkg, "^TestOnlyMoreOfTheSameSenderJoins$"},
		{"a message with other options joins", file, " && bytes.Equal(r.Options, in.Options)", " && (true || bytes.Equal(nil, nil))", pkg, "^TestOnlyMoreOfTheSameSenderJoins$"},
		{"a message without join joins", file, "in.Join == 0 || r == nil", "r == nil", pkg, "^TestOnlyMoreOfTheSameSenderJoins$"},
		{"a message joins over another one", file, " || r.Place != t.NextPlace-1", "", pkg, "^TestWhatIsRetriedInBetweenEndsABurst$"},
		{"a full run is joined", file, " || !s.fits(r)", "", pkg, "^TestOnlyMoreOfTheSameSenderJoins$"},
		{"a burst delays its run without end", "thread/submission.go", "at.After(limit)", "at.IsZero() && at.After(limit)", pkg, "^TestABurstDelaysItsFirstMessageNoLongerThanTheBound$"},
		{"a queued message overtakes a burst", "thread/submission.go", "		endJoin(s.t, s.now)\n		r = s.enqueue()", "		r = s.enqueue()", pkg, "^TestRandomBursts$"},
		{"a steered message overtakes a burst", "thread/submission.go", "		endJoin(s.t, s.now)\n		return s.steer(r)", "		return s.steer(r)", pkg, "^TestASteeredMessageEndsABurst$"},
		{"a burst is not found behind scheduled runs", "thread/queue.go", "s == ScopeJoin && !q.hasJoin(now)", "false && !q.hasJoin(now)", pkg, "^TestABurstIsFoundBehindScheduledRuns$"},
		{"a burst takes a new place when it is due", "thread/state.go", "		if !r.Joins {\n", "		if true {\n", pkg, "^TestABurstKeepsItsPlaceWhenItIsDue$"},
		{"a clock that goes back keeps a burst waiting", "thread/clock.go", "	endFutureJoin(t, now)\n", "", pkg, "^TestABurstWaitsNoLongerAfterTheClockWentBack$"},
		{"any client delays its messages", file, "!strings.HasPrefix(in.Origin.Via, channelPrefix)", "!strings.HasPrefix(in.Origin.Via, \"\")", pkg, "^TestJoinIsForMessagesOfAChannel$"},
		{"a cut text waits no longer than others", "channel/chat/inbound/join.go", "max(j.usual, cutJoin)", "j.usual", "channel/chat/adapter", "^TestATextThatTheClientHasCutIsOneRun$"},
		{"a command waits", "channel/chat/inbound/inbound.go", "	case p.Command == \"\":\n		e.join = d.join.of(e, p.Text)", "	case p.Command == \"\" || func() bool { e.join = d.join.of(e, p.Text); return false }():", "channel/chat/adapter", "^TestCommandsDoNotWaitForABurst$"},
		{"a status does not see what waits", "channel/chat/inbound/command.go", "[]store.RunSet{store.RunsQueued, store.RunsScheduled}", "[]store.RunSet{store.RunsQueued}", "channel/chat/adapter", "^TestScheduledMessagesAreShownAndDiscarded$"},
		{"a webhook joins by default", "app/config/channel.go", "; k.Programs {", "; false {", "app/config", "^TestAWebhookJoinsNothingByDefault$"},
		{"a run begins without the slow files of its album", "channel/chat/inbound/backlog.go", "		if err := b.fetchTogether(lane); err != nil {\n			return err\n		}\n", "", "channel/chat/adapter", "^TestAnAlbumIsOneRun$"},
		{"messages with files are apart", "channel/chat/inbound/join.go", "j.usual > 0 && next.arrived.Sub", "false && next.arrived.Sub", "channel/chat/adapter", "^TestFilesThatComeTogetherAreOneRun$"},
		{"an album waits for nothing without join_within", "channel/chat/inbound/join.go", "	if e.Album != \"\" {", "	if false {", "channel/chat/adapter", "^TestAnAlbumIsOneRun$"},
		{"an album on Telegram is its pieces", "channel/telegram/update.go", ", Album: m.Album}", "}", "channel/telegram", "^TestAnAlbumIsOneRunWithAllItsFiles$"},
		{"the rest of an album in a group is not for the bot", "channel/chat/inbound/albums.go", "		case c.Album == album:", "		case false && c.Album == album:", "channel/chat/adapter", "^TestAnAlbumOfAGroupIsForTheBotAsAWhole$"},
		{"the pieces before the mention are lost", "channel/chat/inbound/albums.go", "			a.hold(at, album, &held)\n", "			_ = held\n", "channel/chat/adapter", "^TestAnAlbumOfAGroupIsForTheBotAsAWhole$"},
		{"an album ends that of another user", "channel/chat/inbound/albums.go", "a.held[max(len(a.held)-maxHeld+1, 0):]", "a.held[:0]", "channel/chat/adapter", "^TestAnAlbumOfAGroupIsForTheBotAsAWhole$"},
		{"an album of another user is for the bot", "channel/chat/inbound/albums.go", ", e.User.ID, e.Album)", ", e.Album)", "channel/chat/adapter", "^TestAnAlbumOfAGroupIsForTheBotAsAWhole$"},
		{"bursts are not joined on Telegram", "channel/host.go", "Join: a.Join, ", "", "channel/telegram", "^TestTelegramIsAChatPlatform$/^a_burst_is_one_run$"},
		{"bursts are not joined on Slack", "channel/host.go", "Join: a.Join, ", "", "channel/slack", "^TestSlackIsAChatPlatform$/^a_burst_is_one_run$"},
		{"bursts are not joined on Discord", "channel/host.go", "Join: a.Join, ", "", "channel/discord", "^TestDiscordIsAChatPlatform$/^a_burst_is_one_run$"},
		{"bursts are not joined on Matrix", "channel/host.go", "Join: a.Join, ", "", "channel/matrix", "^TestMatrixIsAChatPlatform$/./^a_burst_is_one_run$"},
		{"bursts are not joined on IRC", "channel/host.go", "Join: a.Join, ", "", "channel/irc", "^TestIRCIsAChatPlatform$/^a_burst_is_one_run$"},
		{"bursts are not joined on webhooks", "channel/host.go", "Join: a.Join, ", "", "channel/webhook", "^TestAWebhookIsAChatPlatform$/./^a_burst_is_one_run$"},
	}
}
