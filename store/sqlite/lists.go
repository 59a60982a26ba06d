package sqlite

import (
	"database/sql/driver"

	"mailroom"
	"mailroom/store"
)

const (
	runsOfOwner = "SELECT r.key, r.body FROM run r WHERE r.owner = ?"
	runsOfNone  = "SELECT r.key, r.body FROM run r WHERE r.owner IS NULL"
	// CROSS JOIN reads the failures first: their index has the order of the list.
	runsOfGroup = "SELECT r.key, r.body FROM failure f CROSS JOIN run r ON r.key = f.run WHERE f.error_group = ?"

	putFailure = `INSERT INTO failure (run, at, error_group, agent, owner) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (run) DO UPDATE SET at = excluded.at, error_group = excluded.error_group`
	dropFailure = "DELETE FROM failure WHERE run = ?"

	newestFailures   = "SELECT run, at, error_group, agent FROM failure"
	failuresByGroups = `SELECT g.error_group, g.agent, g.runs, g.first, g.last, (SELECT id FROM run WHERE key = g.newest), g.newest FROM
		(SELECT error_group, agent, count(*) AS runs, min(at) AS first, max(at) AS last, max(run) AS newest FROM (`
)

// listRuns reads the runs of an owner or of an error group, or those of the group that an owner has.
func listRuns(r reader, q store.RunQuery) (runs []*mailroom.Run, err error) {
	g, more := gauge{limit: q.Limit, budget: q.Bytes}, true
	read := func(text, key string, args ...any) {
		if err != nil || !more {
			return
		}
		s := sel{args: args, where: true}
		s.add(text)
		s.byKey(key, q.From, q.Oldest)
		err = r.query("read runs", s.text.String(), s.args, func(row []driver.Value) (bool, error) {
			run, err := scanRun(row)
			runs, more = append(runs, run), g.add(sizeOf(row))
			return more, err
		})
	}
	switch {
	case q.Group != "" && q.Owner != "":
		read(runsOfGroup+" AND f.owner = ?", "f.run", q.Group, q.Owner)
	case q.Group != "":
		read(runsOfGroup, "f.run", q.Group)
	case q.Oldest: // the runs without an owner have the lowest keys
		read(runsOfNone, "r.key")
		read(runsOfOwner, "r.key", q.Owner)
	default:
		read(runsOfOwner, "r.key", q.Owner)
		read(runsOfNone, "r.key")
	}
	return runs, err
}

// countFailures sums up failed runs by error group and agent.
func countFailures(r reader, q store.CountQuery) (out store.Counts, err error) {
	s := sel{}
	s.add(failuresByGroups + newestFailures)
	if q.Owner != nil {
		s.cond("owner = ?", *q.Owner)
	}
	if q.Agent != "" {
		s.cond("agent = ?", q.Agent)
	}
	s.add(" ORDER BY run DESC")
	if q.Most > 0 {
		s.add(" LIMIT ?")
		s.args = append(s.args, int64(q.Most))
	}
	s.add(") GROUP BY error_group, agent) g")
	err = r.query("count failures", s.text.String(), s.args, func(row []driver.Value) (bool, error) {
		c := columns{row: row}
		out.Failures = append(out.Failures, store.FailureCount{
			Group: c.text(), Agent: c.text(), Runs: c.int(), First: c.time(), Last: c.time(), Newest: c.text(), Key: c.int64(),
		})
		return true, c.err
	})
	return out, err
}

// writeFailure writes or deletes the failure of a run that had the status before.
func (t *tx) writeFailure(run *mailroom.Run, before mailroom.Status, owner string) (err error) {
	switch {
	case run.Status == mailroom.StatusFailed && run.ErrorGroup != "":
		_, err = t.exec(putFailure, run.Key, run.FinishedAt.UnixMicro(), run.ErrorGroup, run.Agent, owner)
	case before == mailroom.StatusFailed:
		_, err = t.exec(dropFailure, run.Key)
	}
	return err
}
