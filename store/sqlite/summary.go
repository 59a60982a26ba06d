package sqlite

import (
	"mailroom/store"
	"mailroom/store/internal/sqlstore"
)

const dropSummaries = "DELETE FROM summary WHERE step = ? AND at < ?"

// addSummary inserts or adds a row. A sum beyond the range of an integer is its maximum.
//
// archtest: a statement, never written.
var addSummary = "INSERT INTO summary (step, agent, at, status, " + sqlstore.EachSum("%") + ") VALUES (?, ?, ?, ?, " +
	sqlstore.EachSum("?") + ") ON CONFLICT DO UPDATE SET " +
	sqlstore.EachSum("% = min(summary.%, 9223372036854775807 - excluded.%) + excluded.%")

func writeSummary(t *tx, s store.Summary) error {
	args := append(t.store.args[:0], s.Key.Step.Microseconds(), s.Key.Agent, s.Key.At.UnixMicro(), string(s.Key.Status))
	for _, v := range s.Sums.Values() {
		args = append(args, v)
	}
	t.store.args = args
	return t.run(addSummary, args...)
}

func readSummaries(r reader, q *store.SummaryQuery) (out store.Counts, err error) {
	s := sqlstore.Summaries(q, sqlstore.EachSum("%"), "")
	err = r.query("read the summary", s.Text(), s.Args(), func(c *columns) (bool, error) {
		sqlstore.AddSummary(&out, q.Step, c)
		return true, nil
	})
	return out, err
}
