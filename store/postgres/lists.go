package postgres

import (
	"mailroom"
	"mailroom/store"
)

// The owner and the agent of a failure are those of its run, whose thread may not be in the Changes.
const (
	putFailures = `INSERT INTO failure (run, at, error_group, agent, owner) SELECT r.key, u.at, u.error_group, r.agent, t.owner
		FROM unnest($1::text[], $2::bigint[], $3::text[]) u (id, at, error_group) JOIN run r ON r.id = u.id JOIN thread t ON t.key = r.thread
		ON CONFLICT (run) DO UPDATE SET at = excluded.at, error_group = excluded.error_group`
	dropFailures = "DELETE FROM failure WHERE run = ANY ($1::bigint[])"

	newestFailures   = "SELECT run, at, error_group, agent FROM failure"
	failuresByGroups = `SELECT g.error_group, g.agent, g.runs, g.first, g.last, coalesce((SELECT id FROM run WHERE key = g.newest), ''), g.newest FROM
		(SELECT error_group, agent, count(*) AS runs, min(at) AS first, max(at) AS last, max(run) AS newest FROM (`
)

// listRuns reads the runs of an owner or of an error group, or those of the group that an owner has.
func listRuns(r reader, q store.RunQuery) (runs []*mailroom.Run, err error) {
	g, more := gauge{limit: q.Limit, budget: q.Bytes}, true
	read := func(text, key, cond string, args ...any) {
		if err != nil || !more {
			return
		}
		var s selection
		s.add(text)
		s.cond(cond, args...)
		s.byKey(key, q.From, q.Oldest)
		limit, budget := q.Limit, q.Bytes // less what another statement has read; 0 is no limit
		if limit > 0 {
			limit -= g.rows
		}
		if budget > 0 {
			budget = max(budget-g.bytes, 1)
		}
		var found []sizedRun
		found, err = list(r, "read runs", &s, limit, budget, func(c *columns) (sizedRun, error) {
			run, err := scanRun(c)
			return sizedRun{run, c.size}, err
		})
		for _, row := range found {
			runs, more = append(runs, row.run), g.add(row.size)
		}
	}
	const ofRuns = "SELECT r.key, r.body FROM run r"
	// A join of the tables may read one of them whole. The subquery is a search by key for each row of the
	// page.
	const ofFailures = "SELECT f.run, (SELECT r.body FROM run r WHERE r.key = f.run) FROM failure f"
	switch {
	case q.Group != "" && q.Owner != "":
		read(ofFailures, "f.run", "f.error_group = ? AND f.owner = ?", q.Group, q.Owner)
	case q.Group != "":
		read(ofFailures, "f.run", "f.error_group = ?", q.Group)
	case q.Oldest: // the runs without an owner have the lowest keys
		read(ofRuns, "r.key", "r.owner IS NULL")
		read(ofRuns, "r.key", "r.owner = ?", q.Owner)
	default:
		read(ofRuns, "r.key", "r.owner = ?", q.Owner)
		read(ofRuns, "r.key", "r.owner IS NULL")
	}
	return runs, err
}

// countFailures sums up failed runs by error group and agent.
func countFailures(r reader, q store.CountQuery) (out store.Counts, err error) {
	var s selection
	s.add(failuresByGroups + newestFailures)
	if q.Owner != nil {
		s.cond("owner = ?", *q.Owner)
	}
	if q.Agent != "" {
		s.cond("agent = ?", q.Agent)
	}
	s.add(" ORDER BY run DESC")
	if q.Most > 0 {
		s.add(" LIMIT ?", int64(q.Most))
	}
	s.add(") f GROUP BY error_group, agent) g")
	err = r.query("count failures", func(c *columns) error {
		out.Failures = append(out.Failures, store.FailureCount{
			Group: c.text(), Agent: c.text(), Runs: c.int(), First: c.time(), Last: c.time(), Newest: c.text(), Key: c.int64(),
		})
		return nil
	}, s.text.String(), s.args...)
	return out, err
}

// failureColumns has the values of failures, one array per column, and the keys of runs that may have
// none.
type failureColumns struct {
	runs, groups []string
	ats, without []int64
}

// add notes the failure of a written run. That of a run which has another status now is deleted by a
// trigger.
func (a *failureColumns) add(r *mailroom.Run) {
	switch {
	case r.Status != mailroom.StatusFailed:
	case r.ErrorGroup != "":
		a.runs, a.groups, a.ats = append(a.runs, r.ID), append(a.groups, r.ErrorGroup), append(a.ats, micros(r.FinishedAt))
	case r.Key != 0:
		a.without = append(a.without, r.Key)
	}
}

func (w *writing) writeFailures(runs []*mailroom.Run) {
	var a failureColumns
	for _, r := range runs {
		a.add(r)
	}
	if len(a.without) > 0 {
		w.trip.add(nil, dropFailures, a.without)
	}
	if len(a.runs) > 0 {
		w.trip.add(nil, putFailures, a.runs, a.ats, a.groups)
	}
}
