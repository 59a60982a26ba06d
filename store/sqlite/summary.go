package sqlite

import (
	"encoding/json"
	"fmt"

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

// The statements of SummaryQuery.Of. The agents are a JSON list; each is a seek, as the order of a CROSS JOIN is fixed.
//
// archtest: statements, never written.
var (
	addedSummaries = "SELECT s.agent, max(s.at), s.status, " +
		sqlstore.EachSum(fmt.Sprintf("sum(min(s.%%, %d))", int64(store.MaxAdded))) +
		` FROM json_each(?) u CROSS JOIN summary s WHERE s.step = ? AND s.agent = u.value AND s.at >= ? AND s.at < ?
		GROUP BY s.agent, s.status`
	lastSummaries = `SELECT agent, at FROM (SELECT u.value AS agent,
		(SELECT max(at) FROM summary WHERE step = ? AND agent = u.value) AS at FROM json_each(?) u) WHERE at IS NOT NULL`
)

func writeSummary(t *tx, s store.Summary) error {
	args := append(t.store.args[:0], s.Key.Step.Microseconds(), s.Key.Agent, s.Key.At.UnixMicro(), string(s.Key.Status))
	for _, v := range s.Sums.Values() {
		args = append(args, v)
	}
	t.store.args = args
	return t.run(addSummary, args...)
}

func readSummaries(r reader, q *store.SummaryQuery) (out store.Counts, err error) {
	if len(q.Of) > 0 {
		return readSummariesOf(r, q)
	}
	s := sqlstore.Summaries(q, sqlstore.EachSum("%"), "")
	err = r.query("read the summary", s.Text(), s.Args(), func(c *columns) (bool, error) {
		sqlstore.AddSummary(&out, q.Step, c)
		return true, nil
	})
	return out, err
}

func readSummariesOf(r reader, q *store.SummaryQuery) (out store.Counts, err error) {
	agents, err := json.Marshal(q.Of)
	if err != nil {
		return out, err
	}
	text, args := addedSummaries, []any{string(agents), q.Step.Microseconds(), q.From.UnixMicro(), q.To.UnixMicro()}
	add := sqlstore.AddSummary
	if q.Last {
		text, args, add = lastSummaries, []any{q.Step.Microseconds(), string(agents)}, sqlstore.AddLastSummary
	}
	err = r.query("read the summary of agents", text, args, func(c *columns) (bool, error) {
		add(&out, q.Step, c)
		return true, nil
	})
	store.SortSummaries(out.Summaries)
	return out, err
}
