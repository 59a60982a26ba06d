package sqlite

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

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

// The statements of SummaryQuery.Of. The agents are a JSON list. For each, a subquery adds up its rows into one text:
// a GROUP BY would first sort all rows, with their sums, which takes twice as long as adding. A sum beyond the range of
// an integer ends addedSummaries with an error; then boundedSummaries answers, which adds the halves of each number.
//
// archtest: statements, never written.
var (
	addedSummaries   = addSummariesAs("sum(%)@")
	boundedSummaries = addSummariesAs(`iif(sum(% >> 32)@ + (sum(% & 4294967295)@ >> 32) > 2147483647,
		9223372036854775807, (sum(% >> 32)@ << 32) + sum(% & 4294967295)@)`)
	lastSummaries = `SELECT agent, at FROM (SELECT u.value AS agent,
		(SELECT max(at) FROM summary WHERE step = ? AND agent = u.value) AS at FROM json_each(?) u) WHERE at IS NOT NULL`
)

// addSummariesAs returns the statement that adds up rows, in which sum adds up a column. Without rows, the sums that
// have no FILTER are NULL, which concat_ws leaves out.
func addSummariesAs(sum string) string {
	return "SELECT u.value, (SELECT concat_ws(',', " + sqlstore.EachAdded(sum) + `)
		FROM summary WHERE step = ?2 AND agent = u.value AND at >= ?3 AND at < ?4) FROM json_each(?1) u`
}

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
		sqlstore.AddSummary(&out, q, c)
		return true, nil
	})
	return out, err
}

func readSummariesOf(r reader, q *store.SummaryQuery) (out store.Counts, err error) {
	agents, err := json.Marshal(q.Of)
	if err != nil {
		return out, err
	}
	if q.Last {
		err = r.query("read the latest summaries", lastSummaries, []any{q.Step.Microseconds(), string(agents)},
			func(c *columns) (bool, error) {
				sqlstore.AddLastSummary(&out, q.Step, c)
				return true, nil
			})
	} else {
		err = r.addUp(q, string(agents), &out)
	}
	store.SortSummaries(out.Summaries)
	return out, err
}

// addUp adds up the rows of each agent of a JSON list.
func (r reader) addUp(q *store.SummaryQuery, agents string, out *store.Counts) (err error) {
	args := []any{agents, q.Step.Microseconds(), q.From.UnixMicro(), q.To.UnixMicro()}
	for _, text := range [2]string{addedSummaries, boundedSummaries} {
		out.Summaries = nil
		err = r.query("add up the summary of agents", text, args, func(c *columns) (bool, error) {
			agent, list := c.Text(), c.Text()
			var v [sqlstore.AddedSums]int64
			if strings.Count(list, ",") < len(v)-1 { // no rows
				return true, nil
			}
			for i := range v {
				number, rest, _ := strings.Cut(list, ",")
				n, err := strconv.ParseInt(number, 10, 64)
				if err != nil {
					return false, fmt.Errorf("read the sums of %q: %w", agent, err)
				}
				v[i], list = n, rest
			}
			sqlstore.AddAddedSums(out, q, agent, v)
			return true, nil
		})
		if err == nil || !strings.Contains(fmt.Sprint(errors.Unwrap(err)), "integer overflow") {
			break
		}
	}
	return err
}
