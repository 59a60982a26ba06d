package sqlite

import (
	"mailroom"
	"mailroom/store"
	"mailroom/store/internal/sqlstore"
)

const (
	putFailure = `INSERT INTO failure (run, at, error_group, agent, owner) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (run) DO UPDATE SET at = excluded.at, error_group = excluded.error_group`
	dropFailure = "DELETE FROM failure WHERE run = ?"
)

// countFailures sums up failed runs by error group and agent.
func countFailures(r reader, q store.CountQuery) (out store.Counts, err error) {
	s := sqlstore.FailureCounts(q)
	err = r.query("count failures", s.Text(), s.Args(), func(c *columns) (bool, error) {
		sqlstore.AddFailureCount(&out, c)
		return true, nil
	})
	return out, err
}

// writeFailure writes or deletes the failure of a run. before is the status that the run had until now.
func (t *tx) writeFailure(run *mailroom.Run, before mailroom.Status, owner string) (err error) {
	switch {
	case run.Status == mailroom.StatusFailed && run.ErrorGroup != "":
		_, err = t.exec(putFailure, run.Key, run.FinishedAt.UnixMicro(), run.ErrorGroup, run.Agent, owner)
	case before == mailroom.StatusFailed:
		_, err = t.exec(dropFailure, run.Key)
	}
	return err
}
