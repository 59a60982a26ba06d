package main

// chatMutants break what channels promise about platforms: connections, whose words a text has, and silence.
func chatMutants() []mutant {
	return []mutant{
		{"one refusal of credentials that worked is final", "channel/reconnect.go", "	patient := s.proven && ", "	patient := false && ", "channel/irc", "^TestIRCIsAChannel$/^credentials_that_are_refused_for_a_moment$"},
		{"refusals never become final", "channel/reconnect.go", "(s.refusals < minRefusals || at.Sub(s.fatalSince) < p.FatalGrace)", "true", "channel", "^TestCredentialsThatWorkedAreGivenUpAfterMinutesOfRefusals$"},
		{"a failed channel is not probed", "channel/reconnect.go", "to, s.nextTry = ConditionFailed, e.at.Add(max(p.ProbeInterval, after))", "to, s.nextTry = ConditionFailed, time.Time{}", "channel/telegram", "^TestTelegramIsAChannel$/^credentials_that_are_refused_for_minutes$"},
		{"new credentials inherit the trust of old ones", "channel/reconnect.go", "		s.proven = false // other credentials may be in it\n", "", "channel", "^TestCredentialsThatWorkedAreGivenUpAfterMinutesOfRefusals$"},
		{"a connection proves credentials that were replaced", "channel/reconnect.go", "s.proven = s.stale != s.adapter", "s.proven = true", "channel", "^TestCredentialsThatWorkedAreGivenUpAfterMinutesOfRefusals$"},
		{"a forwarded text is the user's own", "channel/telegram/context.go", "	e.Text, e.Context = \"\", append(e.Context, c)\n", "	e.Context = append(e.Context, c)\n", "channel/telegram", "^TestTelegramIsAChatPlatform$/^the_words_of_others_decide_nothing$"},
		{"a mention in a quotation addresses the bot on Telegram", "channel/telegram/update.go", "!ok || isQuoted(e, entities)", "!ok", "channel/telegram", "^TestTelegramIsAChatPlatform$/^the_words_of_others_decide_nothing$"},
		{"a mention in a quotation addresses the bot on Discord", "channel/discord/event.go", "own := withoutQuotes(m.content())", "own := m.content()", "channel/discord", "^TestDiscordIsAChatPlatform$/^the_words_of_others_decide_nothing$"},
		{"a mention in a quotation addresses the bot on Slack", "channel/slack/event.go", "mentionedUsers(withoutQuotes(m.Text))", "mentionedUsers(m.Text)", "channel/slack", "^TestSlackIsAChatPlatform$/^the_words_of_others_decide_nothing$"},
		{"a mention in a quotation addresses the bot on Matrix", "channel/matrix/mention.go", "n.inHTML.MatchString(withoutQuotes(s.HTML))", "n.inHTML.MatchString(s.HTML)", "channel/matrix", "^TestGroupMessagesToTheBotAreRecognized$"},
		{"a copied mention addresses the bot on Matrix", "channel/matrix/context.go", "r.mention.lists(msg) && !inherited", "r.mention.lists(msg) && (inherited || !inherited)", "channel/matrix", "^TestGroupMessagesToTheBotAreRecognized$"},
		{"a text ends the mark of its author", "channel/chat/inbound/speaker.go", "	return mailroom.Text(contextLine(channel, c) + \"\\n\" + quote(cmp.Or(c.Text, \"(no text)\")))[0]", "	return mailroom.Text(contextLine(channel, c) + \"\\n> \" + cmp.Or(c.Text, \"(no text)\"))[0]", "channel/chat/adapter", "^TestTheWordsOfOthersAreMarkedAndDecideNothing$"},
		{"a private text imitates the mark of an author", "channel/chat/inbound/speaker.go", "quoted || slices.ContainsFunc(parts, hasQuoteMark)", "quoted", "channel/chat/adapter", "^TestTheWordsOfOthersAreMarkedAndDecideNothing$"},
		{"a repeated edit undoes a later one", "channel/chat/inbound/edit.go", "e.Kind == chat.EventEdited && slices.Contains(c.Edits, editDigest(&e.Event))", "false", "channel/chat/adapter", "^TestAnEditOfAReadMessageIsANewMessage$"},
		{"an edit that changes nothing is told", "channel/chat/inbound/edit.go", "	unchanged := slices.EqualFunc(out.Now.Parts, content, sameContent)", "	unchanged := false && slices.EqualFunc(out.Now.Parts, content, sameContent)", "channel/chat/adapter", "^TestAnEditOfAReadMessageIsANewMessage$"},
		{"what has no text is dropped", "channel/telegram/update.go", "		e.Text = m.describe()", "		e.Text = \"\"", "channel/telegram", "^TestTelegramIsAChatPlatform$/^a_message_without_a_text$"},
		{"each unknown message is answered", "channel/discord/content.go", "(id>>22)/hour", "id", "channel/discord", "^TestDiscordIsAChatPlatform$/^a_message_without_a_text$"},
		{"a bouncer's buffer is done again", "channel/irc/event.go", "	if c.playback.isRepeated(m, c.connectedAt) {", "	if false {", "channel/irc", "^TestABouncerRepeatsNothing$"},
		{"a line's key is that of its connection", "channel/irc/event.go", "	if t, ok := taggedTime(m); ok {\n		return c.playback", "	if t, ok := taggedTime(m); ok && false {\n		return c.playback", "channel/irc", "^TestWhatABouncerPlaysBackIsRecognized$"},
		{"a batch of the history is new", "channel/irc/playback.go", "	if p.batches[m.tag(\"batch\")] {", "	if false {", "channel/irc", "^TestABouncerRepeatsNothing$"},
		{"the answer of a deleted topic reaches no chat", "channel/chat/outbound/send.go", "x.room.Topic == \"\" || !errors.Is(err, chat.ErrTopicGone)", "true", "channel/telegram", "^TestTelegramIsAChatPlatform$/^a_deleted_topic$"},
		{"a retry of a gone recipient makes no call", "channel/chat/outbound/delivery.go", "err != nil || len(retried) > 0", "err != nil || len(retried) < 0", "channel/chat/adapter", "^TestARetryOfAGoneRecipientAlwaysTries$"},
		{"a question of a topic is asked in its chat", "channel/chat/outbound/send.go", "x.sendText(ctx, x.movedText(text), nil)", "x.sendText(ctx, x.movedText(text), buttons)", "channel/chat/adapter", "^TestAQuestionOfADeletedTopicIsToldInTheChat$"},
		{"a huge reply holds the chat", "channel/chat/outbound/send.go", "x.parts > 0 && n >= x.parts", "false && n >= x.parts", "channel/chat/adapter", "^TestAHugeReplyHasAFewParts$"},
		{"a command waits behind a long reply", "channel/chat/outbound/pass.go", "			case q.Priority < own.Priority:\n", "			case q.Priority < -own.Priority:\n", "channel/telegram", "^TestTelegramIsAChatPlatform$/^a_command_is_answered_between_the_parts$"},
		{"a question waits behind a long reply", "channel/chat/outbound/pass.go", "thread.IsDelivery(q) && asks[q.Parent]", "thread.IsDelivery(q) && !asks[q.Parent] && asks[q.Parent]", "channel/chat/adapter", "^TestAnswersAndQuestionsPassBetweenThePartsOfAReply$"},
		{"a question passes the text of its own run", "channel/chat/outbound/pass.go", "		asks[own.Parent] = false\n", "", "channel/chat/adapter", "^TestAQuestionDoesNotPassTheTextOfItsOwnRun$"},
		{"a stop misses a reply that let a message pass", "channel/chat/inbound/command.go", "run.Status != mailroom.StatusQueued || run.Attempt > 0", "run.Status != mailroom.StatusQueued", "channel/chat/adapter", "^TestAStopEndsAReplyThatLetsAnotherMessagePass$"},
		{"a run that gives way loses its place", "internal/thread/giveway.go", "	r.StartedAt, r.StartDelay = time.Time{}, 0\n", "	r.StartedAt, r.StartDelay = time.Time{}, 0\n	r.Place = takePlace(&t.Thread)\n", "internal/thread", "^TestARunThatGivesWayKeepsItsPlace$"},
		{"a run gives way although a message was steered into it", "internal/thread/giveway.go", " || len(r.Steers) > 0", "", "internal/thread", "^TestGivingWayIsARelease$"},
		{"a stop does not end a delivery", "channel/chat/inbound/command.go", "	if d.Sending != \"\" {", "	if false {", "channel/chat/adapter", "^TestAStopEndsADelivery$"},
	}
}
