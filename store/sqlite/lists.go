package sqlite

import (
	"database/sql/driver"

	"mailroom"
	"mailroom/store"
	"mailroom/store/internal/sqlstore"
)

const (
	allRuns = "SELECT r.key, r.body FROM run r"
	// CROSS JOIN reads the failures first: their index has the order of the list.
	failedRuns = "SELECT r.key, r.body FROM failure f CROSS JOIN run r ON r.key = f.run"

	putFailure = `INSERT INTO failure (run, at, error_group, agent, owner) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (run) DO UPDATE SET at = excluded.at, error_group = excluded.error_group`
	dropFailure = "DELETE FROM failure WHERE run = ?"
)

// listRuns reads the runs of an owner or of an error group, or those of the group that an owner has.
func listRuns(r reader, q store.RunQuery) (runs []*mailroom.Run, err error) {
	g, more := sqlstore.Gauge{Limit: q.Limit, Budget: q.Bytes}, true
	read := func(text, key, cond string, args ...any) {
		if err != nil || !more {
			return
		}
		var s sqlstore.Select
		s.Add(text)
		s.Cond(cond, args...)
		s.ByKey(key, q.From, q.Oldest)
		err = r.query("read runs", s.Text(), s.Args(), func(row []driver.Value) (bool, error) {
			run, err := scanRun(row)
			runs, more = append(runs, run), g.Add(sizeOf(row))
			return more, err
		})
	}
	switch {
	case q.Group != "" && q.Owner != "":
		read(failedRuns, "f.run", "f.error_group = ? AND f.owner = ?", q.Group, q.Owner)
	case q.Group != "":
		read(failedRuns, "f.run", "f.error_group = ?", q.Group)
	case q.Oldest: // the runs without an owner have the lowest keys
		read(allRuns, "r.key", "r.owner IS NULL")
		read(allRuns, "r.key", "r.owner = ?", q.Owner)
	default:
		read(allRuns, "r.key", "r.owner = ?", q.Owner)
		read(allRuns, "r.key", "r.owner IS NULL")
	}
	return runs, err
}

// countFailures sums up failed runs by error group and agent.
func countFailures(r reader, q store.CountQuery) (out store.Counts, err error) {
	s := sqlstore.FailureCounts(q)
	err = r.query("count failures", s.Text(), s.Args(), func(row []driver.Value) (bool, error) {
		c := columns{row: row}
		sqlstore.AddFailureCount(&out, &c)
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
