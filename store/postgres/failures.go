package postgres

import (
	"mailroom"
	"mailroom/store"
	"mailroom/store/internal/sqlstore"
)

// The owner and the agent of a failure are the run's, whose thread may not be in the Changes.
const (
	putFailures = `INSERT INTO failure (run, at, error_group, agent, owner) SELECT r.key, u.at, u.error_group,
		r.agent, t.owner
		FROM unnest($1::text[], $2::bigint[], $3::text[]) u (id, at, error_group) JOIN run r ON r.id = u.id
		JOIN thread t ON t.key = r.thread
		ON CONFLICT (run) DO UPDATE SET at = excluded.at, error_group = excluded.error_group`
	dropFailures = "DELETE FROM failure WHERE run = ANY ($1::bigint[])"
)

// countFailures sums up failed runs by error group and agent.
func countFailures(r reader, q store.CountQuery) (out store.Counts, err error) {
	s := sqlstore.FailureCounts(q)
	err = r.query("count failures", func(c *columns) error {
		sqlstore.AddFailureCount(&out, c)
		return nil
	}, s.Numbered(), s.Args()...)
	return out, err
}

// failureColumns has the values of failures, one array per column, and the keys of runs that may have
// none.
type failureColumns struct {
	runs, groups []string
	ats, without []int64
}

// add notes the failure of a written run. A trigger deletes the failure of a run that has another status now.
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
