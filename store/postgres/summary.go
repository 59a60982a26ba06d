package postgres

import (
	"time"

	"mailroom"
	"mailroom/store"
)

const (
	// Of several steps, each before its time.
	dropSummaries = "DELETE FROM summary s USING unnest($1::bigint[], $2::bigint[]) u (step, at) WHERE s.step = u.step AND s.at < u.at"

	sumColumns = `runs, delay, ran, input_tokens, output_tokens, cost,
		delays0, delays1, delays2, delays3, delays4, delays5, delays6, delays7`

	// A sum beyond the range of an integer is its maximum.
	addSummaries = "INSERT INTO summary (step, agent, at, status, node, " + sumColumns + ") SELECT step, agent, at, status, $1::text, " + sumColumns + `
		FROM unnest($2::bigint[], $3::text[], $4::bigint[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[],
			$12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[], $17::bigint[], $18::bigint[], $19::bigint[])
			u (step, agent, at, status, ` + sumColumns + `)
		ORDER BY step, agent, at, status ON CONFLICT (step, agent, at, status, node) DO UPDATE SET runs = least(summary.runs, 9223372036854775807 - excluded.runs) + excluded.runs,
		delay = least(summary.delay, 9223372036854775807 - excluded.delay) + excluded.delay,
		ran = least(summary.ran, 9223372036854775807 - excluded.ran) + excluded.ran,
		input_tokens = least(summary.input_tokens, 9223372036854775807 - excluded.input_tokens) + excluded.input_tokens,
		output_tokens = least(summary.output_tokens, 9223372036854775807 - excluded.output_tokens) + excluded.output_tokens,
		cost = least(summary.cost, 9223372036854775807 - excluded.cost) + excluded.cost,
		delays0 = least(summary.delays0, 9223372036854775807 - excluded.delays0) + excluded.delays0,
		delays1 = least(summary.delays1, 9223372036854775807 - excluded.delays1) + excluded.delays1,
		delays2 = least(summary.delays2, 9223372036854775807 - excluded.delays2) + excluded.delays2,
		delays3 = least(summary.delays3, 9223372036854775807 - excluded.delays3) + excluded.delays3,
		delays4 = least(summary.delays4, 9223372036854775807 - excluded.delays4) + excluded.delays4,
		delays5 = least(summary.delays5, 9223372036854775807 - excluded.delays5) + excluded.delays5,
		delays6 = least(summary.delays6, 9223372036854775807 - excluded.delays6) + excluded.delays6,
		delays7 = least(summary.delays7, 9223372036854775807 - excluded.delays7) + excluded.delays7`

	readSums = `least(sum(runs), 9223372036854775807)::bigint,
		least(sum(delay), 9223372036854775807)::bigint,
		least(sum(ran), 9223372036854775807)::bigint,
		least(sum(input_tokens), 9223372036854775807)::bigint,
		least(sum(output_tokens), 9223372036854775807)::bigint,
		least(sum(cost), 9223372036854775807)::bigint,
		least(sum(delays0), 9223372036854775807)::bigint,
		least(sum(delays1), 9223372036854775807)::bigint,
		least(sum(delays2), 9223372036854775807)::bigint,
		least(sum(delays3), 9223372036854775807)::bigint,
		least(sum(delays4), 9223372036854775807)::bigint,
		least(sum(delays5), 9223372036854775807)::bigint,
		least(sum(delays6), 9223372036854775807)::bigint,
		least(sum(delays7), 9223372036854775807)::bigint`
)

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
