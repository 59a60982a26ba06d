package sqlite

import (
	"database/sql/driver"
	"fmt"
	"math"
	"strings"
	"time"

	"mailroom"
	"mailroom/store"
)

const dropSummaries = "DELETE FROM summary WHERE step = ? AND at < ?"

// addSummary adds to a row of the summary. A sum beyond the range of an integer is its maximum.
var addSummary = func() string {
	names, adds := store.NamesOfSums(), make([]string, 0, store.NumberOfSums)
	for _, name := range names {
		adds = append(adds, fmt.Sprintf("%[1]s = min(%[1]s, %[2]d - excluded.%[1]s) + excluded.%[1]s", name, int64(math.MaxInt64)))
	}
	return "INSERT INTO summary (step, agent, at, status, " + strings.Join(names[:], ", ") + ") VALUES (?, ?, ?, ?" +
		strings.Repeat(", ?", store.NumberOfSums) + ") ON CONFLICT DO UPDATE SET " + strings.Join(adds, ", ")
}()

func (t *tx) addSummaries(c *store.Changes) error {
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
	names := store.NamesOfSums()
	s := sel{args: []any{q.Step.Microseconds()}, where: true}
	s.add("SELECT agent, at, status, " + strings.Join(names[:], ", ") + " FROM summary WHERE step = ?")
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
