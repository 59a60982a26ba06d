package postgres

import (
	"slices"

	"mailroom"
	"mailroom/store"
	"mailroom/store/internal/sqlstore"
)

// Runs implements [store.Reader].
func (r reader) Runs(q store.RunQuery) ([]*mailroom.Run, error) {
	if len(q.Threads) > 0 {
		return r.runsWithin(q)
	}
	if !q.Overdue.IsZero() {
		return overdueRuns(r, q)
	}
	if q.Owner != "" || q.Group != "" {
		return listRuns(r, q)
	}
	piles := []int64{pileNone} // not by pile
	if len(q.Statuses) > 0 && len(q.IDs) == 0 && q.Thread == "" && q.Parent == "" && q.Set == store.RunsAll &&
		!slices.Contains(q.Statuses, mailroom.StatusCompleted) {
		piles = nil
		for _, status := range q.Statuses {
			piles = append(piles, pilesOf(status)...)
		}
		slices.Sort(piles)
		piles = slices.Compact(piles)
	}
	var found []sqlstore.SizedRun
	for _, pile := range piles {
		rows, err := r.runsOf(q, pile)
		if err != nil {
			return nil, err
		}
		found = append(found, rows...)
	}
	if len(piles) > 1 || len(q.IDs) > 0 {
		sqlstore.SortRuns(found, q.Oldest)
	}
	g := sqlstore.Gauge{Limit: q.Limit, Budget: q.Bytes}
	if len(q.IDs) > 0 {
		g.Budget = 0
	}
	return sqlstore.FirstRuns(found, g), nil
}

// runsOf reads a list of runs, with a pile in the order of the index of piles.
func (r reader) runsOf(q store.RunQuery, pile int64) ([]sqlstore.SizedRun, error) {
	var s sqlstore.Select
	s.Add("SELECT r.key, r.body FROM run r")
	limit, budget := q.Limit, q.Bytes
	if len(q.IDs) > 0 {
		s.Cond("r.id = ANY (?::text[])", sqlstore.Distinct(q.IDs))
		limit, budget = 0, 0
	}
	switch pile {
	case pileNone:
	case pileRunning:
		s.Cond("r.id = ANY (ARRAY(SELECT current_run FROM thread WHERE worker IS NOT NULL))")
	default:
		s.Cond("r.pile = ?", pile)
	}
	whichRuns(&s, q)
	switch q.Set {
	case store.RunsQueued:
		s.Add(" ORDER BY r.priority, r.place, r.key")
	case store.RunsScheduled:
		s.Add(" ORDER BY r.not_before, r.place, r.key")
	default:
		s.ByKey("r.key", q.From, q.Oldest)
	}
	return list(r, "read runs", &s, limit, budget, func(c *columns) (sqlstore.SizedRun, error) {
		run, err := scanRun(c)
		return sqlstore.SizedRun{Run: run, Size: c.size}, err
	})
}

// whichRuns adds the conditions of q but IDs and From.
func whichRuns(s *sqlstore.Select, q store.RunQuery) {
	if q.Thread != "" {
		s.Cond("r.thread = (SELECT key FROM thread WHERE id = ?)", q.Thread)
	}
	s.Equal("r.agent", q.Agent)
	s.Equal("r.parent", q.Parent)
	if len(q.Statuses) > 0 {
		s.Cond("r.status = ANY (?::text[])", plainTexts(q.Statuses))
	}
	switch q.Set {
	case store.RunsQueued:
		s.Cond("r.pile = 0")
	case store.RunsScheduled:
		s.Cond("r.pile = 1")
	}
}

func plainTexts[T ~string](list []T) []string {
	plain := make([]string, len(list))
	for i, v := range list {
		plain[i] = string(v)
	}
	return plain
}
