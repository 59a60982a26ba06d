package postgres

import (
	"mailroom"
	"mailroom/store"
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
	var s selection
	s.add("SELECT what, sum(n)::bigint FROM tally")
	if q.Owner != nil {
		s.cond("owner = ?", *q.Owner)
	}
	if q.Agent != "" {
		s.cond("agent = ?", q.Agent)
	}
	if len(q.Statuses) > 0 {
		s.cond("what = ANY (?::text[])", plainTexts(q.Statuses))
	} else {
		s.cond("what <> ''")
	}
	s.add(" GROUP BY what HAVING sum(n) <> 0")
	t := trip{{s.text.String(), s.args, func(c *columns) error {
		switch what, n := c.text(), c.int(); {
		case what == talliedThread && all:
			out.Threads = n
		case what != talliedThread:
			out.Runs[mailroom.Status(what)] = n
		}
		return nil
	}}}
	if all {
		t.add(func(c *columns) error {
			out.Due = c.time()
			return nil
		}, "SELECT earliest_due($1)", q.Owner)
	}
	return out, r.send("count", t)
}

func countAgents(r reader, q store.CountQuery) (out store.Counts, err error) {
	var s selection
	s.add("SELECT agent, what, sum(n)::bigint FROM tally")
	s.cond("what <> ?", talliedThread)
	if q.Owner != nil {
		s.cond("owner = ?", *q.Owner)
	}
	s.add(" GROUP BY agent, what")
	err = r.query("count the runs of agents", func(c *columns) error {
		agent, status := c.text(), mailroom.Status(c.text())
		out.AddAgent(agent, status, c.int())
		return nil
	}, s.text.String(), s.args...)
	return out, err
}

// countThread counts the runs of one thread.
func (r reader) countThread(q store.CountQuery, runs map[mailroom.Status]int) error {
	var s selection
	s.add("SELECT status, count(*) FROM (SELECT r.status FROM run r")
	s.whichRuns(store.RunQuery{Thread: q.Thread, Agent: q.Agent, Statuses: q.Statuses, Set: q.Set})
	if q.Owner != nil {
		s.cond("(SELECT owner FROM thread WHERE id = ?) = ?", q.Thread, *q.Owner)
	}
	if q.Most > 0 {
		s.add(" LIMIT ?", int64(q.Most))
	}
	s.add(") r GROUP BY status")
	return r.query("count the runs of a thread", func(c *columns) error {
		status := mailroom.Status(c.text())
		runs[status] = c.int()
		return nil
	}, s.text.String(), s.args...)
}
