package postgres

import (
	"fmt"
	"math"
	"strings"
	"time"

	"mailroom"
	"mailroom/store"
)

// dropSummaries drops the rows of the summary of several steps, each before its time.
const dropSummaries = "DELETE FROM summary s USING unnest($1::bigint[], $2::bigint[]) u (step, at) WHERE s.step = u.step AND s.at < u.at"

// addSummaries adds to rows of the summary, and readSums reads them. A sum beyond the range of an
// integer is its maximum.
var addSummaries, readSums = func() (string, string) {
	var names, arrays, adds, sums []string
	for i, name := range store.NamesOfSums() {
		names = append(names, name)
		arrays = append(arrays, fmt.Sprintf("$%d::bigint[]", 6+i))
		adds = append(adds, fmt.Sprintf("%[1]s = least(summary.%[1]s, %[2]d - excluded.%[1]s) + excluded.%[1]s", name, int64(math.MaxInt64)))
		sums = append(sums, fmt.Sprintf("least(sum(%s), %d)::bigint", name, int64(math.MaxInt64)))
	}
	columns := strings.Join(names, ", ")
	return "INSERT INTO summary (step, agent, at, status, node, " + columns + ") SELECT step, agent, at, status, $1::text, " + columns +
		" FROM unnest($2::bigint[], $3::text[], $4::bigint[], $5::text[], " + strings.Join(arrays, ", ") + ") u (step, agent, at, status, " + columns +
		") ORDER BY step, agent, at, status ON CONFLICT (step, agent, at, status, node) DO UPDATE SET " + strings.Join(adds, ", "), strings.Join(sums, ", ")
}()

func (w *writing) addSummaries(c *store.Changes) {
	if len(c.Summaries) == 0 {
		return
	}
	var steps, ats []int64
	var agents, statuses []string
	var sums [store.NumberOfSums][]int64
	for _, s := range store.AddUp(c.Summaries) { // a statement changes a row only once
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

func readSummaries(r reader, q *store.SummaryQuery) (out store.Counts, err error) {
	var s selection
	s.add("SELECT agent, at, status, " + readSums + " FROM summary")
	s.cond("step = ?", q.Step.Microseconds())
	if q.Agent != nil {
		s.cond("agent = ?", *q.Agent)
	}
	if !q.From.IsZero() {
		s.cond("at >= ?", q.From.UnixMicro())
	}
	if !q.To.IsZero() {
		s.cond("at < ?", q.To.UnixMicro())
	}
	if after := q.After; after != (store.SummaryKey{}) {
		s.cond("(agent, at, status) > (?, ?, ?)", after.Agent, after.At.UnixMicro(), string(after.Status))
	}
	s.add(" GROUP BY agent, at, status ORDER BY agent, at, status")
	if q.Limit > 0 {
		s.add(" LIMIT ?", int64(q.Limit))
	}
	err = r.query("read the summary", func(c *columns) error {
		key := store.SummaryKey{Step: q.Step, Agent: c.text(), At: time.UnixMicro(c.int64()).UTC(), Status: mailroom.Status(c.text())}
		var v [store.NumberOfSums]int64
		for i := range v {
			v[i] = c.int64()
		}
		out.Summaries = append(out.Summaries, store.Summary{Key: key, Sums: store.SumsOf(v)})
		return nil
	}, s.text.String(), s.args...)
	return out, err
}
