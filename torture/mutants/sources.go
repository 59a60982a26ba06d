package main

// sourceMutants break the bond of a right to the row, the place or the account that it came from.
func sourceMutants() []mutant {
	const operator, browser = "^TestASubscriptionOfTheOperatorEndsWithItsToken$", "^TestABrowserOfTheOperatorEndsWithItsToken$"
	return []mutant{
		{"a browser gets alerts after the operator's token was replaced", "alert/allow.go",
			"!operator.IsOperator(s.Token)", "false", "alert", operator},
		{"a browser of a session of the former operator's token gets alerts", "alert/allow.go",
			"auth.NewChains(rows, operator, now)", "auth.NewChains(rows, auth.RunToken(auth.Operator), now)", "alert", operator},
		{"a subscription with the operator's token names no token", "server/push.go",
			"		return who.ID(), nil", "		return \"\", nil", "server", browser},
		{"a subscription of an older version outlives each token of the operator", "server/server.go",
			"err := s.push.adopt(ctx); ", "err := error(nil); ", "server", browser},
	}
}
