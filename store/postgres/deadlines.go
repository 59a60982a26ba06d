package postgres

import (
	"mailroom"
	"mailroom/store"
)

const (
	// OFFSET 0 keeps the subquery a search by key for each row of the page: a join may read a table whole. A server of
	// an older version deletes no deadlines, so some are of runs that are gone.
	runsOverdue = `SELECT d.run, r.body
		FROM deadline d CROSS JOIN LATERAL (SELECT body FROM run WHERE key = d.run OFFSET 0) r
		WHERE d.at <= $1 ORDER BY d.at, d.run LIMIT $2`

	putDeadlines = `INSERT INTO deadline (run, at) SELECT r.key, u.at
		FROM unnest($1::text[], $2::bigint[]) u (id, at) JOIN run r ON r.id = u.id
		ON CONFLICT (run) DO NOTHING`
	dropDeadlines = "DELETE FROM deadline WHERE run = ANY ($1::bigint[])"
)

// overdueRuns reads open runs whose deadline has passed.
func overdueRuns(r reader, q store.RunQuery) (runs []*mailroom.Run, err error) {
	var limit any // NULL is no limit
	if q.Limit > 0 {
		limit = int64(q.Limit)
	}
	err = r.query("read overdue runs", func(c *columns) error {
		run, err := scanRun(c)
		runs = append(runs, run)
		return err
	}, runsOverdue, micros(q.Overdue), limit)
	return runs, err
}

// writeDeadlines writes the deadlines of runs, and deletes those that no longer matter.
func (w *writing) writeDeadlines(runs []*mailroom.Run) {
	var ids []string
	var ats, ended []int64
	for _, r := range runs {
		switch {
		case r.AwaitsDeadline():
			ids, ats = append(ids, r.ID), append(ats, micros(r.Deadline))
		case !r.Deadline.IsZero() && r.Key != 0:
			ended = append(ended, r.Key)
		}
	}
	if len(ids) > 0 {
		w.trip.add(nil, putDeadlines, ids, ats)
	}
	if len(ended) > 0 {
		w.trip.add(nil, dropDeadlines, ended)
	}
}
