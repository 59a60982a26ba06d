package sqlite

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

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
	args := append(t.store.args[:0], intValue(s.Key.Step.Microseconds()), textValue(s.Key.Agent),
		intValue(s.Key.At.UnixMicro()), textValue(string(s.Key.Status)))
	for _, v := range s.Sums.Values() {
		args = append(args, intValue(v))
	}
	t.store.args = args
	noteSummary(t, s.Key.Step, s.Key.At, false)
	return t.store.newRows.summaries.add(t, args...)
}

func dropSummary(t *tx, old store.SummariesBefore) error {
	noteSummary(t, old.Step, old.At, true)
	return t.run(dropSummaries, old.Step.Microseconds(), old.At.UnixMicro())
}

// noteSummary notes a write for the cache of sums.
func noteSummary(t *tx, step time.Duration, at time.Time, drop bool) {
	t.store.summed = append(t.store.summed, summaryWrite{step, at.UnixMicro(), drop})
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
	if q.Last {
		var agents string
		if agents, err = jsonList(q.Of); err != nil {
			return out, err
		}
		err = r.query("read the latest summaries", lastSummaries, []any{q.Step.Microseconds(), agents},
			func(c *columns) (bool, error) {
				sqlstore.AddLastSummary(&out, q.Step, c)
				return true, nil
			})
	} else {
		var rows []addedSums
		rows, err = sumsOf(r, q)
		for _, row := range rows {
			sqlstore.AddAddedSums(&out, q, row.agent, row.sums)
		}
	}
	store.SortSummaries(out.Summaries)
	return out, err
}

func jsonList(names []string) (string, error) {
	list, err := json.Marshal(names)
	return string(list), err
}

// sumsOf adds up the rows of the agents of a query. It keeps the sums over the periods that have ended, if they are
// at least two, and a View reads only the rest again.
func sumsOf(r reader, q *store.SummaryQuery) ([]addedSums, error) {
	all := sumRange{q.Step, q.From.UnixMicro(), q.To.UnixMicro()}
	period := q.Step.Truncate(store.StepMinute) // a step of labels is longer than its day
	ended := all
	ended.to = min(all.to, r.now.Truncate(period).UnixMicro())
	if r.sums == nil || ended.to-ended.from < 2*period.Microseconds() {
		return r.addUp(all, q.Of)
	}
	revision := int64(0)
	err := r.query("read the revision", readRevision, nil, func(c *columns) (bool, error) {
		revision = c.Int64()
		return false, nil
	})
	if err != nil {
		return nil, err
	}
	rows, ok := r.sums.get(ended, q.Of, revision)
	if !ok {
		if rows, err = r.addUp(ended, q.Of); err != nil {
			return nil, err
		}
		r.sums.put(ended, q.Of, revision, rows)
	}
	if ended.to == all.to {
		return rows, nil
	}
	rest, err := r.addUp(sumRange{q.Step, ended.to, all.to}, q.Of)
	return plus(rows, rest), err
}

// plus adds up the sums of each agent of two lists.
func plus(a, b []addedSums) []addedSums {
	out := slices.Clone(a)
	places := make(map[string]int, len(a))
	for i, row := range a {
		places[row.agent] = i
	}
	for _, row := range b {
		place, found := places[row.agent]
		if !found {
			out = append(out, row)
			continue
		}
		sums := &out[place].sums
		for i, v := range row.sums {
			sums[i] = store.AddSum(sums[i], v)
		}
	}
	return out
}

// addUp adds up the rows of each agent, without those that have none.
func (r reader) addUp(of sumRange, agents []string) (out []addedSums, err error) {
	list, err := jsonList(agents)
	if err != nil {
		return nil, err
	}
	args := []any{list, of.step.Microseconds(), of.from, of.to}
	for _, text := range [2]string{addedSummaries, boundedSummaries} {
		out = nil
		err = r.query("add up the summary of agents", text, args, func(c *columns) (bool, error) {
			row, list := addedSums{agent: c.Text()}, c.Text()
			if strings.Count(list, ",") < len(row.sums)-1 { // no rows
				return true, nil
			}
			for i := range row.sums {
				number, rest, _ := strings.Cut(list, ",")
				n, err := strconv.ParseInt(number, 10, 64)
				if err != nil {
					return false, fmt.Errorf("read the sums of %q: %w", row.agent, err)
				}
				row.sums[i], list = n, rest
			}
			out = append(out, row)
			return true, nil
		})
		if err == nil || !strings.Contains(fmt.Sprint(errors.Unwrap(err)), "integer overflow") {
			break
		}
	}
	return out, err
}
