package main

// sourceMutants break the bond of a right to the row, the place or the account that it came from.
func sourceMutants() []mutant {
	const operator, browser = "^TestASubscriptionOfTheOperatorEndsWithItsToken$", "^TestABrowserOfTheOperatorEndsWithItsToken$"
	const place, link = "^TestATargetThatSendsElsewhereIsAnotherPlace$", "^TestALinkEndsWithWhatItWasSentTo$"
	const account = "^TestPairingsEndWithTheAccountOfTheBot$"
	const cancelled = "^TestARevocationCancelsWhatTheTokenQueued$"
	return []mutant{
		{"a browser gets alerts after the operator's token was replaced", "alert/allow.go",
			"!operator.IsOperator(s.Token)", "false", "alert", operator},
		{"a browser of a session of the former operator's token gets alerts", "alert/allow.go",
			"auth.NewChains(rows, operator, now)", "auth.NewChains(rows, auth.RunToken(auth.Operator), now)", "alert", operator},
		{"a subscription with the operator's token names no token", "server/push.go",
			"		return who.ID(), nil", "		return \"\", nil", "server", browser},
		{"a subscription of an older version outlives each token of the operator", "server/server.go",
			"err := s.push.adopt(ctx); ", "err := error(nil); ", "server", browser},
		{"a link of an alert outlives the address of its target", "server/questions.go",
			"case t.Place != out.link.Place:", "case false:", "server", "^TestALinkThatIsNotOursDecidesNothing$"},
		{"a target with another address is the same place", "internal/config/alert.go",
			"names = append(names, s.Key, value)", "names = append(names, s.Key)", "internal/config", place},
		{"the rotation of a secret ends the links of a target", "internal/config/alert.go",
			"s.Secret == nil && value != ", "value != ", "internal/config", place},
		{"a link outlives the token for which it was sent", "alert/link.go",
			"	if !rights.Open(t.ID, t.CreatedAt) {", "	if false {", "server", link},
		{"a link outlives the subscription that got it", "alert/link.go",
			"	return subscriberRow(r, t, operator, now)", "	return nil, nil", "server", link},
		{"a link to a browser that unsubscribed decides", "alert/link.go",
			"	case len(threads) == 0 && k.Thread == ThreadID(k.Target()):", "	case len(threads) == 0:", "server", link},
		{"a decision by a link overtakes the revocation of its token", "server/questions.go",
			"	if opened.holder != nil {", "	if false {", "server", "^TestALinkDecidesNothingOnceItsTokenIsRevoked$"},
		{"users who were paired with another bot stay paired", "channel/chat/pairing/state.go",
			"	if p.Account != \"\" {\n		ended", "	if false {\n		ended", "channel/chat/adapter", account},
		{"a connection of another account asks no account", "channel/chat/pairing/state.go",
			"p.Account != \"\" && p.Account != account:", "false:", "channel/chat/pairing", "^TestPairingsBelongToAnAccount$"},
		{"pairings are not bound when the channel connects", "channel/chat/inbound/inbound.go",
			"changed, ended = p.Bind(d.account)", "", "channel/chat/adapter", account},
		{"a request names no account", "channel/chat/pairing/state.go",
			"	p.Account = account\n	p.dropExpired", "	p.dropExpired", "channel/chat/adapter", account},
		{"an account of an IRC server is one of every server", "channel/irc/irc.go",
			"	t.Directory = c.options.Server\n", "", "channel/irc", "^TestTheAccountNamesTheServer$"},
		{"an account of a program is one of every program", "channel/webhook/webhook.go",
			"	t.Directory = c.options.URL\n", "", "channel/webhook", "^TestTheAccountNamesTheProgram$"},
		{"a limited token of the operator delivers to a chat", "internal/thread/patch.go",
			" && p.By != nil && !p.ByServer && !p.By.Has(auth.PermissionAdmin):", " && false:", "server", "^TestADeliveryIsSetOnlyWhereItArrives$"},
		{"the leases of a token's workers outlive its revocation", "ledger/revoke.go",
			"			endLease(b, w, true) // the runs are not to blame\n", "", "ledger", "^TestTheWorkersOfATokenEndInTheTransactionOfItsRevocation$"},
		{"a revocation cancels runs of others", "ledger/revoke.go",
			"owned[t.ID] = t.Owner == p.in.Name", "owned[t.ID] = true", "ledger", cancelled},
		{"a revocation leaves what it was asked to cancel", "ledger/revoke.go",
			"end.cancelled, err = plan.cancel(b, end.at)", "err = nil", "ledger", "^TestARevocationCancelsInItsTransaction$"},
		{"a revocation cancels one transaction only", "ledger/revoke.go",
			"	for in.Cancel {", "	for false {", "ledger", "^TestARevocationCancelsMoreThanOneTransactionTakes$"},
	}
}
