package postgres

import (
	"mailroom/store"
	"mailroom/store/internal/sqlstore"
)

// dropSummaries deletes rows of several steps, each before its time.
const dropSummaries = `DELETE FROM summary s USING unnest($1::bigint[], $2::bigint[]) u (step, at)
	WHERE s.step = u.step AND s.at < u.at`

// addSummaries inserts or adds rows. A sum beyond the range of an integer is its maximum.
//
// archtest: a statement, never written.
var addSummaries = "INSERT INTO summary (step, agent, at, status, node, " + sqlstore.EachSum("%") + `)
	SELECT step, agent, at, status, $1::text, ` + sqlstore.EachSum("%") + `
	FROM unnest($2::bigint[], $3::text[], $4::bigint[], $5::text[],
		$6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[],
		$13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[], $17::bigint[], $18::bigint[], $19::bigint[])
		u (step, agent, at, status, ` + sqlstore.EachSum("%") + `)
	ORDER BY step, agent, at, status ON CONFLICT (step, agent, at, status, node) DO UPDATE SET ` +
	sqlstore.EachSum("% = least(summary.%, 9223372036854775807 - excluded.%) + excluded.%")

// The statements of SummaryQuery.Of: each agent is a seek.
//
// archtest: statements, never written.
var (
	addedSummaries = "SELECT u.agent, s.* FROM unnest($1::text[]) u (agent) CROSS JOIN LATERAL (SELECT " +
		sqlstore.EachAdded("least(coalesce(sum(%)@, 0), 9223372036854775807)::bigint") + `
		FROM summary WHERE step = $2 AND agent = u.agent AND at >= $3 AND at < $4 HAVING count(*) > 0) s`
	lastSummaries = `SELECT u.agent, s.at FROM unnest($1::text[]) u (agent) CROSS JOIN LATERAL (SELECT at FROM summary
		WHERE step = $2 AND agent = u.agent ORDER BY at DESC LIMIT 1) s`
)

func (w *writing) addSummaries(summaries []store.Summary) {
	if len(summaries) == 0 {
		return
	}
	var steps, ats []int64
	var agents, statuses []string
	var sums [store.NumberOfSums][]int64
	for _, s := range store.AddUp(summaries) { // a statement changes a row only once
		steps, agents = append(steps, s.Key.Step.Microseconds()), append(agents, s.Key.Agent)
		ats, statuses = append(ats, s.Key.At.UnixMicro()), append(statuses, string(s.Key.Status))
		for i, v := range s.Sums.Values() {
			sums[i] = append(sums[i], v)
		}
	}
	args := []any{w.node, steps, agents, ats, statuses}
	for _, column := range sums {
		args = append(args, column)
	}
	w.trip.add(nil, addSummaries, args...)
}

// readSummaries adds up the rows of a key, of which each node has its own.
func readSummaries(r reader, q *store.SummaryQuery) (out store.Counts, err error) {
	if len(q.Of) > 0 {
		return readSummariesOf(r, q)
	}
	sums := sqlstore.EachSum("least(sum(%), 9223372036854775807)::bigint")
	s := sqlstore.Summaries(q, sums, " GROUP BY agent, at, status")
	err = r.query("read the summary", func(c *columns) error {
		sqlstore.AddSummary(&out, q, c)
		return nil
	}, s.Numbered(), s.Args()...)
	return out, err
}

func (w *writing) dropSummaries(old []store.SummariesBefore) {
	var steps, ats []int64
	for _, o := range old {
		steps, ats = append(steps, o.Step.Microseconds()), append(ats, o.At.UnixMicro())
	}
	if len(old) > 0 {
		w.trip.add(nil, dropSummaries, steps, ats)
	}
}

func readSummariesOf(r reader, q *store.SummaryQuery) (out store.Counts, err error) {
	text, args := addedSummaries, []any{q.Of, q.Step.Microseconds(), q.From.UnixMicro(), q.To.UnixMicro()}
	add := addAddedSums
	if q.Last {
		text, args = lastSummaries, args[:2]
		add = func(out *store.Counts, q *store.SummaryQuery, c sqlstore.Row) {
			sqlstore.AddLastSummary(out, q.Step, c)
		}
	}
	err = r.query("read the summary of agents", func(c *columns) error {
		add(&out, q, c)
		return nil
	}, text, args...)
	store.SortSummaries(out.Summaries)
	return out, err
}

// addAddedSums adds a row of addedSummaries.
func addAddedSums(out *store.Counts, q *store.SummaryQuery, c sqlstore.Row) {
	agent := c.Text()
	var v [sqlstore.AddedSums]int64
	for i := range v {
		v[i] = c.Int64()
	}
	sqlstore.AddAddedSums(out, q, agent, v)
}
