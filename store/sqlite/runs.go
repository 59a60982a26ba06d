package sqlite

import (
	"database/sql/driver"
	"slices"

	"mailroom"
	"mailroom/store"
	"mailroom/store/internal/sqlstore"
)

const runsWith = "SELECT r.key, r.body FROM run r WHERE r.id " // … IN list

func (r reader) Runs(q store.RunQuery) ([]*mailroom.Run, error) {
	if len(q.IDs) > 0 {
		return r.runsByID(q)
	}
	if len(q.Threads) > 0 {
		return runsWithin(r, q)
	}
	if !q.Overdue.IsZero() {
		return overdueRuns(r, q)
	}
	if q.Owner != "" || q.Group != "" {
		return listRuns(r, q)
	}
	parts := []store.RunQuery{q}
	if q.Thread == "" && q.Parent == "" && len(q.Statuses) > 1 {
		// A partial index per status has the order of the list.
		parts = parts[:0]
		for _, status := range distinctStatuses(q.Statuses) {
			part := q
			part.Statuses = []mailroom.Status{status}
			parts = append(parts, part)
		}
	}
	var found []sqlstore.SizedRun
	for _, part := range parts {
		of := r.runsOf
		if isRunning(part) {
			of = r.runningRuns
		}
		rows, err := of(part)
		if err != nil {
			return nil, err
		}
		found = append(found, rows...)
	}
	if len(parts) > 1 {
		sqlstore.SortRuns(found, q.Oldest)
	}
	return sqlstore.FirstRuns(found, sqlstore.Gauge{Limit: q.Limit, Budget: q.Bytes}), nil
}

// isRunning reports whether q asks for the running runs of all threads.
func isRunning(q store.RunQuery) bool {
	return q.Thread == "" && q.Parent == "" && len(q.Statuses) == 1 && q.Statuses[0] == mailroom.StatusRunning
}

// claimedThreads has the threads with a running run, at most one for each slot of a worker.
const claimedThreads = "SELECT t.key, t.body FROM thread t WHERE t.worker > ''"

// runningRuns reads the running runs, which no index has, through the threads that are claimed.
func (r reader) runningRuns(q store.RunQuery) ([]sqlstore.SizedRun, error) {
	var ids []string
	err := r.query("read claimed threads", claimedThreads, nil, func(row []driver.Value) (bool, error) {
		t, err := scanThread(row)
		ids = append(ids, t.Current)
		return true, err
	})
	if err != nil {
		return nil, err
	}
	found, err := r.runsNamed(ids, q)
	if err != nil {
		return nil, err
	}
	g := sqlstore.Gauge{Limit: q.Limit, Budget: q.Bytes}
	for i := range found {
		if !g.Add(found[i].Size) {
			return found[:i+1], nil
		}
	}
	return found, nil
}

func distinctStatuses(list []mailroom.Status) []mailroom.Status {
	return slices.Compact(slices.Sorted(slices.Values(list)))
}

// runsOf reads a list of runs in the order of an index.
func (r reader) runsOf(q store.RunQuery) ([]sqlstore.SizedRun, error) {
	var s sqlstore.Select
	s.Add("SELECT r.key, r.body FROM run r")
	if !whichRuns(&s, q) {
		return nil, nil
	}
	switch q.Set {
	case store.RunsQueued:
		s.Add(" ORDER BY r.priority, r.place, r.key")
	case store.RunsScheduled:
		s.Add(" ORDER BY r.not_before, r.place, r.key")
	default:
		s.ByKey("r.key", q.From, q.Oldest)
	}
	var runs []sqlstore.SizedRun
	g := sqlstore.Gauge{Limit: q.Limit, Budget: q.Bytes}
	err := r.query("read runs", s.Text(), s.Args(), func(row []driver.Value) (bool, error) {
		run, err := scanRun(row)
		size := sizeOf(row)
		runs = append(runs, sqlstore.SizedRun{Run: run, Size: size})
		return g.Add(size), err
	})
	return runs, err
}

// runsByID reads the rows with the ids of q, which are few.
func (r reader) runsByID(q store.RunQuery) ([]*mailroom.Run, error) {
	found, err := r.runsNamed(q.IDs, q)
	if err != nil {
		return nil, err
	}
	return sqlstore.FirstRuns(found, sqlstore.Gauge{Limit: q.Limit}), nil
}

// runsNamed reads the rows with these ids that match q, in its order.
func (r reader) runsNamed(ids []string, q store.RunQuery) ([]sqlstore.SizedRun, error) {
	var found []sqlstore.SizedRun
	for args := range inLists(sqlstore.Distinct(ids)) {
		err := r.query("read runs", runsWith+in(args), args, func(row []driver.Value) (bool, error) {
			run, err := scanRun(row)
			if err == nil && matches(run, q) {
				found = append(found, sqlstore.SizedRun{Run: run, Size: sizeOf(row)})
			}
			return true, err
		})
		if err != nil {
			return nil, err
		}
	}
	sqlstore.SortRuns(found, q.Oldest)
	return found, nil
}

func matches(run *mailroom.Run, q store.RunQuery) bool {
	switch {
	case q.Thread != "" && run.Thread != q.Thread,
		q.Agent != "" && run.Agent != q.Agent,
		q.Parent != "" && run.Parent != q.Parent,
		len(q.Statuses) > 0 && !slices.Contains(q.Statuses, run.Status),
		q.From != 0 && q.Oldest && run.Key <= q.From,
		q.From != 0 && !q.Oldest && run.Key >= q.From,
		q.Set != store.RunsAll && !(run.NeverStarted() && run.Scheduled == (q.Set == store.RunsScheduled)):
		return false
	}
	return true
}

// whichRuns adds the conditions of q but IDs and From. It reports false if no run can match.
func whichRuns(s *sqlstore.Select, q store.RunQuery) bool {
	if q.Thread != "" {
		s.Cond("r.thread = (SELECT key FROM thread WHERE id = ?)", q.Thread)
	}
	s.Equal("r.agent", q.Agent)
	s.Equal("r.parent", q.Parent)
	statuses := known(q.Statuses, allStatuses()...)
	if len(q.Statuses) > 0 && statuses == "" {
		return false
	}
	oneOf(s, "r.status", statuses)
	if q.Thread == "" && q.Parent == "" && statuses != "" && !slices.Contains(q.Statuses, mailroom.StatusCompleted) {
		s.Cond("r.status <> 'completed' AND r.status <> 'running'") // the condition of the partial index
	}
	switch q.Set {
	case store.RunsQueued:
		s.Cond("r.queue = 0")
	case store.RunsScheduled:
		s.Cond("r.queue = 1")
	}
	return true
}
