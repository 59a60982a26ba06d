package sqlstore

import (
	"strings"
	"time"

	"mailroom"
	"mailroom/store"
)

// Row reads the columns of a row in their order.
type Row interface {
	Text() string
	Int() int
	Int64() int64
	Time() time.Time
}

// TalliedThread is the value of the column tally.what for counts of threads. For counts of runs, the value is their
// status.
const TalliedThread = "thread"

// AgentCounts selects the numbers of runs by agent and status. sum adds up the column n.
func AgentCounts(q store.CountQuery, sum string) *Select {
	var s Select
	s.Add("SELECT agent, what, " + sum + " FROM tally")
	s.Cond("what NOT IN ('', ?)", TalliedThread) // SQLite has other numbers in the row with ''
	s.EqualTo("owner", q.Owner)
	s.Add(" GROUP BY agent, what")
	return &s
}

// AddAgentCount adds a row of AgentCounts.
func AddAgentCount(out *store.Counts, c Row) {
	agent, status := c.Text(), mailroom.Status(c.Text())
	out.AddAgent(agent, status, c.Int())
}

const (
	// NewestFailures is the part of FailureCounts that reads the table.
	NewestFailures = "SELECT run, at, error_group, agent FROM failure"

	failuresByGroups = `SELECT g.error_group, g.agent, g.runs, g.first, g.last,
		coalesce((SELECT id FROM run WHERE key = g.newest), ''), g.newest FROM
		(SELECT error_group, agent, count(*) AS runs, min(at) AS first, max(at) AS last, max(run) AS newest FROM (`
)

// FailureCounts sums up failed runs by error group and agent.
func FailureCounts(q store.CountQuery) *Select {
	var s Select
	s.Add(failuresByGroups + NewestFailures)
	s.EqualTo("owner", q.Owner)
	s.Equal("agent", q.Agent)
	s.Add(" ORDER BY run DESC")
	s.Limit(q.Most)
	s.Add(") f GROUP BY error_group, agent) g")
	return &s
}

// AddFailureCount adds a row of FailureCounts.
func AddFailureCount(out *store.Counts, c Row) {
	out.Failures = append(out.Failures, store.FailureCount{
		Group: c.Text(), Agent: c.Text(), Runs: c.Int(), First: c.Time(), Last: c.Time(), Newest: c.Text(), Key: c.Int64(),
	})
}

// sums are the columns of store.Sums, in the order of its Values.
const sums = `runs delay ran input_tokens output_tokens cost
	delays0 delays1 delays2 delays3 delays4 delays5 delays6 delays7`

// EachSum returns text once for each column of the sums, joined by commas, with each % replaced by the column's name.
func EachSum(text string) string {
	list := strings.Fields(sums)
	for i, column := range list {
		list[i] = strings.ReplaceAll(text, "%", column)
	}
	return strings.Join(list, ", ")
}

// Summaries selects rows of the summary of ended runs. columns are the columns of the sums, with a
// GROUP BY of the key in group if a database has several rows of a key.
func Summaries(q *store.SummaryQuery, columns, group string) *Select {
	var s Select
	s.Add("SELECT agent, at, status")
	if !q.Keys {
		s.Add(", " + columns)
	}
	s.Add(" FROM summary")
	s.Cond("step = ?", q.Step.Microseconds())
	s.EqualTo("agent", q.Agent)
	if !q.From.IsZero() {
		s.Cond("at >= ?", q.From.UnixMicro())
	}
	if !q.To.IsZero() {
		s.Cond("at < ?", q.To.UnixMicro())
	}
	if after := q.After; after != (store.SummaryKey{}) {
		s.Cond("(agent, at, status) > (?, ?, ?)", after.Agent, after.At.UnixMicro(), string(after.Status))
	}
	s.Add(group + " ORDER BY agent, at, status")
	s.Limit(q.Limit)
	return &s
}

// AddSummary adds a row of Summaries.
func AddSummary(out *store.Counts, q *store.SummaryQuery, c Row) {
	at := store.SummaryKey{Step: q.Step, Agent: c.Text(), At: c.Time(), Status: mailroom.Status(c.Text())}
	var v [store.NumberOfSums]int64
	for i := range v {
		if !q.Keys {
			v[i] = c.Int64()
		}
	}
	out.Summaries = append(out.Summaries, store.Summary{Key: at, Sums: store.SumsOf(v)})
}

// AddedSums is the number of values of an agent that AddAddedSums adds.
const AddedSums = 3 + store.NumberOfSums - 1

// EachAdded returns the values that AddAddedSums takes, joined by commas: the runs of each of [store.SummedStatuses],
// and the other sums. sum adds up a column %; @ is the place of a FILTER. Of a row, nothing is added that follows from
// the rest: each further value costs, even if all rows have a zero there.
func EachAdded(sum string) string {
	var list []string
	for _, status := range store.SummedStatuses() {
		of := strings.NewReplacer("%", "runs", "@", " FILTER (WHERE status = '"+string(status)+"')").Replace(sum)
		list = append(list, "coalesce("+of+", 0)")
	}
	for _, column := range strings.Fields(sums)[1:] {
		list = append(list, strings.NewReplacer("%", column, "@", "").Replace(sum))
	}
	return strings.Join(list, ", ")
}

// AddAddedSums adds the results of SummaryQuery.Of of an agent.
func AddAddedSums(out *store.Counts, q *store.SummaryQuery, agent string, v [AddedSums]int64) {
	var all [store.NumberOfSums]int64
	copy(all[1:], v[3:])
	place := len(out.Summaries)
	whole := store.Summary{Key: store.SummaryKey{Step: q.Step, Agent: agent, At: q.From}, Sums: store.SumsOf(all)}
	out.Summaries = append(out.Summaries, whole)
	for i, status := range store.SummedStatuses() {
		if n := v[i]; n > 0 {
			part := store.Summary{Key: whole.Key, Sums: store.Sums{Runs: n}}
			part.Key.Status = status
			out.Summaries = append(out.Summaries, part)
			whole.Sums = whole.Sums.Plus(part.Sums)
		}
	}
	out.Summaries[place] = whole
}

// AddLastSummary adds the key of a row without its status.
func AddLastSummary(out *store.Counts, step time.Duration, c Row) {
	out.Summaries = append(out.Summaries, store.Summary{Key: store.SummaryKey{Step: step, Agent: c.Text(), At: c.Time()}})
}
