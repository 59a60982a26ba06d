package sqlite

import (
	"mailroom/store"
	"mailroom/store/internal/sqlstore"
)

const (
	dropMeter = "DELETE FROM meter WHERE key = ?"
	putMeter  = "INSERT OR REPLACE INTO meter (" + sqlstore.MeterColumns + ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)

func readMeters(r reader, q *store.MeterQuery) (out store.Counts, err error) {
	add := func(c *columns) (bool, error) {
		out.Meters = append(out.Meters, sqlstore.Meter(c))
		return true, nil
	}
	if len(q.Keys) == 0 {
		var s sqlstore.Select
		s.Add("SELECT " + sqlstore.MeterColumns + " FROM meter")
		s.Under("key", q.Prefix, q.After)
		s.Limit(q.Limit)
		err = r.query("read meters", s.Text(), s.Args(), add)
		return out, err
	}
	for args := range inLists(q.Keys) {
		text := "SELECT " + sqlstore.MeterColumns + " FROM meter WHERE key " + in(args)
		if err := r.query("read meters", text, args, add); err != nil {
			return out, err
		}
	}
	store.SortMeters(out.Meters)
	return out, nil
}

func writeMeter(t *tx, m store.Meter) error {
	return t.run(putMeter, m.Key, micros(m.At), m.Count, m.USD, m.Tokens, m.Turns,
		m.RaisedUSD, m.RaisedTokens, m.RaisedTurns)
}
