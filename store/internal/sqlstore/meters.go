package sqlstore

import "mailroom/store"

// MeterColumns are the columns of the table meter, as Meter reads them.
const MeterColumns = "key, at, count, usd, tokens, turns, raised_usd, raised_tokens, raised_turns"

// Meter returns a row of MeterColumns.
func Meter(c Row) store.Meter {
	return store.Meter{
		Key: c.Text(), At: c.Time(), Count: c.Int64(), USD: c.Int64(), Tokens: c.Int64(), Turns: c.Int64(),
		RaisedUSD: c.Int64(), RaisedTokens: c.Int64(), RaisedTurns: c.Int64(),
	}
}
