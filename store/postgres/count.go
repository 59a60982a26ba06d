package postgres

import (
	"mailroom"
	"mailroom/store"
	"mailroom/store/internal/sqlstore"
)

const (
	// addTally does what the SQL function add_tally does, whose plan PostgreSQL would make again at each call.
	addTally = `INSERT INTO tally SELECT u.what, u.owner, u.agent, $1::text, sum(u.n)::bigint
		FROM unnest($2::text[], $3::text[], $4::text[], $5::bigint[]) u (what, owner, agent, n)
		GROUP BY u.what, u.owner, u.agent HAVING sum(u.n) <> 0 ORDER BY u.what, u.owner, u.agent
		ON CONFLICT (what, owner, agent, node) DO UPDATE SET n = tally.n + excluded.n`

	// addTallyOfRuns also reads the owners of runs whose threads are not in the Changes.
	addTallyOfRuns = `SELECT add_tally($1, array_agg(u.what), array_agg(t.owner), array_agg(r.agent), array_agg(u.n))
		FROM unnest($2::bigint[], $3::text[], $4::bigint[]) u (run, what, n) JOIN run r ON r.key = u.run
		JOIN thread t ON t.key = r.thread`
)

// Count implements [store.Reader].
func (r reader) Count(q store.CountQuery) (store.Counts, error) {
	out := store.Counts{Runs: map[mailroom.Status]int{}}
	switch {
	case q.Summaries != nil:
		return readSummaries(r, q.Summaries)
	case q.Meters != nil:
		return readMeters(r, q.Meters)
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
		}, earliestDue(q.Owner), q.Owner)
	}
	return out, r.send("count", t)
}

// earliestDue returns the statement for the earliest due time of a thread of an owner, or of all owners. It steps from
// agent to agent and from priority to priority; each step is a seek in an index of due threads, and one step skips all
// gates. The function earliest_due of version 1, which servers of older versions call, does not.
func earliestDue(owner *string) string {
	of := "t.due_at IS NOT NULL AND t.due_agent = e.agent AND t.due_alone = e.alone"
	if owner != nil {
		of += " AND t.due_agent <> '' AND t.owner = $1"
	} else {
		of += " AND $1::text IS NULL"
	}
	const first = " ORDER BY t.due_priority, t.due_at LIMIT 1)"
	return `WITH RECURSIVE each (agent, alone) AS (
		SELECT ''::text COLLATE "C", true
		UNION ALL SELECT n.due_agent, n.due_alone FROM each e CROSS JOIN LATERAL (
			SELECT t.due_agent, t.due_alone FROM thread t WHERE t.due_at IS NOT NULL AND (t.due_agent, t.due_alone) >
				(CASE WHEN e.agent < '#' OR e.agent >= '$' THEN e.agent ELSE '$' END, e.alone)
			ORDER BY t.due_agent, t.due_alone LIMIT 1) n)
	SELECT min(d.at) FROM each e CROSS JOIN LATERAL (
		WITH RECURSIVE p (priority, at) AS (
			(SELECT t.due_priority, t.due_at FROM thread t WHERE ` + of + first + `
			UNION ALL SELECT n.due_priority, n.due_at FROM p CROSS JOIN LATERAL (
				SELECT t.due_priority, t.due_at FROM thread t WHERE ` + of + ` AND t.due_priority > p.priority` + first + ` n)
		SELECT min(p.at) AS at FROM p) d
	WHERE e.agent <> '' AND (e.agent < '#' OR e.agent >= '$')`
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

// tally collects changes of counts.
type tally struct {
	whats, owners, agents []string
	ns                    []int64
	runs, runNs           []int64 // of threads whose owners are not known
	runWhats              []string
}

func (n *tally) add(what, owner, agent string, by int64) {
	n.whats, n.owners = append(n.whats, what), append(n.owners, owner)
	n.agents, n.ns = append(n.agents, agent), append(n.ns, by)
}

func (n *tally) addRun(run int64, what string, by int64) {
	n.runs, n.runWhats, n.runNs = append(n.runs, run), append(n.runWhats, what), append(n.runNs, by)
}

// countMove counts the new status of a run.
func (w *writing) countMove(r *mailroom.Run) {
	if r.Stored == r.Status {
		return
	}
	if t := w.threads[r.Thread]; t != nil {
		w.counts.add(string(r.Stored), t.row.Owner, r.Agent, -1)
		w.counts.add(string(r.Status), t.row.Owner, r.Agent, 1)
	} else {
		w.counts.addRun(r.Key, string(r.Stored), -1)
		w.counts.addRun(r.Key, string(r.Status), 1)
	}
	r.Stored = r.Status
}

// writeTally writes the changes of counts.
func (w *writing) writeTally() {
	n := &w.counts
	if len(n.whats) > 0 {
		w.trip.add(nil, addTally, w.node, n.whats, n.owners, n.agents, n.ns)
	}
	if len(n.runs) > 0 {
		w.trip.add(nil, addTallyOfRuns, w.node, n.runs, n.runWhats, n.runNs)
	}
}
