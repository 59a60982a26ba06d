package sqlite

import (
	"cmp"
	"database/sql/driver"
	"slices"

	"mailroom"
	"mailroom/store"
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
	var found []sizedRun
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
		sortRuns(found, q.Oldest)
	}
	var runs []*mailroom.Run
	g := gauge{limit: q.Limit, budget: q.Bytes}
	for _, row := range found {
		runs = append(runs, row.run)
		if !g.add(row.size) {
			break
		}
	}
	return runs, nil
}

// isRunning reports whether q asks for the running runs of all threads.
func isRunning(q store.RunQuery) bool {
	return q.Thread == "" && q.Parent == "" && len(q.Statuses) == 1 && q.Statuses[0] == mailroom.StatusRunning
}

// claimedThreads has the threads with a running run, at most one for each slot of a worker.
const claimedThreads = "SELECT t.key, t.body FROM thread t WHERE t.worker > ''"

// runningRuns reads the running runs, which no index has, through the threads that are claimed.
func (r reader) runningRuns(q store.RunQuery) ([]sizedRun, error) {
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
	g := gauge{limit: q.Limit, budget: q.Bytes}
	for i := range found {
		if !g.add(found[i].size) {
			return found[:i+1], nil
		}
	}
	return found, nil
}

// sortRuns sorts by key, which is the order of creation.
func sortRuns(list []sizedRun, oldest bool) {
	slices.SortFunc(list, func(a, b sizedRun) int {
		if oldest {
			return cmp.Compare(a.run.Key, b.run.Key)
		}
		return cmp.Compare(b.run.Key, a.run.Key)
	})
}

func distinctStatuses(list []mailroom.Status) []mailroom.Status {
	return slices.Compact(slices.Sorted(slices.Values(list)))
}

// sizedRun is a run and the size of its row.
type sizedRun struct {
	run  *mailroom.Run
	size int
}

// runsOf reads a list of runs in the order of an index.
func (r reader) runsOf(q store.RunQuery) ([]sizedRun, error) {
	var s sel
	s.add("SELECT r.key, r.body FROM run r")
	if !s.whichRuns(q) {
		return nil, nil
	}
	switch q.Set {
	case store.RunsQueued:
		s.add(" ORDER BY r.priority, r.place, r.key")
	case store.RunsScheduled:
		s.add(" ORDER BY r.not_before, r.place, r.key")
	default:
		s.add(" ORDER BY r.key")
		if !q.Oldest {
			s.add(" DESC")
		}
	}
	var runs []sizedRun
	g := gauge{limit: q.Limit, budget: q.Bytes}
	err := r.query("read runs", s.text.String(), s.args, func(row []driver.Value) (bool, error) {
		run, err := scanRun(row)
		size := sizeOf(row)
		runs = append(runs, sizedRun{run, size})
		return g.add(size), err
	})
	return runs, err
}

// runsByID reads the rows with the ids of q, which are few.
func (r reader) runsByID(q store.RunQuery) ([]*mailroom.Run, error) {
	found, err := r.runsNamed(q.IDs, q)
	if err != nil {
		return nil, err
	}
	var runs []*mailroom.Run
	for _, row := range first(found, q.Limit) {
		runs = append(runs, row.run)
	}
	return runs, nil
}

// runsNamed reads the rows with these ids that match q, in its order.
func (r reader) runsNamed(ids []string, q store.RunQuery) ([]sizedRun, error) {
	var found []sizedRun
	for args := range inLists(distinct(ids)) {
		err := r.query("read runs", runsWith+in(args), args, func(row []driver.Value) (bool, error) {
			run, err := scanRun(row)
			if err == nil && matches(run, q) {
				found = append(found, sizedRun{run, sizeOf(row)})
			}
			return true, err
		})
		if err != nil {
			return nil, err
		}
	}
	sortRuns(found, q.Oldest)
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

// whichRuns adds the conditions of q except IDs. It reports false if no run can match.
func (s *sel) whichRuns(q store.RunQuery) bool {
	if q.Thread != "" {
		s.cond("r.thread = (SELECT key FROM thread WHERE id = ?)", q.Thread)
	}
	if q.Agent != "" {
		s.cond("r.agent = ?", q.Agent)
	}
	if q.Parent != "" {
		s.cond("r.parent = ?", q.Parent)
	}
	if q.From != 0 && q.Oldest {
		s.cond("r.key > ?", q.From)
	} else if q.From != 0 {
		s.cond("r.key < ?", q.From)
	}
	statuses := known(q.Statuses, allStatuses()...)
	if len(q.Statuses) > 0 && statuses == "" {
		return false
	}
	s.oneOf("r.status", statuses)
	if q.Thread == "" && q.Parent == "" && statuses != "" && !slices.Contains(q.Statuses, mailroom.StatusCompleted) {
		s.cond("r.status <> 'completed' AND r.status <> 'running'") // the condition of the partial index
	}
	switch q.Set {
	case store.RunsQueued:
		s.cond("r.queue = 0")
	case store.RunsScheduled:
		s.cond("r.queue = 1")
	}
	return true
}
