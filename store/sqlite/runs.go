package sqlite

import (
	"cmp"
	"database/sql/driver"
	"slices"

	"mailroom"
)

const runsWith = "SELECT r.key, r.body FROM run r WHERE r.id " // … IN list

func (r reader) Runs(q mailroom.RunQuery) ([]*mailroom.Run, error) {
	if len(q.IDs) > 0 {
		return r.theseRuns(q)
	}
	var s sel
	s.add("SELECT r.key, r.body FROM run r")
	if !s.whichRuns(q) {
		return nil, nil
	}
	switch q.Set {
	case mailroom.QueueRuns:
		s.add(" ORDER BY r.priority, r.place, r.key")
	case mailroom.HeldRuns:
		s.add(" ORDER BY r.not_before, r.place, r.key")
	default:
		s.add(" ORDER BY r.key DESC")
	}
	var runs []*mailroom.Run
	g := gauge{limit: q.Limit, budget: q.Bytes}
	err := r.query("read runs", s.text.String(), s.args, func(row []driver.Value) (bool, error) {
		run, err := scanRun(row)
		runs = append(runs, run)
		return g.add(sizeOf(row)), err
	})
	return runs, err
}

// theseRuns reads the rows that are named; they are few.
func (r reader) theseRuns(q mailroom.RunQuery) ([]*mailroom.Run, error) {
	var found []*mailroom.Run
	for args := range inLists(distinct(q.IDs)) {
		err := r.query("read runs", runsWith+in(args), args, func(row []driver.Value) (bool, error) {
			run, err := scanRun(row)
			if err == nil && matches(run, q) {
				found = append(found, run)
			}
			return true, err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(found, func(a, b *mailroom.Run) int { return cmp.Compare(b.Key, a.Key) })
	return first(found, q.Limit), nil
}

func matches(run *mailroom.Run, q mailroom.RunQuery) bool {
	switch {
	case q.Thread != "" && run.Thread != q.Thread,
		q.Agent != "" && run.Agent != q.Agent,
		q.Parent != "" && run.Parent != q.Parent,
		len(q.Statuses) > 0 && !slices.Contains(q.Statuses, run.Status),
		q.From != 0 && run.Key >= q.From,
		q.Set != mailroom.AnyRuns && !(run.NeverStarted() && run.Held == (q.Set == mailroom.HeldRuns)):
		return false
	}
	return true
}

func (r reader) CountRuns(q mailroom.RunQuery) (int, error) {
	q.From, q.Limit = 0, 0
	if len(q.IDs) > 0 {
		runs, err := r.theseRuns(q)
		return len(runs), err
	}
	var s sel
	s.add("SELECT count(*) FROM run r")
	if !s.whichRuns(q) {
		return 0, nil
	}
	n := 0
	err := r.query("count runs", s.text.String(), s.args, func(row []driver.Value) (bool, error) {
		c := columns{row: row}
		n = c.int()
		return false, nil
	})
	return n, err
}

// whichRuns adds the conditions of q but IDs. It reports false when no run can
// match.
func (s *sel) whichRuns(q mailroom.RunQuery) bool {
	if q.Thread != "" {
		s.cond("r.thread = (SELECT key FROM thread WHERE id = ?)", q.Thread)
	}
	if q.Agent != "" {
		s.cond("r.agent = ?", q.Agent)
	}
	if q.Parent != "" {
		s.cond("r.parent = ?", q.Parent)
	}
	if q.From != 0 {
		s.cond("r.key < ?", q.From)
	}
	statuses := known(q.Statuses, mailroom.Queued, mailroom.Running, mailroom.Waiting,
		mailroom.Completed, mailroom.Failed, mailroom.Cancelled)
	if len(q.Statuses) > 0 && statuses == "" {
		return false
	}
	s.oneOf("r.status", statuses)
	switch q.Set {
	case mailroom.QueueRuns:
		s.cond("r.queue = 0")
	case mailroom.HeldRuns:
		s.cond("r.queue = 1")
	}
	return true
}
