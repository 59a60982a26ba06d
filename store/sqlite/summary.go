package sqlite

import (
	"database/sql/driver"
	"time"

	"mailroom"
	"mailroom/store"
)

const (
	dropSummaries = "DELETE FROM summary WHERE step = ? AND at < ?"

	sumColumns = `runs, delay, ran, input_tokens, output_tokens, cost,
		delays0, delays1, delays2, delays3, delays4, delays5, delays6, delays7`

	// A sum beyond the range of an integer is its maximum.
	addSummary = "INSERT INTO summary (step, agent, at, status, " + sumColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET runs = min(runs, 9223372036854775807 - excluded.runs) + excluded.runs,
		delay = min(delay, 9223372036854775807 - excluded.delay) + excluded.delay,
		ran = min(ran, 9223372036854775807 - excluded.ran) + excluded.ran,
		input_tokens = min(input_tokens, 9223372036854775807 - excluded.input_tokens) + excluded.input_tokens,
		output_tokens = min(output_tokens, 9223372036854775807 - excluded.output_tokens) + excluded.output_tokens,
		cost = min(cost, 9223372036854775807 - excluded.cost) + excluded.cost,
		delays0 = min(delays0, 9223372036854775807 - excluded.delays0) + excluded.delays0,
		delays1 = min(delays1, 9223372036854775807 - excluded.delays1) + excluded.delays1,
		delays2 = min(delays2, 9223372036854775807 - excluded.delays2) + excluded.delays2,
		delays3 = min(delays3, 9223372036854775807 - excluded.delays3) + excluded.delays3,
		delays4 = min(delays4, 9223372036854775807 - excluded.delays4) + excluded.delays4,
		delays5 = min(delays5, 9223372036854775807 - excluded.delays5) + excluded.delays5,
		delays6 = min(delays6, 9223372036854775807 - excluded.delays6) + excluded.delays6,
		delays7 = min(delays7, 9223372036854775807 - excluded.delays7) + excluded.delays7`
)

func addSummaries(t *tx, c *store.Changes) error {
	for i := range c.Summaries {
		s := &c.Summaries[i]
		args := append(t.store.args[:0], s.Key.Step.Microseconds(), s.Key.Agent, s.Key.At.UnixMicro(), string(s.Key.Status))
		for _, v := range s.Sums.Values() {
			args = append(args, v)
		}
		t.store.args = args
		if _, err := t.exec(addSummary, args...); err != nil {
			return err
		}
	}
	return nil
}

func readSummaries(r reader, q *store.SummaryQuery) (out store.Counts, err error) {
	s := sel{args: []any{q.Step.Microseconds()}, where: true}
	s.add("SELECT agent, at, status, " + sumColumns + " FROM summary WHERE step = ?")
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
	s.add(" ORDER BY agent, at, status")
	if q.Limit > 0 {
		s.add(" LIMIT ?")
		s.args = append(s.args, int64(q.Limit))
	}
	err = r.query("read the summary", s.text.String(), s.args, func(row []driver.Value) (bool, error) {
		c := columns{row: row}
		key := store.SummaryKey{Step: q.Step, Agent: c.text(), At: time.UnixMicro(c.int64()).UTC(), Status: mailroom.Status(c.text())}
		var v [store.NumberOfSums]int64
		for i := range v {
			v[i] = c.int64()
		}
		out.Summaries = append(out.Summaries, store.Summary{Key: key, Sums: store.SumsOf(v)})
		return true, c.err
	})
	return out, err
}
