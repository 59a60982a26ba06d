package postgres

import (
	"mailroom"
	"mailroom/store"
	"mailroom/store/internal/sqlstore"
)

// Count implements [store.Reader].
func (r reader) Count(q store.CountQuery) (store.Counts, error) {
	out := store.Counts{Runs: map[mailroom.Status]int{}}
	switch {
	case q.Summaries != nil:
		return readSummaries(r, q.Summaries)
	case q.Failures:
		return countFailures(r, q)
	case q.ByAgent:
		return countAgents(r, q)
	case q.Thread != "":
		return out, r.countThread(q, out.Runs)
	}
	all := q.Agent == "" && len(q.Statuses) == 0
	var s sqlstore.Select
	s.Add("SELECT what, sum(n)::bigint FROM tally")
	s.EqualTo("owner", q.Owner)
	s.Equal("agent", q.Agent)
	if len(q.Statuses) > 0 {
		s.Cond("what = ANY (?::text[])", plainTexts(q.Statuses))
	} else {
		s.Cond("what <> ''")
	}
	s.Add(" GROUP BY what HAVING sum(n) <> 0")
	t := trip{{s.Numbered(), s.Args(), func(c *columns) error {
		switch what, n := c.Text(), c.Int(); {
		case what == sqlstore.TalliedThread && all:
			out.Threads = n
		case what != sqlstore.TalliedThread:
			out.Runs[mailroom.Status(what)] = n
		}
		return nil
	}}}
	if all {
		t.add(func(c *columns) error {
			out.Due = c.Time()
			return nil
		}, "SELECT earliest_due($1)", q.Owner)
	}
	return out, r.send("count", t)
}

func countAgents(r reader, q store.CountQuery) (out store.Counts, err error) {
	s := sqlstore.AgentCounts(q, "sum(n)::bigint")
	err = r.query("count the runs of agents", func(c *columns) error {
		sqlstore.AddAgentCount(&out, c)
		return nil
	}, s.Numbered(), s.Args()...)
	return out, err
}

// countThread counts the runs of one thread.
func (r reader) countThread(q store.CountQuery, runs map[mailroom.Status]int) error {
	var s sqlstore.Select
	s.Add("SELECT status, count(*) FROM (SELECT r.status FROM run r")
	whichRuns(&s, store.RunQuery{Thread: q.Thread, Agent: q.Agent, Statuses: q.Statuses, Set: q.Set})
	if q.Owner != nil {
		s.Cond("(SELECT owner FROM thread WHERE id = ?) = ?", q.Thread, *q.Owner)
	}
	s.Limit(q.Most)
	s.Add(") r GROUP BY status")
	return r.query("count the runs of a thread", func(c *columns) error {
		status := mailroom.Status(c.Text())
		runs[status] = c.Int()
		return nil
	}, s.Numbered(), s.Args()...)
}
