package postgres

import (
	"mailroom/store"
	"mailroom/store/internal/sqlstore"
)

const (
	readMetersOf = "SELECT " + sqlstore.MeterColumns + " FROM meter"
	lockMeters   = readMetersOf + " WHERE key = ANY ($1::text[]) ORDER BY key FOR NO KEY UPDATE"

	// addMeters inserts rows that the transaction has found missing: if another one has inserted one since, the
	// duplicate key makes this one run again, with what the other has written. putMeters writes rows that the
	// transaction holds, and those that it never asked for, as a copy does.
	addMeters = "INSERT INTO meter (" + sqlstore.MeterColumns + `) SELECT key, nullif(at, 0), count, usd, tokens, turns,
		raised_usd, raised_tokens, raised_turns FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[],
		$5::bigint[],
		$6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[]) u (` + sqlstore.MeterColumns + ") ORDER BY key"
	putMeters = addMeters + ` ON CONFLICT (key) DO UPDATE SET at = excluded.at, count = excluded.count,
		usd = excluded.usd,
		tokens = excluded.tokens, turns = excluded.turns, raised_usd = excluded.raised_usd,
		raised_tokens = excluded.raised_tokens, raised_turns = excluded.raised_turns`
	dropMeters = "DELETE FROM meter WHERE key = ANY ($1::text[])"
)

func readMeters(r reader, q *store.MeterQuery) (out store.Counts, err error) {
	var s sqlstore.Select
	s.Add(readMetersOf)
	if len(q.Keys) > 0 {
		s.Cond("key = ANY (?::text[])", q.Keys)
		s.Add(" ORDER BY key")
	} else {
		s.Under("key", q.Prefix, q.After)
	}
	out.Meters, err = list(r, "read meters", &s, q.Limit, 0, func(c *columns) (store.Meter, error) {
		return sqlstore.Meter(c), nil
	})
	return out, err
}

// addMeters adds the statement that locks and reads the meters of n, and with the first locks those that an earlier
// try needed later.
func (l *loading) addMeters(t *tx, q *trip, n store.Need, wait string) {
	keys := n.Meters
	if !t.locked {
		keys = append(keys[:len(keys):len(keys)], t.extraMeters...)
	}
	if len(keys) == 0 {
		return
	}
	var rows []store.Meter
	l.meters = &rows
	q.add(func(c *columns) error {
		rows = append(rows, sqlstore.Meter(c))
		return nil
	}, lockMeters+wait, keys)
}

// finishMeters notes which of the meters have a row.
func (l *loading) finishMeters(t *tx, n store.Need) {
	if l.meters == nil {
		return
	}
	l.Meters = store.MetersOf(n.Meters, *l.meters)
	for _, key := range n.Meters {
		t.meters[key] = false
	}
	for _, m := range *l.meters {
		t.meters[m.Key] = true
	}
}

// writeMeters writes rows. there says of the keys that were asked for whether they have a row, and is kept up to
// date.
func (w *writing) writeMeters(c *store.Changes, there map[string]bool) {
	var missing, others []store.Meter
	for _, m := range lastOfEach(c.Meters, func(m store.Meter) string { return m.Key }) {
		if has, asked := there[m.Key]; asked && !has {
			missing = append(missing, m)
			there[m.Key] = true
		} else {
			others = append(others, m)
		}
	}
	w.putMeters(addMeters, missing)
	w.putMeters(putMeters, others)
}

func (w *writing) putMeters(text string, rows []store.Meter) {
	if len(rows) == 0 {
		return
	}
	keys, numbers := make([]string, len(rows)), make([][]int64, 8)
	for i, m := range rows {
		keys[i] = m.Key
		for n, v := range [8]int64{
			micros(m.At), m.Count, m.USD, m.Tokens, m.Turns, m.RaisedUSD, m.RaisedTokens, m.RaisedTurns,
		} {
			numbers[n] = append(numbers[n], v)
		}
	}
	args := []any{keys}
	for _, column := range numbers {
		args = append(args, column)
	}
	w.trip.add(nil, text, args...)
}
