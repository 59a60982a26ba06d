package sqlite

import (
	"mailroom"
	"mailroom/store"
)

const (
	// CROSS JOIN reads the deadlines first: their index has the order of the list.
	runsOverdue = `SELECT r.key, r.body FROM deadline d CROSS JOIN run r ON r.key = d.run
		WHERE d.at <= ? ORDER BY d.at, d.run`

	putDeadline  = "INSERT INTO deadline (run, at) VALUES (?, ?) ON CONFLICT (run) DO NOTHING"
	dropDeadline = "DELETE FROM deadline WHERE run = ?"
)

// overdueRuns reads open runs whose deadline has passed.
func overdueRuns(r reader, q store.RunQuery) (runs []*mailroom.Run, err error) {
	text, args := runsOverdue, []any{q.Overdue.UnixMicro()}
	if q.Limit > 0 {
		text, args = text+" LIMIT ?", append(args, int64(q.Limit))
	}
	err = r.query("read overdue runs", text, args, func(c *columns) (bool, error) {
		run, err := scanRun(c)
		runs = append(runs, run)
		return true, err
	})
	return runs, err
}

// writeDeadline writes the deadline of a run, or deletes it once it no longer matters.
func writeDeadline(t *tx, run *mailroom.Run) (err error) {
	switch {
	case run.AwaitsDeadline():
		_, err = t.exec(putDeadline, run.Key, run.Deadline.UnixMicro())
	case !run.Deadline.IsZero():
		_, err = t.exec(dropDeadline, run.Key)
	}
	return err
}
